//! Vadam: Adam with perturbed weights (Khan et al. 2018), a diagonal posterior at the cost of Adam.
//!
//! The posterior is q = N(μ, diag(N s + γ₂ᵗ p₀ + α)⁻¹). With the gradient g of the mean negative
//! log-likelihood at a draw of q, averaged over draws, at step t (from 1),
//!
//! * m ← γ₁ m + (1−γ₁)(g + α⊙μ/N)
//! * s ← γ₂ s + (1−γ₂) M g², M the number of examples in the batch
//! * μ ← μ − η m̂/(√(â/κ) + α/N), m̂ = m/(1−γ₁ᵗ), â = a/(1−γ₂ᵗ), a = s
//!
//! This is VON with the squared mean gradient as curvature, and with Adam's momentum, bias
//! correction and square root. The paper has M = κ = 1 and p₀ = 0; the initial precision p₀ decays
//! as s builds up.
//!
//! The step divides by the square root of an average of its own, a ← γ₂ a + (1−γ₂) M g², which equals s in a single stage:
//! the precision of a fit is no measure of its gradients.
//!
//! g² is not the Hessian. For M examples E\[g²\] = ḡ² + V/M, where ḡ and V are the mean and
//! variance of single gradients, so small mini-batches have a larger g². The weight M corrects
//! this: if ḡ is small, s is VOGN's V for every mini-batch size. κ changes only the step size: the steps are
//! Adam's if κ is M, and are divided by √(M/κ) otherwise.
//!
//! **Stages.** Far from the mode g² is large and p₀ a guess. So Adam trains the mean first, with the gradient at the mean
//! itself, and then the scale of the precision N s + α is found ([stages](super::stages)). From there s and a go on without a bias.
//! The posterior has the average of the means of the last stage.
//!
//! | symbol | field |
//! |---|---|
//! | m, s, a | `moment`, `scale`, `square` |
//! | κ | `square_scale` |
//! | p₀ | `initial_precision` |
//! | γ₁, 1−γ₂ | `momentum`, `covariance_rate` |
//! | η | the optimiser's learning rate |

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::algorithm::Stage;
use super::average::Iterate;
use super::checks::{fraction, not_negative, positive};
use super::method_state::{Context, Learns, MethodState, StagedConfig, Start};
use super::proposal::{Draw, GradientPieces, Proposal, Update, joined};
use super::rate::Rate;
use super::setup::StepId;
use super::staged::Staged;
use super::stages::averaged;
use super::start::{buffer, updated};
use crate::error::Result;
use crate::kernels::composed::at_least;
use crate::kernels::statistics::PrecisionParts;
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::noise::Noise;
use crate::posterior::{FactorPosterior, precision_draws};
use crate::recorded::Recorded;

/// Settings of Vadam.
///
/// ```
/// use burn_bayes::BayesianConfig;
/// use burn_bayes::methods::VadamConfig;
///
/// let config = BayesianConfig::new(60_000, VadamConfig::new().with_covariance_rate(0.1));
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct VadamConfig {
    /// γ₁, the decay of the average gradient. Paper: 0.9.
    #[config(default = 0.9)]
    pub momentum: f64,
    /// 1−γ₂, the weight of a mini-batch in the average squared gradient. Paper: 0.001.
    #[config(default = 0.001)]
    pub covariance_rate: f64,
    /// κ, the number of examples in a mini-batch for which the step size is Adam's; with M examples it is
    /// divided by √(M/κ). By default that of every mini-batch. Paper: 1, with mini-batches of one example.
    pub square_scale: Option<f64>,
    /// Initial posterior precision, in addition to the prior's, if there is no first stage. Paper: a constant.
    #[config(default = 0.0)]
    pub initial_precision: f64,
}

impl VadamConfig {
    /// The published algorithm: steps for mini-batches of one example.
    pub fn paper() -> Self {
        Self::new().with_square_scale(Some(1.0))
    }
}

/// Vadam.
pub type Vadam = Staged<VadamState>;

impl StagedConfig for VadamConfig {
    type State = VadamState;

    const DRAWS: usize = 1;

    fn validate(&self) -> Result<()> {
        fraction("momentum", self.momentum)?;
        Rate::Constant(self.covariance_rate).check_weight("covariance_rate")?;
        positive("square_scale", self.square_scale.unwrap_or(1.0))?;
        not_negative("initial_precision", self.initial_precision)
    }

    fn start<M: Module>(&self, start: Start<'_, M>) -> Result<VadamState> {
        let zeros = || buffer(start.mean.zeros_like());
        Ok(VadamState {
            moment: zeros(),
            scale: zeros(),
            square: zeros(),
            steps: Recorded::new(0, &start.mean.device()),
            config: self.clone(),
        })
    }

    fn memory(&self, weights: usize, draws: usize, _: OptimizerMemory) -> MemoryPlan {
        // The model, the draws, the mean gradient, the prior's gradient, and the new values.
        MemoryPlan::natural(weights, 0, 2, draws + 5)
    }
}

/// Vadam's moments.
#[derive(Module, Debug)]
pub struct VadamState {
    moment: Param<Tensor<1>>,
    scale: Param<Tensor<1>>,
    square: Param<Tensor<1>>,
    /// Steps that the averages have taken in.
    steps: Recorded<u64>,
    #[module(skip)]
    config: VadamConfig,
}

/// A step of Vadam, before the learning rate is applied.
#[derive(Debug)]
pub struct VadamStep {
    direction: Tensor<1>,
    moment: Tensor<1>,
    scale: Tensor<1>,
    square: Tensor<1>,
}

impl VadamState {
    /// diag(N s + γ₂ᵗ p₀ + α) after t steps; in several stages, without p₀.
    fn precision(&self, context: Context<'_>) -> Tensor<1> {
        let scale = self.scale.val().without_autodiff();
        let decay = 1.0 - self.config.covariance_rate;
        let initial = self.left(context.stage, decay) * self.config.initial_precision;
        let data = scale.mul_scalar(context.setup.ess).add_scalar(initial);
        let alpha = context.prior.expanded(&data.device());
        data + alpha
    }

    fn parts(&self, context: Context<'_>, mean: Tensor<1>) -> PrecisionParts {
        PrecisionParts {
            factors: None,
            precision: self.precision(context),
            mean,
        }
    }

    /// γᵗ, the weight of an average's beginning: none after several stages.
    fn left(&self, stage: Stage, decay: f64) -> f64 {
        match stage {
            Stage::Single => decay.powi(power(*self.steps.value())),
            _ => 0.0,
        }
    }

    /// With this precision.
    fn with_precision(mut self, context: Context<'_>, precision: Tensor<1>) -> Self {
        let alpha = context.prior.expanded(&precision.device());
        let scale = at_least(precision - alpha, 0.0).div_scalar(context.setup.ess);
        self.scale = updated(self.scale, |_| scale);
        self
    }
}

impl MethodState for VadamState {
    type Signal = GradientPieces;
    type Posterior = FactorPosterior;
    type Step = VadamStep;

    const LEARNS: Learns = Learns::AtOnce;

    fn propose(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        id: StepId,
        noises: Vec<Noise>,
    ) -> Result<Proposal> {
        let draws = precision_draws(&self.parts(context, mean), &noises)?.draws;
        Ok(Proposal::new(id, Draw::all(draws, noises)))
    }

    fn variance(&self, context: Context<'_>) -> Tensor<1> {
        self.precision(context).recip()
    }

    fn started(mut self, context: Context<'_>, precision: Tensor<1>, curvature: Tensor<1>) -> Self {
        let square = curvature.div_scalar(context.setup.ess);
        self.square = updated(self.square, |_| square);
        self.with_precision(context, precision)
    }

    fn rescaled(self, context: Context<'_>, factors: Tensor<1>) -> Self {
        let precision = self.precision(context) / factors;
        self.with_precision(context, precision)
    }

    fn update(
        &self,
        context: Context<'_>,
        mean: &Param<Tensor<1>>,
        proposal: Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<Update<VadamStep>> {
        let (setup, config) = (context.setup, &self.config);
        let gradient = averaged(joined(gradients).into_iter())?;
        let mean = mean.val().without_autodiff();
        let alpha = context.prior.expanded(&mean.device());
        let alpha = alpha.div_scalar(setup.ess);
        let (first, second) = (config.momentum, 1.0 - config.covariance_rate);
        let average = |old: &Param<Tensor<1>>, new: Tensor<1>, decay: f64| {
            old.val().without_autodiff().mul_scalar(decay) + new.mul_scalar(1.0 - decay)
        };
        let regularised = gradient.clone() + alpha.clone() * mean;
        let moment = average(&self.moment, regularised, first);
        let examples = examples as f64;
        let squared = gradient.clone().square().mul_scalar(examples);
        let scale = average(&self.scale, squared.clone(), second);
        let square = average(&self.square, squared, second);

        let corrected = |moment: &Tensor<1>, decay: f64| {
            let left = self.left(context.stage, decay);
            moment.clone().div_scalar(1.0 - decay * left)
        };
        let divisor = corrected(&square, second);
        let divisor = divisor.div_scalar(config.square_scale.unwrap_or(examples));
        let direction = corrected(&moment, first) / (divisor.sqrt() + alpha);
        // One number read from the device; it is not finite if any element is not finite.
        let size: f64 = (direction.clone().square() + scale.clone())
            .sum()
            .into_scalar();
        if !size.is_finite() {
            let reason = setup.non_finite(proposal.id.step + 1, gradient);
            return Ok(Update::Rejected(reason));
        }
        Ok(Update::ClosedForm(VadamStep {
            direction,
            moment,
            scale,
            square,
        }))
    }

    fn apply_step(
        mut self,
        _context: Context<'_>,
        mean: Param<Tensor<1>>,
        _step: u64,
        update: VadamStep,
        learning_rate: f64,
    ) -> (Self, Param<Tensor<1>>) {
        self.moment = updated(self.moment, |_| update.moment);
        self.scale = updated(self.scale, |_| update.scale);
        self.square = updated(self.square, |_| update.square);
        let steps = self.steps.value() + 1;
        self.steps = self.steps.with_value(steps);
        let change = update.direction.mul_scalar(learning_rate);
        (self, updated(mean, |mean| mean - change))
    }

    fn posterior(
        &self,
        context: Context<'_>,
        iterate: Iterate,
        _step: u64,
    ) -> Result<FactorPosterior> {
        let layout = context.setup.layout.clone();
        FactorPosterior::precision(layout, iterate.mean, None, self.precision(context))
    }
}

/// A step count as an exponent.
fn power(steps: u64) -> i32 {
    i32::try_from(steps).unwrap_or(i32::MAX)
}
