//! Natural-gradient updates, shared by several algorithms: a Gaussian N(μ, (UᵀU + diag d)⁻¹), whose
//! mean is updated by μ⁺ = μ − η (P⁺)⁻¹ ĝ with the new precision P⁺ = U⁺ᵀU⁺ + diag d⁺ and
//! ĝ = N g + α⊙μ.
//!
//! **Safeguards.** A step that is not finite is rejected and changes nothing. A step whose length
//! √(Δᵀ P⁺ Δ), in posterior standard deviations, exceeds `radius` is shortened to `radius`: the mean of a
//! network moves where the curvature is still that of the precision. It moves the Gaussian by a divergence of
//! at most radius²/2 nats.
//!
//! The mean is trained first, and then the scale of the precision ([`Stages`]). The posterior has the average of the
//! means of the last stage ([`Averaging`](super::Averaging)).
//!
//! | symbol | here |
//! |---|---|
//! | μ, U, d | `mean`, `factors`, `precision` |
//! | v, the momentum average of the steps | `velocity` |
//! | ĝᵀ(P⁺)⁻¹ĝ | `decrement` |

mod settings;
mod update;

use std::fmt::Debug;
use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_bayes_eval::Bounded;
pub(crate) use settings::{NaturalSettings, fraction};
pub(crate) use update::NaturalStep;
pub use update::{NaturalUpdate, PrecisionUpdated};

use super::algorithm::{Draw, Proposal, Setup, Stage, StepId, Update};
use super::average::{Average, Iterate};
use super::stages::{NARROW, StageEvent, StageSignal, Staged, Stages};
use super::start::{buffer, updated};
use crate::error::Result;
use crate::kernels::statistics::PrecisionParts;
use crate::kernels::{self, MeanStep, MeanValues};
use crate::posterior::{FactorPosterior, PrecisionDraws, precision_draws};
use crate::prior::PriorPrecisions;

/// A Gaussian in precision form, updated by natural gradients.
#[derive(Module, Debug)]
pub(crate) struct NaturalGaussian {
    mean: Param<Tensor<1>>,
    factors: Option<Param<Tensor<2>>>,
    precision: Param<Tensor<1>>,
    velocity: Option<Param<Tensor<1>>>,
    stages: Stages,
    #[module(skip)]
    fixed: Arc<Fixed>,
}

/// What does not change in a training.
#[derive(Debug)]
struct Fixed {
    settings: NaturalSettings,
    setup: Setup,
}

impl NaturalGaussian {
    /// The initial Gaussian: zero factors, and unless a deviation is set the prior's precision or, in a first
    /// stage, a large one. `config` has no group.
    pub(crate) fn start<M: Module>(
        settings: NaturalSettings,
        config: &impl Debug,
        model: &M,
        rank: usize,
    ) -> Result<Self> {
        let setup = Setup::new(model, &settings.group, settings.train_len, settings.noise)?;
        let setup = setup.with_ess(settings.ess).with_settings(config);
        let layout = &setup.layout;
        setup.check_rank(rank)?;
        let weights = layout.flatten(model)?;
        let device = weights.device();
        let mean = settings.initial_mean.of(weights);
        let average = Average::new(Iterate::of_mean(mean.clone()));
        let stages = Stages::new(settings.stages(), &setup, &settings.prior, average)?;
        let narrow = (stages.stage() == Stage::Mean).then_some(NARROW);
        let precision = match settings.initial_deviation.or(narrow) {
            Some(deviation) => deviation.log_variance(layout, &device).neg().exp(),
            None => stages.prior().expanded(&device),
        };
        let velocity = (settings.momentum > 0.0).then(|| buffer(mean.zeros_like()));
        Ok(Self {
            factors: (rank > 0).then(|| buffer(Tensor::zeros([rank, layout.len()], &device))),
            stages,
            mean: buffer(mean),
            precision: buffer(precision),
            velocity,
            fixed: Arc::new(Fixed { settings, setup }),
        })
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.fixed.setup
    }

    pub(crate) fn prior(&self) -> &PriorPrecisions {
        self.stages.prior()
    }

    pub(crate) fn stages(&self) -> &Stages {
        &self.stages
    }

    pub(crate) fn map_stages(self, change: impl FnOnce(Stages) -> Stages) -> Self {
        Self {
            stages: change(self.stages),
            ..self
        }
    }

    /// The last iterate of the mean.
    pub(crate) fn last_mean(&self) -> Tensor<1> {
        self.mean.val().without_autodiff()
    }

    /// With another effective sample size.
    pub(crate) fn with_ess(self, ess: f64) -> Self {
        let Fixed { settings, setup } = self.fixed.as_ref();
        let fixed = Fixed {
            settings: settings.clone(),
            setup: setup.clone().with_ess(Some(ess)),
        };
        Self {
            fixed: Arc::new(fixed),
            ..self
        }
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

    /// The posterior.
    pub(crate) fn posterior(&self) -> Result<FactorPosterior> {
        let PrecisionParts {
            mean,
            factors,
            precision,
        } = self.parts();
        let mean = self.stages.average().map_or(mean, Average::mean);
        let setup = &self.fixed.setup;
        let precision = self.stages.start_so_far(setup).unwrap_or(precision);
        FactorPosterior::precision(setup.layout.clone(), mean, factors, precision)
    }

    /// The draws at which gradients are wanted; in the first stage, the mean.
    pub(crate) fn propose(&self, id: StepId, antithetic: bool) -> Result<Proposal> {
        let Fixed {
            setup, settings, ..
        } = self.fixed.as_ref();
        let parts = self.parts();
        if let Some(proposal) = self.stages.mean_proposal(setup, id, parts.mean.clone()) {
            return Ok(proposal);
        }
        let noises = self.stages.noises(setup, id, settings.draws, antithetic);
        let PrecisionDraws { draws, gram } = precision_draws(&parts, &noises)?;
        Ok(Proposal::new(id, Draw::all(draws, noises)).with_gram(gram))
    }

    /// The update of the first two stages from the gradients of the mean negative log-likelihood of `examples` examples
    /// at the draws; `None` in the last.
    pub(crate) fn stage_update(
        &self,
        proposal: &Proposal,
        gradients: &[Tensor<1>],
        examples: usize,
    ) -> Option<Result<Update<NaturalUpdate>>> {
        let setup = &self.fixed.setup;
        let parts = self.parts();
        let gaussian = || (parts.mean.clone(), parts.precision.clone().recip());
        let signal: StageSignal = self.stages.signal(setup, proposal, gradients, gaussian)?;
        let step = proposal.id.step + 1;
        let update = self
            .stages
            .update(setup, step, signal, &parts.mean, examples as u64);
        Some(Staged::update(update))
    }

    /// Applies an update.
    #[must_use]
    pub(crate) fn apply_step(mut self, update: NaturalUpdate, learning_rate: f64) -> Self {
        match update {
            Staged::Posterior(PrecisionUpdated { step, natural }) => {
                let mut next = self.with_natural_step(*natural, learning_rate);
                let mean = next.last_mean();
                next.stages = next.stages.with_iterate(step, || Iterate::of_mean(mean));
                next
            }
            Staged::Stage(update) => {
                let Fixed { setup, settings } = self.fixed.as_ref();
                let (stages, mean, event) = self.stages.apply(setup, update, self.mean);
                self.stages = stages;
                self.mean = mean;
                let precision = match event {
                    StageEvent::Start(curvature) if settings.initial_deviation.is_none() => {
                        updated(self.precision, |_| self.stages.start(setup, curvature))
                    }
                    StageEvent::Rescale(factors) => {
                        updated(self.precision, |precision| precision / factors)
                    }
                    _ => self.precision,
                };
                Self { precision, ..self }
            }
        }
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
                scale: (settings.radius / reach).at_most(1.0),
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

fn replaced<const R: usize>(
    buffer: Option<Param<Tensor<R>>>,
    value: Option<Tensor<R>>,
) -> Option<Param<Tensor<R>>> {
    match (buffer, value) {
        (Some(buffer), Some(value)) => Some(updated(buffer, |_| value)),
        (buffer, _) => buffer,
    }
}
