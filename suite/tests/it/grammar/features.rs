//! The features of programs, in families that are tested together.

/// A feature of a program; each occurs in at least 2 % of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    // Layers.
    Linear,
    Convolution,
    LayerNorm,
    GroupNorm,
    BatchNorm,
    NoiseLayer,
    Residual,
    Recurrent,
    // Products with parameters.
    Product,
    LeftProduct,
    AttentionPool,
    Memory,
    Einsum,
    Heads,
    // Elementwise.
    Gate,
    ScalarParameter,
    Activation,
    // Shapes.
    Mask,
    Join,
    Stack,
    Slice,
    Flip,
    Cumsum,
    TimePool,
    MergedAxes,
    Constant,
    // Weights derived from parameters.
    Transposed,
    Sliced,
    Factored,
    WeightNorm,
    Positive,
    Tied,
    PlainNumber,
    PlainTensor,
    // Integers of the batch.
    Embedding,
    Select,
    Gather,
    OneHot,
    // Gradients stopped.
    Detach,
    WithoutAutodiff,
    Teacher,
    StraightThrough,
    // Operations that may not be defined per example, or are read on the host.
    BatchRead,
    ParameterRead,
    Batchwise,
    Lengths,
    Unmapped,
    // Losses.
    SquaredError,
    CrossEntropy,
    MeanLoss,
}

use Feature::*;

/// Features that are tested together; each program of the family has at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    Layers,
    Products,
    Elementwise,
    Shapes,
    Derived,
    Integers,
    Stopped,
    Host,
}

impl Family {
    pub(crate) const ALL: [Self; 8] = [
        Self::Layers,
        Self::Products,
        Self::Elementwise,
        Self::Shapes,
        Self::Derived,
        Self::Integers,
        Self::Stopped,
        Self::Host,
    ];

    /// The number of cases of this family.
    pub(crate) fn cases(self, all: usize) -> usize {
        let per_mille = match self {
            Self::Host => 105,
            Self::Stopped => 85,
            _ => 135,
        };
        (all * per_mille).div_ceil(1000)
    }

    /// Percentage of the cases that recordings alone must answer, so that refusing or looping all of them fails
    /// the test.
    pub(crate) fn share(self) -> usize {
        match self {
            Self::Layers => 76,
            Self::Products => 70,
            Self::Elementwise => 63,
            Self::Shapes => 66,
            Self::Derived => 75,
            Self::Integers => 57,
            // Stopped gradients, and losses that are not defined per example, need the loop or are an error.
            Self::Stopped | Self::Host => 0,
        }
    }

    /// The features that occur in programs of all families.
    pub(crate) const ORDINARY: [Self; 6] = [
        Self::Layers,
        Self::Products,
        Self::Elementwise,
        Self::Shapes,
        Self::Derived,
        Self::Integers,
    ];

    pub(crate) fn features(self) -> &'static [Feature] {
        match self {
            Self::Layers => &[
                Linear,
                Convolution,
                LayerNorm,
                GroupNorm,
                BatchNorm,
                NoiseLayer,
                Residual,
                Recurrent,
            ],
            Self::Products => &[Product, LeftProduct, AttentionPool, Memory, Einsum, Heads],
            Self::Elementwise => &[Gate, ScalarParameter, Activation],
            Self::Shapes => &[
                Mask, Join, Stack, Slice, Flip, Cumsum, TimePool, MergedAxes, Constant,
            ],
            Self::Derived => &[
                Transposed,
                Sliced,
                Factored,
                WeightNorm,
                Positive,
                Tied,
                PlainNumber,
                PlainTensor,
            ],
            Self::Integers => &[Embedding, Select, Gather, OneHot],
            Self::Stopped => &[Detach, WithoutAutodiff, Teacher, StraightThrough],
            Self::Host => &[BatchRead, ParameterRead, Batchwise, Lengths, Unmapped],
        }
    }
}
