//! Natural-gradient updates, shared by several algorithms: a Gaussian N(μ, (UᵀU + diag d)⁻¹), whose
//! mean is updated by μ⁺ = μ − η (P⁺)⁻¹ ĝ with the new precision P⁺ = U⁺ᵀU⁺ + diag d⁺ and
//! ĝ = N g + α⊙μ.
//!
//! **Safeguards.** A step that is not finite is rejected and changes nothing. A step whose length
//! √(Δᵀ P⁺ Δ), in posterior standard deviations, exceeds `radius` is shortened to `radius`: the mean of a
//! network moves where the curvature is still that of the precision. It moves the Gaussian by a divergence of
//! at most radius²/2 nats.
//!
//! **First stage.** Far from the mode, squared gradients describe the way there and not the curvature, and a
//! precision made of them stops the mean. So the mean is trained first, by Adam with the gradient ĝ at the mean
//! itself ([`MeanStage`]). At its end the precision is (M/N) s + α with Adam's average s of ĝ², M the number of
//! examples of a batch: where the mean fluctuates around the mode, E ĝ² = (N²/M) Var g, so this is the
//! curvature N Var g, the empirical Fisher information.
//!
//! The posterior has the average of the means of the second stage ([`Averaging`]).
//!
//! | symbol | here |
//! |---|---|
//! | μ, U, d | `mean`, `factors`, `precision` |
//! | v, the momentum average of the steps | `velocity` |
//! | s | `MeanTraining::squares` |
//! | ĝᵀ(P⁺)⁻¹ĝ | `decrement` |

mod settings;
mod update;

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
pub(crate) use settings::{NaturalSettings, fraction};
pub(crate) use update::NaturalStep;
pub use update::NaturalUpdate;
use update::{Kind, MeanGradient};

use super::algorithm::{Draw, FunctionTerms, Proposal, Setup, StepId, Update};
use super::average::{Averaging, approach};
use super::mean_stage::MeanStage;
use super::mean_training::{FIRST_DEVIATION, MeanTraining};
use super::start::{buffer, updated};
use crate::error::Result;
use crate::kernels::statistics::PrecisionParts;
use crate::kernels::{self, MeanStep, MeanValues};
use crate::noise::Noise;
use crate::posterior::FactorPosterior;
use crate::prior::{Prior, PriorPrecisions};

/// A Gaussian in precision form, updated by natural gradients.
#[derive(Module, Debug)]
pub(crate) struct NaturalGaussian {
    mean: Param<Tensor<1>>,
    factors: Option<Param<Tensor<2>>>,
    precision: Param<Tensor<1>>,
    velocity: Option<Param<Tensor<1>>>,
    average: Option<Param<Tensor<1>>>,
    mean_training: Option<MeanTraining>,
    #[module(skip)]
    fixed: Arc<Fixed>,
}

/// What does not change in a training.
#[derive(Debug)]
struct Fixed {
    settings: NaturalSettings,
    setup: Setup,
    prior: PriorPrecisions,
}

impl NaturalGaussian {
    /// The initial Gaussian: zero factors, and unless a deviation is set the prior's precision or, in a first
    /// stage, a large one.
    pub(crate) fn start<M: Module>(
        settings: NaturalSettings,
        model: &M,
        rank: usize,
    ) -> Result<Self> {
        let setup = Setup::new(model, &settings.group, settings.train_len, settings.noise)?;
        let layout = &setup.layout;
        setup.check_rank(rank)?;
        let prior = settings.prior.resolve(layout)?;
        let weights = layout.flatten(model)?;
        let device = weights.device();
        let mean = settings.initial_mean.of(weights);
        let has_first_stage = settings.mean_stage != MeanStage::None;
        let narrow = has_first_stage.then_some(FIRST_DEVIATION);
        let precision = match settings.initial_deviation.or(narrow) {
            Some(deviation) => deviation.log_variance(layout, &device).neg().exp(),
            None => prior.expanded(&device),
        };
        let velocity = (settings.momentum > 0.0).then(|| buffer(mean.zeros_like()));
        let average = (settings.averaging != Averaging::None).then(|| buffer(mean.clone()));
        Ok(Self {
            factors: (rank > 0).then(|| buffer(Tensor::zeros([rank, layout.len()], &device))),
            mean_training: has_first_stage.then(|| MeanTraining::new(&mean)),
            mean: buffer(mean),
            precision: buffer(precision),
            velocity,
            average,
            fixed: Arc::new(Fixed {
                settings,
                setup,
                prior,
            }),
        })
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.fixed.setup
    }

    pub(crate) fn prior(&self) -> &PriorPrecisions {
        &self.fixed.prior
    }

    /// The last iterate of the mean, if the posterior's is an average.
    pub(crate) fn last_mean(&self) -> Option<Tensor<1>> {
        let is_averaged = self.average.is_some();
        is_averaged.then(|| self.mean.val().without_autodiff())
    }

    /// The same Gaussian, learned under another prior.
    pub(crate) fn with_prior(self, prior: &Prior) -> Result<Self> {
        let Fixed {
            settings, setup, ..
        } = self.fixed.as_ref();
        let fixed = Fixed {
            settings: NaturalSettings {
                prior: prior.clone(),
                ..settings.clone()
            },
            setup: setup.clone(),
            prior: prior.resolve(&setup.layout)?,
        };
        Ok(Self {
            fixed: Arc::new(fixed),
            ..self
        })
    }

    /// The noise of the draws of a gradient.
    pub(crate) fn noise(&self, id: StepId) -> Noise {
        id.noise(self.fixed.setup.noise)
    }

    pub(crate) fn parts(&self) -> PrecisionParts {
        PrecisionParts {
            mean: self.mean.val().without_autodiff(),
            factors: self
                .factors
                .as_ref()
                .map(|factors| factors.val().without_autodiff()),
            precision: self.precision.val().without_autodiff(),
        }
    }

    /// The posterior after `step` steps.
    pub(crate) fn posterior(&self, step: u64) -> Result<FactorPosterior> {
        let PrecisionParts {
            mean,
            factors,
            precision,
        } = self.parts();
        let mean = match &self.average {
            Some(average) if self.averaged(step) > 0 => average.val().without_autodiff(),
            _ => mean,
        };
        let layout = self.fixed.setup.layout.clone();
        FactorPosterior::precision(layout, mean, factors, precision)
    }

    /// The step after which the precision learns; `None` while only the mean does.
    fn second_stage(&self) -> Option<u64> {
        let training = self.mean_training.as_ref();
        training.map_or(Some(0), MeanTraining::end)
    }

    /// The number of means in the average after `step` steps.
    fn averaged(&self, step: u64) -> u64 {
        let averaging = self.fixed.settings.averaging;
        averaging.count(self.second_stage(), step)
    }

    /// The proposal of the first stage, the mean itself; `None` after it.
    pub(crate) fn mean_proposal(&self, id: StepId) -> Option<Proposal> {
        self.second_stage().is_none().then(|| {
            let draw = Draw {
                weights: self.parts().mean,
                noise: self.noise(id),
            };
            Proposal::new(id, vec![draw])
        })
    }

    /// The update of the first stage from the gradient of the mean negative log-likelihood of `examples`
    /// examples at the mean; `None` after it.
    pub(crate) fn mean_update(
        &self,
        id: StepId,
        gradient: impl FnOnce() -> Tensor<1>,
        examples: usize,
    ) -> Option<Update<NaturalUpdate>> {
        if self.second_stage().is_some() {
            return None;
        }
        let Fixed { setup, prior, .. } = self.fixed.as_ref();
        let (gradient, train_len) = (gradient(), setup.train_len as f64);
        let mean = self.parts().mean;
        let total = gradient.clone().mul_scalar(train_len) + prior.expanded(&mean.device()) * mean;
        let squared_norm: f64 = total.clone().square().sum().into_scalar();
        if !squared_norm.is_finite() {
            return Some(Update::Rejected(setup.non_finite(id.step + 1, gradient)));
        }
        Some(Update::ClosedForm(NaturalUpdate {
            step: id.step + 1,
            kind: Kind::Mean(Box::new(MeanGradient {
                gradient: total,
                share: examples as f64 / train_len,
            })),
        }))
    }

    /// Applies an update.
    #[must_use]
    pub(crate) fn apply_step(self, update: NaturalUpdate, learning_rate: f64) -> Self {
        let NaturalUpdate { step, kind } = update;
        match kind {
            Kind::Natural(natural) => self
                .with_natural_step(*natural, learning_rate)
                .with_average(step),
            Kind::Mean(gradient) => self.with_mean_step(*gradient, step),
        }
    }

    /// Step number `step` of the first stage.
    fn with_mean_step(mut self, MeanGradient { gradient, share }: MeanGradient, step: u64) -> Self {
        let settings = &self.fixed.settings;
        let Some(training) = self.mean_training.take() else {
            return self;
        };
        let examples = (share * settings.train_len as f64).round() as usize;
        let stage = settings.mean_stage.resolved(settings.train_len, examples);
        let rate = settings.mean_stage_rate;
        let (training, mean) = training.step(self.mean, gradient, step, rate, stage);
        self.mean = mean;
        if training.end().is_some() && settings.initial_deviation.is_none() {
            let curvature = training.squares(step).mul_scalar(share);
            let prior = self.fixed.prior.expanded(&curvature.device());
            self.precision = updated(self.precision, |_| curvature + prior);
        }
        self.mean_training = Some(training);
        self
    }

    /// With the mean after step number `step` in the average.
    fn with_average(mut self, step: u64) -> Self {
        let count = self.averaged(step);
        if count > 0 {
            let weight = self.fixed.settings.averaging.weight(count);
            let mean = self.mean.val().without_autodiff();
            let average = self.average;
            self.average = average.map(|average| approach(average, &mean, weight));
        }
        self
    }

    fn with_natural_step(mut self, step: NaturalStep, learning_rate: f64) -> Self {
        let NaturalStep {
            gradient,
            factors,
            precision,
            weights,
            decrement,
        } = step;
        let settings = &self.fixed.settings;
        let reach = learning_rate * decrement.sqrt();
        let velocity = self.velocity.as_ref().map(Param::val);
        let MeanValues { mean, velocity } = kernels::mean_step(
            PrecisionParts {
                mean: self.mean.val().without_autodiff(),
                factors: factors.clone(),
                precision: precision.clone(),
            },
            velocity.map(Tensor::without_autodiff),
            gradient,
            MeanStep {
                weights: &weights,
                scale: (settings.radius / reach).min(1.0),
                momentum: settings.momentum,
                learning_rate,
            },
        );
        self.mean = updated(self.mean, |_| mean);
        self.precision = updated(self.precision, |_| precision);
        self.factors = replaced(self.factors, factors);
        self.velocity = replaced(self.velocity, velocity);
        self
    }
}

/// The gradient of the mean negative log-likelihood plus 1/N of that of a prior over functions.
pub(crate) fn with_function_gradient(
    gradient: Tensor<1>,
    proposal: &Proposal,
    train_len: f64,
) -> Tensor<1> {
    let function = proposal.function.as_ref();
    match function.and_then(FunctionTerms::mean_gradient) {
        Some(added) => gradient + added.div_scalar(train_len),
        None => gradient,
    }
}

fn replaced<const R: usize>(
    buffer: Option<Param<Tensor<R>>>,
    value: Option<Tensor<R>>,
) -> Option<Param<Tensor<R>>> {
    match (buffer, value) {
        (Some(buffer), Some(value)) => Some(updated(buffer, |_| value)),
        (buffer, _) => buffer,
    }
}
