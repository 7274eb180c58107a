//! The distributions of predicted numbers and counts.

use burn_bayes::eval::{
    CountMixture, GaussianMixture, MemberDisagreement, PredictionIntervals, TargetedCounts,
    TargetedMixture, log_densities, log_probabilities, quantiles,
};

use crate::error::Result;

/// The predictive distribution of every row: a mixture over draws.
#[derive(Debug)]
pub(crate) enum NumberMixture<'a> {
    /// Of numbers.
    Gaussian(GaussianMixture<'a>),
    /// Of counts.
    Counts(CountMixture<'a>),
}

impl NumberMixture<'_> {
    pub(crate) fn mean(&self) -> Vec<f64> {
        match self {
            Self::Gaussian(mixture) => mixture.mean(),
            Self::Counts(mixture) => mixture.mean(),
        }
    }

    pub(crate) fn moments(&self) -> Moments {
        let (variance, variance_between_draws) = match self {
            Self::Gaussian(mixture) => (mixture.variance(), mixture.variance_between_draws()),
            Self::Counts(mixture) => (mixture.variance(), mixture.variance_between_draws()),
        };
        Moments {
            mean: self.mean(),
            variance,
            variance_between_draws,
            least: match self {
                Self::Gaussian(_) => None,
                Self::Counts(_) => Some(0.0),
            },
        }
    }

    pub(crate) fn quantiles(&self, level: f64) -> Result<Vec<f64>> {
        Ok(match self {
            Self::Gaussian(mixture) => quantiles(mixture, level)?,
            Self::Counts(mixture) => mixture.quantiles(level)?,
        })
    }

    pub(crate) fn central_intervals(&self, level: f64) -> Result<PredictionIntervals<'static>> {
        Ok(match self {
            Self::Gaussian(mixture) => PredictionIntervals::central(mixture, level)?,
            Self::Counts(mixture) => mixture.central_intervals(level)?,
        })
    }

    /// The negative log-likelihood of the target of every row, in nats.
    pub(crate) fn costs(&self, targets: &[f64]) -> Result<Vec<f64>> {
        let logarithms = match self {
            Self::Gaussian(mixture) => log_densities(&TargetedMixture::new(mixture, targets)?),
            Self::Counts(mixture) => log_probabilities(&TargetedCounts::new(mixture, targets)?),
        };
        Ok(logarithms.into_iter().map(|log| -log).collect())
    }

    /// The variance between draws in two parts, with the member of each draw.
    pub(crate) fn parts(&self, members: &[usize]) -> Result<MemberDisagreement> {
        Ok(match self {
            Self::Gaussian(mixture) => MemberDisagreement::of_means(mixture, members)?,
            Self::Counts(mixture) => MemberDisagreement::of_rates(mixture, members)?,
        })
    }
}

/// The moments of the predictive distribution of every row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    pub(crate) mean: Vec<f64>,
    pub(crate) variance: Vec<f64>,
    /// The variance of the means of the draws.
    pub(crate) variance_between_draws: Vec<f64>,
    /// The least target that there can be, if there is one.
    pub(crate) least: Option<f64>,
}

impl Moments {
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
