//! How a compiled program evaluates an operation, beyond what the rule for axes says.

use burn::backend::ir::NumericOperationIr as Numeric;
use burn_bayes_program::Expr;

use super::AxisRule;
use crate::memory_use::vec_bytes;

/// How a compiled program evaluates an operation.
#[derive(Clone, Debug)]
pub(crate) enum Compiled {
    /// Not at all: the whole recording is replayed instead.
    No,
    /// As the rule for axes says.
    ByRule,
    /// A formula of the operands, with broadcasting.
    Map(Expr),
    /// A sum or mean along the rule's axes.
    Sum { is_mean: bool },
    /// The largest or smallest entry along the rule's axis. The second result, if there is one, is its index.
    Extreme { is_largest: bool, is_index: bool },
    /// The softmax along the rule's axis, of the negated operand for softmin.
    Softmax { is_log: bool, is_negated: bool },
    /// A normalisation of the last axis or by given statistics.
    Normalise { epsilon: f64 },
    /// The largest entries or means of windows.
    Pool(Pool),
    /// Padding with a number.
    Pad {
        padding: Vec<(usize, usize)>,
        value: Expr,
    },
}

/// The options of a pooling layer over any number of spatial axes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// Whether it takes the largest entry, not the mean.
    pub(crate) is_largest: bool,
    /// Whether the windows depend on the lengths, and have no sizes here.
    pub(crate) is_adaptive: bool,
    pub(crate) kernel: Vec<usize>,
    pub(crate) stride: Vec<usize>,
    pub(crate) padding: Vec<(usize, usize)>,
    pub(crate) dilation: Vec<usize>,
    /// Whether a mean counts entries of the padding.
    pub(crate) counts_padding: bool,
}

impl Pool {
    /// Windows of these sizes.
    pub(super) fn windows(kernel: &[usize], stride: &[usize], padding: &[usize]) -> Self {
        Self {
            kernel: kernel.to_vec(),
            stride: stride.to_vec(),
            padding: padding.iter().map(|&both| (both, both)).collect(),
            dilation: vec![1; kernel.len()],
            ..Self::default()
        }
    }

    /// The largest entry of every window with this dilation.
    pub(super) fn largest(self, dilation: &[usize]) -> Self {
        Self {
            is_largest: true,
            dilation: dilation.to_vec(),
            ..self
        }
    }

    /// The mean of every window.
    pub(super) fn mean(self, counts_padding: bool) -> Self {
        Self {
            counts_padding,
            ..self
        }
    }

    /// Means of windows that depend on the lengths.
    pub(super) fn adaptive() -> Self {
        Self {
            is_adaptive: true,
            ..Self::default()
        }
    }
}

impl Compiled {
    /// What the rule alone says.
    pub(super) fn by_rule(rule: &AxisRule) -> Self {
        match rule {
            AxisRule::Reshape
            | AxisRule::Permute(_)
            | AxisRule::Expand
            | AxisRule::Slice(_)
            | AxisRule::SliceAssign(_)
            | AxisRule::Flip(_)
            | AxisRule::Cat(_)
            | AxisRule::Repeat(..)
            | AxisRule::Select(_)
            | AxisRule::Gather(_)
            | AxisRule::Embedding
            | AxisRule::Matmul
            | AxisRule::Linear
            | AxisRule::Convolution(_) => Self::ByRule,
            _ => Self::No,
        }
    }

    /// The memory of what it owns, in bytes.
    pub(super) fn owned_bytes(&self) -> usize {
        match self {
            Self::Map(expr) => expr.owned_bytes(),
            Self::Pad { padding, .. } => vec_bytes(padding),
            Self::Pool(Pool {
                kernel,
                stride,
                padding,
                dilation,
                ..
            }) => vec_bytes(kernel) + vec_bytes(stride) + vec_bytes(padding) + vec_bytes(dilation),
            _ => 0,
        }
    }
}

/// Whether integers of the results are at most as large as those of the operands, so that programs, which hold them as
/// `f32`, have them exactly.
pub(super) fn is_bounded(op: &Numeric) -> bool {
    matches!(
        op,
        Numeric::Abs(_)
            | Numeric::Neg(_)
            | Numeric::Sign(_)
            | Numeric::ClampMin(_)
            | Numeric::ClampMax(_)
            | Numeric::Clamp(_)
            | Numeric::Greater(_)
            | Numeric::GreaterElem(_)
            | Numeric::GreaterEqual(_)
            | Numeric::GreaterEqualElem(_)
            | Numeric::Lower(_)
            | Numeric::LowerElem(_)
            | Numeric::LowerEqual(_)
            | Numeric::LowerEqualElem(_)
            | Numeric::MaxDim(_)
            | Numeric::MinDim(_)
            | Numeric::MaxDimWithIndices(_)
            | Numeric::MinDimWithIndices(_)
            | Numeric::ArgMax(_)
            | Numeric::ArgMin(_)
            | Numeric::Pad(_)
    )
}
