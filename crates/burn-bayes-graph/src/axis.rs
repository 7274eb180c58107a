//! Follows the examples of a batch through a recorded graph.
//!
//! The gradient of one example's loss is meaningful only if no operation lets examples see each
//! other. [`follow`] says on which axis of a result the examples lie, or that they were mixed.

use burn::backend::ir::{OperationIr, TensorIr};
use burn::tensor::Slice;

use crate::semantics::{Semantics, semantics};

/// Where the examples of a batch lie in a tensor: entry `(o · M + i) · inner + j` of `axis` belongs
/// to example `i` of `M`, with `o < outer` and `j < inner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExampleAxis {
    pub(crate) axis: usize,
    pub(crate) outer: usize,
    pub(crate) inner: usize,
}

impl ExampleAxis {
    /// The axis `axis`, with one entry per example.
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

/// Why the examples cannot be followed through an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The operation lets examples see each other.
    Mixed,
    /// There is no rule for the operation.
    Unknown,
}

type Followed = Result<ExampleAxis, Lost>;

/// On which axis of the operation's results the examples lie; `axis_of` tells it for its operands,
/// `None` meaning that an operand does not depend on the batch. At least one must.
pub(crate) fn follow(
    operation: &OperationIr,
    examples: usize,
    axis_of: impl Fn(&TensorIr) -> Option<ExampleAxis>,
) -> Followed {
    let agree = |operands: &[&TensorIr]| agree(operands.iter().filter_map(|x| axis_of(x)));
    let apart = |operands: &[&TensorIr]| operands.iter().all(|x| axis_of(x).is_none());
    match semantics(operation) {
        Semantics::Elementwise(operands) => agree(&operands),
        Semantics::Reshape(input) => {
            let out = &out_of(operation).shape;
            reshaped(agree(&[input])?, &input.shape, out, examples)
        }
        Semantics::Permute(input, axes) => {
            let axis = agree(&[input])?;
            let place = axes.iter().position(|&from| from == axis.axis);
            place.map(|to| axis.moved(to)).ok_or(Lost::Unknown)
        }
        Semantics::Expand(input) => {
            let axis = agree(&[input])?;
            let out = &out_of(operation).shape;
            Ok(axis.moved(axis.axis + out.num_dims() - input.shape.num_dims()))
        }
        Semantics::Slice(tensor, ranges) => {
            let axis = agree(&[tensor])?;
            whole(
                axis,
                ranges,
                tensor.shape[axis.axis],
                &out_of(operation).shape,
            )
        }
        Semantics::SliceAssign {
            tensor,
            value,
            ranges,
        } => {
            let axis = agree(&[tensor, value])?;
            whole(axis, ranges, tensor.shape[axis.axis], &value.shape)
        }
        Semantics::Along(operands, axes) => {
            let axis = agree(&operands)?;
            unmixed(axis, !axes.contains(&axis.axis))
        }
        Semantics::Repeat(tensor, dim, times) => {
            let axis = agree(&[tensor])?;
            let outer = if dim == axis.axis {
                axis.outer * times
            } else {
                axis.outer
            };
            Ok(ExampleAxis { outer, ..axis })
        }
        Semantics::Whole => Err(Lost::Mixed),
        Semantics::Select {
            tensor,
            dim,
            indices,
        } => match (axis_of(tensor), axis_of(indices)) {
            (Some(axis), None) => unmixed(axis, axis.axis != dim),
            (None, Some(axis)) => Ok(axis.moved(dim)),
            _ => Err(Lost::Mixed),
        },
        Semantics::Gather {
            tensor,
            dim,
            indices,
        } => {
            let axis = agree(&[tensor, indices])?;
            unmixed(axis, axis_of(tensor).is_none() || axis.axis != dim)
        }
        Semantics::Embedding { weights, indices } => match axis_of(weights) {
            None => agree(&[indices]),
            Some(_) => Err(Lost::Mixed),
        },
        Semantics::Matmul { lhs, rhs } => {
            let rank = lhs.shape.num_dims();
            let axis = agree(&[lhs, rhs])?;
            let contracted = axis_of(lhs).is_some_and(|axis| axis.axis == rank - 1)
                || axis_of(rhs).is_some_and(|axis| axis.axis == rank - 2);
            let crossed = axis.axis >= rank - 2 && axis_of(lhs).is_some() == axis_of(rhs).is_some();
            unmixed(axis, !contracted && !crossed)
        }
        Semantics::Linear { x, weight, bias } => {
            if !apart(&[weight]) || bias.is_some_and(|bias| !apart(&[bias])) {
                return Err(Lost::Unknown);
            }
            let axis = agree(&[x])?;
            unmixed(axis, axis.axis + 1 < x.shape.num_dims())
        }
        Semantics::Convolution { x, weight, bias } => {
            if !apart(&[weight]) || bias.is_some_and(|bias| !apart(&[bias])) {
                return Err(Lost::Unknown);
            }
            let axis = agree(&[x])?;
            unmixed(axis, axis.axis == 0)
        }
        Semantics::Spatial { x, kept } => {
            let axis = agree(&[x])?;
            unmixed(axis, axis.axis < kept)
        }
        Semantics::LayerNorm { input, gamma, beta } => {
            if !apart(&[gamma]) || beta.is_some_and(|beta| !apart(&[beta])) {
                return Err(Lost::Unknown);
            }
            let axis = agree(&[input])?;
            unmixed(axis, axis.axis + 1 < input.shape.num_dims())
        }
        Semantics::BatchNorm { x, others } => {
            let axis = agree(&[x])?;
            unmixed(axis, apart(&others) && axis.axis != 1)
        }
        Semantics::Attention(operands) => {
            let axis = agree(&operands)?;
            unmixed(axis, axis.axis < 2)
        }
        Semantics::Creation | Semantics::Random | Semantics::Unknown => Err(Lost::Unknown),
    }
}

/// The first result, whose shape speaks for all.
pub(crate) fn out_of(operation: &OperationIr) -> &TensorIr {
    operation
        .outputs()
        .next()
        .expect("every recorded operation has a result")
}

fn agree(mut axes: impl Iterator<Item = ExampleAxis>) -> Followed {
    let first = axes.next().ok_or(Lost::Unknown)?;
    unmixed(first, axes.all(|axis| axis == first))
}

fn unmixed(axis: ExampleAxis, apart: bool) -> Followed {
    if apart { Ok(axis) } else { Err(Lost::Mixed) }
}

/// The example axis is kept whole and in order.
fn whole(axis: ExampleAxis, ranges: &[Slice], len: usize, kept: &[usize]) -> Followed {
    let step = ranges.get(axis.axis).map_or(1, |range| range.step);
    unmixed(axis, step == 1 && kept[axis.axis] == len)
}

/// The same elements under another shape: example `i` sits where its stride in memory says.
fn reshaped(axis: ExampleAxis, from: &[usize], to: &[usize], examples: usize) -> Followed {
    let stride = axis.inner * from[axis.axis + 1..].iter().product::<usize>();
    let mut after: usize = to.iter().product();
    for (place, &len) in to.iter().enumerate() {
        after /= len.max(1);
        // The axis must hold all examples: its own stride is at most theirs.
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
            Err(Lost::Unknown)
        };
    }
    Err(Lost::Unknown)
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
        // Axes of size one come and go.
        assert_eq!(
            reshaped(plain, &[m, 5], &[1, m, 1, 5], m),
            Ok(axis(1, 1, 1))
        );
        assert_eq!(reshaped(plain, &[m], &[m, 1], m), Ok(plain));
        // Half of the examples in each row: not an axis any more.
        assert_eq!(reshaped(plain, &[m, 5], &[2, 2 * 5], m), Err(Lost::Unknown));
    }
}
