//! From the types of this interface to the kernels of GPUs and back.
//!
//! Each function returns `None` if it does not apply: for another backend or another element type, for more draws or
//! factors than a kernel takes, and for the gradient of a Gaussian without factors, which Burn's fused operations compute
//! as well.

use burn::tensor::{DType, Tensor};

use super::composed::first_non_finite;
use super::{CovarianceGradient, CovarianceParts, Diagonal, DrawGradient, FactorUnits, Objective};
use crate::gpu::{self, Gaussian, ObjectiveGradient};
use crate::noise::Noise;

fn applies<const R: usize>(tensor: &Tensor<R>) -> bool {
    tensor.dtype() == DType::F32 && gpu::runs_on(&tensor.device())
}

fn gaussian(parts: &CovarianceParts) -> Option<Gaussian> {
    if !applies(&parts.mean) {
        return None;
    }
    let (diagonal, is_log) = match &parts.diagonal {
        Diagonal::Variance(variance) => (variance, false),
        Diagonal::LogVariance(log_variance) => (log_variance, true),
    };
    Some(Gaussian {
        mean: parts.mean.clone(),
        factors: parts.factors.clone(),
        diagonal: diagonal.clone(),
        is_log,
        is_relative: parts.units == FactorUnits::Deviations,
    })
}

pub(super) fn draw(parts: &CovarianceParts, noise: Noise) -> Option<Tensor<1>> {
    let [len] = parts.mean.dims();
    Some(draws(parts, noise, 1)?.reshape([len]))
}

pub(super) fn draws(parts: &CovarianceParts, noise: Noise, count: usize) -> Option<Tensor<2>> {
    gpu::draws(&gaussian(parts)?, noise.gpu_stream(), count)
}

pub(super) fn inner_products(left: &Tensor<2>, right: &Tensor<2>) -> Option<Tensor<2>> {
    match applies(left) && applies(right) {
        true => gpu::inner_products(left, right),
        false => None,
    }
}

pub(super) fn mix(rows: &Tensor<2>, weights: &[f64], count: usize) -> Option<Tensor<2>> {
    match applies(rows) {
        true => gpu::mix(rows, weights, count),
        false => None,
    }
}

pub(super) fn covariance_gradient(
    parts: &CovarianceParts,
    draws: &[DrawGradient],
    objective: Objective<'_>,
) -> Option<CovarianceGradient> {
    let gaussian = gaussian(parts).filter(|gaussian| gaussian.factors.is_some())?;
    let device = gaussian.mean.device();
    let [len] = gaussian.mean.dims();
    let rows = draws.iter().flat_map(|draw| draw.parts.iter().cloned());
    let gradients = Tensor::cat(rows.collect(), 0).reshape([draws.len(), len]);
    let streams: Vec<_> = draws.iter().map(|draw| draw.noise.gpu_stream()).collect();
    let ObjectiveGradient {
        mean,
        factors,
        log_variance,
        sums: [of_mean, of_factors, of_log_variance, not_finite],
    } = gpu::objective_gradient(
        &gaussian,
        &streams,
        gradients.clone(),
        objective.inner_inverse,
        objective.prior.tensor(&device),
        [objective.scale, objective.temperature],
    )?;
    Some(CovarianceGradient {
        mean,
        factors: Some(factors),
        log_variance,
        squared_norms: [of_mean, of_factors, of_log_variance],
        first_non_finite: match not_finite == 0.0 {
            true => None,
            false => first_non_finite(gradients.sum_dim(0).reshape([len])),
        },
    })
}
