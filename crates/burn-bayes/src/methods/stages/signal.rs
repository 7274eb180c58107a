//! What the first two stages learn from gradients, and the steps that they make.

use burn::module::Param;
use burn::optim::{GradAdaptor, GradientsParams};
use burn::tensor::{Device, Tensor};
use burn_bayes_graph::Layout;

use super::{FAST_STEPS, GROWTHS, SCALE_RATE, Stages, expanded};
use crate::error::{Error, Result};
use crate::kernels::composed::to_host;
use crate::kernels::statistics::column_dot;
use crate::kernels::sum;
use crate::methods::algorithm::Stage;
use crate::methods::function_terms::FunctionTerms;
use crate::methods::method_state::{Context, take_sum};
use crate::methods::proposal::Proposal;
use crate::methods::setup::Setup;
use crate::methods::start::updated;

/// What the first two stages learn from the gradients of a step.
#[derive(Clone, Debug)]
pub enum StageSignal {
    /// The gradient of the mean negative log-likelihood at the mean; where the user's optimiser trains the mean, that of
    /// the whole objective.
    Mean(Tensor<1>),
    /// Σ (1 − N g⊙δ − α⊙σ²) over the weights of every parameter.
    Scale(Tensor<1>),
}

impl StageSignal {
    /// What the first stage learns from gradients of the mean negative log-likelihood at the mean.
    pub fn mean(setup: &Setup, proposal: &Proposal, gradients: Vec<Tensor<1>>) -> Result<Self> {
        let gradient = averaged(gradients.into_iter())?;
        Ok(Self::Mean(with_function_gradient(
            gradient, proposal, setup.ess,
        )))
    }

    /// What the second stage learns from such gradients at draws around a mean with variances.
    pub fn scale(
        context: Context<'_>,
        mean: &Tensor<1>,
        variance: Tensor<1>,
        proposal: &Proposal,
        gradients: &[Tensor<1>],
    ) -> Result<Self> {
        let products =
            products(proposal, gradients.iter().cloned(), mean)?.mul_scalar(context.setup.ess);
        let alpha = context.prior.tensor(&variance.device());
        let explained = products + alpha * variance.clone();
        let function = proposal.function.as_ref();
        let explained = match function.and_then(|terms| terms.rows.clone()) {
            Some(rows) => explained + column_dot(rows.clone(), rows) * variance,
            None => explained,
        };
        Ok(Self::growth(context.setup, explained.neg().add_scalar(1.0)))
    }

    /// What the second stage learns, from 1 − N g⊙δ − α⊙σ² of every weight.
    pub fn growth(setup: &Setup, growth: Tensor<1>) -> Self {
        Self::Scale(Stages::sums(&setup.layout, growth))
    }
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
    /// ĝ.
    Mean(Box<Tensor<1>>),
    /// 1 − r of every parameter.
    Scale(Vec<f64>),
}

/// What follows for the covariance from a step of the first two stages.
#[derive(Debug)]
pub(crate) enum StageEvent {
    Nothing,
    /// The first stage is over: the curvature of the loss there, N Var g.
    Start(Tensor<1>),
    /// The variance of every weight is to be multiplied by this.
    Rescale(Tensor<1>),
}

impl Stages {
    /// The sums over the weights of every parameter.
    pub(crate) fn sums(layout: &Layout, values: Tensor<1>) -> Tensor<1> {
        let entries = layout.entries().iter();
        let sums = entries.map(|entry| sum(values.clone().narrow(0, entry.offset, entry.len())));
        let sums: Vec<Tensor<1>> = sums.collect();
        match sums.is_empty() {
            true => Tensor::zeros([1], &values.device()),
            false => Tensor::cat(sums, 0),
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

    /// Registers what a mini-batch observed for the user's optimiser: of the second stage, as a part of an average over the
    /// mini-batches of a step.
    pub(crate) fn register_average(
        &self,
        signal: StageSignal,
        share: f64,
        mean: &Param<Tensor<1>>,
        gradients: &mut GradientsParams,
    ) {
        match signal {
            StageSignal::Mean(gradient) => gradients.register(mean.id, gradient),
            StageSignal::Scale(growth) => {
                gradients.register(self.scales.id, growth.mul_scalar(share));
            }
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
            .map(|signal| self.update(setup, step, signal, &mean, 0))
            .transpose()
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
        let examples = self.take_examples(sums, &device);
        let (sum, signal): (_, fn(Tensor<1>) -> StageSignal) = match self.stage() {
            Stage::Scale => (take_sum(sums, &self.scales, &device), StageSignal::Scale),
            _ => (take_sum(sums, mean, &device), StageSignal::Mean),
        };
        let Some((sum, examples)) = sum.zip(examples) else {
            return Ok(None);
        };
        let signal = signal(sum / examples.clone());
        let examples = to_host(examples)[0].round() as u64;
        let mean = mean.val().without_autodiff();
        self.update(setup, step, signal, &mean, examples).map(Some)
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
        signal: StageSignal,
        mean: &Tensor<1>,
        examples: u64,
    ) -> Result<StageUpdate> {
        let kind = match signal {
            StageSignal::Mean(gradient) => {
                let alpha = self.prior_in_step(step).tensor(&mean.device());
                let total = gradient.clone().mul_scalar(setup.ess) + alpha * mean.clone();
                let square: f64 = total.clone().square().sum().into_scalar();
                if !square.is_finite() {
                    return Err(setup.non_finite(step, gradient));
                }
                Kind::Mean(Box::new(total))
            }
            StageSignal::Scale(growth) => {
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
        match kind {
            Kind::Mean(gradient) => {
                // They exist where such a signal is learned.
                let (Some(adam), Some(rate)) = (self.adam.take(), self.settings.mean_rate) else {
                    return (self, mean, StageEvent::Nothing);
                };
                let adam = adam.with(*gradient, examples as f64 / setup.ess);
                let usual = *self.largest.value() as f64 / setup.ess;
                let change = adam.direction(usual).mul_scalar(rate);
                let mean = updated(mean, |mean| mean - change);
                let (mut stages, is_over) = self.with_mean(step, &mean.val().without_autodiff());
                let event = match is_over {
                    true => StageEvent::Start(adam.curvature()),
                    false => StageEvent::Nothing,
                };
                stages.adam = Some(adam);
                (stages, mean, event)
            }
            Kind::Scale(growth) => {
                let made = self.scaled.value() + 1;
                self.scaled = self.scaled.with_value(made);
                let rate = SCALE_RATE * (FAST_STEPS as f64 / made as f64).min(1.0);
                let factor = |growth: f64| (rate * growth.clamp(GROWTHS.0, GROWTHS.1)).exp();
                let factors = growth.into_iter().map(factor);
                let factors = expanded(&setup.layout, factors, &mean.val().device().inner());
                (self, mean, StageEvent::Rescale(factors))
            }
        }
    }
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

/// The average of g⊙(θ−μ) over draws θ.
pub(crate) fn products(
    proposal: &Proposal,
    gradients: impl ExactSizeIterator<Item = Tensor<1>>,
    mean: &Tensor<1>,
) -> Result<Tensor<1>> {
    let draws = proposal.draws.iter().zip(gradients);
    averaged(draws.map(|(draw, gradient)| gradient * (draw.weights.clone() - mean.clone())))
}

/// The average of gradients.
pub(crate) fn averaged(gradients: impl ExactSizeIterator<Item = Tensor<1>>) -> Result<Tensor<1>> {
    let share = 1.0 / gradients.len() as f64;
    let sum = gradients.reduce(|sum, gradient| sum + gradient);
    let sum = sum.ok_or_else(|| Error::config("draws", "gave no gradients"))?;
    Ok(sum.mul_scalar(share))
}
