//! Draws from a Gaussian in precision form, N(μ, (UᵀU + diag d)⁻¹), and natural-gradient steps of it.
//!
//! What needs the inverse of a K×K matrix is cut in two: one function reads the factors and gives
//! numbers for the host's algebra, the next takes the answer.

use burn::tensor::Tensor;

use super::composed_precision as composed;
#[cfg(feature = "flex")]
use super::flex_precision as flex;
use super::statistics::PrecisionParts;
use crate::noise::Noise;
use crate::prior::PriorPrecisions;

/// Inner products that draws need before they can be made, and that come with the same pass.
#[derive(Clone, Debug)]
pub struct Projections {
    /// U diag(d)⁻¹ Uᵀ, K×K row-major.
    pub scaled_gram: Vec<f64>,
    /// U Uᵀ, K×K row-major.
    pub gram: Vec<f64>,
    /// U (d^-½ ⊙ ε) of every draw, K numbers each.
    pub products: Vec<Vec<f64>>,
}

/// How one natural-gradient step changes a precision, and where its gradient points.
#[derive(Clone, Copy, Debug)]
pub struct PrecisionStep<'a> {
    /// β, the weight of the new precision; the old one keeps 1 − β.
    pub rate: f64,
    /// Q, K×K row-major: the old factors' share of the new ones.
    pub mixing: &'a [f64],
    /// What multiplies the sum of squares.
    pub square_scale: f64,
    /// N, which multiplies the mean gradient.
    pub gradient_scale: f64,
    /// α, the prior's precisions.
    pub prior: &'a PriorPrecisions,
}

/// What the data add to a precision.
#[derive(Clone, Debug)]
pub struct PrecisionEvidence {
    /// The new factors' share of the gradients, `[K, D]`; absent at rank 0.
    pub rows: Option<Tensor<2>>,
    /// Σ g² over the gradients, `[D]`.
    pub squares: Tensor<1>,
    /// The mean gradient, `[D]`.
    pub gradient: Tensor<1>,
}

/// A precision after a step, and what the step of the mean needs.
#[derive(Clone, Debug)]
pub struct PrecisionUpdate {
    /// U⁺ = Q U + rows, `[K, D]`.
    pub factors: Option<Tensor<2>>,
    /// d⁺ = (1−β) d + β α + max(0, (1−β) Σ_k U_k² + scale·squares − Σ_k U⁺_k²), `[D]`.
    pub precision: Tensor<1>,
    /// ĝ = N g + α⊙μ, `[D]`.
    pub gradient: Tensor<1>,
    /// U⁺ diag(d⁺)⁻¹ U⁺ᵀ, K×K row-major.
    pub scaled_gram: Vec<f64>,
    /// U⁺ (ĝ/d⁺), K numbers.
    pub projection: Vec<f64>,
    /// Σ ĝ²/d⁺.
    pub squared_norm: f64,
    /// Σ d⁺, which is not finite where an element is not.
    pub precision_sum: f64,
}

/// A mean and the running average of its natural gradients; no average without momentum.
#[derive(Clone, Debug)]
pub struct MeanValues {
    /// μ, `[D]`.
    pub mean: Tensor<1>,
    /// v, `[D]`.
    pub velocity: Option<Tensor<1>>,
}

/// A step of the mean against Σ ĝ = ĝ/d − (U/d)ᵀ w.
#[derive(Clone, Copy, Debug)]
pub struct MeanStep<'a> {
    /// w = (I + U d⁻¹ Uᵀ)⁻¹ U (ĝ/d), K numbers.
    pub weights: &'a [f64],
    /// What multiplies Σ ĝ before it is averaged.
    pub scale: f64,
    /// m, of v ← m v + (1−m) scale·Σ ĝ.
    pub momentum: f64,
    /// What multiplies v, or scale·Σ ĝ without momentum, in the step.
    pub learning_rate: f64,
}

/// Everything that draws from this Gaussian need of its factors, in one pass over them.
pub fn projections(gaussian: &PrecisionParts, noises: &[Noise]) -> Projections {
    #[cfg(feature = "flex")]
    if let Some(result) = flex::projections(gaussian, noises) {
        return result;
    }
    composed::projections(gaussian, noises)
}

/// The [`products`](Projections::products) alone: U (d^-½ ⊙ ε) of every draw, K numbers each.
pub fn noise_products(gaussian: &PrecisionParts, noises: &[Noise]) -> Vec<Vec<f64>> {
    #[cfg(feature = "flex")]
    if let Some(result) = flex::noise_products(gaussian, noises) {
        return result;
    }
    composed::noise_products(gaussian, noises)
}

/// θ = μ + d^-½ ⊙ ε − (U/d)ᵀ w, with w = M U (d^-½ ⊙ ε), `weights`, from the host.
pub fn precision_draw(gaussian: &PrecisionParts, noise: Noise, weights: &[f64]) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if let Some(result) = flex::precision_draw(gaussian, noise, weights) {
        return result;
    }
    composed::precision_draw(gaussian, noise, weights)
}

/// The precision after a natural-gradient step, and what the step of the mean needs of it.
pub fn precision_step(
    gaussian: &PrecisionParts,
    evidence: PrecisionEvidence,
    step: PrecisionStep<'_>,
) -> PrecisionUpdate {
    #[cfg(feature = "flex")]
    let evidence = match flex::precision_step(gaussian, evidence, step) {
        Ok(update) => return update,
        Err(evidence) => *evidence,
    };
    composed::precision_step(gaussian, evidence, step)
}

/// The mean after a step with the factors and the diagonal of `gaussian`, whose mean is moved.
pub fn mean_step(
    gaussian: PrecisionParts,
    velocity: Option<Tensor<1>>,
    gradient: Tensor<1>,
    step: MeanStep<'_>,
) -> MeanValues {
    #[cfg(feature = "flex")]
    let gradient = match flex::mean_step(&gaussian, velocity.as_ref(), gradient, step) {
        Ok(values) => return values,
        Err(gradient) => *gradient,
    };
    composed::mean_step(gaussian, velocity, gradient, step)
}
