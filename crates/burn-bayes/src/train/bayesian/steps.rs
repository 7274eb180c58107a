//! Training and validation of a wrapped model: Burn's [`TrainStep`] and [`InferenceStep`].

use burn::module::{Module, ModuleDisplay, ParamId};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradAdaptor, GradientsParams, ModuleOptimizer, MultiGradientsParams};
use burn::train::{InferenceStep, TrainOutput, TrainStep};
use burn_bayes_graph::retied;

use super::super::cache::PosteriorCache;
use super::super::deferred_step::Deferred;
use super::super::draws::Outside;
use super::super::gather::{Gather, stopped};
use super::super::own_decay::decayed;
use super::super::scale_free::scale_free;
use super::super::validation_check::ValidationCheck;
use super::Bayesian;
use crate::error::Error;
use crate::likelihood::MixDraws;
use crate::methods::Algorithm;

/// The path of the algorithm in the parameter paths of an optimiser.
const ALGORITHM: &str = "algorithm";

/// The part that an optimiser maps: everything except the clock, and a model without trained parameters of its own.
#[derive(Module, Debug)]
struct Trainable<M: Module, A: Module> {
    model: Option<M>,
    algorithm: A,
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
        self.validation_check.end();
        if let Err(error) = self.self_check.optimize(&self.model) {
            return stopped(self, item, error);
        }
        if self.seeks_scale_free() {
            let found = scale_free(&self.model, item.clone());
            // Another replica may have been faster.
            let _ = self.scale_free.set(found);
        }
        let output = A::Signal::step(self, item);
        self.self_check.likelihood(&output.item);
        self.count_rows(output.item.rows());
        output
    }

    fn optimize(
        self,
        optim: &mut ModuleOptimizer,
        learning_rate: ModuleLearningRate,
        gradients: GradientsParams,
    ) -> Self {
        self.optimize_scaled(optim, learning_rate, gradients, 1.0)
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
        // Accumulated gradients cannot contain a closed-form update.
        match self.deferred.take(&mut GradientsParams::new()) {
            Ok(deferred) => {
                self.with_gradients(deferred, optim, learning_rate, gradients.into(), 1.0)
            }
            Err(error) => self.stopped(error),
        }
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
        self.rows_seen.check(self.algorithm.setup().train_len);
        self.validate(item)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

impl<M: Module + ModuleDisplay, A: Algorithm> Bayesian<M, A> {
    /// Counts the rows of a mini-batch.
    pub(in super::super) fn count_rows(&self, rows: usize) {
        let train_len = self.algorithm.setup().train_len;
        self.rows_seen.count(rows);
        self.clock.count_examples(rows);
        if rows > train_len {
            self.stop(Error::config(
                "train_len",
                format!(
                    "is {train_len}, but a mini-batch has {rows} rows; it is the number of \
                     training examples, not of mini-batches"
                ),
            ));
        }
    }

    /// With checks that clones from before the training do not share: each may be trained.
    fn with_own_checks(self) -> Self {
        Self {
            self_check: self.self_check.taken(),
            rows_seen: self.rows_seen.taken(),
            validation_check: ValidationCheck::default(),
            ..self
        }
    }

    /// Stops the training without a step.
    fn stopped(self, error: Error) -> Self {
        self.stop(error);
        self
    }

    /// A step of the optimiser. The gradients that are left to it are multiplied by `factor`; those from which the
    /// algorithm makes an update are sums.
    pub(in super::super) fn optimize_scaled<S>(
        self,
        optim: &mut ModuleOptimizer,
        learning_rate: ModuleLearningRate,
        mut gradients: GradientsParams,
        factor: f64,
    ) -> Self
    where
        M: TrainStep,
        A: Algorithm<Signal = S>,
        S: Gather<M, A>,
    {
        if self.divergence_stop.has_stopped() {
            // The parameters are the last good state; accumulated gradients are ignored.
            return self;
        }
        match self.deferred.take(&mut gradients) {
            Ok(deferred) => {
                self.with_gradients(deferred, optim, learning_rate, gradients.into(), factor)
            }
            Err(error) => self.stopped(error),
        }
    }

    /// Applies a deferred update, or the one that the algorithm makes from the gradients, and an optimiser step
    /// with the gradients that are left, multiplied by `factor`.
    fn with_gradients<S>(
        self,
        deferred: Option<Deferred<A::ClosedForm>>,
        optim: &mut ModuleOptimizer,
        learning_rate: ModuleLearningRate,
        mut gradients: GradAdaptor,
        factor: f64,
    ) -> Self
    where
        M: TrainStep,
        A: Algorithm<Signal = S>,
        S: Gather<M, A>,
    {
        let update = match deferred {
            None => self.update_from_sum(&mut gradients),
            deferred => Ok(deferred),
        };
        let update = match update {
            Ok(update) => update,
            Err(error) => return self.stopped(error),
        };
        let rate = learning_rate.lr_from_param(ParamId::new(), Some(ALGORITHM));
        let were_frozen = self.has_frozen_statistics();
        let (algorithm, is_rejected) = match update {
            Some(Deferred::Update(update)) => (self.algorithm.apply_step(update, rate), false),
            Some(Deferred::Rejection) => (self.algorithm, true),
            None => (self.algorithm, false),
        };
        let bayesian = Self { algorithm, ..self };
        let bayesian = match bayesian.clock.step() {
            0 => bayesian.with_own_checks(),
            _ => bayesian,
        };
        let self_check = bayesian.self_check.clone();
        let bayesian = bayesian.after_step(is_rejected, |trainable| {
            self_check.decay(|| {
                let Trainable { model, algorithm } = trainable.clone();
                let joined = |algorithm| Trainable { model, algorithm };
                decayed(optim, algorithm, &gradients, joined)
            });
            match gradients {
                GradAdaptor::Single(gradients) if gradients.is_empty() => trainable,
                GradAdaptor::Single(gradients) if factor == 1.0 => {
                    optim.step(learning_rate, trainable, gradients)
                }
                GradAdaptor::Single(mut gradients) => {
                    let mut scaled = GradientsParams::new();
                    Outside::add(&trainable, factor, &mut gradients, &mut scaled);
                    optim.step(learning_rate, trainable, scaled)
                }
                GradAdaptor::Multi(gradients) => {
                    optim.step_multi(learning_rate, trainable, gradients)
                }
            }
        });
        if bayesian.has_frozen_statistics() && !were_frozen {
            // Applies the last update of the running statistics, which layers keep back; no later step makes another.
            drop(bayesian.model.valid());
        }
        bayesian
    }

    /// Applies an optimiser step, which may have been rejected.
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
        let (model, still) = match self.is_everything && !S::TRAINS_MODEL {
            true => (None, Some(self.model)),
            false => (Some(self.model), None),
        };
        let Trainable { model, algorithm } = step(Trainable {
            model,
            algorithm: self.algorithm,
        });
        let model = match self.is_tied {
            true => model.map(retied),
            false => model,
        };
        let model = model.or(still).expect("one of the two has it");
        let examples = self.clock.examples();
        let algorithm = match self.scale_free.get() {
            Some(found) if self.clock.step() == 0 => algorithm.with_scale_free(found),
            _ => algorithm,
        };
        let algorithm = algorithm.with_examples(examples);
        let clock = self.clock.after_step(is_rejected);
        let algorithm = S::after_step(algorithm, &model, clock.step());
        Self {
            model,
            algorithm,
            clock,
            posterior: PosteriorCache::default(),
            ..self
        }
        .flushed()
    }

    /// Submits the queued work of a step before the thread of another replica reads its results.
    ///
    /// On Burn's GPU backends every thread has its own queue. An in-place operation is queued by
    /// the thread that requests it, but the memory remains associated with the thread that
    /// allocated it: a replica whose gradient buffer became the new parameter would not wait for
    /// the update.
    fn flushed(self) -> Self {
        for device in self.devices() {
            // A device error is reported again when the tensors are read.
            let _ = device.flush();
        }
        self
    }
}
