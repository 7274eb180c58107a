//! [`Bayesian`]: a user's model and an algorithm, as one module that Burn's Learner can train.

mod steps;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use burn::module::{Module, ModuleDisplay, ModuleVisitor, Param, ParamGroup};
use burn::optim::{GradAdaptor, GradientsParams};
use burn::train::{InferenceStep, Interrupter};
use burn_bayes_graph::{ExampleBatch, Layout, has_tied, module_device, retied};

use super::batched_training::BatchedTraining;
use super::cache::PosteriorCache;
use super::clock::{Clock, Identity, PriorHash};
use super::deferred_step::{Deferred, DeferredStep};
use super::divergence_stop::DivergenceStop;
use super::example_loss::ExampleLoss;
use super::model_terms::ModelTerms;
use super::notices::{Notice, RowsSeen, warn_about_dropout};
use super::self_check::SelfCheck;
use super::validation_check::ValidationCheck;
use crate::error::{Error, Result};
use crate::likelihood::{MixDraws, MixStacked};
use crate::methods::{Algorithm, Setup, Stage, Update};
use crate::posterior::{FactorPosterior, ModelState, Posterior, unshared};
use crate::predict::{
    BatchedPrediction, Predictor, RecordingCache, TrainingFlag, has_batch_norm, training_flags,
    with_dropout, without_batch_norm,
};
use crate::prior::Prior;
use crate::verdict::Verdict;

/// A model and an algorithm that learns a posterior over the model's weights.
///
/// It implements Burn's [`TrainStep`](burn::train::TrainStep) and [`InferenceStep`], so it replaces the model in a
/// `Learner`, with any optimiser, scheduler, metric and checkpointer, or in a custom training loop
/// that calls [`step`](burn::train::TrainStep::step) and [`optimize`](burn::train::TrainStep::optimize).
///
/// The wrapped model must return the **mean** negative log-likelihood as its loss. Where training steps
/// evaluate draws of the weights, dropout is switched off, because these already perturb the weights, and the log names
/// the layers; [`with_dropout`](Self::with_dropout) switches it on. It stays on in the ordinary steps of SWAG, factor
/// analysis, iterate averaging, SGHMC, SGLD and batch ensembles. Other layers that behave differently in
/// training and inference, such as `GaussianNoise` or `RRelu`, are unchanged and train as they do
/// without the wrapper. Algorithms that use per-example gradients (SLANG, VOGN) evaluate the model
/// in inference mode, in which such layers do nothing. Their first step therefore fails if such a
/// layer is active, and the error names its path: freeze the layer before wrapping, or use another
/// algorithm. Batch norm is an exception: these algorithms use its running statistics. With all
/// algorithms that train in stages, these are updated from the mini-batches in the first stage, and
/// stay as they are in the later ones; in a single stage they are updated to the end.
///
/// The model's own [`TrainStep::optimize`](burn::train::TrainStep::optimize) and [`optimize_multi`](burn::train::TrainStep::optimize_multi) are
/// not called: a Learner calls those of the wrapper, and the random weights belong to the
/// algorithm. The first step runs both on a copy of the model and fails if they do more than the
/// optimiser's step. This check does not detect effects that occur only at some steps or outside
/// the model; such effects are missing from the training.
#[derive(Module, Debug)]
pub struct Bayesian<M: Module, A: Algorithm> {
    model: M,
    algorithm: A,
    clock: Clock,
    posterior: PosteriorCache<A::Posterior>,
    #[module(skip)]
    deferred: DeferredStep<A::ClosedForm>,
    /// The mean loss, for algorithms that learn from its gradients.
    #[module(skip)]
    mean_loss: RecordingCache,
    /// The losses of examples, for those that learn from the gradient of each.
    #[module(skip)]
    example_losses: RecordingCache,
    #[module(skip)]
    prediction: RecordingCache,
    #[module(skip)]
    prediction_draws: usize,
    #[module(skip)]
    divergence_stop: DivergenceStop,
    #[module(skip)]
    self_check: SelfCheck,
    /// Whether the model has batch norm in training mode.
    #[module(skip)]
    has_batch_norm: bool,
    /// Whether all trained parameters of the model are in the layout.
    #[module(skip)]
    is_everything: bool,
    /// Whether the model has one parameter at several paths.
    #[module(skip)]
    is_tied: bool,
    /// The parameters before batch norm, once the first step has found them.
    #[module(skip)]
    scale_free: Arc<OnceLock<Vec<String>>>,
    #[module(skip)]
    rows_seen: RowsSeen,
    #[module(skip)]
    early_notice: Notice,
    #[module(skip)]
    validation_check: ValidationCheck,
    #[module(skip)]
    model_terms: ModelTerms,
}

/// Number of consecutive rejected steps after which training stops.
pub const MAX_REJECTIONS: u32 = 10;

/// Default number of draws averaged in validation.
#[doc(hidden)]
pub const DEFAULT_PREDICTION_DRAWS: usize = 10;

impl<M: Module + ModuleDisplay, A: Algorithm> Bayesian<M, A> {
    /// Wraps a model and an algorithm that was built for it.
    pub fn new(model: M, algorithm: A) -> Result<Self> {
        algorithm.setup().layout.check(&model)?;
        let device = module_device(&model);
        // Clones of the model may be trained too.
        let model = unshared(train_if_plain(model));
        let is_tied = has_tied(&model);
        let model = match is_tied {
            true => retied(model),
            false => model,
        };
        let identity = Identity::of(algorithm.setup(), &model);
        let flags = training_flags(&model);
        let model = match algorithm.perturbs_weights() {
            true => {
                warn_about_dropout(&flags);
                with_dropout(model, false)
            }
            false => model,
        };
        Ok(Self {
            has_batch_norm: has_batch_norm(&flags),
            is_everything: is_everything(&model, &algorithm.setup().layout),
            is_tied,
            scale_free: Arc::default(),
            rows_seen: RowsSeen::default(),
            early_notice: Notice::default(),
            model,
            algorithm,
            clock: Clock::start(identity, &device),
            posterior: PosteriorCache::default(),
            deferred: DeferredStep::default(),
            mean_loss: RecordingCache::default(),
            example_losses: RecordingCache::default(),
            prediction: RecordingCache::default(),
            prediction_draws: DEFAULT_PREDICTION_DRAWS,
            divergence_stop: DivergenceStop::default(),
            self_check: SelfCheck::default(),
            validation_check: ValidationCheck::default(),
            model_terms: ModelTerms::default(),
        })
    }

    /// Sets the number of draws averaged in validation.
    ///
    /// # Panics
    ///
    /// If `draws` is 0.
    #[must_use]
    pub fn with_prediction_draws(mut self, draws: usize) -> Self {
        assert!(draws > 0, "prediction_draws is 0; it must be at least 1");
        self.prediction_draws = draws;
        self
    }

    /// Keeps dropout on during training. A recording of a model contains no dropout, so [batched
    /// draws](Self::with_batched_draws) fall back to one pass per draw, and the first step of an
    /// algorithm that uses per-example gradients fails.
    #[must_use]
    pub fn with_dropout(mut self) -> Self {
        self.model = with_dropout(self.model, true);
        if !training_flags(&self.model)
            .iter()
            .any(TrainingFlag::is_dropout)
        {
            log::warn!(
                "with_dropout() has no effect: no layer has a type name that ends in Dropout"
            );
        }
        self
    }

    /// Disables the checks of the model.
    ///
    /// By default the first step checks that the model's own `optimize` equals the optimiser's
    /// step, and the first steps warn if their loss is no mean negative log-likelihood of the outputs and targets, or if
    /// the optimiser decays the posterior's parameters. If losses are recorded (for SLANG and VOGN, and with [batched
    /// draws](Self::with_batched_draws)), the first step and the step after a hundred compare their
    /// gradient with that of the model's own step. Recordings are also compared with direct
    /// evaluations of the model, at the first mini-batches of every shape and occasionally later. A
    /// mismatch stops the training. The checks cost a few passes per training and do not change the
    /// result.
    #[must_use]
    pub fn without_self_check(mut self) -> Self {
        self.self_check = self.self_check.off();
        self
    }

    /// Stops the training through `interrupter` when a gradient is not finite, instead of
    /// panicking; [`fault`](Self::fault) then returns the error.
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

    /// Leaves errors to the caller, who asks for the [`fault`](Self::fault) after every step, instead of panicking.
    pub(crate) fn with_faults_returned(mut self, is_on: bool) -> Self {
        self.divergence_stop = self.divergence_stop.returned(is_on);
        self
    }

    /// The error that stopped the training, if any.
    pub fn fault(&self) -> Option<Arc<Error>> {
        self.divergence_stop.fault()
    }

    /// The algorithm, with its parameters.
    pub fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// The layout of the random weights.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.algorithm.setup().layout
    }

    /// The number of optimiser steps so far.
    pub fn steps(&self) -> u64 {
        self.clock.step()
    }

    /// The wrapped model. Its random weights are **not** those of the posterior; use
    /// [`mean_model`](Self::mean_model) or [`drawn_model`](Self::drawn_model) for them.
    pub fn template(&self) -> &M {
        &self.model
    }

    /// The wrapped model with the last iterate of the mean as its weights, before any average.
    pub(crate) fn last_model(&self) -> Result<M> {
        let model = self.model.clone();
        Ok(match self.algorithm.last_mean() {
            Some(mean) => self.layout().write(model, mean)?,
            None => model,
        })
    }

    /// Changes the wrapped model between two steps, for example the noise of its likelihood. Its random
    /// weights belong to the algorithm and do not change. A record demands the settings that the model has then; a training
    /// that goes on from it with others calls this after the record is loaded.
    #[must_use]
    pub fn map_template(self, change: impl FnOnce(M) -> M) -> Self {
        let model = change(self.model);
        let layout = &self.algorithm.setup().layout;
        Self {
            has_batch_norm: has_batch_norm(&training_flags(&model)),
            is_everything: is_everything(&model, layout),
            clock: self.clock.with_model(&model),
            model,
            posterior: PosteriorCache::default(),
            ..self
        }
    }

    /// Changes the prior between two steps. [`prior_precision`](crate::FactorPosterior::prior_precision) is the best one for a posterior.
    ///
    /// # Errors
    ///
    /// If the algorithm has no prior, or the prior does not fit the layout.
    pub fn with_prior(self, prior: &Prior) -> Result<Self> {
        Ok(Self {
            algorithm: self.algorithm.with_prior(prior)?,
            posterior: PosteriorCache::default(),
            ..self
        })
    }

    /// The posterior over the weights, with the [state](ModelState) of the template outside its layout, and the noise of
    /// the predictions.
    ///
    /// # Errors
    ///
    /// An algorithm that collects iterates fails until it has collected enough of them. A record of a training with another configuration cannot be used.
    pub fn try_posterior(&self) -> Result<A::Posterior> {
        self.clock.check_record()?;
        self.posterior.get(|| self.compute_posterior())
    }

    /// The posterior over the weights. The log says if the covariance has not been learned yet.
    ///
    /// # Panics
    ///
    /// If [`try_posterior`](Self::try_posterior) fails.
    pub fn posterior(&self) -> A::Posterior {
        let steps = self.clock.step();
        if steps > 0 && matches!(self.algorithm.stage(), Stage::Mean | Stage::Scale) {
            log::warn!(
                "after {steps} steps the posterior has its initial covariance: only the mean has been trained; train \
                 longer, or set a shorter `mean_stage`"
            );
        }
        self.try_posterior()
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The model with the posterior's mean as its weights, ready for inference.
    pub fn mean_model(&self) -> Result<M> {
        self.try_posterior()?.write_mean(self.model.valid())
    }

    /// The model with draw `index` as its weights, ready for inference. Validation and
    /// [`predict`](Self::predict) use the draws 0, 1, 2 …
    pub fn drawn_model(&self, index: u64) -> Result<M> {
        self.predictor()?.drawn_model(index)
    }

    /// A predictor from the model and its posterior, which does not need the algorithm.
    ///
    /// # Errors
    ///
    /// Those of [`try_posterior`](Self::try_posterior).
    pub fn predictor(&self) -> Result<Predictor<M, A::Posterior>> {
        let compute = || self.compute_posterior();
        let (posterior, sampler) = self.posterior.with_sampler(compute)?;
        let noise = self.algorithm.setup().noise.for_prediction();
        let mut model = self.model.valid();
        if let Some(state) = posterior.shared_state() {
            model = state.write(model)?;
        }
        let predictor = Predictor::from_parts(model, posterior, sampler, noise);
        Ok(predictor.with_recordings(self.prediction.clone(), self.self_check.is_on()))
    }

    /// The wrapped model as the next step evaluates it. From some step on, batch norm uses the running statistics as they
    /// are, which then belong to the model: weights are evaluated in training as in prediction. Statistics of every
    /// mini-batch would hide from the training what other weights do to a prediction, and an average of weights would have
    /// none of its own.
    pub(crate) fn model_of_step(&self) -> Cow<'_, M> {
        match self.has_frozen_statistics() {
            true => Cow::Owned(without_batch_norm(self.model.clone())),
            false => Cow::Borrowed(&self.model),
        }
    }

    /// Whether the next step changes running statistics.
    pub(crate) fn moves_statistics(&self) -> bool {
        self.has_batch_norm && !self.has_frozen_statistics()
    }

    /// Whether the next step looks for parameters whose scale changes no loss in the first stage.
    pub(crate) fn seeks_scale_free(&self) -> bool {
        let is_first = self.clock.step() == 0 && self.algorithm.stage() == Stage::Mean;
        is_first && self.has_batch_norm && self.scale_free.get().is_none()
    }

    /// Whether the next step uses running statistics as they are.
    fn has_frozen_statistics(&self) -> bool {
        self.has_batch_norm && self.algorithm.freezes_statistics(self.clock.step() + 1)
    }

    /// Whether all trained parameters of the model are in the layout, so that no step changes the model.
    pub(crate) fn is_everything(&self) -> bool {
        self.is_everything
    }

    /// What is known about the fit: whether the algorithm is still in its first stage, and whether the average over draws
    /// was worse than the prediction of the mean on the rows of the last validation.
    ///
    /// The validation of a wrapped model makes this comparison for outputs with a likelihood
    /// ([`MixDraws::row_losses`]), by one more forward pass for each batch beside those of the draws, and logs a warning
    /// where the average is worse by two standard errors. [`Verdict::with_kl_gap`] adds whether the posterior has
    /// converged, which takes passes over the training data.
    ///
    /// ```
    /// use burn::module::{Module, ModuleDisplay};
    /// # use burn::train::TrainStep;
    /// use burn_bayes::Bayesian;
    /// use burn_bayes::diagnostics::{ConvergenceTest, Verdict};
    /// # use burn_bayes::likelihood::MixDraws;
    /// use burn_bayes::methods::Vifa;
    ///
    /// /// After a training.
    /// fn verdict<M>(
    ///     trained: &Bayesian<M, Vifa>,
    ///     train_len: usize,
    ///     batches: Vec<<M as TrainStep>::Input>,
    /// ) -> burn_bayes::Result<Verdict>
    /// # where
    /// #     M: Module + ModuleDisplay + TrainStep<Input: Clone, Output: MixDraws>,
    /// {
    ///     let posterior = trained.posterior();
    ///     let model = trained.template().clone();
    ///     let gap = ConvergenceTest::new(train_len).measure(&model, &posterior, || batches.clone())?;
    ///     Ok(trained.verdict().with_kl_gap(gap, posterior.len()))
    /// }
    /// ```
    pub fn verdict(&self) -> Verdict {
        Verdict {
            is_unfinished: !self.has_posterior(),
            validation: self.validation_check.comparison(),
            of_training: {
                let problems = [
                    self.rows_seen.problem(),
                    self.self_check.problem_of_optimizer(),
                ];
                problems.into_iter().flatten().collect()
            },
            ..Verdict::default()
        }
    }

    /// Whether the algorithm has learned more than a mean.
    pub(crate) fn has_posterior(&self) -> bool {
        !matches!(self.algorithm.stage(), Stage::Mean | Stage::Scale)
    }

    /// The comparison of the last validation.
    pub(crate) fn validation_check(&self) -> &ValidationCheck {
        &self.validation_check
    }

    /// The number of draws averaged in validation.
    pub(crate) fn prediction_draws(&self) -> usize {
        self.prediction_draws
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The checks of the model.
    pub(crate) fn self_check(&self) -> &SelfCheck {
        &self.self_check
    }

    /// How to compute what a step needs besides the gradients of the loss.
    pub(crate) fn model_terms(&self) -> &ModelTerms {
        &self.model_terms
    }

    /// Computes the terms of a prior over functions in every step, with λ = N; the hash of this prior is part of a record.
    pub(crate) fn with_function_terms(
        self,
        hash: PriorHash,
        change: impl FnOnce(ModelTerms) -> ModelTerms,
    ) -> Self {
        // A prior over functions has its own divergence, which does not grow with the number of weights.
        let train_len = self.algorithm.setup().train_len;
        Self {
            clock: self.clock.with_function_prior(hash),
            model_terms: change(self.model_terms),
            algorithm: self.algorithm.with_ess(train_len as f64),
            ..self
        }
    }

    /// In a training of this number of steps by a [`Trainer`](super::Trainer), which compares the rows of an epoch with N.
    pub(crate) fn with_length(self, steps: u64) -> Self {
        self.rows_seen.leave_unchecked();
        Self {
            algorithm: self.algorithm.with_length(steps),
            ..self
        }
    }

    /// With a curvature of the loss other than that of the gradients.
    pub(crate) fn with_curvature_terms(
        self,
        change: impl FnOnce(ModelTerms) -> ModelTerms,
    ) -> Self {
        Self {
            model_terms: change(self.model_terms),
            clock: self.clock.with_curvature(),
            ..self
        }
    }

    /// The recorded losses of examples, kept for later steps.
    pub(crate) fn example_losses<R: Send + Sync + 'static>(&self, make: impl Fn() -> R) -> Arc<R> {
        self.example_losses.get(make)
    }

    /// The recorded mean loss.
    pub(crate) fn mean_loss(&self) -> &RecordingCache {
        &self.mean_loss
    }

    /// The gradients that pass an algorithm's update to [`optimize`](burn::train::TrainStep::optimize).
    ///
    /// # Errors
    ///
    /// The reason for a rejection, after [`MAX_REJECTIONS`] consecutive rejections.
    pub(crate) fn gradients_of(&self, update: Update<A::ClosedForm>) -> Result<GradientsParams> {
        let deferred = match update {
            Update::Gradients(gradients) => return Ok(gradients),
            Update::ClosedForm(update) => Deferred::Update(update),
            Update::Rejected(reason) => self.rejection(reason)?,
        };
        let device = module_device(&self.algorithm).inner();
        self.deferred.put(deferred, &self.algorithm, &device)
    }

    /// The closed-form update from the sums of a step's gradients, if the algorithm makes one.
    ///
    /// # Errors
    ///
    /// Those of [`gradients_of`](Self::gradients_of).
    pub(crate) fn update_from_sum(
        &self,
        gradients: &mut GradAdaptor,
    ) -> Result<Option<Deferred<A::ClosedForm>>> {
        let step = self.clock.step() + 1;
        match self.algorithm.update_from_sum(step, gradients) {
            Ok(update) => Ok(update.map(Deferred::Update)),
            Err(error) if error.is_numerical() => self.rejection(error).map(Some),
            Err(error) => Err(error),
        }
    }

    /// A step that is skipped, unless too many were skipped before it.
    fn rejection(&self, reason: Error) -> Result<Deferred<A::ClosedForm>> {
        if self.clock.rejections() >= MAX_REJECTIONS {
            return Err(reason);
        }
        if self.clock.rejections() == 0 {
            log::warn!(
                "{reason}; the step is skipped, and those after it until a gradient is finite, \
                 at most {MAX_REJECTIONS} in a row"
            );
        }
        Ok(Deferred::Rejection)
    }

    /// Stops the training; the current parameters are the last good state.
    pub(crate) fn stop(&self, error: Error) {
        self.divergence_stop.stop(error, self);
    }
}

impl<M: Module, A: Algorithm> Bayesian<M, A> {
    fn compute_posterior(&self) -> Result<A::Posterior> {
        let posterior = self.algorithm.posterior(self.clock.step())?;
        let Setup { layout, noise, .. } = self.algorithm.setup();
        let state = ModelState::of(&self.model, layout);
        Ok(posterior.with_state(state.with_noise(noise.for_prediction())))
    }
}

impl<M: Module + ModuleDisplay, A: Algorithm<Posterior = FactorPosterior>> Bayesian<M, A> {
    /// The distance of the last iterate of the mean from the mean of the posterior, in posterior standard deviations: the
    /// root mean square over weights. `None` if the posterior's mean is not an average of iterates.
    ///
    /// Above 1, the steps are large compared with the posterior; a smaller learning rate, or one that decays, helps.
    pub fn fluctuation(&self) -> Result<Option<f64>> {
        let Some(last) = self.algorithm.last_mean() else {
            return Ok(None);
        };
        let distance = self.try_posterior()?.standardized_distance(&last)?;
        Ok(Some(distance).filter(|&distance| distance != 0.0))
    }
}

impl<M, A> Bayesian<M, A>
where
    M: Module + ModuleDisplay + ExampleLoss<Input: ExampleBatch> + 'static,
    A: Algorithm,
{
    /// Computes the gradients of a step from a recording of the model's losses, instead of the model's own step at every
    /// draw.
    ///
    /// The losses are recorded in inference mode, once for every mini-batch shape. On the CPU the recording is compiled,
    /// which for a small network saves most of the time of a step, above all in a [`Trainer`](super::Trainer). Elsewhere,
    /// and for losses that cannot be compiled, it is replayed with weights that have an additional axis of draws: a
    /// small network, whose run time is dominated by the overhead per operation, saves most of the cost of several draws;
    /// a large one saves nothing, and needs the memory of all draws at once. The step uses one pass of the model's own
    /// step per draw, and the log says why, in these cases: an active layer
    /// that behaves differently in training and inference (dropout, noise, and batch norm except
    /// in a `Trainer` on the CPU: freeze it to keep its statistics), a loss that cannot be recorded, an operation without a batched form,
    /// or replicas that average their gradients.
    #[must_use]
    pub fn with_batched_draws(mut self) -> Self {
        let loss = BatchedTraining::<M>::new(self.layout().clone(), true);
        self.mean_loss = RecordingCache::holding(loss);
        self
    }

    /// The same for losses that can be compiled only.
    #[must_use]
    pub(crate) fn with_compiled_loss(mut self) -> Self {
        let loss = BatchedTraining::<M>::new(self.layout().clone(), false);
        self.mean_loss = RecordingCache::holding(loss);
        self
    }
}

impl<M, A> Bayesian<M, A>
where
    M: Module + ModuleDisplay + InferenceStep<Input: ExampleBatch, Output: MixStacked> + 'static,
    A: Algorithm,
{
    /// Predicts and validates with many draws in one forward pass instead of one pass per draw.
    ///
    /// The model's inference step is recorded once for every mini-batch shape, and replayed with
    /// weights that have an additional axis of draws, as many at a time as fit into the processor's
    /// cache; the weights of all draws are in memory at once. The draws are the same as with one
    /// pass per draw. The model is evaluated with one pass per draw if it is so large that two
    /// draws do not fit into the cache, because this is then faster, or if it has an operation
    /// without a batched form or data-dependent control flow; the log says so.
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
    /// The average of `draws` predictions, each with a different draw of the weights.
    ///
    /// If the algorithm has no posterior yet, as SWAG before its first two iterates, there is one draw, the model's own
    /// weights, and the log says so once.
    pub fn predict(
        &self,
        item: <M as InferenceStep>::Input,
        draws: usize,
    ) -> Result<<<M as InferenceStep>::Output as MixDraws>::Mixture> {
        match self.predictor() {
            Ok(predictor) => predictor.predict(item, draws),
            Err(error) if error.is_too_early() => {
                self.early_notice.give(|| {
                    format!("{error}; until then a prediction has one draw, the model's own weights, instead of {draws}")
                });
                let output = InferenceStep::step(&self.model.valid(), item);
                Ok(MixDraws::mix(vec![output]))
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether all trained parameters of the model are in the layout.
pub(crate) fn is_everything<M: Module>(model: &M, layout: &Layout) -> bool {
    Layout::new(model, &ParamGroup::all()).is_ok_and(|all| all.len() == layout.len())
}

/// Brings a model on a device without autodiff into training mode.
fn train_if_plain<M: Module>(model: M) -> M {
    struct IsTrained(bool);
    impl ModuleVisitor for IsTrained {
        fn visit_float<const R: usize>(&mut self, param: &Param<burn::tensor::Tensor<R>>) {
            self.0 |= param.is_autodiff();
        }
    }
    let mut trained = IsTrained(false);
    model.visit(&mut trained);
    if trained.0 { model } else { model.train() }
}
