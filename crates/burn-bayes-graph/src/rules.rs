//! Per-example gradients from the gradient δ at a tap or a copy.

use burn::tensor::{Int, Tensor};

use crate::axis::ExampleAxis;
use crate::dyn_tensor::{DynTensor, arranged};
use crate::factor::Term;
use crate::operation::{AxisRule, Convolution, slot};
use crate::plan::{Tap, has_examples};

/// Per-example gradients with respect to a weight, in factored form. The weight's elements are in the order
/// `[groups, rows, columns]`.
#[derive(Debug)]
pub(crate) enum Factored {
    /// The sum over positions of outer products of `[G, M, T, rows]` and `[G, M, T, columns]`.
    Outer(Tensor<4>, Tensor<4>),
    /// Gradients `[M, T, columns]` of the rows that `[M, T]` indices select.
    Lookup(Tensor<2, Int>, Tensor<3>),
}

impl Factored {
    pub(crate) fn into_term(self, rows: usize) -> Term {
        match self {
            Self::Outer(left, right) => Term::outer(left, right),
            Self::Lookup(indices, values) => Term::lookup(indices, values, rows),
        }
    }

    /// `[G, rows, columns]`, of a weight of `len` elements.
    pub(crate) fn shape(&self, len: usize) -> [usize; 3] {
        match self {
            Self::Outer(left, right) => {
                let [groups, _, _, rows] = left.dims();
                [groups, rows, right.dims()[3]]
            }
            Self::Lookup(_, values) => {
                let [_, _, columns] = values.dims();
                [1, len / columns, columns]
            }
        }
    }
}

/// The gradients with respect to the tap's weight, from its input and the gradient at its output.
pub(crate) fn weight_gradients(
    tap: &Tap,
    input: DynTensor,
    delta: DynTensor,
    examples: usize,
) -> Factored {
    let rank = delta.rank();
    match (&tap.operation.axes, &tap.operation.inputs[..]) {
        (AxisRule::Linear, _) => {
            let input = arranged(input, tap.input_axis, examples, &[], &[rank - 1]);
            let delta = arranged(delta, tap.output_axis, examples, &[], &[rank - 1]);
            Factored::Outer(input, delta)
        }
        (AxisRule::Matmul, [lhs, rhs]) => {
            let (weight, other, is_left) = if slot(lhs) == tap.input {
                (rhs, lhs, false)
            } else {
                (lhs, rhs, true)
            };
            // The weight may have the entries that the example axis has besides the examples.
            let mut axis = tap.output_axis;
            let mut weight_shape = weight.shape.to_vec();
            let (mut input, mut delta) = (input, delta);
            if has_examples(weight, axis) {
                let lens = [axis.outer, examples, axis.inner];
                weight_shape.splice(axis.axis..=axis.axis, [axis.outer, 1, axis.inner]);
                input = input.split(axis.axis, &lens);
                delta = delta.split(axis.axis, &lens);
                axis = ExampleAxis::plain(axis.axis + 1);
            }
            // Axes over which the other operand is broadcast belong to the weight as groups.
            let rank = delta.rank();
            let groups: Vec<_> = (0..rank - 2)
                .filter(|&axis| weight_shape[axis] > 1)
                .collect();
            let contracted = if is_left { rank - 2 } else { rank - 1 };
            let back = rank - contracted;
            let mut shape = delta.shape();
            shape[contracted] = other.shape[other.shape.num_dims() - back];
            let input = arranged(input.expand(&shape), axis, examples, &groups, &[contracted]);
            let delta = arranged(delta, axis, examples, &groups, &[contracted]);
            if is_left {
                Factored::Outer(delta, input)
            } else {
                Factored::Outer(input, delta)
            }
        }
        (AxisRule::Convolution(options), [_, kernel]) => {
            convolution(tap, options, &kernel.shape[2..], input, delta, examples)
        }
        (AxisRule::Embedding | AxisRule::Select(_), _) => {
            let features: Vec<_> = (tap.input_rank()..rank).collect();
            let values = arranged(delta, tap.output_axis, examples, &[], &features);
            let [_, count, positions, width] = values.dims();
            let indices = input.arranged_indices(tap.input_axis, examples);
            Factored::Lookup(indices, values.reshape([count, positions, width]))
        }
        (AxisRule::Gather(dim), [tensor, _]) => {
            // Each element is a row of length one.
            let values = arranged(delta, tap.output_axis, examples, &[], &[]);
            let [_, count, positions, _] = values.dims();
            let elements = input.gathered_elements(&tensor.shape, *dim);
            let elements = elements.arranged_indices(tap.input_axis, examples);
            Factored::Lookup(elements, values.reshape([count, positions, 1]))
        }
        _ => unreachable!("no tap is made for {:?}", tap.operation),
    }
}

/// The gradients with respect to the tap's bias, `[M, width]`.
pub(crate) fn bias_gradients(tap: &Tap, delta: DynTensor, examples: usize) -> Tensor<2> {
    let channel = tap.channel();
    over_positions(arranged(delta, tap.output_axis, examples, &[], &[channel]))
}

/// A copied parameter's gradients, `[M, elements]`.
pub(crate) fn copy_gradients(gradient: DynTensor, axis: ExampleAxis, examples: usize) -> Tensor<2> {
    let features: Vec<_> = (0..gradient.rank())
        .filter(|&other| other != axis.axis)
        .collect();
    over_positions(arranged(gradient, axis, examples, &[], &features))
}

/// The sum of `[1, M, T, width]` over positions.
fn over_positions(values: Tensor<4>) -> Tensor<2> {
    let [_, count, positions, width] = values.dims();
    let sum = if positions == 1 {
        values
    } else {
        values.sum_dim(2)
    };
    sum.reshape([count, width])
}

/// Outer products of each output position with the input patch that the kernel sees.
///
/// The kernel of a convolution is `[out, in / groups, …]`. That of a transposed convolution is
/// `[in, out / groups, …]`, and input and output exchange their roles.
fn convolution(
    tap: &Tap,
    options: &Convolution,
    kernel: &[usize],
    input: DynTensor,
    delta: DynTensor,
    examples: usize,
) -> Factored {
    let (near, far) = if options.is_transposed {
        (input, delta)
    } else {
        (delta, input)
    };
    let positions = near.shape()[2..].to_vec();
    let near = by_group(near, options.groups, tap.output_axis, examples);
    let far = patches(far, options, kernel, &positions, tap.output_axis, examples);
    Factored::Outer(near, far)
}

/// `[N, C, …]` as `[G, M, T, C / G]`.
fn by_group(tensor: DynTensor, groups: usize, axis: ExampleAxis, examples: usize) -> Tensor<4> {
    let mut shape = tensor.shape();
    let channels = shape[1];
    shape.splice(1..2, [groups, channels / groups]);
    arranged(tensor.reshape(&shape), axis, examples, &[1], &[2])
}

/// The patches of `[N, C, …]` that the kernel sees at each position, `[G, M, T, C / G · kernel]`.
fn patches(
    tensor: DynTensor,
    options: &Convolution,
    kernel: &[usize],
    positions: &[usize],
    axis: ExampleAxis,
    examples: usize,
) -> Tensor<4> {
    let groups = options.groups;
    let spatial = kernel.len();
    let padded = tensor.pad_spatial(&options.padding);
    let [count, channels] = [padded.shape()[0], padded.shape()[1]];
    let mut offsets = vec![vec![]];
    for &len in kernel {
        offsets = offsets
            .into_iter()
            .flat_map(|offset: Vec<usize>| {
                (0..len).map(move |place| [offset.clone(), vec![place]].concat())
            })
            .collect();
    }
    let seen: Vec<_> = offsets
        .iter()
        .map(|offset| {
            let starts = (0..spatial)
                .map(|i| offset[i] * options.dilation[i])
                .collect();
            let part = padded.clone().strided(starts, &options.stride, positions);
            let mut shape = part.shape();
            shape.insert(2, 1);
            part.reshape(&shape)
        })
        .collect();
    // [N, C, kernel, …] → [N, G, C / G · kernel, …]
    let stacked = DynTensor::cat(seen, 2);
    let mut shape = vec![count, groups, channels / groups * offsets.len()];
    shape.extend_from_slice(positions);
    arranged(stacked.reshape(&shape), axis, examples, &[1], &[2])
}
