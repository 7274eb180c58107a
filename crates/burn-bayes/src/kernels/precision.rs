//! Draws from a Gaussian in precision form, N(μ, (UᵀU + diag d)⁻¹), and its natural-gradient steps.
//!
//! A computation that needs the inverse of a K×K matrix is split into two functions: the first
//! reduces the factors to numbers for the algebra on the host, the second takes its result.

use burn::tensor::Tensor;

use super::composed_precision as composed;
#[cfg(feature = "flex")]
use super::flex_precision as flex;
use super::precision_values::{
    MeanStep, MeanValues, PrecisionEvidence, PrecisionStep, PrecisionUpdate, Projections,
};
use super::statistics::PrecisionParts;
use crate::noise::Noise;

/// The inner products with the factors that draws from this Gaussian need, in one pass over the
/// factors.
pub(crate) fn projections(gaussian: &PrecisionParts, noises: &[Noise]) -> Projections {
    #[cfg(feature = "flex")]
    if let Some(result) = flex::projections(gaussian, noises) {
        return result;
    }
    composed::projections(gaussian, noises)
}

/// The [`products`](Projections::products) alone: U (d^-½ ⊙ ε) of every draw, K numbers each.
pub(crate) fn noise_products(gaussian: &PrecisionParts, noises: &[Noise]) -> Vec<Vec<f64>> {
    #[cfg(feature = "flex")]
    if let Some(result) = flex::noise_products(gaussian, noises) {
        return result;
    }
    composed::noise_products(gaussian, noises)
}

/// θ = μ + d^-½ ⊙ ε − (U/d)ᵀ w, with w = M U (d^-½ ⊙ ε), `weights`, from the host.
pub(crate) fn precision_draw(
    gaussian: &PrecisionParts,
    noise: Noise,
    weights: &[f64],
) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if let Some(result) = flex::precision_draw(gaussian, noise, weights) {
        return result;
    }
    composed::precision_draw(gaussian, noise, weights)
}

/// The precision after a natural-gradient step, and the quantities for the step of the mean.
pub(crate) fn precision_step(
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

/// The mean of `gaussian` after a step with its factors and diagonal.
pub(crate) fn mean_step(
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
