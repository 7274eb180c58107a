//! SLANG: stochastic, low-rank, approximate natural gradients (Mishkin et al. 2018), and VOGN,
//! which is SLANG with rank 0 (Khan et al. 2018).
//!
//! The posterior is q = N(μ, P⁻¹) with P = UᵀU + diag d. Given the gradient gᵢ of every example's
//! negative log-likelihood at a draw of q, the precision is an exponential average of the prior
//! precision plus the data's curvature, and the mean takes a Newton step with this precision:
//!
//! * R = \[ √(1−β) U ; √(β N/M) gᵢ \], (L+M)×D; M counts the gradients of all draws
//! * R Rᵀ = Q Λ Qᵀ; U⁺ = (Q_{:,1:L})ᵀ R, the best L rows for RᵀR
//! * d⁺ = (1−β) d + β α + Δ, Δ = Σ R_r² − Σ U⁺_r² ≥ 0, the diagonal of the truncated part
//! * μ⁺ = μ − η (P⁺)⁻¹ (N g + α⊙μ), by Woodbury; with momentum m, the running average of this step
//!
//! Law: diag P⁺ = (1−β) diag P + β (diag Ĝ + α) with Ĝ = (N/M) Σ gᵢgᵢᵀ, for every rank. The
//! poster's Algorithm 1 lacks the square roots and writes +λ for +βλ. The gradients stay factored,
//! also for several draws: if the model has more weights than R has rows, R is never formed, and
//! only its (L+M)² Gram matrix is copied to the host.
//!
//! With `group_size` k, groups of k examples replace single examples, and the gradient of a group
//! is the sum s: Ĝ = (N/M) Σ s sᵀ over M/k groups. The eigenproblem is k times smaller; Ĝ gains
//! (k−1) N ḡḡᵀ, which is small if the mean gradient ḡ is small.
//!
//! A prior over functions adds its rows √β S to R, and its gradient to N g. The curvature of
//! the examples is Σ gᵢgᵢᵀ, or JᵀΛJ with [`Bayesian::with_gauss_newton`](crate::Bayesian::with_gauss_newton).
//!
//! | symbol | field |
//! |---|---|
//! | L | `rank` |
//! | β | `covariance_rate` |
//! | m | `momentum` |
//! | η | the optimiser's learning rate |

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_graph::ExampleGradients;

use super::algorithm::FromCurvature;
use super::method_config::LearningRates;
use super::method_state::{Context, StagedConfig, Start};
use super::natural::{Natural, NaturalConfig, NaturalSettings, NaturalStep};
use super::proposal::{Proposal, Update};
use super::rate::Rate;
use super::staged::Staged;
use super::stages::with_function_gradient;
use super::start::InitialDeviation;
use super::truncation::{StackedFactors, Truncation};
use crate::error::Result;
use crate::kernels::statistics::{PrecisionParts, column_dot};
use crate::kernels::{self, PrecisionEvidence, PrecisionStep};
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::methods::checks::counts;

/// Settings of SLANG.
///
/// ```
/// use burn_bayes::methods::Rate;
/// use burn_bayes::{BayesianConfig, SlangConfig};
///
/// let decaying = Rate::Power { initial: 0.05, time_constant: 100.0, power: 0.6 };
/// let slang = SlangConfig::new().with_rank(8).with_covariance_rate(decaying);
/// let config = BayesianConfig::new(60_000, slang);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct SlangConfig {
    /// L, the number of factors; 0 is VOGN. Paper: 1 to 32.
    #[config(default = 1)]
    pub rank: usize,
    /// β, the weight of a mini-batch in the precision. Paper: the learning rate of the mean.
    #[config(default = "Rate::tuned(0.01)")]
    pub covariance_rate: Rate,
    /// m, the momentum of the mean, an average over about 1/(1−m) steps. Paper's networks: 0.9.
    #[config(default = 0.9)]
    pub momentum: f64,
    /// Number of examples in a gradient group; larger groups make the eigenproblem smaller.
    /// Paper: 1.
    #[config(default = 1)]
    pub group_size: usize,
    /// The largest step Δ of the mean, √(ΔᵀPΔ) posterior standard deviations; a longer step is
    /// shortened. Paper: no bound.
    #[config(default = 3.0)]
    pub radius: f64,
    /// The standard deviation of every weight at the start; by default that of the squared gradients at the
    /// end of the first stage, or that of the prior without a first stage. Paper: none given, so that of the prior.
    pub initial_deviation: Option<InitialDeviation>,
}

impl SlangConfig {
    /// The published algorithm: no momentum and no bound on a step. The paper has 4 draws for networks and 12 for logistic
    /// regressions, which begin at zero.
    pub fn paper() -> Self {
        Self::new().with_momentum(0.0).with_radius(f64::INFINITY)
    }

    /// Variational online Gauss–Newton (VOGN): rank 0.
    pub fn vogn() -> Self {
        Self::new().with_rank(0)
    }
}

/// SLANG.
pub type Slang = Staged<Natural<SlangConfig>>;

impl FromCurvature for Slang {}

impl StagedConfig for SlangConfig {
    type State = Natural<Self>;

    const DRAWS: usize = 1;

    fn learning_rates(&self) -> LearningRates {
        LearningRates::new(0.1)
    }

    fn validate(&self) -> Result<()> {
        self.natural().validate()?;
        counts([("group_size", self.group_size)])
    }

    fn start<M: Module>(&self, start: Start<'_, M>) -> Result<Natural<Self>> {
        Natural::start(self, &start, self.rank)
    }

    fn memory(&self, weights: usize, draws: usize, _: OptimizerMemory) -> MemoryPlan {
        let moments = usize::from(self.momentum > 0.0);
        // The model, the draws, two mean gradients, the squares and the new diagonal, and the
        // values compared with a recording.
        MemoryPlan::natural(weights, self.rank, moments, draws + 4)
    }

    fn has_start(&self) -> bool {
        self.initial_deviation.is_some()
    }
}

impl NaturalConfig for SlangConfig {
    type Signal = ExampleGradients;

    fn natural(&self) -> NaturalSettings {
        NaturalSettings {
            covariance_rate: self.covariance_rate,
            momentum: self.momentum,
            radius: self.radius,
            initial_deviation: self.initial_deviation,
        }
    }

    fn step(
        &self,
        context: Context<'_>,
        parts: PrecisionParts,
        proposal: Proposal,
        gradients: ExampleGradients,
        examples: usize,
    ) -> Result<Update<NaturalStep>> {
        let (draws, count) = (proposal.draws.len(), gradients.count());
        let ess = context.setup.ess;
        let gradient = with_function_gradient(gradients.mean(), &proposal, ess);
        let (rows, share) = match (&proposal.curvature, self.group_size) {
            (Some(rows), _) => (rows.clone(), 1.0 / count as f64),
            (None, 1) => (gradients, 1.0 / count as f64),
            (None, size) => {
                let sets = gradients.split(draws).into_iter();
                let rows = ExampleGradients::joined(sets.map(|rows| rows.grouped(size)).collect());
                let groups = (rows.count() / draws) as f64;
                // A row is G/M times the sum of its group's gradients, hence (N/M)(M/G)² divided by the
                // draws.
                let share = examples as f64 / (groups * rows.count() as f64);
                (rows, share)
            }
        };
        let step = self.natural_step(
            context,
            &parts,
            &proposal,
            &rows,
            gradient.clone(),
            ess * share,
        );
        NaturalStep::update(step, || {
            context.setup.non_finite(proposal.id.step + 1, gradient)
        })
    }
}

impl SlangConfig {
    /// The step for rows r with Ĝ = `scale` Σ r rᵀ, and the mean gradient g.
    fn natural_step(
        &self,
        context: Context<'_>,
        parts: &PrecisionParts,
        proposal: &Proposal,
        rows: &ExampleGradients,
        gradient: Tensor<1>,
        scale: f64,
    ) -> Result<NaturalStep> {
        let rate = self.covariance_rate.within(context.length);
        let rate = rate.at(proposal.id.step);
        let square_scale = rate * scale;
        let function = proposal.function.as_ref();
        let function = function.and_then(|terms| terms.rows.clone());
        let function = function.map(|rows| rows.mul_scalar(rate.sqrt()));
        let truncation = parts.factors.as_ref().map(|factors| {
            let stacked = StackedFactors {
                factors,
                gram: &proposal.gram,
                rows,
                old: (1.0 - rate).sqrt(),
                new: square_scale.sqrt(),
                scaled: function.as_ref(),
            };
            stacked.truncated()
        });
        let (mixing, added) = match truncation.transpose()? {
            Some(Truncation { mixing, rows }) => (mixing, Some(rows)),
            None => (Vec::new(), None),
        };
        let squares = rows.sum_of_squares();
        let squares = match &function {
            Some(rows) => squares + column_dot(rows.clone(), rows.clone()).div_scalar(square_scale),
            None => squares,
        };
        let update = kernels::precision_step(
            parts,
            PrecisionEvidence {
                rows: added,
                squares,
                gradient,
            },
            PrecisionStep {
                rate,
                mixing: &mixing,
                square_scale,
                gradient_scale: context.setup.ess,
                prior: context.prior,
            },
        );
        NaturalStep::new(update)
    }
}
