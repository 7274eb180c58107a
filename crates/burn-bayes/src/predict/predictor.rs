//! [`Predictor`]: predictions with a model and a posterior over its weights.

use std::ops::Range;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Tensor;
use burn::train::{InferenceStep, ItemLazy};
use burn_bayes_graph::{CapturedForward, ExampleBatch};

use super::batched_prediction::{BatchedPrediction, Draws, outputs};
use super::dropout::PredictionDropout;
use super::recording::RecordingCache;
use super::statistics::refresh_running_statistics;
use super::weighted_draws::WeightedDraws;
use crate::error::{Error, Result};
use crate::likelihood::{MixDraws, MixStacked};
use crate::methods::checks::counts;
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
/// use burn_bayes::Predictor;
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
/// let predictor = Predictor::restore(model, posterior)?;
/// let input = Tensor::<2>::ones([2, 3], &device);
/// let outputs = predictor.map_draws(10, |model: &Linear| model.forward(input.clone()))?;
/// assert_eq!(outputs.len(), 10);
/// # std::fs::remove_file(file).ok();
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictor<M, P = FactorPosterior> {
    /// In inference mode, with the state that all draws share.
    model: M,
    /// Whether the draws have different states of the model, as those of the components of a mixture.
    has_own_states: bool,
    posterior: P,
    sampler: Arc<dyn Sampler>,
    noise: Noise,
    /// Draws by weight instead of in order.
    weighted: Option<Arc<WeightedDraws>>,
    dropout: Option<PredictionDropout>,
    batched: RecordingCache,
    is_checked: bool,
}

impl<M: Module, P: Posterior> Predictor<M, P> {
    /// Combines a model and a posterior over its weights. Draw i of a prediction uses
    /// `noise.row(i)`, or that of [its weights](Self::with_weighted_draws).
    ///
    /// The model gets the [state](crate::posterior::ModelState) of the posterior: parameters that are point estimates, and
    /// running statistics. Each draw of a mixture has the state of its component.
    ///
    /// # Errors
    ///
    /// The posterior is over other parameters than the model's, or the model has other parameters outside the posterior. If
    /// the posterior was read from a file: the model has other settings, or the file has no state and the model has one.
    pub fn new(model: M, posterior: P, noise: Noise) -> Result<Self> {
        posterior.layout().check(&model)?;
        let state = match posterior.shared_state() {
            Some(state) => state,
            None => posterior.state(noise)?,
        };
        state.check(&model, posterior.layout())?;
        let model = state.write(model.valid())?;
        let sampler = posterior.sampler()?.into();
        Ok(Self::from_parts(model, posterior, sampler, noise))
    }

    /// Combines a model and a posterior, with the noise of the training: the predictions are those of
    /// [`Bayesian::predictor`](crate::Bayesian::predictor) in the program that trained, also if the posterior comes from a
    /// file. A posterior that no training made, such as a deep ensemble, has the noise `Noise::new(0).for_prediction()`.
    ///
    /// # Errors
    ///
    /// Those of [`new`](Self::new).
    pub fn restore(model: M, posterior: P) -> Result<Self> {
        let any = Noise::new(0).for_prediction();
        let noise = posterior.state(any)?.noise().unwrap_or(any);
        Self::new(model, posterior, noise)
    }

    /// Creates a predictor from an existing sampler and a model in inference mode, which has the state that all draws
    /// share.
    pub(crate) fn from_parts(
        model: M,
        posterior: P,
        sampler: Arc<dyn Sampler>,
        noise: Noise,
    ) -> Self {
        Self {
            model,
            has_own_states: posterior.shared_state().is_none(),
            posterior,
            sampler,
            noise,
            weighted: None,
            dropout: None,
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

    /// The same predictor with the posterior as one of several forms.
    pub(crate) fn with_any_form<Q: From<P>>(self) -> Predictor<M, Q> {
        Predictor {
            model: self.model,
            has_own_states: self.has_own_states,
            posterior: self.posterior.into(),
            sampler: self.sampler,
            noise: self.noise,
            weighted: self.weighted,
            dropout: self.dropout,
            batched: self.batched,
            is_checked: self.is_checked,
        }
    }

    /// The model, with the state that all draws share, and any weights.
    pub(crate) fn model(&self) -> &M {
        &self.model
    }

    /// The noise of the draws.
    pub(super) fn noise(&self) -> Noise {
        self.noise
    }

    /// Whether every draw has masks of dropout.
    pub(super) fn has_dropout(&self) -> bool {
        self.dropout.is_some()
    }

    /// The posterior.
    pub fn posterior(&self) -> &P {
        &self.posterior
    }

    /// The model with the posterior's mean as its weights.
    pub fn mean_model(&self) -> Result<M> {
        self.posterior.write_mean(self.model.clone())
    }

    /// The model with draw `index` as its weights. [With dropout](Self::with_dropout), its masks are random;
    /// [`map_draws`](Self::map_draws) seeds them.
    pub fn drawn_model(&self, index: u64) -> Result<M> {
        let noise = self.noise_of(index);
        let weights = self.sampler.draw(noise)?;
        let model = match self.has_own_states {
            true => self.posterior.state(noise)?.write(self.model.clone())?,
            false => self.model.clone(),
        };
        let model = self.posterior.layout().write(model, weights)?;
        Ok(match self.dropout {
            Some(_) => PredictionDropout::activated(model),
            None => model,
        })
    }

    fn noise_of(&self, index: u64) -> Noise {
        match &self.weighted {
            Some(weighted) => weighted.noise(index),
            None => self.noise.row(index),
        }
    }

    /// The draws of these numbers, `[draws, D]`.
    fn draws(&self, numbers: Range<usize>) -> Result<Tensor<2>> {
        if self.weighted.is_none() && numbers.start == 0 {
            return self.sampler.draws(self.noise, numbers.end);
        }
        let numbers = numbers.map(|index| self.sampler.draw(self.noise_of(index as u64)));
        Ok(Tensor::stack(numbers.collect::<Result<_>>()?, 0))
    }

    /// The outputs of `forward`, a recording of the model, at the draws 0, 1, …, `draws` − 1, `[draws, rows, outputs]`. `None` if
    /// [`map_draws`](Self::map_draws) is faster or the only possibility.
    pub(crate) fn captured_outputs<B: ExampleBatch>(
        &self,
        forward: &CapturedForward<M, B>,
        batch: &B,
        draws: usize,
    ) -> Result<Option<Tensor<3>>> {
        if self.has_own_states || self.dropout.is_some() {
            return Ok(None);
        }
        let make = &|numbers| self.draws(numbers);
        outputs(forward, &self.model, batch, &Draws { count: draws, make })
    }

    /// The results of `evaluate` at the draws 0, 1, …, `draws` − 1. [With dropout](Self::with_dropout), its inputs
    /// must be on an autodiff device, because Burn's dropout is active on such devices only.
    pub fn map_draws<T>(&self, draws: usize, mut evaluate: impl FnMut(&M) -> T) -> Result<Vec<T>> {
        let result = |index| {
            let model = self.drawn_model(index)?;
            Ok(match &self.dropout {
                Some(dropout) => dropout.masked(&model, index, &mut evaluate),
                None => evaluate(&model),
            })
        };
        (0..draws as u64).map(result).collect()
    }

    /// Recomputes the running statistics of batch norm at the posterior mean, or at that of every component of a
    /// mixture, from these mini-batches; see [`refresh_running_statistics`]. They become part of the
    /// [posterior](Self::posterior), and of its file.
    ///
    /// # Errors
    ///
    /// Those of [`refresh_running_statistics`]; also if a component cannot be read.
    pub fn with_refreshed_statistics<B, T>(
        self,
        batches: impl IntoIterator<Item = B>,
        mut forward: impl FnMut(&M, &B) -> T,
    ) -> Result<Self> {
        let batches: Vec<B> = batches.into_iter().collect();
        let mut refresh = |model: M| {
            refresh_running_statistics(&model, &batches, |model, batch| forward(model, *batch))
        };
        let posterior = self.posterior.map_states(&self.model, &mut refresh)?;
        let model = match posterior.shared_state() {
            Some(state) => state.write(self.model)?,
            None => self.model,
        };
        let has_own_states = posterior.shared_state().is_none();
        Ok(Self {
            model,
            posterior,
            has_own_states,
            ..self
        })
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
    M: Module + InferenceStep<Input: ExampleBatch> + 'static,
    P: Posterior,
{
    /// Predicts with dropout: every draw has its own masks, and all other layers behave as in inference. With a
    /// [`PointPosterior`](crate::posterior::PointPosterior), this is Monte Carlo dropout; with another posterior,
    /// the weights are random as well. Each draw has its own forward pass.
    ///
    /// The masks of draw i are a function of the noise, of i and of the shape of the batch. They come from the device's
    /// generator, which is seeded for every draw: another thread that uses the same generator at the same time can change
    /// them, and a later use of the generator is no longer that of your own seed.
    ///
    /// ```
    /// # use burn::module::{Module, ParamGroup};
    /// # use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
    /// # use burn::tensor::{Device, Tensor};
    /// # use burn::train::{InferenceStep, RegressionOutput};
    /// use burn_bayes::posterior::PointPosterior;
    /// use burn_bayes::{Noise, Predictor};
    /// # #[derive(Module, Debug)]
    /// # struct Net { dropout: Dropout, layer: Linear }
    /// # impl InferenceStep for Net {
    /// #     type Input = (Tensor<2>, Tensor<2>);
    /// #     type Output = RegressionOutput;
    /// #     fn step(&self, (inputs, targets): Self::Input) -> RegressionOutput {
    /// #         let outputs = self.layer.forward(self.dropout.forward(inputs));
    /// #         let loss = (outputs.clone() - targets.clone()).square().mean();
    /// #         RegressionOutput::new(loss, outputs, targets)
    /// #     }
    /// # }
    /// # let device = Device::default();
    /// # let dropout = DropoutConfig::new(0.5).init();
    /// # let trained = Net { dropout, layer: LinearConfig::new(3, 1).init(&device) };
    /// # let batch = (Tensor::ones([4, 3], &device), Tensor::zeros([4, 1], &device));
    ///
    /// let weights = PointPosterior::of(&trained, &ParamGroup::all())?;
    /// let predictor = Predictor::new(trained, weights, Noise::new(0))?.with_dropout()?;
    /// let mixture = predictor.predict(batch, 100)?;
    /// # Ok::<(), burn_bayes::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the model has no dropout.
    pub fn with_dropout(self) -> Result<Self> {
        let dropout = PredictionDropout::new::<M, M::Input>(&self.model, self.noise)?;
        Ok(Self {
            dropout: Some(dropout),
            ..self
        })
    }
}

impl<M, P> Predictor<M, P>
where
    M: Module + InferenceStep<Input: ExampleBatch, Output: MixStacked> + 'static,
    P: Posterior,
{
    /// Evaluates many draws in one forward pass instead of one pass per draw, if that is faster.
    ///
    /// The model's inference step is recorded once for every mini-batch shape. On the CPU it is compiled. Elsewhere it is replayed
    /// with weights that have an additional axis of draws, as many at a time as fit into the processor's
    /// cache. What the draws have in common, such as the layers before the last, is computed once. The draws are the same as with
    /// one pass per draw. The model is evaluated with one pass per draw if it is so large that two
    /// draws do not fit into the cache, because this is then faster, or if it has an operation
    /// without a batched form; the log says so. A prediction [with dropout](Self::with_dropout) has one pass per draw.
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
        counts([("draws", draws)])?;
        if let Some(dropout) = &self.dropout {
            let batch = dropout.with_autodiff(batch);
            let step = |model: &M| InferenceStep::step(model, batch.clone());
            let mixture = MixDraws::mix(self.map_draws(draws, step)?);
            let failed = |error| Error::numerical(format!("the device failed: {error}"));
            // Without autodiff.
            return mixture.sync().map_err(failed);
        }
        if !self.has_own_states
            && let Some(batched) = self.batched.known::<BatchedPrediction<M>>()
        {
            let make = &|numbers| self.draws(numbers);
            let draws = Draws { count: draws, make };
            let mixture = batched.mixture(&self.model, &draws, &batch, self.is_checked)?;
            if let Some(mixture) = mixture {
                return Ok(mixture);
            }
        }
        let step = |model: &M| InferenceStep::step(model, batch.clone());
        Ok(MixDraws::mix(self.map_draws(draws, step)?))
    }
}
