//! The posterior over the weights of a network, in one of its forms.

use std::path::Path;

use burn_bayes::posterior::{Posterior, SamplePosterior};
use burn_bayes::{FactorPosterior, Noise, Predictor, Result};

use crate::network::Network;

/// A posterior over the weights.
#[derive(Clone, Debug)]
pub(crate) enum WeightPosterior {
    /// A Gaussian.
    Gaussian(FactorPosterior),
    /// Samples with equal weights.
    Samples(SamplePosterior),
}

impl From<FactorPosterior> for WeightPosterior {
    fn from(posterior: FactorPosterior) -> Self {
        Self::Gaussian(posterior)
    }
}

/// A network with one.
#[derive(Clone, Debug)]
pub(super) enum WeightPredictor {
    Gaussian(Predictor<Network>),
    Samples(Predictor<Network, SamplePosterior>),
}

impl WeightPredictor {
    pub(super) fn new(network: &Network, posterior: WeightPosterior, noise: Noise) -> Result<Self> {
        fn predictor<P: Posterior>(
            network: &Network,
            posterior: P,
            noise: Noise,
        ) -> Result<Predictor<Network, P>> {
            // The run has the noise precisions, so the settings of this network are right, not those of the training.
            let posterior = posterior.with_model_state(network)?;
            Predictor::new(network.clone(), posterior, noise)
        }
        Ok(match posterior {
            WeightPosterior::Gaussian(posterior) => {
                Self::Gaussian(predictor(network, posterior, noise)?)
            }
            WeightPosterior::Samples(posterior) => {
                Self::Samples(predictor(network, posterior, noise)?)
            }
        })
    }

    /// See [`Predictor::with_weighted_draws`].
    pub(super) fn with_weighted_draws(self, noise: Noise, weights: &[f64]) -> Result<Self> {
        Ok(match self {
            Self::Gaussian(predictor) => {
                Self::Gaussian(predictor.with_weighted_draws(noise, weights)?)
            }
            Self::Samples(predictor) => {
                Self::Samples(predictor.with_weighted_draws(noise, weights)?)
            }
        })
    }

    /// See [`Predictor::map_draws`].
    pub(super) fn map_draws<T>(
        &self,
        draws: usize,
        evaluate: impl FnMut(&Network) -> T,
    ) -> Result<Vec<T>> {
        match self {
            Self::Gaussian(predictor) => predictor.map_draws(draws, evaluate),
            Self::Samples(predictor) => predictor.map_draws(draws, evaluate),
        }
    }

    /// See [`Predictor::drawn_model`].
    pub(super) fn drawn_model(&self, draw: u64) -> Result<Network> {
        match self {
            Self::Gaussian(predictor) => predictor.drawn_model(draw),
            Self::Samples(predictor) => predictor.drawn_model(draw),
        }
    }

    /// Saves the posterior.
    pub(super) fn save(&self, path: &Path) -> Result<()> {
        match self {
            Self::Gaussian(predictor) => predictor.posterior().save(path),
            Self::Samples(predictor) => predictor.posterior().save(path),
        }
    }
}
