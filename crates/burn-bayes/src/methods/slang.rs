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
//! A [prior over functions](crate::function_prior) adds its rows √β S to R, and its gradient to N g. The curvature of
//! the examples is Σ gᵢgᵢᵀ, or JᵀΛJ with [`Bayesian::with_gauss_newton`](crate::Bayesian::with_gauss_newton).
//!
//! | symbol | field |
//! |---|---|
//! | μ, U, d | `gaussian` |
//! | L | `rank` |
//! | N | `train_len` |
//! | α | `prior` |
//! | β | `precision_rate` |
//! | m | `momentum` |
//! | η | the optimiser's learning rate |

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, ParamGroup};
use burn::tensor::Tensor;
use burn_bayes_graph::ExampleGradients;

use super::algorithm::{
    Algorithm, FromCurvature, FromExamples, FunctionPriorUse, GradientPieces, Proposal, Setup,
    StepId, Update, joined,
};
use super::average::Averaging;
use super::mean_stage::MeanStage;
use super::natural::{NaturalGaussian, NaturalSettings, NaturalStep, NaturalUpdate};
use super::rate::Rate;
use super::stages::{Stages, with_function_gradient};
use super::start::{InitialDeviation, InitialMean};
use super::truncation::{StackedFactors, Truncation};
use crate::error::{Error, Result};
use crate::kernels::statistics::column_dot;
use crate::kernels::{self, PrecisionEvidence, PrecisionStep};
use crate::memory::MemoryPlan;
use crate::noise::{Noise, NoiseSource};
use crate::posterior::FactorPosterior;
use crate::prior::Prior;

/// Settings of SLANG.
///
/// ```
/// use burn_bayes::SlangConfig;
/// use burn_bayes::methods::Rate;
///
/// let decaying = Rate::Power { initial: 0.05, time_constant: 100.0, power: 0.6 };
/// let config = SlangConfig::new(60_000).with_rank(8).with_precision_rate(decaying);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct SlangConfig {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// λ, the effective sample size, the weight of the mean negative log-likelihood against the divergence from the
    /// prior; by default the larger of N and the number of weights. A larger one gives a narrower posterior. Paper: N.
    pub ess: Option<f64>,
    /// L, the number of factors; 0 is VOGN. Paper: 1 to 32.
    #[config(default = 1)]
    pub rank: usize,
    /// The prior over the weights. Paper: isotropic.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// β, the weight of a mini-batch in the precision. Paper: the learning rate of the mean.
    #[config(default = "Rate::Constant(0.01)")]
    pub precision_rate: Rate,
    /// m, the momentum of the mean, an average over about 1/(1−m) steps. Paper's networks: 0.9.
    #[config(default = 0.9)]
    pub momentum: f64,
    /// Draws per mini-batch. Paper: 4 for networks, 12 for logistic regression.
    #[config(default = 1)]
    pub draws: usize,
    /// Number of examples in a gradient group; larger groups make the eigenproblem smaller.
    /// Paper: 1.
    #[config(default = 1)]
    pub group_size: usize,
    /// The largest step Δ of the mean, √(ΔᵀPΔ) posterior standard deviations; a longer step is
    /// shortened. Paper: no bound.
    #[config(default = 3.0)]
    pub radius: f64,
    /// The initial mean. Paper's logistic regressions: zero.
    #[config(default = "InitialMean::Model")]
    pub initial_mean: InitialMean,
    /// The standard deviation of every weight at the start; by default that of the squared gradients at the
    /// end of the first stage, or that of the prior without a first stage. Paper: none given, so that of the prior.
    pub initial_deviation: Option<InitialDeviation>,
    /// The first stage, in which only the mean learns. Paper: none.
    #[config(default = "MeanStage::UntilArrival { at_most: None }")]
    pub mean_stage: MeanStage,
    /// The learning rate of the first stage, which Adam makes.
    #[config(default = 0.01)]
    pub mean_stage_rate: f64,
    /// The average of the means that is the posterior's mean. Paper: none.
    #[config(default = "Averaging::Recent")]
    pub averaging: Averaging,
    /// The parameters that get a posterior; the others stay point estimates.
    #[config(default = "ParamGroup::all()")]
    pub group: ParamGroup,
    /// Seed of every draw.
    #[config(default = 0)]
    pub seed: u64,
    /// The generator of the random normals.
    #[config(default = "NoiseSource::Host")]
    pub noise: NoiseSource,
}

impl SlangConfig {
    /// The published algorithm, with its settings: a single stage, no momentum, no bound on a step and no
    /// average. The paper's networks have momentum 0.9.
    pub fn paper(train_len: usize) -> Self {
        Self::new(train_len)
            .with_ess(Some(train_len as f64))
            .with_mean_stage(MeanStage::None)
            .with_averaging(Averaging::None)
            .with_momentum(0.0)
            .with_radius(f64::INFINITY)
    }

    /// Variational online Gauss–Newton (VOGN): rank 0.
    pub fn vogn(train_len: usize) -> Self {
        Self::new(train_len).with_rank(0)
    }

    /// Checks the settings. The error names the field.
    pub fn validate(&self) -> Result<()> {
        self.natural().validate()?;
        if self.group_size == 0 {
            return Err(Error::config("group_size", "is 0; it must be at least 1"));
        }
        Ok(())
    }

    /// The memory needed to train `weights` weights, without the model's activations.
    pub fn memory(&self, weights: usize) -> MemoryPlan {
        let moments = usize::from(self.momentum > 0.0);
        // The model, the draws, two mean gradients, the squares and the new diagonal, and the
        // values compared with a recording.
        let mut plan = MemoryPlan::natural(weights, self.rank, moments, self.draws + 4);
        plan.parameters += self.natural().stage_bytes(weights);
        plan
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<Slang> {
        self.validate()?;
        let without_group = self.clone().with_group(ParamGroup::all());
        Ok(Slang {
            gaussian: NaturalGaussian::start(self.natural(), &without_group, model, self.rank)?,
            config: Arc::new(self.clone()),
        })
    }

    fn natural(&self) -> NaturalSettings {
        NaturalSettings {
            train_len: self.train_len,
            ess: self.ess,
            draws: self.draws,
            precision_rate: self.precision_rate,
            momentum: self.momentum,
            radius: self.radius,
            initial_mean: self.initial_mean,
            initial_deviation: self.initial_deviation,
            mean_stage: self.mean_stage,
            mean_stage_rate: self.mean_stage_rate,
            averaging: self.averaging,
            prior: self.prior.clone(),
            group: self.group.clone(),
            noise: Noise::new(self.seed, self.noise),
        }
    }
}

/// SLANG's Gaussian.
#[derive(Module, Debug)]
pub struct Slang {
    gaussian: NaturalGaussian,
    #[module(skip)]
    config: Arc<SlangConfig>,
}

impl Slang {
    /// The configuration.
    pub fn config(&self) -> &SlangConfig {
        &self.config
    }
}

impl Algorithm for Slang {
    type Signal = ExampleGradients;
    type Posterior = FactorPosterior;
    type ClosedForm = NaturalUpdate;

    fn setup(&self) -> &Setup {
        self.gaussian.setup()
    }

    fn posterior(&self, _step: u64) -> Result<FactorPosterior> {
        self.gaussian.posterior()
    }

    fn stages(&self) -> Option<&Stages> {
        Some(self.gaussian.stages())
    }

    fn map_stages(self, change: impl FnOnce(Stages) -> Stages) -> Self {
        let gaussian = self.gaussian.map_stages(change);
        Self { gaussian, ..self }
    }

    fn with_ess(self, ess: f64) -> Self {
        Self {
            gaussian: self.gaussian.with_ess(ess),
            ..self
        }
    }

    fn last_mean(&self) -> Option<Tensor<1>> {
        Some(self.gaussian.last_mean())
    }

    fn function_prior_use(&self) -> FunctionPriorUse {
        FunctionPriorUse::Curvature
    }

    fn apply_step(self, update: NaturalUpdate, learning_rate: f64) -> Self {
        let gaussian = self.gaussian.apply_step(update, learning_rate);
        Self { gaussian, ..self }
    }
}

impl FromCurvature for Slang {}

impl FromExamples for Slang {
    fn propose(&self, id: StepId) -> Result<Proposal> {
        self.gaussian.propose(id, false)
    }

    fn stage_step(
        &self,
        proposal: &Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Option<Result<Update<Self::ClosedForm>>> {
        self.gaussian
            .stage_update(proposal, &joined(gradients), batch_size)
    }

    fn step(
        &self,
        proposal: Proposal,
        gradients: ExampleGradients,
    ) -> Result<Update<Self::ClosedForm>> {
        let draws = proposal.draws.len();
        let count = gradients.count();
        let train_len = self.setup().ess;
        let gradient = with_function_gradient(gradients.mean(), &proposal, train_len);
        let examples = (count / draws) as f64;
        let (rows, share) = match (&proposal.curvature, self.config().group_size) {
            (Some(rows), _) => (rows.clone(), 1.0 / count as f64),
            (None, 1) => (gradients, 1.0 / count as f64),
            (None, size) => {
                let sets = gradients.split(draws).into_iter();
                let rows = ExampleGradients::joined(sets.map(|rows| rows.grouped(size)).collect());
                let groups = (rows.count() / draws) as f64;
                // A row is G/M times the sum of its group's gradients, hence (N/M)(M/G)² divided by the
                // draws.
                let share = examples / (groups * rows.count() as f64);
                (rows, share)
            }
        };
        let step = self.natural_step(&proposal, &rows, gradient.clone(), train_len * share);
        NaturalStep::update(step, proposal.id, || {
            self.setup().non_finite(proposal.id.step + 1, gradient)
        })
    }
}

impl Slang {
    /// The step for rows r with Ĝ = `scale` Σ r rᵀ, and the mean gradient g.
    fn natural_step(
        &self,
        proposal: &Proposal,
        rows: &ExampleGradients,
        gradient: Tensor<1>,
        scale: f64,
    ) -> Result<NaturalStep> {
        let config = self.config();
        let parts = self.gaussian.parts();
        let rate = config.precision_rate.at(proposal.id.step);
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
            &parts,
            PrecisionEvidence {
                rows: added,
                squares,
                gradient,
            },
            PrecisionStep {
                rate,
                mixing: &mixing,
                square_scale,
                gradient_scale: self.setup().ess,
                prior: self.gaussian.prior(),
            },
        );
        NaturalStep::new(update)
    }
}
