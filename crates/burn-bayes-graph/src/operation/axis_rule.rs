//! Rules for axes: how an operation maps the axes of its operands to those of its result.

use burn::backend::Slice;
use burn::backend::ir::{NumericOperationIr, ReduceDimOpIr};

use crate::memory_use::vec_bytes;

/// How an operation treats axes. Operands are listed in their order.
#[derive(Clone, Debug)]
pub(crate) enum AxisRule {
    /// Element-wise, with broadcasting. All operands have the rank of the result.
    Elementwise,
    /// Element-wise, without broadcasting.
    Mask,
    /// Converts the element type.
    Cast,
    /// Changes the shape and keeps the row-major order of elements.
    Reshape,
    /// Axis `i` of the result is axis `axes[i]` of the operand.
    Permute(Vec<usize>),
    /// Broadcasts axes of length one, and adds leading axes.
    Expand,
    /// Takes a slice of the operand.
    Slice(Vec<Slice>),
    /// Replaces a slice of the first operand by the second.
    SliceAssign(Vec<Slice>),
    /// Combines elements along these axes only.
    Along(Vec<usize>),
    /// Reverses these axes.
    Flip(Vec<usize>),
    /// Concatenates the operands along an axis.
    Cat(usize),
    /// Repeats the operand along an axis: axis, number of copies.
    Repeat(usize, usize),
    /// Combines all elements. For sums and means: the same reduction along one axis.
    Whole(Option<fn(ReduceDimOpIr) -> NumericOperationIr>),
    /// Selects entries of the first operand along an axis, by a vector of indices.
    Select(usize),
    /// Selects elements of the first operand along an axis, by indices with the result's shape.
    Gather(usize),
    /// Selects rows of a matrix, by indices with the result's leading shape.
    Embedding,
    /// A matrix product of the last two axes, with broadcasting over the others.
    Matmul,
    /// A product of the last axis with a matrix. Operands: input, weight, optional bias.
    Linear,
    /// A convolution or transposed convolution. Operands: input `[examples, channels, …]`, kernel, optional
    /// bias.
    Convolution(Convolution),
    /// Combines elements along all axes after the first `kept`.
    Spatial { kept: usize },
    /// Normalises, scales and shifts the last axis. Operands: input, scale, optional shift.
    LayerNorm,
    /// Normalises axis 1 by given statistics. Operands: input, scale, shift, mean, variance.
    BatchNorm,
    /// Attention over the last two axes, with broadcasting over the first two. Operands: query, key, value,
    /// optional mask, optional bias.
    Attention,
    /// Creates a tensor without operands.
    Creation,
    /// Draws random numbers.
    Random,
    /// The operation has no rule.
    Unknown,
}

/// The options of a convolution over any number of spatial axes.
#[derive(Clone, Debug)]
pub(crate) struct Convolution {
    pub(crate) stride: Vec<usize>,
    /// The padding before and after each axis.
    pub(crate) padding: Vec<(usize, usize)>,
    pub(crate) dilation: Vec<usize>,
    pub(crate) groups: usize,
    pub(crate) is_transposed: bool,
}

impl AxisRule {
    /// The rule for operands and results with an additional leading axis.
    pub(crate) fn with_leading_axis(self) -> Self {
        let next = |axes: Vec<usize>| axes.into_iter().map(|axis| axis + 1);
        let full = |ranges: Vec<Slice>| [Slice::full()].into_iter().chain(ranges).collect();
        match self {
            Self::Permute(axes) => Self::Permute([0].into_iter().chain(next(axes)).collect()),
            Self::Slice(ranges) => Self::Slice(full(ranges)),
            Self::SliceAssign(ranges) => Self::SliceAssign(full(ranges)),
            Self::Along(axes) => Self::Along(next(axes).collect()),
            Self::Flip(axes) => Self::Flip(next(axes).collect()),
            Self::Cat(axis) => Self::Cat(axis + 1),
            Self::Repeat(axis, times) => Self::Repeat(axis + 1, times),
            Self::Select(axis) => Self::Select(axis + 1),
            Self::Gather(axis) => Self::Gather(axis + 1),
            rule => rule,
        }
    }

    /// The memory of what the rule owns, in bytes.
    pub(super) fn owned_bytes(&self) -> usize {
        match self {
            Self::Permute(axes) | Self::Along(axes) | Self::Flip(axes) => vec_bytes(axes),
            Self::Slice(ranges) | Self::SliceAssign(ranges) => vec_bytes(ranges),
            Self::Convolution(Convolution {
                stride,
                padding,
                dilation,
                groups: _,
                is_transposed: _,
            }) => vec_bytes(stride) + vec_bytes(padding) + vec_bytes(dilation),
            _ => 0,
        }
    }

    /// The axis of a rule with one axis.
    pub(super) fn axis(&self) -> usize {
        match self {
            Self::Cat(axis) | Self::Repeat(axis, _) | Self::Select(axis) | Self::Gather(axis) => {
                *axis
            }
            _ => self.axes()[0],
        }
    }

    /// The axes of a rule with several axes.
    pub(super) fn axes(&self) -> &[usize] {
        match self {
            Self::Permute(axes) | Self::Along(axes) | Self::Flip(axes) => axes,
            rule => unreachable!("{rule:?} names no axes"),
        }
    }

    pub(super) fn ranges(&self) -> &[Slice] {
        match self {
            Self::Slice(ranges) | Self::SliceAssign(ranges) => ranges,
            rule => unreachable!("{rule:?} names no ranges"),
        }
    }

    pub(super) fn groups(&self) -> usize {
        match self {
            Self::Convolution(convolution) => convolution.groups,
            rule => unreachable!("{rule:?} has no groups"),
        }
    }
}
