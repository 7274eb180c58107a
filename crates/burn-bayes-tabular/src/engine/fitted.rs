//! A fit as its tests see it.

use burn_bayes::{FactorPosterior, Prior};

use super::TrainedModel;
use super::prior::prior;
use crate::error::Result;
use crate::network::Network;
use crate::rows::TrainingSet;
use crate::settings::{FitSettings, Method};

/// A fit with a posterior, and what it was fitted to.
pub(super) struct Fit<'a> {
    pub(super) training_set: &'a TrainingSet,
    pub(super) settings: &'a FitSettings,
    /// On the device of the training.
    pub(super) network: Network,
    pub(super) prior: Prior,
    pub(super) posterior: &'a FactorPosterior,
}

impl<'a> Fit<'a> {
    /// `None` for a point estimate, and for a posterior of the linearised network.
    pub(super) fn of(
        training_set: &'a TrainingSet,
        settings: &'a FitSettings,
        model: &'a TrainedModel,
    ) -> Result<Option<Self>> {
        let is_linearised = settings.method == Method::Laplace && !settings.is_linear();
        let Some(posterior) = model.posterior().filter(|_| !is_linearised) else {
            return Ok(None);
        };
        let device = settings.device.device()?.autodiff();
        Ok(Some(Self {
            training_set,
            settings,
            network: training_set.network(settings, model.noise_precisions(), &device),
            prior: prior(settings, model.learned_prior.as_deref()),
            posterior,
        }))
    }
}
