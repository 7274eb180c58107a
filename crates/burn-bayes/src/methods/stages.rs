//! The stages of a training, shared by all methods that learn a mean and a covariance.
//!
//! 1. **Mean.** Far from the mode, gradients with respect to a covariance describe the way there and not the
//!    posterior, so the mean is trained first ([`MeanStage`]): by Adam with the gradient at the mean itself, or by the
//!    user's optimiser.
//! 2. **Scale.** The curvature at a mean that fits its training data may be almost zero, although draws at the
//!    distance which that curvature suggests destroy the fit. So the covariance begins narrow, and each parameter's
//!    variances are multiplied by a common factor in [`SCALE_STEPS`] steps. With a draw θ = μ + δ and the gradient g
//!    of the mean negative log-likelihood, the bound grows with the logarithm of the variances of n weights by
//!    ½ Σ (1 − N g⊙δ − α⊙σ²), and n/2 is its Fisher information. A step is
//!    log σ² += ρ (1 − r) with r = (1/n) Σ (N g⊙δ + α⊙σ²), averaged over an antithetic pair of draws. Because
//!    r contains all the curvature along a draw, it is exact where single weights are not yet.
//! 3. **Posterior.** Everything learns, and the posterior is the average of these iterates ([`Averaging`]).
//!
//! With Adam's average of M ĝ²/N over mini-batches of M examples, ĝ = N g + α⊙μ, the shape of the covariance at the
//! beginning of the second stage is that of the empirical Fisher information: where the mean fluctuates around the
//! mode, E ĝ² = (N²/M) Var g, so this is N Var g.

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::optim::{GradAdaptor, GradientsParams};
use burn::tensor::{Device, Tensor};
use burn_bayes_graph::Layout;

use super::algorithm::{
    Draw, FunctionTerms, Proposal, Setup, Stage, StepId, Update, draw_noises, take_sum,
};
use super::average::{Average, Averaging, Iterate};
use super::mean_stage::{MeanProgress, MeanStage};
use super::start::{InitialDeviation, buffer, updated};
use crate::error::{Error, Result};
use crate::kernels::composed::to_host;
use crate::kernels::statistics::column_dot;
use crate::noise::Noise;
use crate::prior::{Prior, PriorPrecisions};
use crate::recorded::{Recorded, RecordedValue};

/// The largest deviation at the beginning of the second stage.
pub(crate) const NARROW: InitialDeviation = InitialDeviation::FanInScaled(0.03);

/// The number of steps of the second stage, and the largest part of a training whose length is known.
const SCALE_STEPS: u64 = 64;
const SCALE_PART: f64 = 0.1;
/// ρ in the first [`FAST_STEPS`] steps; then it falls as one over their number.
const SCALE_RATE: f64 = 0.5;
const FAST_STEPS: u64 = 24;
/// The bounds of 1 − r: a negative r, of a concave loss or by noise, counts as zero.
const GROWTHS: (f64, f64) = (-4.0, 1.0);

/// Adam's decay rates and its smallest divisor.
const DECAYS: (f64, f64) = (0.9, 0.999);
const SMALLEST: f64 = 1e-8;

/// What does not change in a training.
#[derive(Clone, Debug)]
pub(crate) struct StageSettings {
    pub(crate) train_len: usize,
    pub(crate) mean_stage: MeanStage,
    /// The learning rate of Adam; `None` if the user's optimiser trains the mean.
    pub(crate) mean_rate: Option<f64>,
    /// Whether the start of the covariance is found in the second stage.
    pub(crate) has_scale_stage: bool,
    pub(crate) averaging: Averaging,
}

impl StageSettings {
    /// The memory of the stages for this number of weights, with an average of so many numbers.
    pub(crate) fn bytes(&self, weights: usize, averaged: usize) -> usize {
        let adam = usize::from(self.mean_rate.is_some()) * 2 * weights * size_of::<f32>();
        let first = match self.mean_stage.is_none() {
            true => 0,
            false => MeanProgress::bytes(weights) + adam,
        };
        let average = usize::from(self.averaging != Averaging::None);
        first + average * averaged * size_of::<f32>()
    }
}

/// The state of the stages.
#[derive(Module, Debug)]
pub(crate) struct Stages {
    /// Absent with a single stage.
    progress: Option<MeanProgress>,
    adam: Option<Adam>,
    /// Have no values of their own: what a step observes is accumulated under their ids.
    scales: Param<Tensor<1>>,
    examples: Param<Tensor<1>>,
    /// The largest number of examples of a step.
    largest: Recorded<u64>,
    /// Steps of the second stage.
    scaled: Recorded<u64>,
    average: Option<Average>,
    /// Iterates in the average.
    averaged: Recorded<u64>,
    /// The present prior, which may have changed during the training.
    prior: Recorded<EntryPrior>,
    #[module(skip)]
    settings: Arc<StageSettings>,
    /// The number of steps of the whole training, if it is known.
    #[module(skip)]
    length: Option<u64>,
}

/// What the first two stages learn from the gradients of a step.
#[derive(Clone, Debug)]
pub(crate) enum StageSignal {
    /// The gradient of the mean negative log-likelihood at the mean.
    Mean(Tensor<1>),
    /// Σ (1 − N g⊙δ − α⊙σ²) over the weights of every parameter.
    Scale(Tensor<1>),
}

/// A step of the first two stages.
#[derive(Clone, Debug)]
pub struct StageUpdate {
    /// The number of the step, from 1.
    step: u64,
    examples: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// The user's optimiser trains the mean.
    Counted,
    /// ĝ.
    Mean(Box<Tensor<1>>),
    /// 1 − r of every parameter.
    Scale(Vec<f64>),
}

/// A closed-form update in any stage.
#[derive(Debug)]
pub enum Staged<U> {
    /// Of the first two stages.
    Stage(StageUpdate),
    /// Of the last stage.
    Posterior(U),
}

impl<U> Staged<U> {
    /// A step of the first two stages as the update of an algorithm; one that is not finite is rejected.
    pub(crate) fn update(update: Result<StageUpdate>) -> Result<Update<Self>> {
        match update {
            Ok(update) => Ok(Update::ClosedForm(Self::Stage(update))),
            Err(error) if error.is_numerical() => Ok(Update::Rejected(error)),
            Err(error) => Err(error),
        }
    }
}

/// What follows for the covariance from a step of the first two stages.
#[derive(Debug)]
pub(crate) enum StageEvent {
    Nothing,
    /// The first stage is over: the curvature of the loss there, N Var g, if Adam made it.
    Start(Option<Tensor<1>>),
    /// The variance of every weight is to be multiplied by this.
    Rescale(Tensor<1>),
}

impl Stages {
    pub(crate) fn new(
        settings: StageSettings,
        setup: &Setup,
        prior: &Prior,
        average: Average,
    ) -> Result<Self> {
        let layout = &setup.layout;
        let prior = EntryPrior::new(prior, layout)?;
        let mean = average.mean();
        let device = mean.device();
        let is_staged = !settings.mean_stage.is_none();
        let adam = is_staged && settings.mean_rate.is_some();
        let count = || Recorded::new(0, &device);
        Ok(Self {
            prior: Recorded::new(prior, &device),
            progress: is_staged.then(|| MeanProgress::new(&mean)),
            adam: adam.then(|| Adam::new(&mean)),
            scales: buffer(Tensor::zeros([layout.entries().len().max(1)], &device)),
            examples: buffer(Tensor::zeros([1], &device)),
            largest: count(),
            scaled: count(),
            average: (settings.averaging != Averaging::None).then_some(average),
            averaged: count(),
            settings: Arc::new(settings),
            length: None,
        })
    }

    /// The prior precisions.
    pub(crate) fn prior(&self) -> &PriorPrecisions {
        &self.prior.value().precisions
    }

    /// With another prior from the next step on.
    pub(crate) fn with_prior(self, setup: &Setup, prior: &Prior) -> Result<Self> {
        let prior = EntryPrior::new(prior, &setup.layout)?;
        Ok(Self {
            prior: self.prior.with_value(prior),
            ..self
        })
    }

    /// In a training of this number of steps, the first stage takes at most two fifths of them, unless its
    /// end is set.
    #[must_use]
    pub(crate) fn with_length(self, steps: u64) -> Self {
        Self {
            length: Some(steps),
            ..self
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        let Some(progress) = &self.progress else {
            return Stage::Single;
        };
        let has_scales = self.settings.has_scale_stage && *self.scaled.value() < self.scale_steps();
        match progress.end() {
            None => Stage::Mean,
            Some(_) if has_scales => Stage::Scale,
            Some(_) => Stage::Posterior,
        }
    }

    /// Whether there is a posterior.
    pub(crate) fn is_learning_posterior(&self) -> bool {
        matches!(self.stage(), Stage::Posterior | Stage::Single)
    }

    /// The precision with which the second stage would begin now, if Adam trains the mean.
    pub(crate) fn start_so_far(&self, setup: &Setup) -> Option<Tensor<1>> {
        let adam = self.adam.as_ref().filter(|adam| *adam.steps.value() > 0);
        let is_found = self.stage() == Stage::Mean && self.settings.has_scale_stage;
        adam.filter(|_| is_found)
            .map(|adam| self.start(setup, adam.curvature()))
    }

    /// The number of steps of the second stage.
    fn scale_steps(&self) -> u64 {
        let part = |steps| ((SCALE_PART * steps as f64) as u64).clamp(1, SCALE_STEPS);
        self.length.map_or(SCALE_STEPS, part)
    }

    /// The proposal of the first stage, the mean itself; `None` after it.
    pub(crate) fn mean_proposal(
        &self,
        setup: &Setup,
        id: StepId,
        mean: Tensor<1>,
    ) -> Option<Proposal> {
        (self.stage() == Stage::Mean).then(|| {
            let draw = Draw {
                weights: mean,
                noise: id.noise(setup.noise),
            };
            Proposal::new(id, vec![draw])
        })
    }

    /// The noises of the draws of a gradient: an antithetic pair in the second stage, else as they are set.
    pub(crate) fn noises(
        &self,
        setup: &Setup,
        id: StepId,
        draws: usize,
        antithetic: bool,
    ) -> Vec<Noise> {
        let noise = id.noise(setup.noise);
        match self.stage() {
            Stage::Scale => draw_noises(noise, 2, true),
            _ => draw_noises(noise, draws, antithetic),
        }
    }

    /// The average of the iterates of the posterior, if there is one.
    pub(crate) fn average(&self) -> Option<&Average> {
        self.average.as_ref().filter(|_| *self.averaged.value() > 0)
    }

    /// Takes in the iterate after step number `step` (from 1) of the last stage.
    #[must_use]
    pub(crate) fn with_iterate(mut self, step: u64, iterate: impl FnOnce() -> Iterate) -> Self {
        let averaging = self.settings.averaging;
        if !self.is_learning_posterior() || !averaging.is_from(step) {
            return self;
        }
        let count = self.averaged.value() + 1;
        let weight = averaging.weight(count);
        self.average = self
            .average
            .map(|average| average.with(&iterate(), count, weight));
        self.averaged = self.averaged.with_value(count);
        self
    }

    /// The sums over the weights of every parameter.
    pub(crate) fn sums(layout: &Layout, values: Tensor<1>) -> Tensor<1> {
        let entries = layout.entries().iter();
        let sums = entries.map(|entry| values.clone().narrow(0, entry.offset, entry.len()).sum());
        let sums: Vec<Tensor<1>> = sums.collect();
        match sums.is_empty() {
            true => Tensor::zeros([1], &values.device()),
            false => Tensor::cat(sums, 0),
        }
    }

    /// What the stage learns from the gradients of the mean negative log-likelihood at the draws of a proposal around
    /// a mean and with variances; `None` in the last stage.
    pub(crate) fn signal(
        &self,
        setup: &Setup,
        proposal: &Proposal,
        gradients: &[Tensor<1>],
        gaussian: impl FnOnce() -> (Tensor<1>, Tensor<1>),
    ) -> Option<StageSignal> {
        match self.stage() {
            Stage::Posterior | Stage::Single => None,
            Stage::Mean => {
                let gradient = averaged(gradients.iter().cloned())?;
                let gradient = with_function_gradient(gradient, proposal, setup.ess);
                Some(StageSignal::Mean(gradient))
            }
            Stage::Scale => {
                let (mean, variance) = gaussian();
                let draws = proposal.draws.iter().zip(gradients);
                let products = draws.map(|(draw, gradient)| {
                    gradient.clone() * (draw.weights.clone() - mean.clone())
                });
                let products = averaged(products)?.mul_scalar(setup.ess);
                let alpha = self.prior().tensor(&variance.device());
                let explained = products + alpha * variance.clone();
                let function = proposal.function.as_ref();
                let explained = match function.and_then(|terms| terms.rows.clone()) {
                    Some(rows) => explained + column_dot(rows.clone(), rows) * variance,
                    None => explained,
                };
                let growth = explained.neg().add_scalar(1.0);
                Some(StageSignal::Scale(Self::sums(&setup.layout, growth)))
            }
        }
    }

    /// Registers what a mini-batch observed, as a sum over its examples.
    pub(crate) fn register(
        &self,
        signal: Option<StageSignal>,
        examples: usize,
        mean: &Param<Tensor<1>>,
        sums: &mut GradientsParams,
    ) {
        let weight = examples as f64;
        match signal {
            Some(StageSignal::Mean(gradient)) => {
                sums.register(mean.id, gradient.mul_scalar(weight))
            }
            Some(StageSignal::Scale(growth)) => {
                sums.register(self.scales.id, growth.mul_scalar(weight));
            }
            None => {}
        }
        let device = self.examples.val().device().inner();
        let count = Tensor::<1>::from_data([examples as f32], &device);
        sums.register(self.examples.id, count);
    }

    /// The number of examples of a step, `[1]`, from the sums of [`register`](Self::register).
    pub(crate) fn take_examples(
        &self,
        sums: &mut GradAdaptor,
        device: &Device,
    ) -> Option<Tensor<1>> {
        take_sum(sums, &self.examples, device)
    }

    /// Registers what a mini-batch of the second stage observed as a part of an average over the mini-batches of a step.
    pub(crate) fn register_average(
        &self,
        signal: StageSignal,
        share: f64,
        gradients: &mut GradientsParams,
    ) {
        if let StageSignal::Scale(growth) = signal {
            gradients.register(self.scales.id, growth.mul_scalar(share));
        }
    }

    /// The update of the second stage from the average of [`register_average`](Self::register_average).
    pub(crate) fn update_from_average(
        &self,
        setup: &Setup,
        step: u64,
        mean: &Param<Tensor<1>>,
        gradients: &mut GradAdaptor,
    ) -> Result<Option<StageUpdate>> {
        let mean = mean.val().without_autodiff();
        let growth = take_sum(gradients, &self.scales, &mean.device());
        let signal = growth.map(StageSignal::Scale);
        signal
            .map(|signal| self.update(setup, step, Some(signal), &mean, 0))
            .transpose()
    }

    /// The step after which the last stage began, or 0.
    pub(crate) fn posterior_since(&self) -> u64 {
        let end = self.progress.as_ref().and_then(MeanProgress::end);
        end.unwrap_or(0) + self.scaled.value()
    }

    /// The update of the first two stages from the sums of [`register`](Self::register); `None` in the last.
    pub(crate) fn update_from_sum(
        &self,
        setup: &Setup,
        step: u64,
        mean: &Param<Tensor<1>>,
        sums: &mut GradAdaptor,
    ) -> Result<Option<StageUpdate>> {
        if self.is_learning_posterior() {
            return Ok(None);
        }
        let device = mean.val().device().inner();
        let Some(examples) = self.take_examples(sums, &device) else {
            return Ok(None);
        };
        let share = |sum: Tensor<1>| sum / examples.clone();
        let signal = match self.stage() {
            Stage::Scale => take_sum(sums, &self.scales, &device)
                .map(share)
                .map(StageSignal::Scale),
            _ if self.adam.is_some() => take_sum(sums, mean, &device)
                .map(share)
                .map(StageSignal::Mean),
            _ => None,
        };
        let examples = to_host(examples)[0];
        let mean = mean.val().without_autodiff();
        self.update(setup, step, signal, &mean, examples.round() as u64)
            .map(Some)
    }

    /// The update of the first two stages.
    ///
    /// # Errors
    ///
    /// A numerical error if the step would not be finite.
    pub(crate) fn update(
        &self,
        setup: &Setup,
        step: u64,
        signal: Option<StageSignal>,
        mean: &Tensor<1>,
        examples: u64,
    ) -> Result<StageUpdate> {
        let kind = match signal {
            None => Kind::Counted,
            Some(StageSignal::Mean(gradient)) => {
                let alpha = self.prior().tensor(&mean.device());
                let total = gradient.clone().mul_scalar(setup.ess) + alpha * mean.clone();
                let square: f64 = total.clone().square().sum().into_scalar();
                if !square.is_finite() {
                    return Err(setup.non_finite(step, gradient));
                }
                Kind::Mean(Box::new(total))
            }
            Some(StageSignal::Scale(growth)) => {
                let growth = to_host(growth).into_iter().zip(setup.layout.entries());
                let growth = growth.map(|(sum, entry)| sum / entry.len() as f64);
                let growth: Vec<f64> = growth.collect();
                if let Some(bad) = growth.iter().position(|value| !value.is_finite()) {
                    let path = &setup.layout.entries()[bad].path;
                    return Err(Error::non_finite(step, path));
                }
                Kind::Scale(growth)
            }
        };
        Ok(StageUpdate {
            step,
            examples,
            kind,
        })
    }

    /// Applies an update to the stages and the mean, and says what follows for the covariance.
    pub(crate) fn apply(
        mut self,
        setup: &Setup,
        update: StageUpdate,
        mean: Param<Tensor<1>>,
    ) -> (Self, Param<Tensor<1>>, StageEvent) {
        let StageUpdate {
            step,
            examples,
            kind,
        } = update;
        self = self.with_examples(examples);
        let largest = *self.largest.value();
        match (kind, self.adam.take(), self.settings.mean_rate) {
            (Kind::Mean(gradient), Some(adam), Some(rate)) => {
                let share = examples as f64 / setup.ess;
                let adam = adam.with(*gradient, share);
                let typical = largest as f64 / setup.ess;
                let change = adam.direction(typical).mul_scalar(rate);
                let mean = updated(mean, |mean| mean - change);
                let (stages, is_over) = self.with_mean(step, &mean.val().without_autodiff());
                // The moments are not needed after their stage.
                let event = match is_over {
                    true => StageEvent::Start(Some(adam.curvature())),
                    false => StageEvent::Nothing,
                };
                let stages = Self {
                    adam: Some(adam),
                    ..stages
                };
                (stages, mean, event)
            }
            (Kind::Scale(growth), adam, _) => {
                self.adam = adam;
                let made = *self.scaled.value();
                self.scaled = self.scaled.with_value(made + 1);
                let rate = SCALE_RATE * (FAST_STEPS as f64 / (made + 1) as f64).min(1.0);
                let factor = |growth: f64| (rate * growth.clamp(GROWTHS.0, GROWTHS.1)).exp();
                let factors = growth.into_iter().map(factor);
                let factors = expanded(&setup.layout, factors, &mean.val().device().inner());
                (self, mean, StageEvent::Rescale(factors))
            }
            (_, adam, _) => {
                self.adam = adam;
                (self, mean, StageEvent::Nothing)
            }
        }
    }

    /// Takes in the number of examples of a step.
    pub(crate) fn with_examples(self, examples: u64) -> Self {
        let largest = examples.max(*self.largest.value());
        Self {
            largest: self.largest.with_value(largest),
            ..self
        }
    }

    /// Takes in the mean after step number `step` (from 1), and says whether the first stage is over with it.
    pub(crate) fn with_mean(mut self, step: u64, mean: &Tensor<1>) -> (Self, bool) {
        let StageSettings {
            train_len,
            mean_stage,
            ..
        } = *self.settings;
        if self.stage() != Stage::Mean {
            return (self, false);
        }
        let stage = mean_stage.resolved(train_len, *self.largest.value(), self.length);
        let progress = self.progress.take();
        self.progress = progress.map(|progress| progress.after_step(mean, step, stage));
        let is_over = self.stage() != Stage::Mean;
        (self, is_over)
    }

    /// The precision at the beginning of the second stage: that of the curvature and the prior, multiplied for
    /// every parameter so that it is at least that of [`NARROW`] on average.
    pub(crate) fn start(&self, setup: &Setup, curvature: Tensor<1>) -> Tensor<1> {
        let device = curvature.device();
        let precision = curvature + self.prior().expanded(&device);
        let layout = &setup.layout;
        let narrow = NARROW.log_variance(layout, &device).neg().exp();
        let ratio = narrow / precision.clone();
        let ratios = to_host(Self::sums(layout, ratio));
        let ratios = ratios.into_iter().zip(layout.entries());
        let factors = ratios.map(|(sum, entry)| (sum / entry.len() as f64).max(1.0));
        precision * expanded(layout, factors, &device)
    }
}

/// A prior whose precisions are the same for all weights of a parameter, as its record needs.
#[derive(Clone, Debug)]
struct EntryPrior {
    precisions: PriorPrecisions,
    /// The numbers of weights of the parameters.
    lengths: Vec<usize>,
}

impl EntryPrior {
    fn new(prior: &Prior, layout: &Layout) -> Result<Self> {
        let lengths = layout.entries().iter().map(|entry| entry.len());
        Ok(Self {
            precisions: prior.resolve(layout)?,
            lengths: lengths.collect(),
        })
    }
}

impl RecordedValue for EntryPrior {
    fn numbers(&self) -> Vec<u64> {
        let mut start = 0;
        let numbers = self.lengths.iter().map(|len| {
            let precision = self.precisions.at(start);
            start += len;
            precision.to_bits()
        });
        numbers.collect()
    }

    fn restored(self, numbers: &[u64]) -> Self {
        if numbers == self.numbers() {
            return self;
        }
        let precisions = numbers.iter().map(|&bits| f64::from_bits(bits));
        let precisions = PriorPrecisions::of_runs(self.lengths.iter().copied().zip(precisions));
        Self { precisions, ..self }
    }
}

/// A value of every parameter for each of its weights.
fn expanded(layout: &Layout, values: impl Iterator<Item = f64>, device: &Device) -> Tensor<1> {
    let pieces = values.zip(layout.entries());
    let pieces = pieces.map(|(value, entry)| Tensor::full([entry.len()], value, device));
    Tensor::cat(pieces.collect(), 0)
}

/// The gradient of the mean negative log-likelihood plus 1/N of that of a prior over functions.
pub(crate) fn with_function_gradient(
    gradient: Tensor<1>,
    proposal: &Proposal,
    weight: f64,
) -> Tensor<1> {
    let function = proposal.function.as_ref();
    match function.and_then(FunctionTerms::mean_gradient) {
        Some(added) => gradient + added.div_scalar(weight),
        None => gradient,
    }
}

/// The average of gradients.
pub(crate) fn averaged(gradients: impl ExactSizeIterator<Item = Tensor<1>>) -> Option<Tensor<1>> {
    let share = 1.0 / gradients.len() as f64;
    let sum = gradients.reduce(|sum, gradient| sum + gradient);
    sum.map(|sum| sum.mul_scalar(share))
}

/// Adam's averages.
#[derive(Module, Debug)]
struct Adam {
    moment: Param<Tensor<1>>,
    /// That of M ĝ²/N.
    square: Param<Tensor<1>>,
    steps: Recorded<u64>,
}

impl Adam {
    fn new(mean: &Tensor<1>) -> Self {
        Self {
            moment: buffer(mean.zeros_like()),
            square: buffer(mean.zeros_like()),
            steps: Recorded::new(0, &mean.device()),
        }
    }

    /// Takes in the gradient of a step with this share of the training examples.
    fn with(self, gradient: Tensor<1>, share: f64) -> Self {
        let (first, second) = DECAYS;
        let moment = updated(self.moment, |moment| {
            moment.mul_scalar(first) + gradient.clone().mul_scalar(1.0 - first)
        });
        let square = updated(self.square, |square| {
            square.mul_scalar(second) + gradient.square().mul_scalar((1.0 - second) * share)
        });
        let steps = self.steps.value() + 1;
        Self {
            moment,
            square,
            steps: self.steps.with_value(steps),
        }
    }

    /// The direction of the step, to be multiplied by the learning rate and subtracted, for a usual share of the
    /// training examples.
    fn direction(&self, share: f64) -> Tensor<1> {
        let squares = self.curvature().div_scalar(share);
        self.corrected(&self.moment, DECAYS.0) / squares.sqrt().add_scalar(SMALLEST)
    }

    /// The average of M ĝ²/N.
    fn curvature(&self) -> Tensor<1> {
        self.corrected(&self.square, DECAYS.1)
    }

    /// An average that began at zero, without its bias towards zero.
    fn corrected(&self, average: &Param<Tensor<1>>, decay: f64) -> Tensor<1> {
        let steps = i32::try_from(*self.steps.value()).unwrap_or(i32::MAX);
        let average = average.val().without_autodiff();
        average.div_scalar(1.0 - decay.powi(steps))
    }
}
