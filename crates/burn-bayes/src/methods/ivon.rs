//! IVON: improved variational online Newton (Shen et al. 2024), a diagonal posterior at the cost of Adam.
//!
//! The posterior is q = N(m, diag(λ(h + δ))⁻¹), δ = α/λ. With the mean ĝ over draws θ of the gradient of the
//! mean negative log-likelihood, and Price's estimate ĥ of the diagonal of its Hessian, at step t (from 1),
//!
//! * ĥ = mean over draws of ĝ ⊙ (θ−m) ⊙ λ(h+δ)
//! * g ← β₁ g + (1−β₁) ĝ
//! * h ← h + ρ (ĥ−h) + ½ρ² (ĥ−h)²/(h+δ)
//! * m ← m − η u, u = (g/(1−β₁ᵗ) + δ⊙m)/(h+δ), every element of u clipped to ±ξ
//!
//! The last term of h is the second-order term of a step along the geodesic of the positive numbers (Lin et al.
//! 2020); with it h+δ stays above half of its value for every ĥ. This is [`Von`](super::Von) with Price's
//! estimate, but the momentum averages gradients instead of steps. The paper multiplies η by h₀+δ, so that its
//! first step is that of SGD; here η = 1 is a Newton step for every h₀.
//!
//! **Mini-batches and devices.** A step needs the means of ĝ and of ĝ⊙(θ−m), and the same h for all of them.
//! So the algorithm returns both sums over examples as gradients, with the number of examples, and makes its
//! step from what has been accumulated: gradients of several mini-batches and devices are those of one batch
//! with all examples.
//!
//! **Safeguards.** ĥ is noisy where it is far from h, so h must begin near the curvature, and the training begins with
//! the mean and the scale of the precision ([stages](super::stages)). A gradient whose own step is longer than `radius`
//! posterior standard deviations is multiplied by the factor s that shortens it: g averages s ĝ, and δ⊙m is multiplied by
//! w, the same average of s (with no shortened gradient w is 1−β₁ᵗ). A step that is not finite is rejected.
//!
//! The posterior has the average of the means of the last stage.
//!
//! | symbol | field |
//! |---|---|
//! | g, w | `moment`, `weight` |
//! | h + δ | `curvature` |
//! | β₁, ρ = 1−β₂ | `momentum`, `covariance_rate` |
//! | h₀ | `initial_hessian` |
//! | ξ | `clip_value` |
//! | η | the optimiser's learning rate |

mod update;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::optim::{GradAdaptor, GradientsParams};
use burn::tensor::Tensor;
use update::IvonStep;

use super::average::Iterate;
use super::checks::{above_zero, fraction, positive};
use super::method_config::LearningRates;
use super::method_state::{Context, Learns, MethodState, StagedConfig, Start, take_sum};
use super::proposal::{Draw, GradientPieces, Proposal, Update, joined};
use super::rate::Rate;
use super::setup::StepId;
use super::staged::Staged;
use super::stages::{averaged, products};
use super::start::{InitialDeviation, buffer, updated};
use crate::error::Result;
use crate::kernels::statistics::PrecisionParts;
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::noise::Noise;
use crate::posterior::{FactorPosterior, precision_draws};
use crate::recorded::Recorded;

/// h₀ without a first stage, as in the paper's program.
const INITIAL_HESSIAN: f64 = 1.0;

/// Settings of IVON.
///
/// ```
/// use burn_bayes::BayesianConfig;
/// use burn_bayes::methods::IvonConfig;
///
/// let config = BayesianConfig::new(60_000, IvonConfig::new()).with_draws(4);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct IvonConfig {
    /// β₁, the decay of the average gradient. Paper: 0.9.
    #[config(default = 0.9)]
    pub momentum: f64,
    /// ρ = 1−β₂, the weight of a step in the average of the Hessian. It begins at most at 0.4 divided by the number of mini-batches
    /// of an epoch, unless it is set without regard to the training's length. Paper: 0.00001, for hundreds of thousands of steps.
    #[config(default = "Rate::tuned(0.01)")]
    pub covariance_rate: Rate,
    /// h₀, the initial Hessian of the mean negative log-likelihood; by default that of the squared gradients at the
    /// end of the first stage, or 1 without a first stage. Paper: a constant, 1 in its program.
    pub initial_hessian: Option<f64>,
    /// ξ, the largest element of a direction, in units of the weights; by default unbounded. Paper: unbounded, or
    /// 0.001 for transformers.
    pub clip_value: Option<f64>,
    /// The largest step Δ of the mean from one gradient, √(ΔᵀPΔ) posterior standard deviations; a gradient with a
    /// longer one counts less. Paper: no bound.
    #[config(default = 2.0)]
    pub radius: f64,
}

impl IvonConfig {
    /// The published algorithm, with the constants of its program: a slow average of the Hessian, and no bound on a step.
    pub fn paper() -> Self {
        Self::new()
            .with_covariance_rate(Rate::Constant(1e-5))
            .with_radius(f64::INFINITY)
    }
}

/// IVON.
pub type Ivon = Staged<IvonState>;

impl StagedConfig for IvonConfig {
    type State = IvonState;

    const DRAWS: usize = 2;

    fn learning_rates(&self) -> LearningRates {
        LearningRates::new(0.1)
    }

    fn validate(&self) -> Result<()> {
        fraction("momentum", self.momentum)?;
        self.covariance_rate.check_weight("covariance_rate")?;
        above_zero("radius", self.radius)?;
        positive("initial_hessian", self.initial_hessian.unwrap_or(1.0))?;
        positive("clip_value", self.clip_value.unwrap_or(1.0))
    }

    fn start<M: Module>(&self, start: Start<'_, M>) -> Result<IvonState> {
        let device = start.mean.device();
        let ess = start.setup.ess;
        let precision = match self.initial_hessian {
            None if start.is_staged => {
                let narrow = InitialDeviation::NARROW.log_variance(&start.setup.layout, &device);
                narrow.neg().exp()
            }
            hessian => {
                let hessian = hessian.unwrap_or(INITIAL_HESSIAN);
                start.prior.expanded(&device).add_scalar(ess * hessian)
            }
        };
        Ok(IvonState {
            moment: buffer(start.mean.zeros_like()),
            curvature: buffer(precision.div_scalar(ess)),
            weight: buffer(Tensor::zeros([1], &device)),
            steps: Recorded::new(0, &device),
            config: self.clone(),
        })
    }

    fn memory(&self, weights: usize, draws: usize, _: OptimizerMemory) -> MemoryPlan {
        // The model, the draws and their gradients.
        MemoryPlan::natural(weights, 0, 1, 2 * draws + 1)
    }

    fn has_start(&self) -> bool {
        self.initial_hessian.is_some()
    }
}

/// IVON's average gradient and curvature.
#[derive(Module, Debug)]
pub struct IvonState {
    moment: Param<Tensor<1>>,
    curvature: Param<Tensor<1>>,
    /// w.
    weight: Param<Tensor<1>>,
    /// Steps of the last stage.
    steps: Recorded<u64>,
    #[module(skip)]
    config: IvonConfig,
}

impl IvonState {
    fn precision(&self, context: Context<'_>) -> Tensor<1> {
        let curvature = self.curvature.val().without_autodiff();
        curvature.mul_scalar(context.setup.ess)
    }
}

impl MethodState for IvonState {
    type Signal = GradientPieces;
    type Posterior = FactorPosterior;
    type Step = IvonStep;

    const LEARNS: Learns = Learns::FromSums;

    fn propose(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        id: StepId,
        noises: Vec<Noise>,
    ) -> Result<Proposal> {
        let parts = PrecisionParts {
            mean,
            factors: None,
            precision: self.precision(context),
        };
        let draws = precision_draws(&parts, &noises)?.draws;
        Ok(Proposal::new(id, Draw::all(draws, noises)))
    }

    fn variance(&self, context: Context<'_>) -> Tensor<1> {
        self.precision(context).recip()
    }

    fn started(mut self, context: Context<'_>, precision: Tensor<1>, _: Tensor<1>) -> Self {
        let curvature = precision.div_scalar(context.setup.ess);
        self.curvature = updated(self.curvature, |_| curvature);
        self
    }

    fn rescaled(mut self, _context: Context<'_>, factors: Tensor<1>) -> Self {
        self.curvature = updated(self.curvature, |curvature| curvature / factors);
        self
    }

    /// The sums over examples of ĝ and of ĝ⊙(θ−m).
    fn update(
        &self,
        _context: Context<'_>,
        mean: &Param<Tensor<1>>,
        proposal: Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<Update<IvonStep>> {
        let (gradients, center) = (joined(gradients), mean.val().without_autodiff());
        let weight = examples as f64;
        let product = products(&proposal, gradients.iter().cloned(), &center)?;
        let gradient = averaged(gradients.iter().cloned())?;
        let mut sums = GradientsParams::new();
        sums.register(mean.id, gradient.mul_scalar(weight));
        sums.register(self.curvature.id, product.mul_scalar(weight));
        Ok(Update::Gradients(sums))
    }

    fn update_from_sum(
        &self,
        context: Context<'_>,
        mean: &Param<Tensor<1>>,
        step: u64,
        sums: &mut GradAdaptor,
        examples: Tensor<1>,
    ) -> Result<Option<IvonStep>> {
        let device = examples.device();
        let gradient = take_sum(sums, mean, &device);
        let products = take_sum(sums, &self.curvature, &device);
        let mean = mean.val().without_autodiff();
        let both = gradient.zip(products);
        both.map(|(gradient, products)| {
            self.newton_step(
                context,
                mean,
                step,
                gradient / examples.clone(),
                products / examples.clone(),
                examples,
            )
        })
        .transpose()
    }

    fn apply_step(
        self,
        context: Context<'_>,
        mean: Param<Tensor<1>>,
        _step: u64,
        update: IvonStep,
        learning_rate: f64,
    ) -> (Self, Param<Tensor<1>>) {
        self.with_newton_step(context, mean, update, learning_rate)
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
