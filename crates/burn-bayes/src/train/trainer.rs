//! [`Trainer`]: a training loop whose trainings can be interrupted and resumed exactly.
//!
//! Burn's Learner saves checkpoints at the end of an epoch, and its shuffling data loader does not save
//! its state. This loop asks for every batch by epoch and number, so a training that goes on from a
//! [`Checkpoint`], even in the middle of an epoch, ends in the same bits as one that was never interrupted.

mod model;
mod observer;

use std::fmt;
use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::optim::{GradientsAccumulator, GradientsParams, ModuleOptimizer};
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Tensor};
use burn::train::{TrainOutput, TrainStep};
use burn_bayes_graph::module_device;

pub use self::model::{BatchLoss, TrainerModel};
pub use self::observer::{
    Checkpoint, CheckpointTime, EpochLosses, EpochSummary, TrainingEnd, TrainingObserver,
};
use super::compiled::{CompiledStep, Recordings};
use crate::error::{Error, Result};
use crate::kernels::host_scalar;
use crate::methods::checks;
use crate::noise::Noise;
use crate::predict::has_random_layers;
use crate::verdict::Verdict;

/// The batches of a training, each a function of its epoch and its number.
pub trait Batches {
    /// What the model's training step takes.
    type Batch;

    /// The number of batches in an epoch.
    fn per_epoch(&self) -> usize;

    /// The batches of an epoch (from 0), from number `first` (from 0) on: as many as
    /// [`per_epoch`](Self::per_epoch) says.
    fn epoch(&self, epoch: usize, first: usize) -> impl Iterator<Item = Self::Batch>;
}

/// A model in training.
///
/// ```
/// use burn::{module::Module, nn::{Linear, LinearConfig}, optim::AdamConfig, tensor::{Device, Tensor}};
/// use burn::train::{RegressionOutput, TrainOutput, TrainStep};
/// use burn_bayes::GaussianNll;
/// use burn_bayes::train::{Batches, Trainer, TrainerModel};
///
/// #[derive(Module, Debug)]
/// struct Line {
///     layer: Linear,
/// }
///
/// impl TrainStep for Line {
///     type Input = (Tensor<2>, Tensor<2>);
///     type Output = RegressionOutput;
///
///     fn step(&self, (inputs, targets): Self::Input) -> TrainOutput<RegressionOutput> {
///         let output = self.layer.forward(inputs);
///         let loss = GaussianNll::new(1.0).forward(output.clone(), targets.clone());
///         TrainOutput::new(self, loss.backward(), RegressionOutput::new(loss, output, targets))
///     }
/// }
///
/// impl TrainerModel for Line {}
///
/// struct OneBatch(Device);
///
/// impl Batches for OneBatch {
///     type Batch = (Tensor<2>, Tensor<2>);
///
///     fn per_epoch(&self) -> usize {
///         1
///     }
///
///     fn epoch(&self, _epoch: usize, first: usize) -> impl Iterator<Item = Self::Batch> {
///         let batch = (Tensor::ones([4, 1], &self.0), Tensor::ones([4, 1], &self.0));
///         std::iter::once(batch).skip(first)
///     }
/// }
///
/// let device = Device::default().autodiff();
/// let model = Line { layer: LinearConfig::new(1, 1).init(&device) };
/// let trainer = Trainer::new(model, AdamConfig::new().init(), 0.1).with_epochs(20);
/// let run = trainer.run(&OneBatch(device), &mut ())?;
/// assert_eq!(run.trainer.steps(), 20);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
pub struct Trainer<L> {
    model: L,
    optimizer: ModuleOptimizer,
    rates: ModuleLrScheduler,
    epochs: usize,
    accumulation: usize,
    seed: u64,
    checks_rows: bool,
    has_verdict: bool,
    step: u64,
    /// The sum of the losses of the epoch's rows so far.
    loss_sum: LossSum,
    recordings: Recordings,
    losses: Option<EpochLosses>,
    /// Their number, or that of the batches if the outputs do not say it.
    rows: u64,
}

/// A sum of losses, which is not read from a device before it is needed.
#[derive(Default)]
struct LossSum {
    on_host: f32,
    on_device: Option<Tensor<1>>,
}

impl LossSum {
    /// Adds the mean loss of some rows.
    fn add(&mut self, mean: Tensor<1>, rows: usize) {
        match host_scalar(&mean) {
            Some(mean) => self.on_host += mean * rows as f32,
            None => {
                let loss = mean.mul_scalar(rows as f64);
                self.on_device = Some(match self.on_device.take() {
                    Some(sum) => sum + loss,
                    None => loss.add_scalar(std::mem::take(&mut self.on_host)),
                });
            }
        }
    }

    fn total(&self) -> f32 {
        let on_device = self.on_device.clone();
        self.on_host + on_device.map_or(0.0, |sum| sum.into_scalar::<f32>())
    }
}

/// What a trainer knows about an epoch.
struct Epoch<L: TrainStep> {
    /// Its number, from 0.
    number: usize,
    batches: usize,
    /// Whether the model has layers that draw random numbers, such as dropout.
    is_random: bool,
    largest_batch: usize,
    /// Whether the outputs say how many rows they have.
    has_rows: bool,
    /// Steps without outputs, if the model has them.
    compiled: Option<CompiledStep<L>>,
}

/// Initialises lazy parameters, whose random numbers would otherwise be those of the first step's layers.
fn initialize<M: Module>(model: &M) {
    struct Initialize;
    impl ModuleVisitor for Initialize {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            drop(param.val());
        }
    }
    model.visit(&mut Initialize);
}

/// The stream of the random numbers of layers, from the trainer's seed.
const LAYERS: u64 = 0x6c61_7965;

impl<L: fmt::Debug> fmt::Debug for Trainer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trainer")
            .field("model", &self.model)
            .field("epochs", &self.epochs)
            .field("accumulation", &self.accumulation)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// A training that ended.
#[derive(Debug)]
pub struct TrainingRun<L> {
    /// The model and the optimiser as they are now.
    pub trainer: Trainer<L>,
    /// Why it ended.
    pub end: TrainingEnd,
    /// What is known about the fit; `None` for a plain model, and for a training that was interrupted.
    pub verdict: Option<Verdict>,
}

impl<L: TrainerModel> Trainer<L> {
    /// A training of one epoch, before its first step.
    pub fn new(
        model: L,
        optimizer: ModuleOptimizer,
        learning_rate: impl Into<ModuleLrScheduler>,
    ) -> Self {
        Self {
            model,
            optimizer,
            rates: learning_rate.into(),
            epochs: 1,
            accumulation: 1,
            seed: 0,
            checks_rows: true,
            has_verdict: true,
            step: 0,
            loss_sum: LossSum::default(),
            recordings: Recordings::default(),
            losses: None,
            rows: 0,
        }
    }

    /// Trains for this many epochs.
    #[must_use]
    pub fn with_epochs(self, epochs: usize) -> Self {
        Self { epochs, ..self }
    }

    /// Adds the gradients of this many batches, at least one, before each optimiser step, as Burn's Learner does. The
    /// last step of an epoch takes the batches that are left; its gradients are multiplied by `batches` over their
    /// number, so that all steps are averages over their batches, up to the same factor.
    #[must_use]
    pub fn with_accumulation(self, batches: usize) -> Self {
        Self {
            accumulation: batches,
            ..self
        }
    }

    /// Sets the seed of layers that draw random numbers, such as dropout; 0 by default. Before every batch, the device's
    /// generator is seeded with a function of it, of the step and of the batch, so that a resumed training has the same
    /// masks. The seed of an algorithm is that of its draws.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Accepts epochs whose number of rows is not N, for batches that are not one pass over the training examples.
    ///
    /// By default, an epoch with at least twice or at most half as many rows as the N of a [`Bayesian`](super::Bayesian) model ends the
    /// training with an error, and one that differs by more than a batch is logged: variances are proportional to 1/N.
    #[must_use]
    pub fn without_row_check(self) -> Self {
        Self {
            checks_rows: false,
            ..self
        }
    }

    /// Ends without a [verdict](TrainingRun::verdict) on the fit, which costs the time of up to twenty steps.
    #[must_use]
    pub fn without_verdict(self) -> Self {
        Self {
            has_verdict: false,
            ..self
        }
    }

    /// Goes on from a checkpoint of the same model, optimiser and schedule.
    ///
    /// # Errors
    ///
    /// A checkpoint that does not fit them.
    pub fn resumed(mut self, checkpoint: &Checkpoint) -> Result<Self> {
        let damaged = |error: &dyn fmt::Display| {
            Error::storage(format!("the checkpoint cannot be used: {error}"))
        };
        let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(checkpoint.model.clone()));
        self.model = record
            .and_then(|record| self.model.try_load_record(record))
            .map_err(|error| damaged(&error))?;
        let optimizer = Bytes::from_bytes_vec(checkpoint.optimizer.clone());
        self.optimizer = self
            .optimizer
            .from_bytes(optimizer)
            .map_err(|error| damaged(&error))?;
        self.step = checkpoint.step;
        self.rows = checkpoint.rows;
        self.losses = checkpoint.losses;
        self.loss_sum = LossSum {
            on_host: checkpoint.loss_sum,
            on_device: None,
        };
        for _ in 0..self.step {
            self.rates.step();
        }
        Ok(self)
    }

    /// The model in its current state.
    pub fn model(&self) -> &L {
        &self.model
    }

    /// The model, without its optimiser.
    pub fn into_model(self) -> L {
        self.model
    }

    /// Optimiser steps made so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// The state between two steps.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let unwritable = |error: &dyn fmt::Display| {
            Error::storage(format!("a checkpoint cannot be made: {error}"))
        };
        // A record has the running statistics of batch norm as they were last read, and switching to inference reads them.
        drop(self.model.valid());
        let model = self.model.clone().into_record().into_bytes();
        let optimizer = self.optimizer.into_bytes();
        Ok(Checkpoint {
            step: self.step,
            loss_sum: self.loss_sum.total(),
            rows: self.rows,
            losses: self.losses,
            model: model.map_err(|error| unwritable(&error))?.to_vec(),
            optimizer: optimizer.map_err(|error| unwritable(&error))?.to_vec(),
        })
    }

    /// Makes the steps that are left. At the end the losses of up to four batches of the last epoch at four draws of the
    /// posterior are compared with those at its mean, and a warning is logged if the fit should not be used.
    ///
    /// # Errors
    ///
    /// An epoch without batches, or with another number of batches than announced; an accumulation of no batches; a
    /// gradient or a loss that is not finite, or a number of rows that contradicts N, with its epoch; an error of the
    /// observer.
    pub fn run<B, O>(mut self, batches: &B, observer: &mut O) -> Result<TrainingRun<L>, O::Error>
    where
        B: Batches<Batch = L::Input>,
        O: TrainingObserver<L>,
    {
        checks::counts([
            ("accumulation", self.accumulation),
            ("per_epoch", batches.per_epoch()),
        ])?;
        initialize(&self.model);
        self.model = self.model.with_faults_returned(true);
        let steps = batches.per_epoch().div_ceil(self.accumulation);
        self.model = self.model.with_length((self.epochs * steps) as u64);
        for number in self.step as usize / steps..self.epochs {
            let made = self.step as usize - number * steps;
            if made == 0 {
                self.loss_sum = LossSum::default();
                self.rows = 0;
            }
            let mut epoch = Epoch {
                number,
                batches: batches.per_epoch(),
                is_random: has_random_layers(&self.model),
                largest_batch: 0,
                has_rows: true,
                compiled: match self.accumulation {
                    1 => self.model.compiled(&self.recordings),
                    _ => None,
                },
            };
            let mut left = batches.epoch(number, made * self.accumulation);
            for step in made..steps {
                if observer.interrupts() {
                    observer.checkpoint(CheckpointTime::Interruption, &|| self.checkpoint())?;
                    return Ok(self.ended(TrainingEnd::Interrupted, None));
                }
                let count = (epoch.batches - step * self.accumulation).min(self.accumulation);
                self = self
                    .stepped(&mut epoch, left.by_ref(), count)
                    .map_err(|error| Error::in_epoch(number + 1, error))?;
            }
            let summary = self
                .summary(&epoch)
                .map_err(|error| Error::in_epoch(number + 1, Arc::new(error)))?;
            let losses = EpochLosses::after(self.losses, summary.epoch, summary.loss);
            self.losses = Some(losses);
            if observer.epoch(&summary, &self.model)?.is_break() {
                let verdict = self.verdict(batches, number);
                return Ok(self.ended(TrainingEnd::Stopped, verdict));
            }
            self.model = observer.adjusted(&summary, self.model)?;
            observer.checkpoint(CheckpointTime::Epoch(number + 1), &|| self.checkpoint())?;
        }
        let verdict = match self.epochs.checked_sub(1) {
            Some(last) => self.verdict(batches, last),
            None => None,
        };
        Ok(self.ended(TrainingEnd::Finished, verdict))
    }

    fn ended(mut self, end: TrainingEnd, verdict: Option<Verdict>) -> TrainingRun<L> {
        self.model = self.model.with_faults_returned(false);
        TrainingRun {
            trainer: self,
            end,
            verdict,
        }
    }

    /// The verdict after this epoch; a fit that should not be used is logged.
    fn verdict<B: Batches<Batch = L::Input>>(&self, batches: &B, epoch: usize) -> Option<Verdict> {
        if !self.has_verdict {
            return None;
        }
        let batches = &mut batches.epoch(epoch, 0);
        let since_best = self.losses.map_or(0.0, |of| of.recent - of.least);
        let verdict = self.model.verdict(batches, since_best);
        let verdict = verdict.unwrap_or_else(|error| {
            log::warn!("the verdict could not be computed: {error}");
            None
        });
        verdict.inspect(Verdict::warn)
    }

    /// One optimiser step on the next `count` batches.
    fn stepped(
        mut self,
        epoch: &mut Epoch<L>,
        batches: impl Iterator<Item = L::Input>,
        count: usize,
    ) -> Result<Self, Arc<Error>> {
        let mut sum = GradientsAccumulator::new();
        let mut gradients = GradientsParams::new();
        let mut found = 0;
        for batch in batches.take(count) {
            found += 1;
            let made = match &epoch.compiled {
                Some(step) => step(&self.model, &batch)?,
                None => None,
            };
            let rows = match made {
                Some(made) => {
                    gradients = made.gradients;
                    if let Some(loss) = made.loss {
                        self.loss_sum.add(loss, made.rows);
                    }
                    made.rows
                }
                None => {
                    let output = self.batch_step(batch, found as u64 - 1, epoch);
                    let rows = output.item.batch_rows();
                    epoch.has_rows &= rows.is_some();
                    let rows = rows.unwrap_or(1);
                    let loss = output.item.batch_loss().without_autodiff();
                    self.loss_sum.add(loss, rows);
                    match self.accumulation {
                        1 => gradients = output.grads,
                        _ => sum.accumulate(&self.model, output.grads),
                    }
                    rows
                }
            };
            if let Some(error) = self.model.fault() {
                return Err(error);
            }
            epoch.largest_batch = epoch.largest_batch.max(rows);
            self.rows += rows as u64;
        }
        if found < count {
            let step = self.step as usize % epoch.batches.div_ceil(self.accumulation);
            let problem = format!(
                "is {}, but the epoch has {} batches",
                epoch.batches,
                step * self.accumulation + found
            );
            return Err(Arc::new(Error::config("per_epoch", problem)));
        }
        if self.accumulation > 1 {
            gradients = sum.grads();
        }
        let rate = self.rates.step();
        self.step += 1;
        let factor = self.accumulation as f64 / count as f64;
        self.model =
            self.model
                .optimized(self.step, &mut self.optimizer, rate, gradients, factor)?;
        match self.model.fault() {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// The model's step on batch number `batch` of an optimiser step. Random numbers of its layers are a function of the
    /// numbers of step and batch.
    fn batch_step(
        &self,
        input: L::Input,
        batch: u64,
        epoch: &Epoch<L>,
    ) -> TrainOutput<<L as TrainStep>::Output> {
        let step = || TrainStep::step(&self.model, input);
        if !epoch.is_random {
            return step();
        }
        let noise = Noise::new(self.seed).fold(LAYERS).fold(self.step);
        let device = module_device(&self.model);
        noise.row(batch).seed_generator(&device.inner(), step)
    }

    fn summary(&self, epoch: &Epoch<L>) -> Result<EpochSummary> {
        let loss = f64::from(self.loss_sum.total()) / self.rows as f64;
        if !loss.is_finite() {
            return Err(Error::numerical("the loss is not finite"));
        }
        if let (true, true, Some(train_len)) =
            (self.checks_rows, epoch.has_rows, self.model.train_len())
        {
            check_rows(self.rows, train_len as u64, epoch)?;
        }
        let epoch = epoch.number + 1;
        Ok(EpochSummary { epoch, loss })
    }
}

/// Compares the rows of an epoch with N.
fn check_rows<L: TrainStep>(rows: u64, train_len: u64, epoch: &Epoch<L>) -> Result<()> {
    let problem = format!(
        "is {train_len}, but an epoch has {rows} rows; N is the number of training examples, to which variances are \
         inversely proportional: set it to {rows}, or use `Trainer::without_row_check` if an epoch is not one pass \
         over the examples"
    );
    if rows >= 2 * train_len || 2 * rows <= train_len {
        return Err(Error::config("train_len", problem));
    }
    if rows.abs_diff(train_len) > epoch.largest_batch as u64 && epoch.number == 0 {
        log::warn!("train_len {problem}");
    }
    Ok(())
}
