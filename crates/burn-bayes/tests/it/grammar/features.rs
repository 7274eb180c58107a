//! What programs can contain, by the families that are tested together.

/// What a program can contain; each occurs in at least 2 % of the cases.
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
    // What may have no meaning per example, or is read on the host.
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

/// Features that are tested together, each in at least one step of every program of the family.
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

    /// How many of so many cases are of this family.
    pub(crate) fn cases(self, all: usize) -> usize {
        let per_mille = match self {
            Self::Host => 105,
            Self::Stopped => 85,
            _ => 135,
        };
        (all * per_mille).div_ceil(1000)
    }

    /// Percent of the cases that the graph must answer alone, so that neither refusing nor looping
    /// passes the test.
    pub(crate) fn share(self) -> usize {
        match self {
            Self::Layers => 76,
            Self::Products => 70,
            Self::Elementwise => 63,
            Self::Shapes => 66,
            Self::Derived => 42,
            Self::Integers => 57,
            // What is stopped, or has no meaning for an example, is for the loop or an error.
            Self::Stopped | Self::Host => 0,
        }
    }

    /// Those whose steps are in the programs of every family.
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
