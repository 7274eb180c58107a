//! All arithmetic on vectors with one entry per weight.
//!
//! Every function has a composed implementation, which uses Burn's tensor operations, runs on every
//! backend and serves as the reference; a fused one, which works on slices and is used if the
//! tensors are contiguous `f32` on Burn's CPU backend; and some have one for GPUs. Only this module
//! chooses between them. Arguments and results are tensors without autodiff.
//!
//! Fused passes visit fixed blocks of elements in parallel and add partial sums in block order, so
//! results do not depend on the number of threads.

pub(crate) mod composed;
mod composed_precision;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod flex_precision;
#[cfg(feature = "gpu")]
mod gpu;
mod precision;
mod precision_values;
pub mod statistics;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

pub use self::composed::{at_least, from_host, sum, to_host};
pub(crate) use self::precision::{
    mean_step, noise_products, precision_draw, precision_step, projections,
};
pub(crate) use self::precision_values::{
    MeanStep, MeanValues, PrecisionEvidence, PrecisionStep, PrecisionUpdate, Projections,
};
use crate::noise::Noise;
use crate::prior::PriorPrecisions;
pub use burn_bayes_graph::cpu::Scratch;

/// The units of the factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FactorUnits {
    /// F, in the units of the weights.
    Weights,
    /// V, in units of the deviations: F = V diag(ψ^½).
    Deviations,
}

/// The diagonal of a Gaussian in covariance form.
#[derive(Clone, Debug)]
pub enum Diagonal {
    /// ψ.
    Variance(Tensor<1>),
    /// γ = log ψ, the trained parameter.
    LogVariance(Tensor<1>),
}

/// A Gaussian in covariance form, N(mean, FᵀF + diag ψ).
#[derive(Clone, Debug)]
pub struct CovarianceParts {
    /// c, `[D]`.
    pub mean: Tensor<1>,
    /// F, or V in units of the deviations, `[K, D]`; absent at rank 0.
    pub factors: Option<Tensor<2>>,
    /// Which of the two they are.
    pub units: FactorUnits,
    /// ψ, `[D]`.
    pub diagonal: Diagonal,
}

impl CovarianceParts {
    /// K.
    pub fn rank(&self) -> usize {
        self.factors.as_ref().map_or(0, |factors| factors.dims()[0])
    }

    /// The same Gaussian with factors in the units of the weights.
    pub fn in_units_of_weights(self) -> Self {
        let factors = match self.units {
            FactorUnits::Weights => self.factors,
            FactorUnits::Deviations => {
                let deviation = self.diagonal.deviation();
                self.factors
                    .map(|factors| factors * deviation.unsqueeze::<2>())
            }
        };
        Self {
            factors,
            units: FactorUnits::Weights,
            ..self
        }
    }
}

/// The gradient of the mean negative log-likelihood at one draw, one flat piece per parameter.
#[derive(Clone, Debug)]
pub struct DrawGradient {
    /// The noise the draw was made from.
    pub noise: Noise,
    /// The pieces; joined they are `[D]`.
    pub parts: Vec<Tensor<1>>,
}

/// The inputs of the gradient of the variational objective, besides the Gaussian and the draws.
#[derive(Clone, Copy, Debug)]
pub struct Objective<'a> {
    /// N, the number of training examples, divided by the number of draws whose terms are added.
    pub scale: f64,
    /// τ, the factor of the divergence.
    pub temperature: f64,
    /// α.
    pub prior: &'a PriorPrecisions,
    /// (I + B)⁻¹, K×K row-major, of the Gaussian.
    pub inner_inverse: &'a [f64],
    /// The pool of memory for the gradient.
    pub scratch: &'a Scratch,
}

/// The gradient of the variational objective with respect to a Gaussian in covariance form.
#[derive(Clone, Debug)]
pub struct CovarianceGradient {
    /// ∇c, `[D]`.
    pub mean: Tensor<1>,
    /// ∇F or ∇V, `[K, D]`.
    pub factors: Option<Tensor<2>>,
    /// ∇γ, `[D]`.
    pub log_variance: Tensor<1>,
    /// The squared norms of the gradients of mean, factors and log-variances.
    pub squared_norms: [f64; 3],
    /// The first weight at which a draw's gradient is not finite.
    pub first_non_finite: Option<usize>,
}

/// Returns the result of the implementation for GPUs, if it applies.
macro_rules! on_gpu {
    ($name:ident($($argument:expr),*)) => {
        #[cfg(feature = "gpu")]
        if let Some(result) = gpu::$name($($argument),*) {
            return result;
        }
    };
}

/// Runs the fused implementation if it applies, otherwise the composed one.
macro_rules! fused_or_composed {
    ($name:ident($($argument:expr),*)) => {{
        #[cfg(feature = "flex")]
        if let Some(result) = flex::$name($($argument),*) {
            return result;
        }
        composed::$name($($argument),*)
    }};
}

/// θ = c + hᵀF + ψ^½ ⊙ z.
pub fn draw(gaussian: &CovarianceParts, noise: Noise) -> Tensor<1> {
    on_gpu!(draw(gaussian, noise));
    fused_or_composed!(draw(gaussian, noise))
}

/// Draws from the rows 0..count of the noise, `[count, D]`; row s equals [`draw`] from `noise.row(s)`.
pub fn draws(gaussian: &CovarianceParts, noise: Noise, count: usize) -> Tensor<2> {
    on_gpu!(draws(gaussian, noise, count));
    fused_or_composed!(draws(gaussian, noise, count))
}

/// B = F diag(ψ)⁻¹ Fᵀ, K×K row-major on the host.
pub fn gram(gaussian: &CovarianceParts) -> Vec<f64> {
    fused_or_composed!(gram(gaussian))
}

/// [`draw`] and [`gram`] in one pass over the factors.
pub fn draw_and_gram(
    gaussian: &CovarianceParts,
    noise: Noise,
    scratch: &Scratch,
) -> (Tensor<1>, Vec<f64>) {
    fused_or_composed!(draw_and_gram(gaussian, noise, scratch))
}

/// A [`draw`] from every noise, at least one, and the [`gram`].
pub fn draws_and_gram(
    gaussian: &CovarianceParts,
    noises: &[Noise],
    scratch: &Scratch,
) -> (Vec<Tensor<1>>, Vec<f64>) {
    let (first, gram) = draw_and_gram(gaussian, noises[0], scratch);
    let others = noises[1..].iter().map(|&noise| draw(gaussian, noise));
    (std::iter::once(first).chain(others).collect(), gram)
}

/// The gradient of `scale · Σ_draws NLL + τ · KL` with the factors and log-variances of `gaussian`,
/// whose diagonal must be a [`Diagonal::LogVariance`].
pub fn covariance_gradient(
    gaussian: &CovarianceParts,
    draws: &[DrawGradient],
    objective: Objective<'_>,
) -> CovarianceGradient {
    on_gpu!(covariance_gradient(gaussian, draws, objective));
    fused_or_composed!(covariance_gradient(gaussian, draws, objective))
}

/// Adam's constants for one step.
#[derive(Clone, Copy, Debug)]
pub struct AdamStep {
    /// Learning rate.
    pub learning_rate: f64,
    /// β₁.
    pub beta_1: f32,
    /// β₂.
    pub beta_2: f32,
    /// ε.
    pub epsilon: f32,
    /// L2 penalty added to the gradient.
    pub weight_decay: f32,
    /// t, from 1.
    pub time: usize,
}

/// A parameter and Adam's moments.
#[derive(Clone, Debug)]
pub struct AdamValues<const R: usize> {
    /// The parameter.
    pub parameter: Tensor<R>,
    /// First moment.
    pub moment_1: Tensor<R>,
    /// Second moment.
    pub moment_2: Tensor<R>,
    /// With AMSGrad, the largest second moment so far, which takes the place of the second moment.
    pub max_moment_2: Option<Tensor<R>>,
}

/// One step of Adam, with the conventions of Burn's own.
pub fn adam<const R: usize>(
    values: AdamValues<R>,
    gradient: Tensor<R>,
    step: AdamStep,
) -> AdamValues<R> {
    #[cfg(feature = "flex")]
    let (values, gradient) = match flex::adam(values, gradient, step) {
        Ok(values) => return values,
        Err(arguments) => *arguments,
    };
    composed::adam(values, gradient, step)
}

/// Running moments of iterates.
#[derive(Clone, Debug)]
pub struct Moments {
    /// Mean of θ.
    pub mean: Tensor<1>,
    /// Variance of θ, the mean of its squared deviations from its mean.
    pub variance: Tensor<1>,
}

/// Adds the `count`-th iterate θ (from 1) by Welford's update: with δ = θ−mean, mean += δ/t and
/// variance ← (1−1/t)(variance + δ²/t). Also returns the deviation θ − mean from the new mean.
pub fn running_moments(
    moments: Moments,
    iterate: &Tensor<1>,
    count: usize,
) -> (Moments, Tensor<1>) {
    #[cfg(feature = "flex")]
    let moments = match flex::running_moments(moments, iterate, count) {
        Ok(result) => return result,
        Err(moments) => *moments,
    };
    composed::running_moments(moments, iterate, count)
}

/// Left · Rightᵀ, `[A, B]`, of `[A, D]` and `[B, D]`: the inner products of rows over all weights.
pub fn inner_products(left: &Tensor<2>, right: &Tensor<2>) -> Tensor<2> {
    on_gpu!(inner_products(left, right));
    fused_or_composed!(inner_products(left, right))
}

/// W · rows, with W `count`×K row-major from the host.
pub fn mix(rows: &Tensor<2>, weights: &[f64], count: usize) -> Tensor<2> {
    on_gpu!(mix(rows, weights, count));
    composed::mix(rows, weights, count)
}

/// Multiplies a tensor by a factor, in place if the tensor is not shared; a factor of one costs
/// nothing.
pub fn scale<const R: usize>(tensor: Tensor<R>, factor: f64) -> Tensor<R> {
    if factor == 1.0 {
        return tensor;
    }
    #[cfg(feature = "flex")]
    let tensor = match flex::scale(tensor, factor) {
        Ok(result) => return result,
        Err(tensor) => *tensor,
    };
    tensor.mul_scalar(factor)
}

/// values + weight · (current − values), in place if the values are not shared.
pub(crate) fn approach<const R: usize>(
    values: Tensor<R>,
    current: Tensor<R>,
    weight: f64,
) -> Tensor<R> {
    #[cfg(feature = "flex")]
    let values = match flex::approach(values, &current, weight) {
        Ok(result) => return result,
        Err(values) => *values,
    };
    values.clone() + (current - values).mul_scalar(weight)
}

/// The value of a tensor with one, if it is on the CPU and can be read without waiting.
pub(crate) fn host_scalar(tensor: &Tensor<1>) -> Option<f32> {
    #[cfg(feature = "flex")]
    return flex::scalar(tensor);
    #[cfg(not(feature = "flex"))]
    {
        let _ = tensor;
        None
    }
}
