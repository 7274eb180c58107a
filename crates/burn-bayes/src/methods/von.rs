//! VON: variational online Newton with a diagonal precision (Khan et al. 2018).
//!
//! The posterior is q = N(μ, diag(d)⁻¹). With the gradient g of the mean negative log-likelihood and an
//! estimate h of the diagonal of its Hessian, both at draws θ of q,
//!
//! * ĥ = N h + α
//! * d⁺ = (1−β) d + β ĥ, and where h can be negative + ½β² (d−ĥ)²/d
//! * μ⁺ = μ − η (N g + α⊙μ)/d⁺
//!
//! The last term of d⁺ is the second order of a step along the geodesic of the positive numbers (Lin
//! et al. 2020). With it d⁺ = ½ d (1 + (1 − β(1 − ĥ/d))²) ≥ ½ d, whatever h.
//!
//! ĥ is noisy, and d with it. Where h is unbiased, the last term makes the **variance** right: it moves
//! log d by β(ĥ/d − 1), up to the third power of the noise, so that the mean of 1/d over the steps is the
//! variance of the best diagonal Gaussian. The mean of d is too large by the share ½β Var(ĥ/d), which half
//! the rate, or twice the draws, halves. The book has figures.
//!
//! | [`Curvature`] | h, averaged over draws |
//! |---|---|
//! | `SquaredMean` | M g², M the number of examples in the batch |
//! | `Price` | g ⊙ (θ−μ) ⊙ d, whose expectation over q is that of the Hessian's diagonal |
//! | `Hutchinson` | z ⊙ (g(θ+s⊙z) − g(θ−s⊙z))/2s, z = ±1, s a fraction of d^-½ |
//!
//! The fourth estimate, the mean of every example's gᵢ², makes VOGN: [`Slang`](crate::Slang) of rank 0.
//! Hutchinson's needs a product of the Hessian with z. Burn differentiates once, so the product is a
//! central difference, of error O(s²), and g is the mean of the two gradients.
//!
//! A step is a Bayesian filter: for η = β and without the last term of d⁺, N(μ⁺, 1/d⁺) is
//! proportional to q^{1−β} times β-th powers of the prior and of the likelihood's expansion to second
//! order, moved from the draw to μ.
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
    Algorithm, Draw, FromGradients, GradientPieces, MeanGradients, Proposal, Setup, StepId, Update,
    draw_noises, purpose,
};
use super::natural::{NaturalGaussian, NaturalSettings, NaturalStep};
use super::rate::Rate;
use super::start::{InitialDeviation, InitialMean};
use crate::error::{Error, Result};
use crate::kernels::statistics::PrecisionParts;
use crate::memory::MemoryPlan;
use crate::noise::{Noise, NoiseSource};
use crate::posterior::{FactorPosterior, precision_draws};
use crate::prior::{Prior, PriorPrecisions};

/// Where VON takes the curvature of the loss from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Curvature {
    /// The square of the mean gradient times the number of examples in the batch: one gradient per
    /// draw, never negative, and not the Hessian. For M examples the square alone is about 1/M of
    /// what single examples have.
    SquaredMean,
    /// Price's theorem: one gradient per draw, unbiased and noisy; less so with antithetic draws.
    Price,
    /// A probe of the Hessian with random signs: two gradients per draw, unbiased up to O(s²).
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
    /// Where the curvature comes from. Paper: the Hessian itself.
    #[config(default = "Curvature::Price")]
    pub curvature: Curvature,
    /// The prior over the weights. Paper: isotropic.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// β, the weight of a batch in the precision: the smaller, the less the precision varies from step
    /// to step. Paper: as the learning rate of the mean.
    #[config(default = "Rate::Constant(0.01)")]
    pub precision_rate: Rate,
    /// The momentum of the mean: its steps are averaged over about 1/(1−m) of them. Paper: 0.
    #[config(default = 0.0)]
    pub momentum: f64,
    /// Draws per batch. Paper: 1.
    #[config(default = 2)]
    pub draws: usize,
    /// Draws come in pairs μ ± ε; `draws` must then be even. Paper: no.
    #[config(default = true)]
    pub antithetic: bool,
    /// The furthest that a step may move the mean, in posterior standard deviations per weight
    /// (root mean square); further ones are shrunk. Paper: no bound.
    #[config(default = 5.0)]
    pub radius: f64,
    /// Where the mean starts. Paper: any.
    #[config(default = "InitialMean::Model")]
    pub initial_mean: InitialMean,
    /// The deviation of every weight at the start. Paper: that of the prior.
    pub initial_deviation: Option<InitialDeviation>,
    /// The parameters that become random; the others stay point estimates.
    #[config(default = "ParamGroup::all()")]
    pub group: ParamGroup,
    /// Seed of every draw.
    #[config(default = 0)]
    pub seed: u64,
    /// Who makes the normals.
    #[config(default = "NoiseSource::Host")]
    pub noise: NoiseSource,
}

impl VonConfig {
    /// Refuses what cannot be used, naming the field.
    pub fn validate(&self) -> Result<()> {
        self.natural().validate()?;
        if self.antithetic && !self.draws.is_multiple_of(2) {
            let problem = format!("is {}; antithetic draws come in pairs", self.draws);
            return Err(Error::config("draws", problem));
        }
        match self.curvature {
            Curvature::Hutchinson { probe } if !(probe.is_finite() && probe > 0.0) => {
                let problem = format!("probes at {probe}; it must be finite and above zero");
                Err(Error::config("curvature", problem))
            }
            _ => Ok(()),
        }
    }

    /// The memory of training `weights` weights, without what lies between layers.
    pub fn memory(&self, weights: usize) -> MemoryPlan {
        let moments = usize::from(self.momentum > 0.0);
        let each = match self.curvature {
            // A draw and its gradient.
            Curvature::SquaredMean | Curvature::Price => 2,
            // Two of both, and the difference of the gradients.
            Curvature::Hutchinson { .. } => 5,
        };
        MemoryPlan::natural(weights, 0, moments, each * self.draws + 1)
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<Von> {
        self.validate()?;
        let setup = Setup::new(
            model,
            &self.group,
            self.train_len,
            Noise::new(self.seed, self.noise),
        )?;
        let layout = &setup.layout;
        let prior = self.prior.resolve(layout)?;
        Ok(Von {
            gaussian: self.natural().start(model, layout, &prior, 0)?,
            settings: Arc::new(Settings {
                config: self.clone(),
                setup,
                prior,
            }),
        })
    }

    fn natural(&self) -> NaturalSettings {
        NaturalSettings {
            train_len: self.train_len,
            draws: self.draws,
            precision_rate: self.precision_rate,
            momentum: self.momentum,
            radius: self.radius,
            initial_mean: self.initial_mean,
            initial_deviation: self.initial_deviation,
        }
    }
}

/// VON's Gaussian.
#[derive(Module, Debug)]
pub struct Von {
    gaussian: NaturalGaussian,
    #[module(skip)]
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    config: VonConfig,
    setup: Setup,
    prior: PriorPrecisions,
}

impl Von {
    /// The settings it was made with.
    pub fn config(&self) -> &VonConfig {
        &self.settings.config
    }
}

impl Algorithm for Von {
    type Signal = MeanGradients;
    type Posterior = FactorPosterior;
    type ClosedForm = NaturalStep;

    fn setup(&self) -> &Setup {
        &self.settings.setup
    }

    fn posterior(&self, _step: u64) -> Result<FactorPosterior> {
        self.gaussian.posterior(self.setup().layout.clone())
    }

    fn apply_step(self, update: NaturalStep, learning_rate: f64) -> Self {
        let motion = self.config().natural().motion(learning_rate);
        let gaussian = self.gaussian.apply_step(update, motion);
        Self { gaussian, ..self }
    }
}

impl FromGradients for Von {
    /// The draws; for Hutchinson's estimate θ + s⊙z and θ − s⊙z in the place of each.
    fn propose(&self, id: StepId) -> Result<Proposal> {
        let config = self.config();
        let root = id.noise(self.setup().noise);
        let noises = draw_noises(root, config.draws, config.antithetic);
        let parts = self.gaussian.parts();
        let thetas = precision_draws(&parts, &noises)?.draws;
        let draws = Draw::all(thetas, noises);
        let draws = match config.curvature {
            Curvature::Hutchinson { probe } => draws
                .into_iter()
                .enumerate()
                .flat_map(|(index, draw)| {
                    let (theta, noise) = (draw.weights, draw.noise);
                    let shift = signs(root, index, &theta) * deviation(&parts).mul_scalar(probe);
                    [theta.clone() + shift.clone(), theta - shift]
                        .map(|weights| Draw { weights, noise })
                })
                .collect(),
            _ => draws,
        };
        Ok(Proposal::new(id, draws))
    }

    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<NaturalStep>> {
        let Settings {
            config,
            setup,
            prior,
        } = self.settings.as_ref();
        let parts = self.gaussian.parts();
        let gradients: Vec<_> = gradients
            .into_iter()
            .map(|parts| Tensor::cat(parts, 0))
            .collect();
        let mean_gradient = mean(gradients.clone());
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
                let root = proposal.id.noise(setup.noise);
                let products = gradients.chunks(2).enumerate().map(|(index, pair)| {
                    signs(root, index, &pair[0]) * (pair[0].clone() - pair[1].clone())
                });
                mean(products.collect()) / deviation(&parts).mul_scalar(2.0 * probe)
            }
        };
        let (rate, scale) = (
            config.precision_rate.at(proposal.id.step),
            config.train_len as f64,
        );
        let alpha = prior.expanded(&parts.mean.device());
        let target = curvature.mul_scalar(scale) + alpha.clone();
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
        let gradient = mean_gradient.clone().mul_scalar(scale) + alpha * parts.mean;
        let step = NaturalStep::diagonal(gradient, precision);
        NaturalStep::update(step, || {
            setup.non_finite(proposal.id.step + 1, mean_gradient)
        })
    }
}

/// d^-½.
fn deviation(parts: &PrecisionParts) -> Tensor<1> {
    parts.precision.clone().sqrt().recip()
}

/// The signs of the probe at draw number `index`, as many as the weights `like`.
fn signs(root: Noise, index: usize, like: &Tensor<1>) -> Tensor<1> {
    let noise = root.fold(purpose::PROBE).row(index as u64);
    let normal = noise.normal(like.dims()[0], &like.device());
    // A normal of exactly zero would be no probe.
    normal
        .greater_equal_elem(0.0)
        .float()
        .mul_scalar(2.0)
        .sub_scalar(1.0)
}

fn mean(vectors: Vec<Tensor<1>>) -> Tensor<1> {
    let share = 1.0 / vectors.len() as f64;
    let sum = vectors.into_iter().reduce(|sum, vector| sum + vector);
    sum.expect("an algorithm proposes at least one draw")
        .mul_scalar(share)
}
