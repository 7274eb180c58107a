//! From the gradient δ at a tap to the per-example gradients of a weight, in factored form.

use burn::backend::ir::{ModuleOperationIr as ModuleOp, OperationIr};
use burn::tensor::{Int, Tensor};

use crate::axis::ExampleAxis;
use crate::factor::Term;
use crate::plan::{Tap, channel, has_examples};
use crate::semantics::{Semantics, semantics};
use crate::untyped::{Untyped, arranged};

/// The per-example gradients with respect to a tapped weight, whose elements are in the order
/// `[groups, rows, columns]`.
#[derive(Debug)]
pub(crate) enum Factored {
    /// The sum over positions of outer products of `[G, M, T, rows]` and `[G, M, T, columns]`.
    Outer(Tensor<4>, Tensor<4>),
    /// Rows picked by `[M, T]` indices, with values `[M, T, columns]`.
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
    input: Untyped,
    delta: Untyped,
    examples: usize,
) -> Factored {
    let rank = delta.rank();
    match semantics(&tap.operation) {
        Semantics::Linear { .. } => {
            let input = arranged(input, tap.input_axis, examples, &[], &[rank - 1]);
            let delta = arranged(delta, tap.output_axis, examples, &[], &[rank - 1]);
            Factored::Outer(input, delta)
        }
        Semantics::Matmul { lhs, rhs } => {
            let (weight, other, is_left) = if lhs.id.value() as usize == tap.input {
                (rhs, lhs, false)
            } else {
                (lhs, rhs, true)
            };
            // What the examples have along their axis beside themselves belongs to the weight.
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
            // And so does what the other operand is broadcast over.
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
        Semantics::Convolution { .. } => convolution(tap, input, delta, examples),
        Semantics::Embedding { .. } | Semantics::Select { .. } => {
            let features: Vec<_> = (tap.input_rank()..rank).collect();
            let values = arranged(delta, tap.output_axis, examples, &[], &features);
            let [_, count, positions, width] = values.dims();
            let indices = input.arranged_indices(tap.input_axis, examples);
            Factored::Lookup(indices, values.reshape([count, positions, width]))
        }
        Semantics::Gather { tensor, dim, .. } => {
            // Each element is a row of one.
            let values = arranged(delta, tap.output_axis, examples, &[], &[]);
            let [_, count, positions, _] = values.dims();
            let elements = input.gathered_elements(&tensor.shape, dim);
            let elements = elements.arranged_indices(tap.input_axis, examples);
            Factored::Lookup(elements, values.reshape([count, positions, 1]))
        }
        other => unreachable!("no tap is made for {other:?}"),
    }
}

/// The gradients with respect to the tap's bias, `[M, width]`.
pub(crate) fn bias_gradients(tap: &Tap, delta: Untyped, examples: usize) -> Tensor<2> {
    let channel = channel(&tap.operation);
    over_positions(arranged(delta, tap.output_axis, examples, &[], &[channel]))
}

/// A copied parameter's gradients, `[M, elements]`.
pub(crate) fn copy_gradients(gradient: Untyped, axis: ExampleAxis, examples: usize) -> Tensor<2> {
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

/// Stride, padding, dilation and groups of a convolution, over any number of spatial axes.
struct Window {
    kernel: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<(usize, usize)>,
    dilation: Vec<usize>,
    groups: usize,
    is_transposed: bool,
}

impl Window {
    fn of(operation: &OperationIr) -> Self {
        let OperationIr::Module(module) = operation else {
            unreachable!("convolutions are module operations")
        };
        macro_rules! window {
            ($op:ident, $padding:expr, $is_transposed:literal) => {
                Self {
                    kernel: $op.weight.shape[2..].to_vec(),
                    stride: $op.options.stride.to_vec(),
                    padding: $op.options.padding.iter().map($padding).collect(),
                    dilation: $op.options.dilation.to_vec(),
                    groups: $op.options.groups,
                    is_transposed: $is_transposed,
                }
            };
        }
        let even = |&padding: &usize| (padding, padding);
        match module {
            ModuleOp::Conv1d(op) => window!(op, |&padding| padding, false),
            ModuleOp::Conv2d(op) => window!(op, |&padding| padding, false),
            ModuleOp::Conv3d(op) => window!(op, even, false),
            ModuleOp::ConvTranspose1d(op) => window!(op, even, true),
            ModuleOp::ConvTranspose2d(op) => window!(op, even, true),
            ModuleOp::ConvTranspose3d(op) => window!(op, even, true),
            other => unreachable!("{other:?} is not a convolution"),
        }
    }
}

/// Each position of the smaller side against the patch of the larger side that it is connected to.
///
/// A convolution's kernel is `[out, in / groups, …]`; a transposed one's `[in, out / groups, …]`,
/// and it is the convolution that goes from its output to its input.
fn convolution(tap: &Tap, input: Untyped, delta: Untyped, examples: usize) -> Factored {
    let window = Window::of(&tap.operation);
    let (near, far) = if window.is_transposed {
        (input, delta)
    } else {
        (delta, input)
    };
    let positions = near.shape()[2..].to_vec();
    let near = by_group(near, window.groups, tap.output_axis, examples);
    let far = patches(far, &window, &positions, tap.output_axis, examples);
    Factored::Outer(near, far)
}

/// `[N, C, …]` as `[G, M, T, C / G]`.
fn by_group(tensor: Untyped, groups: usize, axis: ExampleAxis, examples: usize) -> Tensor<4> {
    let mut shape = tensor.shape();
    let channels = shape[1];
    shape.splice(1..2, [groups, channels / groups]);
    arranged(tensor.reshape(&shape), axis, examples, &[1], &[2])
}

/// The patches of `[N, C, …]` that the kernel sees at each position, `[G, M, T, C / G · kernel]`.
fn patches(
    tensor: Untyped,
    window: &Window,
    positions: &[usize],
    axis: ExampleAxis,
    examples: usize,
) -> Tensor<4> {
    let groups = window.groups;
    let spatial = window.kernel.len();
    let padded = tensor.pad_spatial(&window.padding);
    let [count, channels] = [padded.shape()[0], padded.shape()[1]];
    let mut offsets = vec![vec![]];
    for &len in &window.kernel {
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
                .map(|i| offset[i] * window.dilation[i])
                .collect();
            let part = padded.clone().strided(starts, &window.stride, positions);
            let mut shape = part.shape();
            shape.insert(2, 1);
            part.reshape(&shape)
        })
        .collect();
    // [N, C, kernel, …] → [N, G, C / G · kernel, …]
    let stacked = Untyped::cat(seen, 2);
    let mut shape = vec![count, groups, channels / groups * offsets.len()];
    shape.extend_from_slice(positions);
    arranged(stacked.reshape(&shape), axis, examples, &[1], &[2])
}
