//! The running average of a Gaussian's parameters (c, F, γ) over the last part of training.
//!
//! With a constant learning rate the parameters fluctuate around the optimum; their average is
//! closer to it than a single iterate.
//!
//! F and R F have the same covariance FᵀF for every rotation R, so gradient noise rotates the
//! factors, and an average of rotated factors is too short. Therefore the average is first aligned
//! with the current factors by orthogonal Procrustes: R is the orthogonal factor of F F̄ᵀ.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::start::{buffer, updated};
use crate::algebra::SquareMatrix;
use crate::kernels::{CovarianceParts, Diagonal, FactorUnits};

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
    /// The number of iterates in the average after `step` steps; the second stage began after step
    /// `second_stage`, if it has.
    pub(crate) fn count(self, second_stage: Option<u64>, step: u64) -> u64 {
        match self {
            Self::None => 0,
            Self::From(from) => (step + 1).saturating_sub(from.max(1)),
            Self::Recent => second_stage.map_or(0, |end| step.saturating_sub(end)),
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
const TURNED_EVERY: u64 = 8;

/// A running average of the parameters of a Gaussian in covariance form.
#[derive(Module, Debug)]
pub(crate) struct Average {
    mean: Param<Tensor<1>>,
    factors: Option<Param<Tensor<2>>>,
    log_variance: Param<Tensor<1>>,
}

impl Average {
    /// Starts at `mean`, `factors` and log-variances.
    pub(crate) fn new(
        mean: Tensor<1>,
        factors: Option<Tensor<2>>,
        log_variance: Tensor<1>,
    ) -> Self {
        Self {
            mean: buffer(mean),
            factors: factors.map(buffer),
            log_variance: buffer(log_variance),
        }
    }

    /// The averaged parameters.
    pub(crate) fn parts(&self, units: FactorUnits) -> CovarianceParts {
        CovarianceParts {
            mean: self.mean.val().without_autodiff(),
            factors: self
                .factors
                .as_ref()
                .map(|factors| factors.val().without_autodiff()),
            units,
            diagonal: Diagonal::LogVariance(self.log_variance.val().without_autodiff()),
        }
    }

    /// Adds the `count`-th set of parameters (from 1) to the average, with a weight that is 1 for the
    /// first.
    pub(crate) fn with(self, current: &CovarianceParts, count: u64, weight: f64) -> Self {
        let Diagonal::LogVariance(log_variance) = &current.diagonal else {
            return self;
        };
        let factors = self.factors.zip(current.factors.as_ref());
        let factors = factors.map(|(average, current)| {
            let average = match count.is_multiple_of(TURNED_EVERY) {
                true => updated(average, |average| turned(average, current)),
                false => average,
            };
            approach(average, current, weight)
        });
        Self {
            mean: approach(self.mean, &current.mean, weight),
            factors,
            log_variance: approach(self.log_variance, log_variance, weight),
        }
    }
}

/// The average, rotated to align with `current`.
fn turned(average: Tensor<2>, current: &Tensor<2>) -> Tensor<2> {
    let [rank, _] = average.dims();
    let current = current.clone().to_device(&average.device());
    let overlap = current.matmul(average.clone().transpose()).into_data();
    let rotation = SquareMatrix::from_row_major(rank, overlap.iter::<f64>().collect())
        .and_then(|overlap| overlap.nearest_orthogonal());
    // Numbers that are not finite are reported by the check of the gradient.
    let Ok(rotation) = rotation else {
        return average;
    };
    let values: Vec<f32> = rotation.as_slice().iter().map(|&v| v as f32).collect();
    let rotation = Tensor::from_data(TensorData::new(values, [rank, rank]), &average.device());
    rotation.matmul(average)
}

/// average += weight · (current − average)
/// The average after `current`, which has this weight.
pub(super) fn approach<const R: usize>(
    average: Param<Tensor<R>>,
    current: &Tensor<R>,
    weight: f64,
) -> Param<Tensor<R>> {
    updated(average, |average| {
        // A sharded optimiser moves parameters between devices, but not buffers.
        let current = current.clone().to_device(&average.device());
        average.clone() + (current - average).mul_scalar(weight)
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
        let start = at(0);
        let factors = start.factors.clone();
        let mut average = Average::new(
            start.mean,
            factors,
            Tensor::zeros([WEIGHTS], &Device::default()),
        );
        for step in 1..=400 {
            average = average.with(&at(step), step, Averaging::From(1).weight(step));
        }
        let factors = average
            .parts(FactorUnits::Weights)
            .factors
            .expect("it has factors");
        let covariance = factors.clone().transpose().matmul(factors);
        covariance.into_data().iter::<f32>().collect()
    }

    #[test]
    fn factors_that_turn_keep_their_covariance() {
        for (found, expected) in covariance(0.004).iter().zip(covariance(0.0)) {
            assert!((found - expected).abs() < 2e-3, "{found} {expected}");
        }
    }
}
