//! Samples of [`Supervised`] models on data in memory, in one call.

use burn::module::Module;

use super::fitted::Fitted;
use super::rows::Rows;
use super::{Inputs, Supervised};
use crate::error::Result;
use crate::likelihood::Targets;
use crate::posterior::SamplePosterior;
use crate::predict::Predictor;
use crate::sampling::{Agreement, MclmcConfig};

/// Rows that are evaluated at once.
const ROWS_AT_ONCE: usize = 4096;
/// Rows whose predictions are compared across chains.
const MOST_COMPARED: usize = 200;

/// A model with the samples of its weights.
pub type Sampled<M, X, Y> = Fitted<M, X, Y, SamplePosterior>;

impl MclmcConfig {
    /// Samples the posterior of models that differ only in their weights, where the chains start, on these inputs and
    /// targets: the model that predicts with all samples, and whether the chains agree about rows of the data, as
    /// [`Samples::agreement`](crate::sampling::Samples::agreement) does.
    ///
    /// # Errors
    ///
    /// If the data have values that are not finite, or other numbers of inputs than of targets; those of
    /// [`sample`](Self::sample).
    pub fn fit<M, X, Y>(
        &self,
        models: &[Supervised<M, X, Y>],
        data: (X, Y),
    ) -> Result<(Sampled<M, X, Y>, Option<Agreement>)>
    where
        M: Module + 'static,
        X: Inputs,
        Y: Targets,
    {
        let first = models.first();
        let device = first.and_then(|model| model.devices().into_iter().next());
        let device = device.unwrap_or_default();
        let rows = Rows::new(data, &device)?;
        let all: Vec<usize> = (0..rows.count()).collect();
        let batches: Vec<_> = all
            .chunks(ROWS_AT_ONCE)
            .map(|chunk| rows.select(chunk))
            .collect();
        let samples = self.sample(models, &batches)?;
        let first = &models[0];
        let every = all.len().div_ceil(MOST_COMPARED).max(1);
        let some: Vec<usize> = all.into_iter().step_by(every).collect();
        let agreement = samples.agreement(first, &rows.select(&some).0)?;
        let posterior = samples.posterior()?;
        let draws = posterior.count();
        let predictor = Predictor::restore(first.clone(), posterior)?;
        Ok((Fitted::new(predictor).with_draws(draws), agreement))
    }
}
