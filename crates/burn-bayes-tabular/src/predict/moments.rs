//! Means and variances of predicted numbers and counts.

use burn_bayes::eval::{GaussianMixture, PoissonMixture};

/// The moments of the predictive distribution of every row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) mean: Vec<f64>,
    pub(crate) variance: Vec<f64>,
    /// The variance of the means of the draws.
    pub(crate) variance_between_draws: Vec<f64>,
}

impl Moments {
    /// Of numbers.
    pub(crate) fn of_numbers(mixture: &GaussianMixture<'_>) -> Self {
        Self {
            mean: mixture.mean(),
            variance: mixture.variance(),
            variance_between_draws: mixture.variance_between_draws(),
        }
    }

    /// Of counts.
    pub(crate) fn of_counts(mixture: &PoissonMixture<'_>) -> Self {
        Self {
            mean: mixture.mean(),
            variance: mixture.variance(),
            variance_between_draws: mixture.variance_between_draws(),
        }
    }

    /// The standard deviation of every row.
    pub(crate) fn deviations(&self) -> Vec<f64> {
        roots(&self.variance)
    }

    /// The standard deviation of the draws' means.
    pub(crate) fn epistemic_deviations(&self) -> Vec<f64> {
        roots(&self.variance_between_draws)
    }
}

fn roots(variances: &[f64]) -> Vec<f64> {
    variances.iter().map(|variance| variance.sqrt()).collect()
}
