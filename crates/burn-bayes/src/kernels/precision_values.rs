//! What the kernels of the precision form take and return.

use burn::tensor::Tensor;

use crate::prior::PriorPrecisions;

/// Inner products needed for draws, computed in one pass.
#[derive(Clone, Debug)]
pub(crate) struct Projections {
    /// U diag(d)⁻¹ Uᵀ, K×K row-major.
    pub(crate) scaled_gram: Vec<f64>,
    /// U Uᵀ, K×K row-major.
    pub(crate) gram: Vec<f64>,
    /// U (d^-½ ⊙ ε) of every draw, K numbers each.
    pub(crate) products: Vec<Vec<f64>>,
}

/// The parameters of a natural-gradient step of the precision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrecisionStep<'a> {
    /// β, the weight of the new precision; the old one keeps 1 − β.
    pub(crate) rate: f64,
    /// Q, K×K row-major: the coefficients of the old factors in the new ones.
    pub(crate) mixing: &'a [f64],
    /// The factor of the sum of squares.
    pub(crate) square_scale: f64,
    /// N, which multiplies the mean gradient.
    pub(crate) gradient_scale: f64,
    /// α, the prior's precisions.
    pub(crate) prior: &'a PriorPrecisions,
}

/// The contribution of the data to a precision.
#[derive(Clone, Debug)]
pub(crate) struct PrecisionEvidence {
    /// The contribution of the gradients to the new factors, `[K, D]`; absent at rank 0.
    pub(crate) rows: Option<Tensor<2>>,
    /// Σ g² over the gradients, `[D]`.
    pub(crate) squares: Tensor<1>,
    /// The mean gradient, `[D]`.
    pub(crate) gradient: Tensor<1>,
}

/// A precision after a step, and the quantities for the step of the mean.
#[derive(Clone, Debug)]
pub(crate) struct PrecisionUpdate {
    /// U⁺ = Q U + rows, `[K, D]`.
    pub(crate) factors: Option<Tensor<2>>,
    /// d⁺ = (1−β) d + β α + max(0, (1−β) Σ_k U_k² + scale·squares − Σ_k U⁺_k²), `[D]`.
    pub(crate) precision: Tensor<1>,
    /// ĝ = N g + α⊙μ, `[D]`.
    pub(crate) gradient: Tensor<1>,
    /// U⁺ diag(d⁺)⁻¹ U⁺ᵀ, K×K row-major.
    pub(crate) scaled_gram: Vec<f64>,
    /// U⁺ (ĝ/d⁺), K numbers.
    pub(crate) projection: Vec<f64>,
    /// Σ ĝ²/d⁺.
    pub(crate) squared_norm: f64,
    /// Σ d⁺, which is not finite if any element is not finite.
    pub(crate) precision_sum: f64,
}

/// A mean and the running average of its natural gradients; no average without momentum.
#[derive(Clone, Debug)]
pub(crate) struct MeanValues {
    /// μ, `[D]`.
    pub(crate) mean: Tensor<1>,
    /// v, `[D]`.
    pub(crate) velocity: Option<Tensor<1>>,
}

/// A step of the mean against Σ ĝ = ĝ/d − (U/d)ᵀ w.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeanStep<'a> {
    /// w = (I + U d⁻¹ Uᵀ)⁻¹ U (ĝ/d), K numbers.
    pub(crate) weights: &'a [f64],
    /// The factor of Σ ĝ before the momentum average.
    pub(crate) scale: f64,
    /// m, of v ← m v + (1−m) scale·Σ ĝ.
    pub(crate) momentum: f64,
    /// The factor of v, or of scale·Σ ĝ without momentum, in the step.
    pub(crate) learning_rate: f64,
}
