//! Tracks the example axis through a recorded graph.
//!
//! Per-example gradients exist only if no operation mixes examples. [`follow`] gives the example axis of
//! an operation's results, or the reason why there is none.

use burn::backend::ir::TensorIr;
use burn::tensor::Slice;

use crate::operation::{AxisRule, Operation};

/// The example axis of a tensor: entry `(o · M + i) · inner + j` of `axis` belongs to example `i` of `M`,
/// with `o < outer` and `j < inner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExampleAxis {
    pub(crate) axis: usize,
    pub(crate) outer: usize,
    pub(crate) inner: usize,
}

impl ExampleAxis {
    /// An axis with one entry per example.
    pub(crate) fn plain(axis: usize) -> Self {
        Self {
            axis,
            outer: 1,
            inner: 1,
        }
    }

    fn moved(self, axis: usize) -> Self {
        Self { axis, ..self }
    }

    /// The length of the axis.
    pub(crate) fn len(self, examples: usize) -> usize {
        self.outer * examples * self.inner
    }
}

/// Why an operation's results have no known example axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untracked {
    /// The operation mixes examples.
    Mixed,
    /// There is no rule for the operation.
    Unknown,
}

type Followed = Result<ExampleAxis, Untracked>;

/// The example axis of the operation's results.
///
/// `axis_of` gives the example axis of an operand, or `None` if the operand does not depend on the batch.
/// At least one operand must depend on it.
pub(crate) fn follow(
    operation: &Operation,
    examples: usize,
    axis_of: impl Fn(&TensorIr) -> Option<ExampleAxis>,
) -> Followed {
    let agree = |operands: &[TensorIr]| agree(operands.iter().filter_map(&axis_of));
    let apart = |operands: &[TensorIr]| operands.iter().all(|x| axis_of(x).is_none());
    let (operands, out) = (&operation.inputs[..], &operation.out().shape);
    match (&operation.axes, operands) {
        (AxisRule::Elementwise | AxisRule::Mask | AxisRule::Cast, _) => agree(operands),
        (AxisRule::Reshape, [input]) => reshaped(agree(operands)?, &input.shape, out, examples),
        (AxisRule::Permute(axes), _) => {
            let axis = agree(operands)?;
            let place = axes.iter().position(|&from| from == axis.axis);
            place.map(|to| axis.moved(to)).ok_or(Untracked::Unknown)
        }
        (AxisRule::Expand, [input]) => {
            let axis = agree(operands)?;
            Ok(axis.moved(axis.axis + out.num_dims() - input.shape.num_dims()))
        }
        (AxisRule::Slice(ranges), [tensor]) => {
            let axis = agree(operands)?;
            whole(axis, ranges, tensor.shape[axis.axis], out)
        }
        (AxisRule::SliceAssign(ranges), [tensor, value]) => {
            let axis = agree(operands)?;
            whole(axis, ranges, tensor.shape[axis.axis], &value.shape)
        }
        (AxisRule::Along(axes) | AxisRule::Flip(axes), _) => {
            let axis = agree(operands)?;
            unmixed(axis, !axes.contains(&axis.axis))
        }
        (AxisRule::Cat(dim), _) => {
            let axis = agree(operands)?;
            unmixed(axis, axis.axis != *dim)
        }
        (AxisRule::Repeat(dim, times), _) => {
            let axis = agree(operands)?;
            let outer = if *dim == axis.axis {
                axis.outer * times
            } else {
                axis.outer
            };
            Ok(ExampleAxis { outer, ..axis })
        }
        (AxisRule::Whole(_), _) => Err(Untracked::Mixed),
        (AxisRule::Select(dim), [tensor, indices]) => match (axis_of(tensor), axis_of(indices)) {
            (Some(axis), None) => unmixed(axis, axis.axis != *dim),
            (None, Some(axis)) => Ok(axis.moved(*dim)),
            _ => Err(Untracked::Mixed),
        },
        (AxisRule::Gather(dim), [tensor, _]) => {
            let axis = agree(operands)?;
            unmixed(axis, axis_of(tensor).is_none() || axis.axis != *dim)
        }
        (AxisRule::Embedding, [weights, _]) => match axis_of(weights) {
            None => agree(operands),
            Some(_) => Err(Untracked::Mixed),
        },
        (AxisRule::Matmul, [lhs, rhs]) => {
            let rank = lhs.shape.num_dims();
            let axis = agree(operands)?;
            let contracted = axis_of(lhs).is_some_and(|axis| axis.axis == rank - 1)
                || axis_of(rhs).is_some_and(|axis| axis.axis == rank - 2);
            let crossed = axis.axis >= rank - 2 && axis_of(lhs).is_some() == axis_of(rhs).is_some();
            unmixed(axis, !contracted && !crossed)
        }
        (
            AxisRule::Linear | AxisRule::LayerNorm | AxisRule::Convolution(_),
            [x, parameters @ ..],
        ) => {
            if !apart(parameters) {
                return Err(Untracked::Unknown);
            }
            let axis = agree(operands)?;
            let is_kept = match operation.axes {
                AxisRule::Convolution(_) => axis.axis == 0,
                _ => axis.axis + 1 < x.shape.num_dims(),
            };
            unmixed(axis, is_kept)
        }
        (AxisRule::BatchNorm, [x, others @ ..]) => {
            let axis = agree(std::slice::from_ref(x))?;
            unmixed(axis, apart(others) && axis.axis != 1)
        }
        (AxisRule::Spatial { kept }, _) => {
            let axis = agree(operands)?;
            unmixed(axis, axis.axis < *kept)
        }
        (AxisRule::Attention, _) => {
            let axis = agree(operands)?;
            unmixed(axis, axis.axis < 2)
        }
        // Operations without a rule, and those without operands.
        _ => Err(Untracked::Unknown),
    }
}

fn agree(mut axes: impl Iterator<Item = ExampleAxis>) -> Followed {
    let first = axes.next().ok_or(Untracked::Unknown)?;
    unmixed(first, axes.all(|axis| axis == first))
}

fn unmixed(axis: ExampleAxis, apart: bool) -> Followed {
    if apart {
        Ok(axis)
    } else {
        Err(Untracked::Mixed)
    }
}

/// A slice must keep the example axis whole and in order.
fn whole(axis: ExampleAxis, ranges: &[Slice], len: usize, kept: &[usize]) -> Followed {
    let step = ranges.get(axis.axis).map_or(1, |range| range.step);
    unmixed(axis, step == 1 && kept[axis.axis] == len)
}

/// The example axis after a reshape, found from the example's stride in memory.
fn reshaped(axis: ExampleAxis, from: &[usize], to: &[usize], examples: usize) -> Followed {
    let stride = axis.inner * from[axis.axis + 1..].iter().product::<usize>();
    let mut after: usize = to.iter().product();
    for (place, &len) in to.iter().enumerate() {
        after /= len.max(1);
        // An axis with a larger stride than the examples cannot hold all of them.
        if after > stride || after == 0 {
            continue;
        }
        let (inner, whole) = (stride / after, stride.is_multiple_of(after));
        return if whole && len.is_multiple_of(inner * examples) {
            Ok(ExampleAxis {
                axis: place,
                outer: len / (inner * examples),
                inner,
            })
        } else {
            Err(Untracked::Unknown)
        };
    }
    Err(Untracked::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(axis: usize, outer: usize, inner: usize) -> ExampleAxis {
        ExampleAxis { axis, outer, inner }
    }

    #[test]
    fn a_reshape_merges_and_splits_the_axis_of_examples() {
        let m = 4;
        let plain = ExampleAxis::plain(0);
        // [M, T, F] → [M·T, F] and back.
        let merged = reshaped(plain, &[m, 3, 5], &[m * 3, 5], m);
        assert_eq!(merged, Ok(axis(0, 1, 3)));
        assert_eq!(
            reshaped(axis(0, 1, 3), &[m * 3, 5], &[m, 3, 5], m),
            Ok(plain)
        );
        // [T, M, F] → [T·M, F].
        let merged = reshaped(ExampleAxis::plain(1), &[3, m, 5], &[3 * m, 5], m);
        assert_eq!(merged, Ok(axis(0, 3, 1)));
        // Axes of length one are added and removed.
        assert_eq!(
            reshaped(plain, &[m, 5], &[1, m, 1, 5], m),
            Ok(axis(1, 1, 1))
        );
        assert_eq!(reshaped(plain, &[m], &[m, 1], m), Ok(plain));
        // Half of the examples in each row: there is no example axis.
        assert_eq!(
            reshaped(plain, &[m, 5], &[2, 2 * 5], m),
            Err(Untracked::Unknown)
        );
    }
}
