//! The training loop over shuffled mini-batches, optionally from a checkpoint.

use std::ops::ControlFlow;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::tensor::Device;
use burn::train::TrainStep;
use burn_bayes::methods::Algorithm;
use burn_bayes::train::{
    self, Batches, CheckpointTime, EpochSummary, Trainer, TrainerModel, TrainingEnd,
    TrainingObserver,
};
use burn_bayes::{Bayesian, FactorPosterior, Noise, Prior};
use burn_bayes_contrib::function_prior::FunctionPrior;

use super::motion::{Motion, drift, last_quarter, mean};
use super::noise::LearnedNoise;
use super::prior::{LayerPrecisions, LearnedPrior, prior};
use super::trained_model::TrainedModel;
use super::{EpochRecord, Observer};
use crate::error::{Result, TabularError};
use crate::network::{Batch, MeanLoss, Network};
use crate::random::shuffled;
use crate::rows::TrainingSet;
use crate::settings::{FitSettings, OptimizerName};

/// The random stream of shuffling.
const SHUFFLING: u64 = 0x7368_7566;

/// The state of a fit between two steps.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Number of completed epochs.
    pub(crate) epochs: usize,
    pub(crate) precisions: Precisions,
    /// The posterior's mean before the last quarter of the epochs, after it has begun.
    pub(crate) earlier_mean: Option<Vec<f32>>,
    /// The state of the current training.
    pub(crate) state: train::Checkpoint,
}

/// What a training may learn besides the weights.
#[derive(Clone, Debug)]
pub(crate) struct Precisions {
    /// β of every target on the standardised scale of the network.
    pub(crate) noise: Vec<f64>,
    /// α of the weights, if it is learned and has been estimated.
    pub(crate) prior: Option<LayerPrecisions>,
}

/// A trainable model: a network, or a posterior over its weights.
pub(super) trait Learner:
    TrainerModel + TrainStep<Input = Batch, Output = MeanLoss>
{
    /// The posterior; `None` for a point estimate, and an error if it does not exist yet.
    fn posterior(&self) -> std::result::Result<Option<FactorPosterior>, burn_bayes::Error>;

    /// Whether the mean is still trained alone.
    fn is_before_posterior(&self) -> bool {
        false
    }

    /// The network for inference. Its weights are meaningful only for a point estimate.
    fn network(&self) -> Network;

    /// The same with other noise precisions of the likelihood.
    #[must_use]
    fn with_noise_precisions(self, precisions: &[f64]) -> Self;

    /// The distance of the last iterate from the average of iterates, in posterior standard deviations.
    fn fluctuation(&self) -> std::result::Result<Option<f64>, burn_bayes::Error>;

    /// The same with another prior.
    fn with_prior(self, prior: &Prior) -> std::result::Result<Self, burn_bayes::Error>;
}

impl Learner for Network {
    fn posterior(&self) -> std::result::Result<Option<FactorPosterior>, burn_bayes::Error> {
        Ok(None)
    }

    fn network(&self) -> Network {
        self.valid()
    }

    fn with_noise_precisions(self, precisions: &[f64]) -> Self {
        Network::with_noise_precisions(self, precisions)
    }

    fn fluctuation(&self) -> std::result::Result<Option<f64>, burn_bayes::Error> {
        Ok(None)
    }

    fn with_prior(self, _: &Prior) -> std::result::Result<Self, burn_bayes::Error> {
        // The gradient of the optimiser contains it.
        Ok(self)
    }
}

impl<A: Algorithm<Posterior = FactorPosterior>> Learner for Bayesian<Network, A>
where
    Self: TrainerModel + TrainStep<Input = Batch, Output = MeanLoss>,
{
    fn posterior(&self) -> std::result::Result<Option<FactorPosterior>, burn_bayes::Error> {
        self.try_posterior().map(Some)
    }

    fn is_before_posterior(&self) -> bool {
        self.verdict().is_unfinished
    }

    fn network(&self) -> Network {
        self.template().valid()
    }

    fn with_noise_precisions(self, precisions: &[f64]) -> Self {
        self.map_template(|network| network.with_noise_precisions(precisions))
    }

    fn fluctuation(&self) -> std::result::Result<Option<f64>, burn_bayes::Error> {
        Self::fluctuation(self)
    }

    fn with_prior(self, prior: &Prior) -> std::result::Result<Self, burn_bayes::Error> {
        Self::with_prior(self, prior)
    }
}

/// The constants of a training.
#[derive(Clone)]
pub(super) struct Training<'a> {
    pub(super) training_set: &'a TrainingSet,
    pub(super) settings: &'a FitSettings,
    /// Those at the start.
    pub(super) precisions: Precisions,
    /// The rows held out while β is learned.
    learned_noise: Option<LearnedNoise>,
    /// The splits of trainings in which β is learned before this one.
    noise_folds: Vec<LearnedNoise>,
    learned_prior: Option<LearnedPrior>,
    pub(super) function_prior: Option<FunctionPrior>,
    pub(super) device: Device,
    /// Of the rows that train.
    pub(super) constant_of_loss: f64,
}

impl<'a> Training<'a> {
    pub(super) fn new(
        training_set: &'a TrainingSet,
        settings: &'a FitSettings,
        precisions: Precisions,
        function_prior: Option<FunctionPrior>,
    ) -> Result<Self> {
        let mut noise_folds = LearnedNoise::splits(training_set, settings)?;
        let learned_noise = match noise_folds.len() {
            1 => noise_folds.pop(),
            _ => None,
        };
        Ok(Self {
            training_set,
            settings,
            precisions,
            learned_noise,
            noise_folds,
            learned_prior: LearnedPrior::new(settings, training_set.rows()),
            function_prior,
            device: settings.device.device()?.autodiff(),
            constant_of_loss: training_set.constant_of_loss(),
        })
    }
}

impl Training<'_> {
    /// Number of epochs.
    fn epochs(&self) -> usize {
        self.settings.epochs(self.training_set.rows())
    }

    /// Number of steps per epoch.
    pub(super) fn epoch_steps(&self) -> usize {
        self.settings.steps_of_epoch(self.training_set.rows())
    }

    /// Runs all steps.
    pub(super) fn run<L: Learner>(
        &self,
        learner: L,
        optimizer: ModuleOptimizer,
        rates: ModuleLrScheduler,
        checkpoint: Option<Checkpoint>,
        observer: &mut dyn Observer,
    ) -> Result<TrainedModel> {
        let learner = match &self.precisions.prior {
            Some(learned) => learner.with_prior(&prior(self.settings, Some(learned)))?,
            None => learner,
        };
        let mut precisions = self.precisions.clone();
        if !self.noise_folds.is_empty() && checkpoint.is_none() {
            precisions.noise = self.noise_of_folds(&learner, &optimizer, &rates, observer)?;
        }
        let learner = learner.with_noise_precisions(&precisions.noise);
        let mut trainer = Trainer::new(learner, optimizer, rates)
            .without_verdict()
            .with_epochs(self.epochs());
        let mut earlier_mean = None;
        if let Some(checkpoint) = checkpoint {
            earlier_mean = checkpoint.earlier_mean;
            trainer = trainer.resumed(&checkpoint.state).map_err(|error| {
                TabularError::Data(format!("{error}; fit again without --resume"))
            })?;
        }
        let mut watched = Watched {
            training: self,
            observer,
            precisions,
            earlier_mean,
        };
        let learner = self.train(trainer, &mut watched)?;
        let posterior = learner.posterior()?;
        let earlier_mean = watched.earlier_mean.as_ref();
        let drift = posterior
            .as_ref()
            .zip(earlier_mean)
            .map(|(posterior, earlier)| drift(earlier, posterior));
        let motion = Motion {
            fluctuation: learner.fluctuation()?,
            drift: drift.transpose()?,
        };
        self.trained_model(&learner, posterior, watched.precisions, motion)
    }

    /// Makes the steps that are left.
    fn train<L: Learner>(&self, trainer: Trainer<L>, watched: &mut Watched<'_, '_>) -> Result<L> {
        let run = trainer
            .run(self, watched)
            .map_err(|failure| match failure {
                Failure::Training(error) if error.is_numerical() => self.diverged(&error),
                Failure::Training(error) => error.into(),
                Failure::Observer(error) => error,
            })?;
        match run.end {
            TrainingEnd::Interrupted => Err(TabularError::Interrupted("interrupted".into())),
            _ => Ok(run.trainer.into_model()),
        }
    }

    /// β of every target: 1/β is the mean of trainings with one of the folds held out each.
    fn noise_of_folds<L: Learner>(
        &self,
        learner: &L,
        optimizer: &ModuleOptimizer,
        rates: &ModuleLrScheduler,
        observer: &mut dyn Observer,
    ) -> Result<Vec<f64>> {
        let folds = self.noise_folds.len();
        let mut variances = vec![0.0; self.precisions.noise.len()];
        for (fold, split) in self.noise_folds.iter().enumerate() {
            observer.learns_noise(fold, folds);
            let training = Self {
                learned_noise: Some(split.clone()),
                ..self.clone()
            };
            let mut watched = Watched {
                training: &training,
                observer: &mut OnlyInterrupts(observer),
                precisions: self.precisions.clone(),
                earlier_mean: None,
            };
            let trainer = Trainer::new(learner.clone(), optimizer.clone(), rates.clone());
            training.train(
                trainer.without_verdict().with_epochs(split.last()),
                &mut watched,
            )?;
            for (variance, precision) in variances.iter_mut().zip(&watched.precisions.noise) {
                *variance += 1.0 / (folds as f64 * precision);
            }
        }
        Ok(variances.into_iter().map(f64::recip).collect())
    }

    /// The current model; a point estimate if the posterior needs more iterates.
    fn snapshot(&self, learner: &impl Learner, precisions: &Precisions) -> Result<TrainedModel> {
        let motion = Motion {
            fluctuation: learner.fluctuation()?,
            drift: None,
        };
        let posterior = posterior_so_far(learner)?;
        self.trained_model(learner, posterior, precisions.clone(), motion)
    }

    fn trained_model(
        &self,
        learner: &impl Learner,
        posterior: Option<FactorPosterior>,
        precisions: Precisions,
        motion: Motion,
    ) -> Result<TrainedModel> {
        let (target, seed) = (self.training_set.target().clone(), self.settings.seed);
        let mut model = TrainedModel::new(
            &learner.network(),
            posterior.map(Into::into),
            target,
            precisions.noise,
            seed,
        )?;
        let kernel = self.function_prior.as_ref().map(FunctionPrior::kernel);
        model.learned_prior = precisions.prior;
        model.motion = motion;
        model.kernel = kernel.map(ToString::to_string);
        Ok(model)
    }

    /// The error of a training that reached a non-finite number, with remedies.
    fn diverged(&self, error: &burn_bayes::Error) -> TabularError {
        let rate = match self.settings.optimizer {
            OptimizerName::Sgd => {
                "lower `learning_rate`: with sgd, divide it by the number of rows"
            }
            OptimizerName::Adam => "lower `learning_rate`",
        };
        TabularError::Numerical(format!(
            "{error}; {rate}, set `clip`, or standardise the columns"
        ))
    }

    /// The rows that train in an epoch (from 0); `None` for all.
    pub(super) fn seen_rows(&self, epoch: usize) -> Option<&[usize]> {
        let noise_rows = self.learned_noise.as_ref();
        noise_rows.and_then(|learned| learned.seen(epoch))
    }

    /// The shuffled rows of an epoch. While rows are held out, some of the others come twice, so that all
    /// epochs have the same number of steps.
    fn order(&self, epoch: usize) -> Vec<usize> {
        let noise = Noise::new(self.settings.seed).fold(SHUFFLING);
        let noise = noise.fold(epoch as u64);
        let rows = self.training_set.rows();
        match self.seen_rows(epoch) {
            None => shuffled(rows, noise),
            Some(seen) => {
                let rounds = (0..rows.div_ceil(seen.len()) as u64).flat_map(|round| {
                    let order = shuffled(seen.len(), noise.row(round));
                    order.into_iter().map(|at| seen[at])
                });
                rounds.take(rows).collect()
            }
        }
    }

    fn is_checkpoint_due(&self, epoch: usize) -> bool {
        let every = self.settings.checkpoint_every;
        every > 0 && epoch.is_multiple_of(every) && epoch < self.epochs()
    }
}

impl Batches for Training<'_> {
    type Batch = Batch;

    fn per_epoch(&self) -> usize {
        self.epoch_steps()
    }

    fn epoch(&self, epoch: usize, first: usize) -> impl Iterator<Item = Batch> {
        let order = self.order(epoch);
        let size = self.settings.batch_size;
        (first..self.epoch_steps()).map(move |batch| {
            let rows = &order[batch * size..order.len().min((batch + 1) * size)];
            self.training_set.batch(rows, &self.device)
        })
    }
}

/// The posterior; `None` for a point estimate, and if it needs more iterates.
fn posterior_so_far(
    learner: &impl Learner,
) -> std::result::Result<Option<FactorPosterior>, burn_bayes::Error> {
    match learner.posterior() {
        Err(error) if error.is_too_early() => Ok(None),
        posterior => posterior,
    }
}

/// Stops a training as the observer of its fit does, and does not show it its epochs.
struct OnlyInterrupts<'a>(&'a mut dyn Observer);

impl Observer for OnlyInterrupts<'_> {
    fn interrupts(&self) -> bool {
        self.0.interrupts()
    }
}

/// Adapts the observer of a fit to the observer of the trainer.
struct Watched<'a, 'b> {
    training: &'a Training<'b>,
    observer: &'a mut dyn Observer,
    /// Those after the last epoch.
    precisions: Precisions,
    /// The posterior's mean before the last quarter of the epochs.
    earlier_mean: Option<Vec<f32>>,
}

/// Why a training failed.
enum Failure {
    Training(burn_bayes::Error),
    Observer(TabularError),
}

impl From<burn_bayes::Error> for Failure {
    fn from(error: burn_bayes::Error) -> Self {
        Self::Training(error)
    }
}

impl Watched<'_, '_> {
    /// The model with the noise estimated after the epoch.
    fn with_next_noise<L: Learner>(
        &mut self,
        summary: &EpochSummary,
        model: L,
    ) -> Result<L, Failure> {
        let learned = self.training.learned_noise.as_ref();
        let Some(learned) = learned.filter(|learned| learned.is_due(summary.epoch)) else {
            return Ok(model);
        };
        let snapshot = self.training.snapshot(&model, &self.precisions);
        let estimate = snapshot.and_then(|snapshot| learned.estimate(&snapshot));
        self.precisions.noise = estimate.map_err(Failure::Observer)?;
        Ok(model.with_noise_precisions(&self.precisions.noise))
    }

    /// The model with the prior precision estimated after the epoch.
    fn with_next_prior<L: Learner>(
        &mut self,
        summary: &EpochSummary,
        model: L,
    ) -> Result<L, Failure> {
        let learned = self.training.learned_prior.as_ref();
        let Some(learned) = learned.filter(|learned| learned.is_due(summary.epoch)) else {
            return Ok(model);
        };
        let Some(posterior) = model.posterior()? else {
            return Ok(model);
        };
        let precisions = learned.next(&posterior, self.precisions.prior.as_deref());
        let precisions = precisions.map_err(Failure::Observer)?;
        let model = model.with_prior(&prior(self.training.settings, Some(&precisions)))?;
        self.precisions.prior = Some(precisions);
        Ok(model)
    }
}

impl<L: Learner> TrainingObserver<L> for Watched<'_, '_> {
    type Error = Failure;

    fn epoch(&mut self, summary: &EpochSummary, model: &L) -> Result<ControlFlow<()>, Failure> {
        let epochs = self.training.epochs();
        if summary.epoch == last_quarter(epochs) {
            self.earlier_mean = posterior_so_far(model)?.as_ref().map(mean);
        }
        let record = EpochRecord {
            epoch: summary.epoch,
            epochs,
            loss: summary.loss + self.training.constant_of_loss,
            r_hat: None,
        };
        let snapshot = || -> Result<TrainedModel> {
            let mut snapshot = self.training.snapshot(model, &self.precisions)?;
            let has_no_iterates =
                snapshot.posterior().is_none() && self.training.settings.method.is_of_iterates();
            snapshot.is_before_posterior = has_no_iterates || model.is_before_posterior();
            Ok(snapshot)
        };
        Ok(self.observer.epoch(&record, &snapshot))
    }

    fn adjusted(&mut self, summary: &EpochSummary, model: L) -> Result<L, Failure> {
        let model = self.with_next_noise(summary, model)?;
        self.with_next_prior(summary, model)
    }

    fn interrupts(&self) -> bool {
        self.observer.interrupts()
    }

    fn checkpoint(
        &mut self,
        when: CheckpointTime,
        checkpoint: &dyn Fn() -> burn_bayes::Result<train::Checkpoint>,
    ) -> Result<(), Failure> {
        let training = self.training;
        let is_due = match when {
            CheckpointTime::Interruption => true,
            CheckpointTime::Epoch(epoch) => training.is_checkpoint_due(epoch),
        };
        if !(is_due && self.observer.keeps_checkpoints()) {
            return Ok(());
        }
        let state = checkpoint()?;
        let epochs = state.step as usize / training.epoch_steps();
        let checkpoint = Checkpoint {
            epochs,
            precisions: self.precisions.clone(),
            earlier_mean: self.earlier_mean.clone(),
            state,
        };
        self.observer
            .checkpoint(checkpoint)
            .map_err(Failure::Observer)
    }
}
