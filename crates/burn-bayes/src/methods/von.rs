//! VON: variational online Newton with a diagonal precision (Khan et al. 2018).
//!
//! The posterior is q = N(μ, diag(d)⁻¹). With the gradient g of the mean negative log-likelihood and an
//! estimate h of the diagonal of its Hessian, both at draws θ of q,
//!
//! * ĥ = N h + α
//! * d⁺ = (1−β) d + β ĥ, and where h can be negative + ½β² (d−ĥ)²/d
//! * μ⁺ = μ − η (N g + α⊙μ)/d⁺
//!
//! The last term of d⁺ is the second-order term of a step along the geodesic of the positive
//! numbers (Lin et al. 2020). With it d⁺ = ½ d (1 + (1 − β(1 − ĥ/d))²) ≥ ½ d for every h.
//!
//! ĥ is noisy, and so is d. If h is unbiased, the last term makes the **variance** unbiased: it
//! changes log d by β(ĥ/d − 1), up to third order in the noise, so that the mean of 1/d over the
//! steps is the variance of the best diagonal Gaussian. The mean of d has a relative bias of
//! ½β Var(ĥ/d), which is halved by halving β or by doubling the number of draws. The book has
//! figures.
//!
//! | [`Curvature`] | h, averaged over draws |
//! |---|---|
//! | `SquaredMean` | M g², M the number of examples in the batch |
//! | `Price` | g ⊙ (θ−μ) ⊙ d, whose expectation over q is that of the Hessian's diagonal |
//! | `Hutchinson` | z ⊙ (g(θ+s⊙z) − g(θ−s⊙z))/2s, z = ±1, s a fraction of d^-½ |
//!
//! A fourth estimate, the mean over examples of gᵢ², gives VOGN, which is [`Slang`](crate::Slang)
//! with rank 0. Hutchinson's estimate needs the product of the Hessian and z. Burn has no second
//! derivatives, so the product is a central difference with error O(s²), and g is the mean of the
//! two gradients.
//!
//! A [prior over functions](crate::function_prior) adds the diagonal of its curvature JᵀK⁻¹J to ĥ, and its gradient to
//! N g.
//!
//! A step is a Bayesian filter: for η = β and without the last term of d⁺, N(μ⁺, 1/d⁺) is
//! proportional to q^{1−β} times the β-th powers of the prior and of the second-order expansion of
//! the likelihood, shifted from the draw to μ.
//!
//! | symbol | field |
//! |---|---|
//! | μ, d | `gaussian` |
//! | N | `train_len` |
//! | α | `prior` |
//! | β | `precision_rate` |
//! | η | the optimiser's learning rate |

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, ParamGroup};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::algorithm::{
    Algorithm, Draw, FromGradients, FunctionPriorUse, GradientPieces, MeanGradients, Proposal,
    Setup, Stage, StepId, Update, joined, purpose,
};
use super::average::Averaging;
use super::checks::pairs;
use super::mean_stage::MeanStage;
use super::natural::{NaturalGaussian, NaturalSettings, NaturalStep, NaturalUpdate};
use super::rate::Rate;
use super::stages::{Stages, averaged, with_function_gradient};
use super::start::{InitialDeviation, InitialMean};
use crate::error::{Error, Result};
use crate::kernels::statistics::{PrecisionParts, column_dot};
use crate::memory::MemoryPlan;
use crate::noise::{Noise, NoiseSource};
use crate::posterior::FactorPosterior;
use crate::prior::Prior;

/// How VON estimates the curvature of the loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Curvature {
    /// The squared mean gradient times the number of examples in the mini-batch: one gradient per
    /// draw, never negative, but not an estimate of the Hessian. The square alone would be about
    /// 1/M of that of single examples, for M examples.
    SquaredMean,
    /// Price's theorem: one gradient per draw, unbiased but noisy; antithetic draws reduce the
    /// noise.
    Price,
    /// Hutchinson's estimator with random signs: two gradients per draw, unbiased up to O(s²).
    Hutchinson {
        /// s in posterior standard deviations.
        probe: f64,
    },
}

/// Settings of VON.
///
/// ```
/// use burn_bayes::methods::{Curvature, VonConfig};
///
/// let config = VonConfig::new(60_000).with_curvature(Curvature::Hutchinson { probe: 0.1 });
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct VonConfig {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// λ, the effective sample size, the weight of the mean negative log-likelihood against the divergence from the
    /// prior; by default the larger of N and the number of weights. A larger one gives a narrower posterior. Paper: N.
    pub ess: Option<f64>,
    /// The curvature estimate. Paper: the Hessian itself.
    #[config(default = "Curvature::Price")]
    pub curvature: Curvature,
    /// The prior over the weights. Paper: isotropic.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// β, the weight of a mini-batch in the precision; smaller values reduce its variation between
    /// steps. Paper: the learning rate of the mean.
    #[config(default = "Rate::Constant(0.01)")]
    pub precision_rate: Rate,
    /// The momentum m of the mean, an average over about 1/(1−m) steps. Paper: 0.
    #[config(default = 0.9)]
    pub momentum: f64,
    /// Draws per mini-batch. Paper: 1.
    #[config(default = 2)]
    pub draws: usize,
    /// Whether draws are antithetic pairs μ ± ε; `draws` must then be even or 1. Paper: no.
    #[config(default = true)]
    pub antithetic: bool,
    /// The largest step Δ of the mean, √(ΔᵀPΔ) posterior standard deviations; a longer step is
    /// shortened. Paper: no bound.
    #[config(default = 3.0)]
    pub radius: f64,
    /// The initial mean. Paper: any.
    #[config(default = "InitialMean::Model")]
    pub initial_mean: InitialMean,
    /// The standard deviation of every weight at the start; by default that of the squared gradients at the
    /// end of the first stage, or that of the prior without a first stage. Paper: that of the prior.
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

impl VonConfig {
    /// The published algorithm: a single stage, no momentum, no bound on a step, one draw and no average.
    pub fn paper(train_len: usize) -> Self {
        Self::new(train_len)
            .with_ess(Some(train_len as f64))
            .with_mean_stage(MeanStage::None)
            .with_averaging(Averaging::None)
            .with_momentum(0.0)
            .with_radius(f64::INFINITY)
            .with_draws(1)
            .with_antithetic(false)
    }

    /// Checks the settings. The error names the field.
    pub fn validate(&self) -> Result<()> {
        self.natural().validate()?;
        pairs(self.draws, self.antithetic)?;
        match self.curvature {
            Curvature::Hutchinson { probe } if !(probe.is_finite() && probe > 0.0) => {
                let problem = format!("has the probe {probe}; it must be finite and above zero");
                Err(Error::config("curvature", problem))
            }
            _ => Ok(()),
        }
    }

    /// The memory needed to train `weights` weights, without the model's activations.
    pub fn memory(&self, weights: usize) -> MemoryPlan {
        let moments = usize::from(self.momentum > 0.0);
        let each = match self.curvature {
            // A draw and its gradient.
            Curvature::SquaredMean | Curvature::Price => 2,
            // Two draws and two gradients, and the difference of the gradients.
            Curvature::Hutchinson { .. } => 5,
        };
        let mut plan = MemoryPlan::natural(weights, 0, moments, each * self.draws + 1);
        plan.parameters += self.natural().stage_bytes(weights);
        plan
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<Von> {
        self.validate()?;
        let without_group = self.clone().with_group(ParamGroup::all());
        Ok(Von {
            gaussian: NaturalGaussian::start(self.natural(), &without_group, model, 0)?,
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

/// VON's Gaussian.
#[derive(Module, Debug)]
pub struct Von {
    gaussian: NaturalGaussian,
    #[module(skip)]
    config: Arc<VonConfig>,
}

impl Von {
    /// The configuration.
    pub fn config(&self) -> &VonConfig {
        &self.config
    }
}

impl Algorithm for Von {
    type Signal = MeanGradients;
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

impl FromGradients for Von {
    /// The draws; Hutchinson's estimate replaces each by θ + s⊙z and θ − s⊙z.
    fn propose(&self, id: StepId) -> Result<Proposal> {
        let config = self.config();
        let proposal = self.gaussian.propose(id, config.antithetic)?;
        let (Curvature::Hutchinson { probe }, Stage::Posterior | Stage::Single) =
            (config.curvature, self.stage())
        else {
            return Ok(proposal);
        };
        let parts = self.gaussian.parts();
        let root = id.noise(self.setup().noise);
        let draws = proposal.draws.into_iter().enumerate();
        let draws = draws.flat_map(|(index, draw)| {
            let (theta, noise) = (draw.weights, draw.noise);
            let shift = signs(root, index, &theta) * deviation(&parts).mul_scalar(probe);
            [theta.clone() + shift.clone(), theta - shift].map(|weights| Draw { weights, noise })
        });
        Ok(Proposal::new(id, draws.collect()))
    }

    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<Self::ClosedForm>> {
        let config = self.config();
        let parts = self.gaussian.parts();
        let gradients = joined(gradients);
        if let Some(update) = self
            .gaussian
            .stage_update(&proposal, &gradients, batch_size)
        {
            return update;
        }
        let train_len = self.setup().ess;
        let mean_gradient = with_function_gradient(mean(gradients.clone()), &proposal, train_len);
        let curvature = match config.curvature {
            Curvature::SquaredMean => {
                let squares = gradients.into_iter().map(|gradient| gradient.square());
                mean(squares.collect()).mul_scalar(batch_size as f64)
            }
            Curvature::Price => {
                let products = proposal
                    .draws
                    .iter()
                    .zip(gradients)
                    .map(|(draw, gradient)| gradient * (draw.weights.clone() - parts.mean.clone()));
                mean(products.collect()) * parts.precision.clone()
            }
            Curvature::Hutchinson { probe } => {
                let root = proposal.id.noise(self.setup().noise);
                let products = gradients.chunks(2).enumerate().map(|(index, pair)| {
                    signs(root, index, &pair[0]) * (pair[0].clone() - pair[1].clone())
                });
                mean(products.collect()) / deviation(&parts).mul_scalar(2.0 * probe)
            }
        };
        let rate = config.precision_rate.at(proposal.id.step);
        let alpha = self.gaussian.prior().expanded(&parts.mean.device());
        let target = curvature.mul_scalar(train_len) + alpha.clone();
        let function = proposal.function.as_ref();
        let target = match function.and_then(|terms| terms.rows.clone()) {
            Some(rows) => target + column_dot(rows.clone(), rows),
            None => target,
        };
        let precision = match config.curvature {
            Curvature::SquaredMean => {
                parts.precision.mul_scalar(1.0 - rate) + target.mul_scalar(rate)
            }
            Curvature::Price | Curvature::Hutchinson { .. } => {
                let ratio = target / parts.precision.clone();
                let root = ratio.sub_scalar(1.0).mul_scalar(rate).add_scalar(1.0);
                parts.precision * root.square().add_scalar(1.0).mul_scalar(0.5)
            }
        };
        let gradient = mean_gradient.clone().mul_scalar(train_len) + alpha * parts.mean;
        let step = NaturalStep::diagonal(gradient, precision);
        NaturalStep::update(step, proposal.id, || {
            self.setup().non_finite(proposal.id.step + 1, mean_gradient)
        })
    }
}

/// d^-½.
fn deviation(parts: &PrecisionParts) -> Tensor<1> {
    parts.precision.clone().sqrt().recip()
}

/// The signs of the probe at draw `index`, with the length of `like`.
fn signs(root: Noise, index: usize, like: &Tensor<1>) -> Tensor<1> {
    let noise = root.fold(purpose::PROBE).row(index as u64);
    let normal = noise.normal(like.dims()[0], &like.device());
    // A normal of exactly zero must also give ±1.
    normal
        .greater_equal_elem(0.0)
        .float()
        .mul_scalar(2.0)
        .sub_scalar(1.0)
}

/// The average over draws.
fn mean(vectors: Vec<Tensor<1>>) -> Tensor<1> {
    averaged(vectors.into_iter()).expect("an algorithm proposes at least one draw")
}
