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
//! A prior over functions adds the diagonal of its curvature JᵀK⁻¹J to ĥ, and its gradient to
//! N g.
//!
//! A step is a Bayesian filter: for η = β and without the last term of d⁺, N(μ⁺, 1/d⁺) is
//! proportional to q^{1−β} times the β-th powers of the prior and of the second-order expansion of
//! the likelihood, shifted from the draw to μ.
//!
//! | symbol | field |
//! |---|---|
//! | β | `covariance_rate` |
//! | η | the optimiser's learning rate |

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Tensor;
use burn_bayes_eval::Bounded;
use serde::{Deserialize, Serialize};

use super::algorithm::Stage;
use super::method_config::LearningRates;
use super::method_state::{Context, StagedConfig, Start};
use super::natural::{Natural, NaturalConfig, NaturalSettings, NaturalStep};
use super::proposal::{Draw, GradientPieces, Proposal, Update, joined};
use super::rate::Rate;
use super::setup::purpose;
use super::staged::Staged;
use super::stages::{averaged, products, with_function_gradient};
use super::start::InitialDeviation;
use crate::error::{Error, Result};
use crate::kernels::statistics::{PrecisionParts, column_dot};
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::noise::Noise;

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
/// use burn_bayes::BayesianConfig;
/// use burn_bayes::methods::{Curvature, VonConfig};
///
/// let von = VonConfig::new().with_curvature(Curvature::Hutchinson { probe: 0.1 });
/// let config = BayesianConfig::new(60_000, von);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct VonConfig {
    /// The curvature estimate. Paper: the Hessian itself.
    #[config(default = "Curvature::Price")]
    pub curvature: Curvature,
    /// β, the weight of a mini-batch in the precision; smaller values reduce its variation between
    /// steps. With [`Price`](Curvature::Price) it begins at most at 0.4 divided by the number of mini-batches of an epoch, unless it
    /// is set without regard to the training's length. Paper: the learning rate of the mean.
    #[config(default = "Rate::tuned(0.01)")]
    pub covariance_rate: Rate,
    /// The momentum m of the mean, an average over about 1/(1−m) steps. Paper: 0.
    #[config(default = 0.9)]
    pub momentum: f64,
    /// The largest step Δ of the mean, √(ΔᵀPΔ) posterior standard deviations; a longer step is
    /// shortened. Paper: no bound.
    #[config(default = 3.0)]
    pub radius: f64,
    /// The standard deviation of every weight at the start; by default that of the squared gradients at the
    /// end of the first stage, or that of the prior without a first stage. Paper: that of the prior.
    pub initial_deviation: Option<InitialDeviation>,
}

impl VonConfig {
    /// The published algorithm: no momentum and no bound on a step.
    pub fn paper() -> Self {
        Self::new().with_momentum(0.0).with_radius(f64::INFINITY)
    }
}

/// VON.
pub type Von = Staged<Natural<VonConfig>>;

impl StagedConfig for VonConfig {
    type State = Natural<Self>;

    const DRAWS: usize = 2;

    fn learning_rates(&self) -> LearningRates {
        LearningRates::new(0.1)
    }

    fn validate(&self) -> Result<()> {
        self.natural().validate()?;
        match self.curvature {
            Curvature::Hutchinson { probe } if !(probe.is_finite() && probe > 0.0) => {
                let problem = format!("has the probe {probe}; it must be finite and above zero");
                Err(Error::config("curvature", problem))
            }
            _ => Ok(()),
        }
    }

    fn start<M: Module>(&self, start: Start<'_, M>) -> Result<Natural<Self>> {
        Natural::start(self, &start, 0)
    }

    fn memory(&self, weights: usize, draws: usize, _: OptimizerMemory) -> MemoryPlan {
        let moments = usize::from(self.momentum > 0.0);
        let each = match self.curvature {
            // A draw and its gradient.
            Curvature::SquaredMean | Curvature::Price => 2,
            // Two draws and two gradients, and the difference of the gradients.
            Curvature::Hutchinson { .. } => 5,
        };
        MemoryPlan::natural(weights, 0, moments, each * draws + 1)
    }

    fn has_start(&self) -> bool {
        self.initial_deviation.is_some()
    }
}

impl NaturalConfig for VonConfig {
    type Signal = GradientPieces;

    fn natural(&self) -> NaturalSettings {
        NaturalSettings {
            covariance_rate: self.covariance_rate,
            momentum: self.momentum,
            radius: self.radius,
            initial_deviation: self.initial_deviation,
        }
    }

    /// Hutchinson's estimate replaces each draw by θ + s⊙z and θ − s⊙z.
    fn probed(&self, context: Context<'_>, parts: &PrecisionParts, proposal: Proposal) -> Proposal {
        let (Curvature::Hutchinson { probe }, Stage::Posterior | Stage::Single) =
            (self.curvature, context.stage)
        else {
            return proposal;
        };
        let root = proposal.id.noise(context.setup.noise);
        let draws = proposal.draws.into_iter().enumerate();
        let draws = draws.flat_map(|(index, draw)| {
            let (theta, noise) = (draw.weights, draw.noise);
            let shift = signs(root, index, &theta) * deviation(parts).mul_scalar(probe);
            [theta.clone() + shift.clone(), theta - shift].map(|weights| Draw { weights, noise })
        });
        Proposal::new(proposal.id, draws.collect())
    }

    fn step(
        &self,
        context: Context<'_>,
        parts: PrecisionParts,
        proposal: Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<Update<NaturalStep>> {
        let (gradients, ess) = (joined(gradients), context.setup.ess);
        let mean_gradient =
            with_function_gradient(averaged(gradients.iter().cloned())?, &proposal, ess);
        let curvature = match self.curvature {
            Curvature::SquaredMean => {
                let squares = gradients.into_iter().map(|gradient| gradient.square());
                averaged(squares)?.mul_scalar(examples as f64)
            }
            Curvature::Price => {
                products(&proposal, gradients.into_iter(), &parts.mean)? * parts.precision.clone()
            }
            Curvature::Hutchinson { probe } => {
                let root = proposal.id.noise(context.setup.noise);
                let products = gradients.chunks(2).enumerate().map(|(index, pair)| {
                    signs(root, index, &pair[0]) * (pair[0].clone() - pair[1].clone())
                });
                averaged(products)? / deviation(&parts).mul_scalar(2.0 * probe)
            }
        };
        let number = proposal.id.step;
        let rate = match self.curvature {
            Curvature::Price => {
                let price = self.covariance_rate.of_price(context.length, number);
                price.weight.at_most(price.most * examples as f64 / ess)
            }
            _ => self.covariance_rate.within(context.length).at(number),
        };
        let alpha = context.prior.expanded(&parts.mean.device());
        let target = curvature.mul_scalar(ess) + alpha.clone();
        let function = proposal.function.as_ref();
        let target = match function.and_then(|terms| terms.rows.clone()) {
            Some(rows) => target + column_dot(rows.clone(), rows),
            None => target,
        };
        let precision = match self.curvature {
            Curvature::SquaredMean => {
                parts.precision.mul_scalar(1.0 - rate) + target.mul_scalar(rate)
            }
            Curvature::Price | Curvature::Hutchinson { .. } => {
                let ratio = target / parts.precision.clone();
                let root = ratio.sub_scalar(1.0).mul_scalar(rate).add_scalar(1.0);
                parts.precision * root.square().add_scalar(1.0).mul_scalar(0.5)
            }
        };
        let gradient = mean_gradient.clone().mul_scalar(ess) + alpha * parts.mean;
        let step = NaturalStep::diagonal(gradient, precision);
        NaturalStep::update(step, || context.setup.non_finite(number + 1, mean_gradient))
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
