//! The running average of a Gaussian's parameters (c, F, γ) over the tail of a training.
//!
//! With a constant step size the parameters end in a cloud around the optimum; the average of the
//! cloud is closer to it than any of its points.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_bayes_core::kernels::{CovarianceParts, Diagonal};

use crate::initial::{buffer, updated};

/// An average of the parameters of a Gaussian in covariance form.
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
    pub(crate) fn parts(&self) -> CovarianceParts {
        CovarianceParts {
            mean: self.mean.val().without_autodiff(),
            factors: self
                .factors
                .as_ref()
                .map(|factors| factors.val().without_autodiff()),
            diagonal: Diagonal::LogVariance(self.log_variance.val().without_autodiff()),
        }
    }

    /// average += weight · (current − average)
    pub(crate) fn approach(self, current: &CovarianceParts, weight: f64) -> Self {
        let Diagonal::LogVariance(log_variance) = &current.diagonal else {
            return self;
        };
        Self {
            mean: approach(self.mean, &current.mean, weight),
            factors: self
                .factors
                .zip(current.factors.as_ref())
                .map(|(average, current)| approach(average, current, weight)),
            log_variance: approach(self.log_variance, log_variance, weight),
        }
    }
}

fn approach<const R: usize>(
    average: Param<Tensor<R>>,
    current: &Tensor<R>,
    weight: f64,
) -> Param<Tensor<R>> {
    updated(average, |average| {
        // An optimiser that is sharded over devices moves parameters, but no buffers.
        let current = current.clone().to_device(&average.device());
        average.clone() + (current - average).mul_scalar(weight)
    })
}
