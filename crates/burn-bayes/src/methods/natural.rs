//! Natural-gradient updates, shared by several algorithms: a Gaussian N(μ, (UᵀU + diag d)⁻¹), whose
//! mean is updated by μ⁺ = μ − η (P⁺)⁻¹ ĝ with the new precision P⁺ = U⁺ᵀU⁺ + diag d⁺ and
//! ĝ = N g + α⊙μ.
//!
//! **Safeguards.** A step that is not finite is rejected and changes nothing. A step whose length
//! √(Δᵀ P⁺ Δ), in posterior standard deviations, exceeds `radius` is shortened to `radius`: the mean of a
//! network moves where the curvature is still that of the precision. It moves the Gaussian by a divergence of
//! at most radius²/2 nats.
//!
//! The training has [stages](super::stages), and the posterior has the average of the means of the last.
//!
//! | symbol | here |
//! |---|---|
//! | U, d | `factors`, `precision` |
//! | v, the momentum average of the steps | `velocity` |
//! | ĝᵀ(P⁺)⁻¹ĝ | `decrement` |

mod update;

use std::fmt::Debug;
use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_bayes_eval::Bounded;
pub(super) use update::NaturalStep;

use super::algorithm::FunctionPriorUse;
use super::average::Iterate;
use super::checks::{above_zero, fraction};
use super::method_state::{Context, Learns, MethodState, Start};
use super::proposal::{Draw, Proposal, Update};
use super::rate::Rate;
use super::setup::StepId;
use super::start::{InitialDeviation, buffer, updated};
use crate::error::Result;
use crate::kernels::statistics::PrecisionParts;
use crate::kernels::{self, MeanStep, MeanValues};
use crate::noise::Noise;
use crate::posterior::{FactorPosterior, PrecisionDraws, precision_draws};

/// The settings that the natural-gradient methods share.
#[derive(Clone, Copy, Debug)]
pub struct NaturalSettings {
    /// β.
    pub(crate) covariance_rate: Rate,
    pub(crate) momentum: f64,
    pub(crate) radius: f64,
    pub(crate) initial_deviation: Option<InitialDeviation>,
}

impl NaturalSettings {
    /// Checks the settings. The error names the field.
    pub(crate) fn validate(&self) -> Result<()> {
        self.covariance_rate.check_weight("covariance_rate")?;
        fraction("momentum", self.momentum)?;
        above_zero("radius", self.radius)?;
        let deviation = self.initial_deviation.map(InitialDeviation::scale);
        above_zero("initial_deviation", deviation.unwrap_or(1.0))
    }
}

/// A natural-gradient method: the step that it makes from gradients.
pub trait NaturalConfig: Clone + Debug + Send + Sync + 'static {
    /// What it learns from.
    type Signal;

    /// What these methods share.
    fn natural(&self) -> NaturalSettings;

    /// The draws at which gradients are wanted, made from those of the Gaussian.
    fn probed(&self, context: Context<'_>, parts: &PrecisionParts, proposal: Proposal) -> Proposal {
        let _ = (context, parts);
        proposal
    }

    /// The step from the gradients at the draws of a proposal for `examples` examples.
    fn step(
        &self,
        context: Context<'_>,
        parts: PrecisionParts,
        proposal: Proposal,
        gradients: Self::Signal,
        examples: usize,
    ) -> Result<Update<NaturalStep>>;
}

/// The precision of a Gaussian that is updated by natural gradients.
#[derive(Module, Debug)]
pub struct Natural<C: NaturalConfig> {
    factors: Option<Param<Tensor<2>>>,
    precision: Param<Tensor<1>>,
    velocity: Option<Param<Tensor<1>>>,
    #[module(skip)]
    config: Arc<C>,
}

impl<C: NaturalConfig> Natural<C> {
    /// The initial Gaussian: zero factors, and unless a deviation is set the prior's precision or, in a first
    /// stage, a large one.
    pub(crate) fn start<M>(config: &C, start: &Start<'_, M>, rank: usize) -> Result<Self> {
        let layout = &start.setup.layout;
        start.setup.check_rank(rank)?;
        let device = start.mean.device();
        let settings = config.natural();
        let narrow = start.is_staged.then_some(InitialDeviation::NARROW);
        let precision = match settings.initial_deviation.or(narrow) {
            Some(deviation) => deviation.log_variance(layout, &device).neg().exp(),
            None => start.prior.expanded(&device),
        };
        let velocity = (settings.momentum > 0.0).then(|| buffer(start.mean.zeros_like()));
        Ok(Self {
            factors: (rank > 0).then(|| buffer(Tensor::zeros([rank, layout.len()], &device))),
            precision: buffer(precision),
            velocity,
            config: Arc::new(config.clone()),
        })
    }

    /// The method's settings.
    pub fn config(&self) -> &C {
        &self.config
    }

    fn parts(&self, mean: Tensor<1>) -> PrecisionParts {
        let factors = self.factors.as_ref();
        PrecisionParts {
            mean,
            factors: factors.map(|factors| factors.val().without_autodiff()),
            precision: self.precision.val().without_autodiff(),
        }
    }
}

impl<C: NaturalConfig> MethodState for Natural<C> {
    type Signal = C::Signal;
    type Posterior = FactorPosterior;
    type Step = NaturalStep;

    const LEARNS: Learns = Learns::AtOnce;
    const FUNCTION_PRIOR: FunctionPriorUse = FunctionPriorUse::Curvature;

    fn propose(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        id: StepId,
        noises: Vec<Noise>,
    ) -> Result<Proposal> {
        let parts = self.parts(mean);
        let PrecisionDraws { draws, gram } = precision_draws(&parts, &noises)?;
        let proposal = Proposal::new(id, Draw::all(draws, noises)).with_gram(gram);
        Ok(self.config.probed(context, &parts, proposal))
    }

    fn variance(&self, _context: Context<'_>) -> Tensor<1> {
        self.precision.val().without_autodiff().recip()
    }

    fn started(mut self, _: Context<'_>, precision: Tensor<1>, _curvature: Tensor<1>) -> Self {
        self.precision = updated(self.precision, |_| precision);
        self
    }

    fn rescaled(mut self, _context: Context<'_>, factors: Tensor<1>) -> Self {
        self.precision = updated(self.precision, |precision| precision / factors);
        self
    }

    fn update(
        &self,
        context: Context<'_>,
        mean: &Param<Tensor<1>>,
        proposal: Proposal,
        gradients: C::Signal,
        examples: usize,
    ) -> Result<Update<NaturalStep>> {
        let parts = self.parts(mean.val().without_autodiff());
        self.config
            .step(context, parts, proposal, gradients, examples)
    }

    fn apply_step(
        mut self,
        _context: Context<'_>,
        mean: Param<Tensor<1>>,
        _step: u64,
        update: NaturalStep,
        learning_rate: f64,
    ) -> (Self, Param<Tensor<1>>) {
        let NaturalStep {
            gradient,
            factors,
            precision,
            weights,
            decrement,
        } = update;
        let settings = self.config.natural();
        let reach = learning_rate * decrement.sqrt();
        let velocity = self.velocity.as_ref().map(Param::val);
        let values = kernels::mean_step(
            PrecisionParts {
                mean: mean.val().without_autodiff(),
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
        let MeanValues {
            mean: next,
            velocity,
        } = values;
        self.precision = updated(self.precision, |_| precision);
        self.factors = replaced(self.factors, factors);
        self.velocity = replaced(self.velocity, velocity);
        (self, updated(mean, |_| next))
    }

    fn posterior(
        &self,
        context: Context<'_>,
        iterate: Iterate,
        _step: u64,
    ) -> Result<FactorPosterior> {
        let parts = self.parts(iterate.mean);
        let layout = context.setup.layout.clone();
        FactorPosterior::precision(layout, parts.mean, parts.factors, parts.precision)
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
