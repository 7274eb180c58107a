//! NAGVAC: natural gradients of a Gaussian with one factor (Tran et al. 2020), a step of which costs O(D).
//!
//! The posterior is q = N(μ, bbᵀ + diag c²), κ = Σ b²/c². With the gradients g₁, g₂, g₃ of the variational
//! objective with respect to μ, b and log c, those of [`Vifa`](burn_bayes::methods::Vifa) at rank 1, the natural gradient with
//! a block-diagonal Fisher matrix is
//!
//! * n₁ = c²⊙g₁ + b (bᵀg₁)
//! * n₂ = (1/a) [ c²⊙g₂ + (1 − 1/(a + κ/(1+κ))) b (bᵀg₂) ],  a = κ/(1+κ)
//! * n₃ = ½ [ g₃/w − (rᵀ(g₃/w))/(1 + Σ r²/w) · r/w ],  r = b²/c²/(1+κ),  w = 1 − 2r
//!
//! The blocks of the Fisher matrix are S⁻¹, a S⁻¹ + S⁻¹b bᵀS⁻¹ and 2 (diag w + r rᵀ). Averages n̄ of the natural
//! gradients over steps then change the Gaussian by
//!
//! * μ ← μ − η n̄₁,  b ← b − ρ n̄₂,  c² ← c² / ½(1 + (1 + 2ρ n̄₃)²)
//!
//! where the last is the geodesic step of [`Von`](burn_bayes::methods::Von)'s precision, which keeps c² positive.
//!
//! **Safeguards.** a is at least `damping`: at κ → 0 the Fisher matrix of b is singular, and the noise of g₂
//! would be divided by κ. w is at least 0.1: r > ½ occurs only for a weight that has most of κ. With both, the
//! matrices of the blocks only become larger, so steps become shorter. A step of μ or of (b, c) that is longer than
//! `radius` in the Fisher metric is shortened, and one that is not finite is rejected.
//!
//! The training has [stages](burn_bayes::methods::Staged), and the posterior is the average of the iterates of the last.
//! Gradients are returned as sums over examples, so they may be accumulated over mini-batches and devices, as those of
//! [`Ivon`](burn_bayes::methods::Ivon).
//!
//! | symbol | field |
//! |---|---|
//! | b, 2 log c | `factor`, `log_variance` |
//! | n̄ | `velocity` |
//! | ρ | `covariance_rate` |
//! | η | the optimiser's learning rate |

mod natural_gradient;

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::optim::{GradAdaptor, GradientsParams};
use burn::tensor::Tensor;
use burn_bayes::kernels::{
    self, CovarianceGradient, CovarianceParts, Diagonal, DrawGradient, FactorUnits, Objective,
    Scratch,
};
use burn_bayes::memory::{MemoryPlan, OptimizerMemory};
use burn_bayes::methods::checks::{above_zero, fraction, positive};
use burn_bayes::methods::{
    Context, Draw, GradientPieces, InitialDeviation, Iterate, Learns, MethodState, Proposal, Rate,
    StageSignal, Staged, StagedConfig, Start, StepId, Update, buffer, orthogonal_rows, purpose,
    take_sum,
};
use burn_bayes::posterior::FactorPosterior;
use burn_bayes::{Error, Noise, Result};

pub use natural_gradient::NagvacStep;

/// Settings of NAGVAC.
///
/// ```
/// use burn_bayes::BayesianConfig;
/// use burn_bayes_contrib::methods::NagvacConfig;
///
/// let config = BayesianConfig::new(60_000, NagvacConfig::new()).with_draws(4);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct NagvacConfig {
    /// ρ, the learning rate of b and c. Paper: that of the mean.
    #[config(default = "Rate::tuned(0.03)")]
    pub covariance_rate: Rate,
    /// The decay of the average of the natural gradients. Paper: 0.6 to 0.9.
    #[config(default = 0.9)]
    pub momentum: f64,
    /// The least a, in the Fisher matrix of b. Paper: 0.
    #[config(default = 0.5)]
    pub damping: f64,
    /// The largest step of the mean, and of b and c, in the Fisher metric; a longer step is shortened. Paper: the
    /// norm of the gradient is clipped.
    #[config(default = 3.0)]
    pub radius: f64,
    /// The initial c; by default that of the squared gradients at the end of the first stage, or 0.03 divided by the
    /// square root of the fan-in without a first stage. Paper: a constant.
    pub initial_deviation: Option<InitialDeviation>,
    /// The initial norm κ^½ of b in units of c; its direction is random. Paper: any.
    #[config(default = 0.5)]
    pub factor_scale: f64,
}

/// NAGVAC.
pub type Nagvac = Staged<NagvacState>;

impl StagedConfig for NagvacConfig {
    type State = NagvacState;

    const DRAWS: usize = 2;

    fn validate(&self) -> Result<()> {
        fraction("momentum", self.momentum)?;
        fraction("damping", self.damping)?;
        self.covariance_rate.check_weight("covariance_rate")?;
        above_zero("radius", self.radius)?;
        positive("factor_scale", self.factor_scale)?;
        let deviation = self.initial_deviation.map(InitialDeviation::scale);
        positive("initial_deviation", deviation.unwrap_or(1.0))
    }

    fn start<M: Module>(&self, start: Start<'_, M>) -> Result<NagvacState> {
        let setup = start.setup;
        setup.check_rank(1)?;
        let layout = &setup.layout;
        let device = start.mean.device();
        let deviation = self.initial_deviation.unwrap_or(InitialDeviation::NARROW);
        let log_variance = deviation.log_variance(layout, &device);
        let noise = setup.noise.fold(purpose::INITIAL_FACTORS);
        let direction = orthogonal_rows(1, layout.len(), noise, &device)?
            .ok_or_else(|| Error::config("group", "has no weights"))?
            .mul_scalar(self.factor_scale);
        let scale = log_variance.clone().mul_scalar(0.5).exp();
        let zeros = || buffer(start.mean.zeros_like());
        Ok(NagvacState {
            factor: buffer(direction * scale.unsqueeze::<2>()),
            log_variance: buffer(log_variance),
            velocity: Velocity {
                mean: zeros(),
                factor: zeros(),
                log_variance: zeros(),
            },
            scratch: Arc::default(),
            config: self.clone(),
        })
    }

    fn memory(&self, weights: usize, draws: usize, _: OptimizerMemory) -> MemoryPlan {
        // The velocity has the size of the parameters, as the moment of an optimiser has.
        let mut plan = MemoryPlan::gaussian(weights, 1, draws, OptimizerMemory::Momentum);
        // The natural gradient.
        plan.gradients *= 2;
        plan
    }

    fn has_start(&self) -> bool {
        self.initial_deviation.is_some()
    }

    fn averaged(&self) -> usize {
        3
    }
}

/// NAGVAC's covariance and the averages of its natural gradients.
#[derive(Module, Debug)]
pub struct NagvacState {
    /// b, `[1, D]`.
    factor: Param<Tensor<2>>,
    log_variance: Param<Tensor<1>>,
    velocity: Velocity,
    #[module(skip)]
    scratch: Arc<Scratch>,
    #[module(skip)]
    config: NagvacConfig,
}

/// n̄₁, n̄₂/c and n̄₃.
#[derive(Module, Debug)]
struct Velocity {
    mean: Param<Tensor<1>>,
    factor: Param<Tensor<1>>,
    log_variance: Param<Tensor<1>>,
}

impl NagvacState {
    fn parts(&self, mean: Tensor<1>) -> CovarianceParts {
        CovarianceParts {
            mean,
            factors: Some(self.factor.val().without_autodiff()),
            units: FactorUnits::Weights,
            diagonal: Diagonal::LogVariance(self.log_variance.val().without_autodiff()),
        }
    }

    /// The gradient of the objective.
    fn gradient(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        proposal: &Proposal,
        gradients: GradientPieces,
    ) -> CovarianceGradient {
        let scale = context.setup.ess / gradients.len().max(1) as f64;
        let draws = proposal.draws.iter().zip(gradients);
        let draws = draws.map(|(draw, parts)| DrawGradient {
            noise: draw.noise,
            parts,
        });
        let kappa = proposal.gram.iter().sum::<f64>();
        let objective = Objective {
            scale,
            temperature: 1.0,
            prior: context.prior,
            inner_inverse: &[(1.0 + kappa).recip()],
            scratch: &self.scratch,
        };
        let draws: Vec<_> = draws.collect();
        kernels::covariance_gradient(&self.parts(mean), &draws, objective)
    }
}

impl MethodState for NagvacState {
    type Signal = GradientPieces;
    type Posterior = FactorPosterior;
    type Step = NagvacStep;

    const LEARNS: Learns = Learns::FromSums;

    fn propose(
        &self,
        _context: Context<'_>,
        mean: Tensor<1>,
        id: StepId,
        noises: Vec<Noise>,
    ) -> Result<Proposal> {
        let (weights, gram) = kernels::draws_and_gram(&self.parts(mean), &noises, &self.scratch);
        Ok(Proposal::new(id, Draw::all(weights, noises)).with_gram(gram))
    }

    fn variance(&self, _context: Context<'_>) -> Tensor<1> {
        self.log_variance.val().without_autodiff().exp()
    }

    fn scale_signal(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        proposal: &Proposal,
        gradients: GradientPieces,
        _examples: usize,
    ) -> Result<StageSignal> {
        let gradient = self.gradient(context, mean, proposal, gradients);
        let growth = gradient.log_variance.mul_scalar(-2.0);
        Ok(StageSignal::growth(context.setup, growth))
    }

    /// With c of this precision, and b in the same proportion to it.
    fn started(self, _context: Context<'_>, precision: Tensor<1>, _: Tensor<1>) -> Self {
        self.with_log_variance(precision.log().neg())
    }

    fn rescaled(self, _context: Context<'_>, factors: Tensor<1>) -> Self {
        let log_variance = self.log_variance.val().without_autodiff();
        self.with_log_variance(log_variance + factors.log())
    }

    /// The gradients of the objective, multiplied by the number of examples.
    fn update(
        &self,
        context: Context<'_>,
        mean: &Param<Tensor<1>>,
        proposal: Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<Update<NagvacStep>> {
        let center = mean.val().without_autodiff();
        let gradient = self.gradient(context, center, &proposal, gradients);
        let weight = examples as f64;
        let mut sums = GradientsParams::new();
        sums.register(mean.id, gradient.mean.mul_scalar(weight));
        if let Some(factors) = gradient.factors {
            sums.register(self.factor.id, factors.mul_scalar(weight));
        }
        let log_variance = gradient.log_variance.mul_scalar(weight);
        sums.register(self.log_variance.id, log_variance);
        Ok(Update::Gradients(sums))
    }

    fn update_from_sum(
        &self,
        context: Context<'_>,
        mean: &Param<Tensor<1>>,
        step: u64,
        sums: &mut GradAdaptor,
        examples: Tensor<1>,
    ) -> Result<Option<NagvacStep>> {
        let device = examples.device();
        let factor = take_sum(sums, &self.factor, &device);
        let factor = factor.map(|sum| sum.reshape([-1]));
        let mut take = |param| take_sum(sums, param, &device);
        let found = take(mean).zip(factor).zip(take(&self.log_variance));
        found
            .map(|((mean, factor), log_variance)| {
                let gradient = [mean, factor, log_variance].map(|sum| sum / examples.clone());
                self.natural_step(context, step, gradient)
            })
            .transpose()
    }

    fn apply_step(
        self,
        context: Context<'_>,
        mean: Param<Tensor<1>>,
        step: u64,
        update: NagvacStep,
        learning_rate: f64,
    ) -> (Self, Param<Tensor<1>>) {
        self.with_natural_step(context, mean, step, update, learning_rate)
    }

    fn iterate(&self, mean: Tensor<1>) -> Iterate {
        Iterate::of_gaussian(self.parts(mean))
    }

    fn posterior(
        &self,
        context: Context<'_>,
        iterate: Iterate,
        _step: u64,
    ) -> Result<FactorPosterior> {
        let parts = iterate.parts(FactorUnits::Weights);
        let layout = context.setup.layout.clone();
        FactorPosterior::covariance(layout, parts.mean, parts.factors, parts.diagonal.variance())
    }
}
