//! The running average of a Gaussian's parameters (c, F, γ) over the last part of training.
//!
//! With a constant learning rate the parameters fluctuate around the optimum; their average is
//! closer to it than a single iterate.
//!
//! F and R F have the same covariance FᵀF for every rotation R, so gradient noise rotates the
//! factors, and an average of rotated factors is too short. Therefore the average is first aligned
//! with the current factors by orthogonal Procrustes: R is the orthogonal factor of F F̄ᵀ.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::start::{buffer, updated};
use crate::algebra::{AlgebraError, SquareMatrix};
use crate::kernels::{
    self, CovarianceParts, Diagonal, FactorUnits, from_host, inner_products, to_host,
};

/// Which iterates the posterior is the average of. With a constant learning rate they fluctuate around the
/// optimum, and their average is closer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Averaging {
    /// None: the posterior is the last iterate.
    None,
    /// All iterates from this step on, with equal weights.
    From(u64),
    /// All iterates of the second stage, with weights that grow with the third power of their number: half
    /// of the weight is on the last sixth. This needs no knowledge of the training's length (Shamir and
    /// Zhang 2013).
    Recent,
}

/// The power with which the weights of [`Averaging::Recent`] grow.
const POWER: f64 = 3.0;

impl Averaging {
    /// Whether the iterate after step number `step` (from 1) belongs to the average.
    pub(crate) fn is_from(self, step: u64) -> bool {
        match self {
            Self::None => false,
            Self::From(from) => step >= from,
            Self::Recent => true,
        }
    }

    /// The weight of iterate number `count` (from 1) against the average of those before it.
    pub(crate) fn weight(self, count: u64) -> f64 {
        match self {
            Self::Recent => (POWER + 1.0) / (count as f64 + POWER),
            _ => 1.0 / count as f64,
        }
    }
}

/// Steps between two alignments. An alignment is a product of K×D matrices and costs as much as the
/// rest of a step; the factors rotate very little in so few steps.
const ALIGNED_EVERY: u64 = 8;

/// What is averaged: the parameters of a Gaussian in covariance form, or a mean alone.
#[derive(Clone, Debug)]
pub struct Iterate {
    /// The mean, `[D]`.
    pub mean: Tensor<1>,
    pub(crate) factors: Option<Tensor<2>>,
    pub(crate) log_variance: Option<Tensor<1>>,
}

impl Iterate {
    /// A mean alone.
    pub fn of_mean(mean: Tensor<1>) -> Self {
        Self {
            mean,
            factors: None,
            log_variance: None,
        }
    }

    /// The parameters of a Gaussian.
    #[doc(hidden)]
    pub fn of_gaussian(parts: CovarianceParts) -> Self {
        let log_variance = match parts.diagonal {
            Diagonal::LogVariance(log_variance) => log_variance,
            Diagonal::Variance(variance) => variance.log(),
        };
        Self {
            mean: parts.mean,
            factors: parts.factors,
            log_variance: Some(log_variance),
        }
    }

    /// The Gaussian; a mean alone has no variance.
    #[doc(hidden)]
    pub fn parts(self, units: FactorUnits) -> CovarianceParts {
        CovarianceParts {
            diagonal: match self.log_variance {
                Some(log_variance) => Diagonal::LogVariance(log_variance),
                None => Diagonal::Variance(self.mean.zeros_like()),
            },
            mean: self.mean,
            factors: self.factors,
            units,
        }
    }
}

/// A running average of iterates.
#[derive(Module, Debug)]
pub(crate) struct Average {
    mean: Param<Tensor<1>>,
    factors: Option<Param<Tensor<2>>>,
    log_variance: Option<Param<Tensor<1>>>,
}

impl Average {
    /// Of iterates like this one. The first one added takes its place.
    pub(crate) fn new(like: Iterate) -> Self {
        Self {
            mean: buffer(like.mean),
            factors: like.factors.map(buffer),
            log_variance: like.log_variance.map(buffer),
        }
    }

    /// The averaged iterate.
    pub(crate) fn iterate(&self) -> Iterate {
        let factors = self.factors.as_ref();
        let log_variance = self.log_variance.as_ref();
        Iterate {
            mean: self.mean.val().without_autodiff(),
            factors: factors.map(|factors| factors.val().without_autodiff()),
            log_variance: log_variance.map(|value| value.val().without_autodiff()),
        }
    }

    /// Adds iterate number `count` (from 1) to the average, with a weight that is 1 for the first.
    pub(crate) fn with(self, current: &Iterate, count: u64, weight: f64) -> Self {
        let factors = self.factors.zip(current.factors.as_ref());
        let factors = factors.map(|(average, current)| {
            let average = match count.is_multiple_of(ALIGNED_EVERY) {
                true => updated(average, |average| match rotation(&average, current) {
                    Ok(rotation) => rotation.matmul(average),
                    Err(error) => {
                        log::warn!(
                            "the average of the factors was not aligned with the factors of iterate {count}: {error}. \
                             Its deviations may be too small."
                        );
                        average
                    }
                }),
                false => average,
            };
            approach(average, current, weight)
        });
        let log_variance = self.log_variance.zip(current.log_variance.as_ref());
        Self {
            mean: approach(self.mean, &current.mean, weight),
            factors,
            log_variance: log_variance.map(|(average, current)| approach(average, current, weight)),
        }
    }
}

/// The rotation that aligns the average with `current`.
///
/// # Errors
///
/// If a number is not finite, or the singular value decomposition does not converge.
fn rotation(average: &Tensor<2>, current: &Tensor<2>) -> Result<Tensor<2>, AlgebraError> {
    let [rank, _] = average.dims();
    let current = current.clone().to_device(&average.device());
    let overlap = to_host(inner_products(&current, average));
    let rotation = SquareMatrix::from_row_major(rank, overlap)?.nearest_orthogonal()?;
    let device = average.device();
    Ok(from_host(rotation.as_slice(), [rank, rank], &device))
}

/// average += weight · (current − average)
fn approach<const R: usize>(
    average: Param<Tensor<R>>,
    current: &Tensor<R>,
    weight: f64,
) -> Param<Tensor<R>> {
    updated(average, |average| {
        // A sharded optimiser moves parameters between devices, but not buffers.
        let current = current.clone().to_device(&average.device());
        kernels::approach(average, current, weight)
    })
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    const WEIGHTS: usize = 3;

    fn parts(factors: [[f32; WEIGHTS]; 2]) -> CovarianceParts {
        let device = Device::default();
        CovarianceParts {
            mean: Tensor::zeros([WEIGHTS], &device),
            factors: Some(Tensor::from_data(factors, &device)),
            units: FactorUnits::Weights,
            diagonal: Diagonal::LogVariance(Tensor::zeros([WEIGHTS], &device)),
        }
    }

    /// The covariance FᵀF of an average over many steps, each of which rotates the factors.
    fn covariance(angle: f32) -> Vec<f32> {
        let at = |step: u64| {
            let (sin, cos) = (angle * step as f32).sin_cos();
            let ([a, b, c], [d, e, f]) = ([1.0, 2.0, 0.5], [-1.0, 0.3, 0.7]);
            parts([
                [cos * a + sin * d, cos * b + sin * e, cos * c + sin * f],
                [cos * d - sin * a, cos * e - sin * b, cos * f - sin * c],
            ])
        };
        let mut average = Average::new(Iterate::of_gaussian(at(0)));
        for step in 1..=400 {
            let weight = Averaging::From(1).weight(step);
            average = average.with(&Iterate::of_gaussian(at(step)), step, weight);
        }
        let parts = average.iterate().parts(FactorUnits::Weights);
        let factors = parts.factors.expect("it has factors");
        let covariance = factors.clone().transpose().matmul(factors);
        covariance.into_data().iter::<f32>().collect()
    }

    #[test]
    fn factors_that_turn_keep_their_covariance() {
        for (found, expected) in covariance(0.004).iter().zip(covariance(0.0)) {
            assert!((found - expected).abs() < 2e-3, "{found} {expected}");
        }
    }

    #[test]
    fn factors_that_are_not_finite_have_no_rotation() {
        let device = Device::default();
        let average = Tensor::from_data([[1.0, 2.0, 0.5], [-1.0, 0.3, 0.7]], &device);
        let current = Tensor::from_data([[1.0, f32::NAN, 0.5], [-1.0, 0.3, 0.7]], &device);
        let error = rotation(&average, &current).unwrap_err();
        assert!(matches!(error, AlgebraError::NotFinite { .. }), "{error}");
    }
}
