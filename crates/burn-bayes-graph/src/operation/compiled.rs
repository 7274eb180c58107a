//! How a compiled program evaluates an operation, beyond what the rule for axes says.

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
    /// Padding with a number.
    Pad {
        padding: Vec<(usize, usize)>,
        value: Expr,
    },
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
            | AxisRule::Linear => Self::ByRule,
            _ => Self::No,
        }
    }

    /// The memory of what it owns, in bytes.
    pub(super) fn owned_bytes(&self) -> usize {
        match self {
            Self::Map(expr) => expr.owned_bytes(),
            Self::Pad { padding, .. } => vec_bytes(padding),
            _ => 0,
        }
    }
}
