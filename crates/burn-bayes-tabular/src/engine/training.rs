//! The training loop: shuffled batches, one epoch after the other, from a checkpoint if there is one.

use std::fmt::Display;
use std::sync::Arc;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Device, Tensor};
use burn::train::TrainStep;
use burn_bayes::methods::Inference;
use burn_bayes::{Bayesian, FactorPosterior, Noise};

use super::algorithms::with_learner;
use super::fitted::Fitted;
use super::{EpochRecord, Observer, Stage, noise};
use crate::error::{Result, TabularError};
use crate::network::{Batch, MeanLoss, Network};
use crate::random::shuffled;
use crate::rows::Problem;
use crate::settings::{FitSettings, OptimizerName};

/// A stream of random numbers.
const SHUFFLING: u64 = 0x7368_7566;

/// Where a training stands between two steps.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Trainings of the fit that are completed.
    pub(crate) round: usize,
    /// Steps made of the present one.
    pub(crate) step: u64,
    /// Epochs completed of all of them.
    pub(crate) epochs: usize,
    /// The sum of the losses of the present epoch.
    pub(crate) loss_sum: f32,
    /// β on the scale on which the network learns.
    pub(crate) noise_precision: f64,
    /// The record of what is trained.
    pub(crate) model: Vec<u8>,
    /// The record of the optimiser.
    pub(crate) optimizer: Vec<u8>,
}

/// What can be trained: a network, or a posterior over its weights.
pub(super) trait Learner: Module + TrainStep<Input = Batch, Output = MeanLoss> {
    /// The posterior, if this learns one; an error if there is none yet.
    fn posterior(&self) -> std::result::Result<Option<FactorPosterior>, burn_bayes::Error>;

    /// The network, ready for inference; its weights are those of a posterior's mean only if there is
    /// none.
    fn network(&self) -> Network;

    /// Why it does not train any further.
    fn fault(&self) -> Option<Arc<burn_bayes::Error>>;
}

impl Learner for Network {
    fn posterior(&self) -> std::result::Result<Option<FactorPosterior>, burn_bayes::Error> {
        Ok(None)
    }

    fn network(&self) -> Network {
        self.valid()
    }

    fn fault(&self) -> Option<Arc<burn_bayes::Error>> {
        None
    }
}

impl<A: Inference> Learner for Bayesian<Network, A>
where
    Self: TrainStep<Input = Batch, Output = MeanLoss>,
{
    fn posterior(&self) -> std::result::Result<Option<FactorPosterior>, burn_bayes::Error> {
        self.try_posterior().map(Some)
    }

    fn network(&self) -> Network {
        self.template().valid()
    }

    fn fault(&self) -> Option<Arc<burn_bayes::Error>> {
        Bayesian::fault(self)
    }
}

/// Makes training number `round` of a fit, on all rows of the problem, from `checkpoint` on if there is
/// one.
pub(super) fn train(
    problem: &Problem,
    settings: &FitSettings,
    noise_precision: f64,
    round: usize,
    checkpoint: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<Fitted> {
    let training = Training {
        problem,
        settings,
        noise_precision,
        round,
        stage: match round < noise::rounds(problem, settings) {
            true => Stage::Noise,
            false => Stage::Posterior,
        },
        device: settings.device.device()?.autodiff(),
    };
    with_learner(&training, checkpoint, observer)
}

/// What stays the same from the first step to the last.
pub(super) struct Training<'a> {
    pub(super) problem: &'a Problem,
    pub(super) settings: &'a FitSettings,
    pub(super) noise_precision: f64,
    round: usize,
    stage: Stage,
    pub(super) device: Device,
}

/// What a step changes.
struct State<L> {
    learner: L,
    optimizer: ModuleOptimizer,
    step: u64,
    loss_sum: Tensor<1>,
}

impl Training<'_> {
    /// Steps of an epoch.
    pub(super) fn epoch_steps(&self) -> usize {
        self.problem.rows().div_ceil(self.settings.batch_size)
    }

    /// Steps of the whole training.
    pub(super) fn steps(&self) -> usize {
        self.settings.epochs * self.epoch_steps()
    }

    /// Makes all steps.
    pub(super) fn run<L: Learner>(
        &self,
        learner: L,
        optimizer: ModuleOptimizer,
        mut rates: ModuleLrScheduler,
        checkpoint: Option<Checkpoint>,
        observer: &mut dyn Observer,
    ) -> Result<Fitted> {
        let mut state = self.start(learner, optimizer, checkpoint)?;
        for _ in 0..state.step {
            rates.step();
        }
        let epoch_steps = self.epoch_steps() as u64;
        let mut order = self.order(state.step / epoch_steps);
        while state.step < self.steps() as u64 {
            if observer.interrupts() {
                return Err(self.interrupted(state, observer)?);
            }
            let (epoch, place) = (state.step / epoch_steps, state.step % epoch_steps);
            if place == 0 {
                order = self.order(epoch);
                state.loss_sum = state.loss_sum.zeros_like();
            }
            let size = self.settings.batch_size;
            let first = place as usize * size;
            let rows = &order[first..order.len().min(first + size)];
            state = self.stepped(state, rows, &mut rates)?;
            if place + 1 == epoch_steps {
                let record = self.record(&state, epoch)?;
                let so_far = || self.so_far(&state.learner);
                let ends = observer.epoch(&record, &so_far).is_break();
                if ends {
                    break;
                }
                if observer.keeps_checkpoints() && self.is_checkpoint_due(record.epoch) {
                    observer.checkpoint(self.checkpoint(&state)?)?;
                }
            }
        }
        Ok(self.fitted(&state.learner, state.learner.posterior()?))
    }

    /// What the training would end in now; the network alone where a posterior needs more iterates.
    fn so_far(&self, learner: &impl Learner) -> Result<Fitted> {
        match learner.posterior() {
            Err(error) if error.is_too_early() => Ok(self.fitted(learner, None)),
            posterior => Ok(self.fitted(learner, posterior?)),
        }
    }

    fn fitted(&self, learner: &impl Learner, posterior: Option<FactorPosterior>) -> Fitted {
        Fitted::new(
            &learner.network(),
            posterior,
            self.problem.meaning().clone(),
            self.noise_precision,
            self.settings.seed,
        )
    }

    fn start<L: Learner>(
        &self,
        learner: L,
        optimizer: ModuleOptimizer,
        checkpoint: Option<Checkpoint>,
    ) -> Result<State<L>> {
        let device = self.device.clone().inner();
        let Some(checkpoint) = checkpoint else {
            return Ok(State {
                learner,
                optimizer,
                step: 0,
                loss_sum: Tensor::zeros([1], &device),
            });
        };
        let damaged = |error: &dyn std::fmt::Display| {
            TabularError::Data(format!(
                "the checkpoint cannot be used: {error}; fit anew without --resume"
            ))
        };
        let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(checkpoint.model));
        let learner = record
            .and_then(|record| learner.try_load_record(record))
            .map_err(|error| damaged(&error))?;
        let optimizer = optimizer
            .from_bytes(Bytes::from_bytes_vec(checkpoint.optimizer))
            .map_err(|error| damaged(&error))?;
        Ok(State {
            learner,
            optimizer,
            step: checkpoint.step,
            loss_sum: Tensor::from_data([checkpoint.loss_sum], &device),
        })
    }

    fn stepped<L: Learner>(
        &self,
        state: State<L>,
        rows: &[usize],
        rates: &mut ModuleLrScheduler,
    ) -> Result<State<L>> {
        let State {
            learner,
            mut optimizer,
            step,
            loss_sum,
        } = state;
        let output = TrainStep::step(&learner, self.problem.batch(rows, &self.device));
        let loss_sum = loss_sum + output.item.loss.without_autodiff();
        let learner = learner.optimize(&mut optimizer, rates.step(), output.grads);
        match learner.fault() {
            Some(error) => Err(self.fault(&error, step)),
            None => Ok(State {
                learner,
                optimizer,
                step: step + 1,
                loss_sum,
            }),
        }
    }

    fn record<L>(&self, state: &State<L>, epoch: u64) -> Result<EpochRecord> {
        let sum: f64 = state.loss_sum.clone().into_scalar();
        let loss = sum / self.epoch_steps() as f64;
        if !loss.is_finite() {
            return Err(self.diverged(epoch, "the loss is not finite"));
        }
        Ok(EpochRecord {
            stage: self.stage,
            round: self.round + 1,
            epoch: epoch as usize + 1,
            epochs: self.settings.epochs,
            loss,
        })
    }

    /// The error that a training stopped on in this step, which others may hold too.
    fn fault(&self, error: &burn_bayes::Error, step: u64) -> TabularError {
        match error.is_numerical() {
            true => self.diverged(step / self.epoch_steps() as u64, error),
            false => error.into(),
        }
    }

    /// What left the finite numbers in an epoch, and what may help.
    fn diverged(&self, epoch: u64, what: impl Display) -> TabularError {
        let rate = match self.settings.optimizer {
            OptimizerName::Sgd => "make `learning_rate` smaller, by the number of rows with sgd",
            OptimizerName::Adam => "lower `learning_rate`",
        };
        TabularError::Numerical(format!(
            "epoch {}: {what}; {rate}, set `clip`, or standardise the columns",
            epoch + 1
        ))
    }

    /// The rows in the order of an epoch.
    fn order(&self, epoch: u64) -> Vec<usize> {
        let noise = Noise::host(self.settings.seed).fold(SHUFFLING).fold(epoch);
        shuffled(self.problem.rows(), noise)
    }

    fn is_checkpoint_due(&self, epoch: usize) -> bool {
        let every = self.settings.checkpoint_every;
        every > 0 && epoch.is_multiple_of(every) && epoch < self.settings.epochs
    }

    fn checkpoint<L: Learner>(&self, state: &State<L>) -> Result<Checkpoint> {
        let unwritable = |error: &dyn std::fmt::Display| {
            TabularError::System(std::io::Error::other(format!(
                "a checkpoint cannot be made: {error}"
            )))
        };
        let model = state.learner.clone().into_record().into_bytes();
        let optimizer = state.optimizer.into_bytes();
        Ok(Checkpoint {
            round: self.round,
            step: state.step,
            epochs: self.round * self.settings.epochs + state.step as usize / self.epoch_steps(),
            loss_sum: state.loss_sum.clone().into_scalar(),
            noise_precision: self.noise_precision,
            model: model.map_err(|error| unwritable(&error))?.to_vec(),
            optimizer: optimizer.map_err(|error| unwritable(&error))?.to_vec(),
        })
    }

    /// Hands over a checkpoint if it is kept.
    fn interrupted<L: Learner>(
        &self,
        state: State<L>,
        observer: &mut dyn Observer,
    ) -> Result<TabularError> {
        if observer.keeps_checkpoints() {
            observer.checkpoint(self.checkpoint(&state)?)?;
        }
        Ok(TabularError::Interrupted("interrupted".into()))
    }
}
