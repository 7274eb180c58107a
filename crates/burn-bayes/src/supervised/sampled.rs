//! Samples of [`Supervised`] models on data in memory, in one call.

use burn::module::Module;

use super::fitted::Fitted;
use super::rows::Rows;
use super::{Inputs, Supervised};
use crate::error::Result;
use crate::likelihood::Targets;
use crate::posterior::SamplePosterior;
use crate::predict::Predictor;
use crate::sampling::{Agreement, SamplingConfig, batches_of_rows};

/// Rows whose predictions are compared across chains.
const MOST_COMPARED: usize = 200;

/// A model with the samples of its weights.
pub type Sampled<M, X, Y> = Fitted<M, X, Y, SamplePosterior>;

impl SamplingConfig {
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
        let batches = batches_of_rows(rows.count()).map(|batch| rows.select(&batch));
        let batches: Vec<_> = batches.collect();
        let samples = self.sample(models, &batches)?;
        let first = &models[0];
        let every = rows.count().div_ceil(MOST_COMPARED).max(1);
        let some: Vec<usize> = (0..rows.count()).step_by(every).collect();
        let agreement = samples.agreement(first, &rows.select(&some).0)?;
        let posterior = samples.posterior()?;
        let draws = posterior.count();
        let predictor = Predictor::restore(first.clone(), posterior)?;
        Ok((Fitted::new(predictor).with_draws(draws), agreement))
    }
}
