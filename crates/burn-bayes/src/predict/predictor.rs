//! [`Predictor`]: predictions with a model and a posterior over its weights.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Tensor;
use burn::train::InferenceStep;
use burn_bayes_graph::ExampleBatch;

use super::batched_prediction::BatchedPrediction;
use super::recording::RecordingCache;
use super::statistics::refresh_running_statistics;
use super::weighted_draws::WeightedDraws;
use crate::error::{Error, Result};
use crate::likelihood::{MixDraws, MixStacked};
use crate::noise::Noise;
use crate::posterior::{FactorPosterior, Posterior, Sampler};

/// Predicts with a model and a posterior over its weights.
///
/// Create it after training by [`Bayesian::predictor`](crate::Bayesian::predictor), or from files
/// in another process:
///
/// ```
/// use burn::{module::ParamGroup, nn::{Linear, LinearConfig}, tensor::{Device, Tensor}};
/// use burn_bayes::posterior::{PointPosterior, Posterior};
/// use burn_bayes::{Noise, Predictor};
///
/// # let folder = std::env::temp_dir();
/// let device = Device::default();
/// let trained = LinearConfig::new(3, 1).init(&device);
/// let file = folder.join("burn-bayes-example.bpk");
/// PointPosterior::of(&trained, &ParamGroup::all())?.save(&file)?;
///
/// // In another program: a model of the same architecture, and the file.
/// let model = LinearConfig::new(3, 1).init(&device);
/// let posterior = PointPosterior::load(&file, &device)?;
/// let predictor = Predictor::new(model, posterior, Noise::host(0))?;
/// let input = Tensor::<2>::ones([2, 3], &device);
/// let outputs = predictor.map_draws(10, |model: &Linear| model.forward(input.clone()))?;
/// assert_eq!(outputs.len(), 10);
/// # std::fs::remove_file(file).ok();
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictor<M, P = FactorPosterior> {
    /// In inference mode.
    model: M,
    posterior: P,
    sampler: Arc<dyn Sampler>,
    noise: Noise,
    /// Draws by weight instead of in order.
    weighted: Option<Arc<WeightedDraws>>,
    batched: RecordingCache,
    is_checked: bool,
}

impl<M: Module, P: Posterior> Predictor<M, P> {
    /// Combines a model and a posterior over its weights. Draw i of a prediction uses
    /// `noise.row(i)`, or that of [its weights](Self::with_weighted_draws).
    ///
    /// # Errors
    ///
    /// The posterior is over other parameters than the model's.
    pub fn new(model: M, posterior: P, noise: Noise) -> Result<Self> {
        posterior.layout().check(&model)?;
        let sampler = posterior.sampler()?.into();
        Ok(Self::from_parts(model.valid(), posterior, sampler, noise))
    }

    /// Creates a predictor from an existing sampler and a model in inference mode.
    pub(crate) fn from_parts(
        model: M,
        posterior: P,
        sampler: Arc<dyn Sampler>,
        noise: Noise,
    ) -> Self {
        Self {
            model,
            posterior,
            sampler,
            noise,
            weighted: None,
            batched: RecordingCache::default(),
            is_checked: true,
        }
    }

    /// Predicts with draws of the posterior in proportion to `weights`, as those of an
    /// [`ImportanceTest`](crate::diagnostics::ImportanceTest): the weight number s is that of the draw with
    /// `noise.row(s)`. The draws of a prediction still have equal weights, because a draw with a large weight comes
    /// several times.
    ///
    /// # Errors
    ///
    /// If a weight is not finite or is below zero, or all are zero.
    pub fn with_weighted_draws(self, noise: Noise, weights: &[f64]) -> Result<Self> {
        let weighted = Some(Arc::new(WeightedDraws::new(noise, weights)?));
        Ok(Self { weighted, ..self })
    }

    /// The posterior.
    pub fn posterior(&self) -> &P {
        &self.posterior
    }

    /// The model with the posterior's mean as its weights.
    pub fn mean_model(&self) -> Result<M> {
        self.posterior.write_mean(self.model.clone())
    }

    /// The model with draw `index` as its weights.
    pub fn drawn_model(&self, index: u64) -> Result<M> {
        let weights = self.sampler.draw(self.noise_of(index))?;
        Ok(self.posterior.layout().write(self.model.clone(), weights)?)
    }

    fn noise_of(&self, index: u64) -> Noise {
        match &self.weighted {
            Some(weighted) => weighted.noise(index),
            None => self.noise.row(index),
        }
    }

    /// The first `count` draws, `[count, D]`.
    fn draws(&self, count: usize) -> Result<Tensor<2>> {
        if self.weighted.is_none() {
            return self.sampler.draws(self.noise, count);
        }
        let draws = (0..count as u64).map(|index| self.sampler.draw(self.noise_of(index)));
        Ok(Tensor::stack(draws.collect::<Result<_>>()?, 0))
    }

    /// The results of `evaluate` at the draws 0, 1, …, `draws` − 1.
    pub fn map_draws<T>(&self, draws: usize, mut evaluate: impl FnMut(&M) -> T) -> Result<Vec<T>> {
        (0..draws as u64)
            .map(|index| Ok(evaluate(&self.drawn_model(index)?)))
            .collect()
    }

    /// Recomputes the running statistics of batch norm at the posterior mean from these
    /// mini-batches; see [`refresh_running_statistics`].
    pub fn with_refreshed_statistics<B, T>(
        self,
        batches: impl IntoIterator<Item = B>,
        forward: impl FnMut(&M, &B) -> T,
    ) -> Result<Self> {
        let model = refresh_running_statistics(&self.mean_model()?, batches, forward)?;
        Ok(Self { model, ..self })
    }

    pub(crate) fn with_recordings(self, batched: RecordingCache, is_checked: bool) -> Self {
        Self {
            batched,
            is_checked,
            ..self
        }
    }
}

impl<M, P> Predictor<M, P>
where
    M: Module + InferenceStep<Input: ExampleBatch, Output: MixStacked> + 'static,
    P: Posterior,
{
    /// Evaluates many draws in one forward pass instead of one pass per draw, if that is faster.
    ///
    /// The model's inference step is recorded once for every mini-batch shape, and replayed with
    /// weights that have an additional axis of draws, as many at a time as fit into the processor's
    /// cache; the weights of all draws are in memory at once. The draws are the same as with one
    /// pass per draw. The model is evaluated with one pass per draw if it is so large that two
    /// draws do not fit into the cache, because this is then faster, or if it has an operation
    /// without a batched form; the log says so.
    #[must_use]
    pub fn with_batched_draws(mut self) -> Self {
        let layout = self.posterior.layout().clone();
        self.batched = RecordingCache::holding(BatchedPrediction::<M>::new(layout));
        self
    }
}

impl<M, P> Predictor<M, P>
where
    M: Module + InferenceStep<Input: Clone, Output: MixDraws> + 'static,
    P: Posterior,
{
    /// The average of `draws` predictions, each with a different draw of the weights.
    ///
    /// # Errors
    ///
    /// If `draws` is 0, or a draw fails.
    pub fn predict(
        &self,
        batch: <M as InferenceStep>::Input,
        draws: usize,
    ) -> Result<<<M as InferenceStep>::Output as MixDraws>::Mixture> {
        if draws == 0 {
            return Err(Error::config("draws", "is 0; it must be at least 1"));
        }
        if let Some(batched) = self.batched.known::<BatchedPrediction<M>>() {
            let all = || self.draws(draws);
            let mixture = batched.mixture(&self.model, &all, &batch, self.is_checked)?;
            if let Some(mixture) = mixture {
                return Ok(mixture);
            }
        }
        let step = |model: &M| InferenceStep::step(model, batch.clone());
        Ok(MixDraws::mix(self.map_draws(draws, step)?))
    }
}
