//! The stages of a training, shared by all methods that learn a mean and a covariance.
//!
//! 1. **Mean.** Far from the mode, gradients with respect to a covariance describe the way there and not the
//!    posterior, so the mean is trained first ([`MeanStage`](super::MeanStage)): by Adam with the gradient at the mean itself, or by the
//!    user's optimiser.
//! 2. **Scale.** The curvature at a mean that fits its training data may be almost zero, although draws at the
//!    distance which that curvature suggests destroy the fit. So the covariance begins narrow, and each parameter's
//!    variances are multiplied by a common factor in up to 64 steps. With a draw θ = μ + δ and the gradient g
//!    of the mean negative log-likelihood, the bound grows with the logarithm of the variances of n weights by
//!    ½ Σ (1 − N g⊙δ − α⊙σ²), and n/2 is its Fisher information. A step is
//!    log σ² += ρ (1 − r) with r = (1/n) Σ (N g⊙δ + α⊙σ²), averaged over an antithetic pair of draws. Because
//!    r contains all the curvature along a draw, it is exact where single weights are not yet.
//! 3. **Posterior.** Everything learns, and the posterior is the average of these iterates ([`Averaging`]).
//!
//! With Adam's average of M ĝ²/N over mini-batches of M examples, ĝ = N g + α⊙μ, the shape of the covariance at the
//! beginning of the second stage is that of the empirical Fisher information: where the mean fluctuates around the
//! mode, E ĝ² = (N²/M) Var g, so this is N Var g.

mod adam;
mod entry_prior;
mod settings;
mod signal;

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use burn_bayes_eval::Bounded;
use burn_bayes_graph::Layout;

use self::adam::Adam;
use self::entry_prior::{Entries, EntryPrior};
use self::settings::SCALE_PART;
pub(crate) use self::settings::StageSettings;
pub use self::signal::StageSignal;
pub(super) use self::signal::StageUpdate;
pub(crate) use self::signal::{StageEvent, averaged, products, with_function_gradient};
use super::algorithm::Stage;
use super::average::{Average, Averaging, Iterate};
use super::mean_stage::{MeanProgress, MeanStage, share_of_prior};
use super::setup::{Setup, StepId, draw_noises};
use super::start::{InitialDeviation, buffer};
use crate::error::Result;
use crate::kernels::composed::to_host;
use crate::noise::Noise;
use crate::prior::{Prior, PriorPrecisions};
use crate::recorded::Recorded;

/// ρ in the first [`FAST_STEPS`] steps; then it falls as one over their number.
const SCALE_RATE: f64 = 0.5;
const FAST_STEPS: u64 = 24;
/// The bounds of 1 − r: a negative r, of a concave loss or by noise, counts as zero.
const GROWTHS: (f64, f64) = (-4.0, 1.0);

/// The stages of a training: which one it is in, the moments and counts that they need, the average of iterates and the
/// prior.
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
    /// Parameters whose scale changes no loss in the first stage.
    scale_free: Recorded<Entries>,
    /// The present prior, which may have changed during the training.
    prior: Recorded<EntryPrior>,
    #[module(skip)]
    settings: Arc<StageSettings>,
    /// The number of steps of the whole training, if it is known.
    #[module(skip)]
    length: Option<u64>,
}

impl Stages {
    pub(crate) fn new(
        settings: StageSettings,
        setup: &Setup,
        prior: &Prior,
        average: Average,
    ) -> Result<Self> {
        let layout = &setup.layout;
        let prior = EntryPrior::new(prior, setup)?;
        let mean = average.iterate().mean;
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
            scale_free: Recorded::new(Entries::none(layout), &device),
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
        let prior = EntryPrior::new(prior, setup)?;
        Ok(Self {
            prior: self.prior.with_value(prior),
            ..self
        })
    }

    /// With precisions multiplied by a factor.
    #[must_use]
    pub(crate) fn with_prior_times(self, factor: f64) -> Self {
        let prior = self.prior.value().times(factor);
        Self {
            prior: self.prior.with_value(prior),
            ..self
        }
    }

    /// In a training of this number of steps, unless it is known already.
    #[must_use]
    pub(crate) fn with_length(self, steps: u64) -> Self {
        Self {
            length: self.length.or(Some(steps)),
            ..self
        }
    }

    /// In a model in which the scale of the parameters at these paths changes no loss in the first stage.
    #[must_use]
    pub(crate) fn with_scale_free(self, layout: &Layout, paths: &[String]) -> Self {
        let found = Entries::of(layout, paths);
        Self {
            scale_free: self.scale_free.with_value(found),
            ..self
        }
    }

    /// The number of steps of the whole training, if it is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    pub(crate) fn stage(&self) -> Stage {
        let Some(progress) = &self.progress else {
            return Stage::Single;
        };
        let has_scales = *self.scaled.value() < self.scale_steps();
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

    /// The precision with which the second stage would begin now, and the curvature that it contains, if Adam trains the
    /// mean.
    pub(crate) fn start_so_far(&self, setup: &Setup) -> Option<(Tensor<1>, Tensor<1>)> {
        let adam = self.adam.as_ref().filter(|adam| adam.steps() > 0);
        let is_found = self.stage() == Stage::Mean && self.settings.scale_steps > 0;
        adam.filter(|_| is_found).map(|adam| {
            let curvature = adam.curvature();
            (self.start(setup, curvature.clone()), curvature)
        })
    }

    /// The number of steps of the second stage.
    fn scale_steps(&self) -> u64 {
        let most = self.settings.scale_steps;
        let part = |steps| ((SCALE_PART * steps as f64) as u64).max(1).min(most);
        self.length.map_or(most, part)
    }

    /// The noises of the draws of a gradient: an antithetic pair in the second stage, else as they are set.
    pub(crate) fn noises(&self, setup: &Setup, id: StepId, draws: (usize, bool)) -> Vec<Noise> {
        let noise = id.noise(setup.noise);
        match self.stage() {
            Stage::Scale => draw_noises(noise, 2, true),
            _ => draw_noises(noise, draws.0, draws.1),
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

    /// The step after which the last stage began, or 0.
    pub(crate) fn posterior_since(&self) -> u64 {
        let end = self.progress.as_ref().and_then(MeanProgress::end);
        end.unwrap_or(0) + self.scaled.value()
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
        if self.stage() != Stage::Mean {
            return (self, false);
        }
        let stage = self.mean_stage();
        let progress = self.progress.take();
        self.progress = progress.map(|progress| progress.after_step(mean, step, stage));
        let is_over = self.stage() != Stage::Mean;
        (self, is_over)
    }

    fn mean_stage(&self) -> MeanStage {
        let StageSettings {
            train_len,
            mean_stage,
            ..
        } = *self.settings;
        mean_stage.resolved(train_len, *self.largest.value(), self.length)
    }

    /// What of the prior counts in step number `step` (from 1): it grows in the first stage.
    pub(crate) fn prior_in_step(&self, step: u64) -> PriorPrecisions {
        match self.stage() {
            Stage::Mean => {
                let share = share_of_prior(step, self.mean_stage().warm_up());
                let prior = self.prior.value().times(share);
                prior.without(self.scale_free.value())
            }
            _ => self.prior().clone(),
        }
    }

    /// The precision at the beginning of the second stage: that of the curvature and the prior, multiplied for
    /// every parameter so that it is at least that of [`InitialDeviation::NARROW`] on average.
    pub(crate) fn start(&self, setup: &Setup, curvature: Tensor<1>) -> Tensor<1> {
        let device = curvature.device();
        let precision = curvature + self.prior().expanded(&device);
        let layout = &setup.layout;
        let narrow = InitialDeviation::NARROW
            .log_variance(layout, &device)
            .neg()
            .exp();
        let ratio = narrow / precision.clone();
        let ratios = to_host(Self::sums(layout, ratio));
        let ratios = ratios.into_iter().zip(layout.entries());
        let factors = ratios.map(|(sum, entry)| (sum / entry.len() as f64).at_least(1.0));
        precision * expanded(layout, factors, &device)
    }
}

/// A value of every parameter for each of its weights.
fn expanded(layout: &Layout, values: impl Iterator<Item = f64>, device: &Device) -> Tensor<1> {
    let pieces = values.zip(layout.entries());
    let pieces = pieces.map(|(value, entry)| Tensor::full([entry.len()], value, device));
    Tensor::cat(pieces.collect(), 0)
}
