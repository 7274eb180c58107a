//! [`Bayesian`]: a user's model and an algorithm, as one module that Burn's Learner can train.

use std::path::PathBuf;
use std::sync::Arc;

use burn::module::{Module, ModuleDisplay, ModuleVisitor, Param, ParamId};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsParams, ModuleOptimizer, MultiGradientsParams};
use burn::train::{InferenceStep, Interrupter, TrainOutput, TrainStep};
use burn_bayes_graph::{ExampleBatch, Layout};

use super::batched_training::BatchedTraining;
use super::cache::PosteriorCache;
use super::clock::Clock;
use super::deferred_step::{Deferred, DeferredStep};
use super::divergence_stop::DivergenceStop;
use super::gather::{Gather, stopped};
use super::gather_per_example::ExampleLoss;
use super::self_check::SelfCheck;
use super::training_layers::{TrainingFlag, training_flags, with_dropout};
use crate::error::{Error, Result};
use crate::likelihood::{MixDraws, MixStacked};
use crate::methods::{Algorithm, MeanGradients, Update};
use crate::posterior::Posterior;
use crate::predict::{BatchedPrediction, Predictor, RecordingCache};

/// A model and an algorithm that learns a posterior over the model's weights.
///
/// It implements Burn's [`TrainStep`] and [`InferenceStep`], so it goes where the model went: into
/// a `Learner`, with any optimiser, scheduler, metric and checkpointer; or into a loop of your own
/// that calls [`step`](TrainStep::step) and [`optimize`](TrainStep::optimize).
///
/// The wrapped model must return the **mean** negative log-likelihood as its loss. Dropout is
/// switched off, because the posterior already perturbs the weights;
/// [`with_dropout`](Self::with_dropout) brings it back. Every other layer that acts otherwise in
/// training than in inference, such as `GaussianNoise` or `RRelu`, stays as you built it, and trains as
/// it does without the wrapper. An algorithm that learns from the gradient of every example (SLANG,
/// VOGN) sees the model as in inference, where such layers do nothing. Its first step is refused while
/// one is on, with the layer's path: freeze the layer before wrapping, or take another algorithm. Batch
/// norm is the exception: it is trained with its running statistics there, which keep following the
/// batches.
///
/// The model's own [`TrainStep::optimize`] and [`optimize_multi`](TrainStep::optimize_multi) are not
/// called: a Learner calls those of the wrapper, and the random weights are the algorithm's, not the
/// model's. At the first step both are tried on a copy of the model, and a model is refused where they
/// do more than the optimiser's step. What they do only now and then, or outside the model, that trial
/// cannot show, and it is left out of the training.
#[derive(Module, Debug)]
pub struct Bayesian<M: Module, A: Algorithm> {
    model: M,
    algorithm: A,
    clock: Clock,
    posterior: PosteriorCache<A::Posterior>,
    #[module(skip)]
    deferred: DeferredStep<A::ClosedForm>,
    #[module(skip)]
    recording: RecordingCache,
    #[module(skip)]
    prediction: RecordingCache,
    #[module(skip)]
    prediction_draws: usize,
    #[module(skip)]
    divergence_stop: DivergenceStop,
    #[module(skip)]
    self_check: SelfCheck,
}

/// The path of the algorithm as an optimiser sees it.
const ALGORITHM: &str = "algorithm";

/// Steps rejected in a row after which the training stops.
pub const MAX_REJECTIONS: u32 = 10;

/// Draws that validation averages unless told otherwise.
pub const DEFAULT_PREDICTION_DRAWS: usize = 10;

/// What an optimiser maps: everything but the clock.
#[derive(Module, Debug)]
pub(crate) struct Trainable<M: Module, A: Module> {
    model: M,
    algorithm: A,
}

impl<M: Module + ModuleDisplay, A: Algorithm> Bayesian<M, A> {
    /// A model and an algorithm that was built for it.
    pub fn new(model: M, algorithm: A) -> Result<Self> {
        algorithm.setup().layout.check(&model)?;
        let device = model.devices().into_iter().next().unwrap_or_default();
        Ok(Self {
            model: with_dropout(model.train_if_plain(), false),
            algorithm,
            clock: Clock::new(&device),
            posterior: PosteriorCache::default(),
            deferred: DeferredStep::default(),
            recording: RecordingCache::default(),
            prediction: RecordingCache::default(),
            prediction_draws: DEFAULT_PREDICTION_DRAWS,
            divergence_stop: DivergenceStop::default(),
            self_check: SelfCheck::default(),
        })
    }

    /// Averages this many draws in validation.
    #[must_use]
    pub fn with_prediction_draws(mut self, draws: usize) -> Self {
        self.prediction_draws = draws.max(1);
        self
    }

    /// Leaves dropout on during training. What is recorded of a model has none, so a training
    /// [in one pass](Self::with_batched_draws) goes back to one draw after the other, and an algorithm that
    /// learns from the gradient of every example refuses its first step.
    #[must_use]
    pub fn with_dropout(mut self) -> Self {
        self.model = with_dropout(self.model, true);
        if !training_flags(&self.model)
            .iter()
            .any(TrainingFlag::is_dropout)
        {
            log::warn!(
                "with_dropout() has no effect: no layer's type has a name that ends in Dropout"
            );
        }
        self
    }

    /// Trains without checking the model.
    ///
    /// By default the first step tries out whether the model's own `optimize` is the optimiser's step,
    /// and where losses are recorded (for SLANG and VOGN, and [in one pass](Self::with_batched_draws)) the
    /// first step and the one after a hundred compare their gradient with that of the model's own step.
    /// Recordings are compared with what they are recordings of, too, at the first batches of every
    /// shape and now and then later. A mismatch stops the training. That costs a few passes in the whole
    /// training, and changes no result.
    #[must_use]
    pub fn without_self_check(mut self) -> Self {
        self.self_check = self.self_check.off();
        self
    }

    /// Stops the training through `interrupter` when a gradient is not finite, instead of
    /// panicking; [`fault`](Self::fault) then tells why.
    #[must_use]
    pub fn with_interrupter(mut self, interrupter: Interrupter) -> Self {
        self.divergence_stop = self.divergence_stop.with_interrupter(interrupter);
        self
    }

    /// Saves the last good state to this file when a gradient is not finite.
    #[must_use]
    pub fn with_rescue_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.divergence_stop = self.divergence_stop.with_rescue(path.into());
        self
    }

    /// The error that training stopped on, if it did.
    pub fn fault(&self) -> Option<Arc<Error>> {
        self.divergence_stop.fault()
    }

    /// The algorithm, with its parameters.
    pub fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// Which weights are random.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.algorithm.setup().layout
    }

    /// Optimiser steps made so far.
    pub fn steps(&self) -> u64 {
        self.clock.step()
    }

    /// The wrapped model, whose random weights are **not** those of the posterior:
    /// [`mean_model`](Self::mean_model) and [`drawn_model`](Self::drawn_model) have those.
    pub fn template(&self) -> &M {
        &self.model
    }

    /// The posterior over the weights.
    ///
    /// # Errors
    ///
    /// An algorithm that collects iterates has none before it has enough of them.
    pub fn try_posterior(&self) -> Result<A::Posterior> {
        self.posterior
            .get(|| self.algorithm.posterior(self.clock.step()))
    }

    /// The posterior over the weights.
    ///
    /// # Panics
    ///
    /// Where [`try_posterior`](Self::try_posterior) fails.
    pub fn posterior(&self) -> A::Posterior {
        self.try_posterior()
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The model with the posterior's mean as its weights, ready for inference.
    pub fn mean_model(&self) -> Result<M> {
        self.try_posterior()?.write_mean(self.model.valid())
    }

    /// The model with draw number `index` as its weights, ready for inference: the draws that
    /// validation and [`predict`](Self::predict) use are 0, 1, 2 …
    pub fn drawn_model(&self, index: u64) -> Result<M> {
        self.predictor()?.drawn_model(index)
    }

    /// The model and its posterior, ready to predict without the algorithm.
    ///
    /// # Errors
    ///
    /// Those of [`try_posterior`](Self::try_posterior).
    pub fn predictor(&self) -> Result<Predictor<M, A::Posterior>> {
        let compute = || self.algorithm.posterior(self.clock.step());
        let (posterior, sampler) = self.posterior.with_sampler(compute)?;
        let noise = self.algorithm.setup().noise.for_prediction();
        let predictor = Predictor::from_parts(self.model.valid(), posterior, sampler, noise);
        Ok(predictor.with_recordings(self.prediction.clone(), self.self_check.is_on()))
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What is checked of the model, if anything.
    pub(crate) fn self_check(&self) -> &SelfCheck {
        &self.self_check
    }

    /// What was recorded of the model, kept for later steps.
    pub(crate) fn recording<R: Send + Sync + 'static>(&self, make: impl Fn() -> R) -> Arc<R> {
        self.recording.get(make)
    }

    /// What was recorded of the model, if it is of this type.
    pub(crate) fn known_recording<R: Send + Sync + 'static>(&self) -> Option<Arc<R>> {
        self.recording.known()
    }

    /// The gradients that carry an algorithm's update to [`optimize`](TrainStep::optimize).
    ///
    /// # Errors
    ///
    /// The reason of a rejection, after [`MAX_REJECTIONS`] in a row.
    pub(crate) fn gradients_of(&self, update: Update<A::ClosedForm>) -> Result<GradientsParams> {
        let deferred = match update {
            Update::Gradients(gradients) => return Ok(gradients),
            Update::ClosedForm(update) => Deferred::Update(update),
            Update::Rejected(reason) if self.clock.rejections() >= MAX_REJECTIONS => {
                return Err(reason);
            }
            Update::Rejected(reason) => {
                if self.clock.rejections() == 0 {
                    log::warn!(
                        "{reason}; the step is left out, and those after it until a gradient is finite, \
                         at most {MAX_REJECTIONS} in a row"
                    );
                }
                Deferred::Rejection
            }
        };
        let device = self.algorithm.devices().into_iter().next();
        let device = device.unwrap_or_default().inner();
        self.deferred.put(deferred, &self.algorithm, &device)
    }

    /// Stops the training with the present parameters as the last good ones.
    pub(crate) fn stop(&self, error: Error) {
        self.divergence_stop.stop(error, self);
    }

    /// The model after an optimiser step, which may have been rejected, given how to make it.
    fn after_step<S>(
        self,
        is_rejected: bool,
        step: impl FnOnce(Trainable<M, A>) -> Trainable<M, A>,
    ) -> Self
    where
        M: TrainStep,
        A: Algorithm<Signal = S>,
        S: Gather<M, A>,
    {
        let Self {
            model,
            algorithm,
            clock,
            deferred,
            recording,
            prediction,
            prediction_draws,
            divergence_stop,
            self_check,
            ..
        } = self;
        let Trainable { model, algorithm } = step(Trainable { model, algorithm });
        let clock = clock.after_step(is_rejected);
        let algorithm = S::after_step(algorithm, &model, clock.step());
        Self {
            model,
            algorithm,
            clock,
            posterior: PosteriorCache::default(),
            deferred,
            recording,
            prediction,
            prediction_draws,
            divergence_stop,
            self_check,
        }
        .flushed()
    }

    /// Sends the work of a step on its way before another thread, a replica's, reads its results.
    ///
    /// On Burn's GPU backends every thread has a queue. What changes memory in place is queued with
    /// the thread that asks for it, but the memory stays with the thread that first made it: a
    /// replica whose gradient became the new parameter would take it for its own, and not wait.
    fn flushed(self) -> Self {
        for device in self.devices() {
            // An error of the device is the tensors' own too, and comes back when they are read.
            let _ = device.flush();
        }
        self
    }
}

impl<M, A> Bayesian<M, A>
where
    M: Module + ModuleDisplay + ExampleLoss<Input: ExampleBatch> + 'static,
    A: Algorithm<Signal = MeanGradients>,
{
    /// Gathers the gradients at all draws of a step in one forward and one backward pass, instead of a
    /// pass of the model's own step for each.
    ///
    /// The model's losses are recorded once for every shape of batch, in inference mode, and replayed
    /// with weights that have an axis of draws. That saves most of what several draws cost a small
    /// network, whose time goes into calling operations; for a large one it saves nothing, and takes
    /// the memory of all draws at once. Where it cannot be done the step is as it was, and the log
    /// says why: a layer that acts otherwise in training than in inference and is on (dropout, noise,
    /// batch norm: freeze it to keep its statistics), a loss that cannot be recorded, an operation that
    /// cannot carry draws, replicas that average their gradients. With one draw the step is as it was,
    /// too.
    #[must_use]
    pub fn with_batched_draws(mut self) -> Self {
        self.recording = RecordingCache::holding(BatchedTraining::<M>::new(self.layout().clone()));
        self
    }
}

impl<M, A> Bayesian<M, A>
where
    M: Module + ModuleDisplay + InferenceStep<Input: ExampleBatch, Output: MixStacked> + 'static,
    A: Algorithm,
{
    /// Predicts, and validates, with many draws in one forward pass instead of a pass for each.
    ///
    /// The model's inference step is recorded once for every shape of batch, and replayed with weights
    /// that have an axis of draws, as many at a time as fit a processor's cache; the weights of all
    /// draws are held at once. The draws are those of the passes one by one, and a network so large that
    /// two do not fit is still evaluated one by one, which is then the faster way. So is a model with an
    /// operation that cannot carry draws, or whose course depends on data; the log says so.
    #[must_use]
    pub fn with_batched_prediction(mut self) -> Self {
        let stacked = BatchedPrediction::<M>::new(self.layout().clone());
        self.prediction = RecordingCache::holding(stacked);
        self
    }
}

impl<M, A> Bayesian<M, A>
where
    M: Module + ModuleDisplay + InferenceStep<Input: Clone, Output: MixDraws> + 'static,
    A: Algorithm,
{
    /// The average of `draws` predictions, each with its own draw of the weights.
    ///
    /// An algorithm that has no posterior yet predicts with the model's weights alone.
    pub fn predict(
        &self,
        item: <M as InferenceStep>::Input,
        draws: usize,
    ) -> Result<<<M as InferenceStep>::Output as MixDraws>::Mixture> {
        match self.predictor() {
            Ok(predictor) => predictor.predict(item, draws),
            Err(error) if error.is_too_early() => {
                let output = InferenceStep::step(&self.model.valid(), item);
                Ok(MixDraws::mix(vec![output]))
            }
            Err(error) => Err(error),
        }
    }
}

impl<M, A> TrainStep for Bayesian<M, A>
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone, Output: MixDraws>,
    A: Algorithm,
    A::Signal: Gather<M, A>,
{
    type Input = <M as TrainStep>::Input;
    type Output = <M as TrainStep>::Output;

    fn step(&self, item: Self::Input) -> TrainOutput<Self::Output> {
        if let Err(error) = self.self_check.optimize(&self.model) {
            return stopped(self, item, error);
        }
        let output = A::Signal::step(self, item);
        let (rows, train_len) = (output.item.rows(), self.algorithm.setup().train_len);
        if rows > train_len {
            self.stop(Error::config(
                "train_len",
                format!(
                    "is {train_len}, and a batch has {rows} rows; it is the number of training \
                     examples, not of batches"
                ),
            ));
        }
        output
    }

    fn optimize(
        self,
        optim: &mut ModuleOptimizer,
        learning_rate: ModuleLearningRate,
        mut gradients: GradientsParams,
    ) -> Self {
        if self.divergence_stop.has_stopped() {
            // The parameters are the last good ones, whatever else was accumulated.
            return self;
        }
        let rate = learning_rate.lr_from_param(ParamId::new(), Some(ALGORITHM));
        let deferred = match self.deferred.take(&mut gradients) {
            Ok(deferred) => deferred,
            Err(error) => {
                self.stop(error);
                return self;
            }
        };
        let (algorithm, is_rejected) = match deferred {
            Some(Deferred::Update(update)) => (self.algorithm.apply_step(update, rate), false),
            Some(Deferred::Rejection) => (self.algorithm, true),
            None => (self.algorithm, false),
        };
        Self { algorithm, ..self }.after_step(is_rejected, |trainable| match gradients.is_empty() {
            true => trainable,
            false => optim.step(learning_rate, trainable, gradients),
        })
    }

    fn optimize_multi(
        self,
        optim: &mut ModuleOptimizer,
        learning_rate: ModuleLearningRate,
        gradients: MultiGradientsParams,
    ) -> Self {
        if self.divergence_stop.has_stopped() {
            return self;
        }
        // A closed-form update is that of one evaluation, so there must be none.
        if let Err(error) = self.deferred.take(&mut GradientsParams::new()) {
            self.stop(error);
            return self;
        }
        self.after_step(false, |trainable| {
            optim.step_multi(learning_rate, trainable, gradients)
        })
    }
}

impl<M, A> InferenceStep for Bayesian<M, A>
where
    M: Module + ModuleDisplay + InferenceStep<Input: Clone, Output: MixDraws> + 'static,
    A: Algorithm,
{
    type Input = <M as InferenceStep>::Input;
    type Output = <<M as InferenceStep>::Output as MixDraws>::Mixture;

    fn step(&self, item: Self::Input) -> Self::Output {
        self.predict(item, self.prediction_draws)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A model on a device without autodiff is brought into training mode.
trait TrainIfPlain: Module {
    fn train_if_plain(self) -> Self {
        struct IsTrained(bool);
        impl ModuleVisitor for IsTrained {
            fn visit_float<const R: usize>(&mut self, param: &Param<burn::tensor::Tensor<R>>) {
                self.0 |= param.is_autodiff();
            }
        }
        let mut trained = IsTrained(false);
        self.visit(&mut trained);
        if trained.0 { self } else { self.train() }
    }
}

impl<M: Module> TrainIfPlain for M {}
