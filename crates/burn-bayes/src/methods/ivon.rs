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
//! **Safeguards.** ĥ is noisy where it is far from h, so h must begin near the curvature. The mean is trained
//! first, by Adam with the gradient at the mean itself ([`MeanStage`]); h begins with M times Adam's average of
//! the squared gradients, M the number of examples of a step. A gradient whose own step is longer than `radius`
//! posterior standard deviations is multiplied by the factor s that shortens it: g averages s ĝ, and δ⊙m is multiplied by
//! w, the same average of s (with no shortened gradient w is 1−β₁ᵗ). A step that is not finite is rejected.
//!
//! The posterior has the average of the means of the second stage ([`Averaging`]).
//!
//! | symbol | field |
//! |---|---|
//! | m, g, w | `mean`, `moment`, `weight` |
//! | h + δ | `curvature` |
//! | λ | `ess` |
//! | α | `prior` |
//! | β₁, ρ = 1−β₂ | `momentum`, `precision_rate` |
//! | h₀ | `initial_hessian` |
//! | ξ | `clip_radius` |
//! | η | the optimiser's learning rate |

mod update;

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param, ParamGroup};
use burn::optim::{GradAdaptor, GradientsParams};
use burn::tensor::{Device, Tensor};
pub use update::IvonStep;

use super::algorithm::{
    Algorithm, Draw, FromGradients, GradientPieces, MeanGradients, Proposal, Setup, StepId, Update,
    draw_noises, take_sum,
};
use super::average::Averaging;
use super::checks::{above_zero, counts, pairs, positive};
use super::mean_stage::MeanStage;
use super::mean_training::{FIRST_DEVIATION, MeanTraining};
use super::natural::fraction;
use super::rate::Rate;
use super::start::{InitialMean, buffer};
use crate::error::Result;
use crate::kernels::statistics::PrecisionParts;
use crate::memory::MemoryPlan;
use crate::noise::{Noise, NoiseSource};
use crate::posterior::{FactorPosterior, precision_draws};
use crate::prior::{Prior, PriorPrecisions};

/// h₀ without a first stage, as in the paper's program.
const INITIAL_HESSIAN: f64 = 1.0;

/// Settings of IVON.
///
/// ```
/// use burn_bayes::methods::IvonConfig;
///
/// let config = IvonConfig::new(60_000).with_draws(4);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct IvonConfig {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// λ, the effective sample size, the weight of the mean negative log-likelihood against the divergence from
    /// the prior; by default N. A larger one gives a narrower posterior. Paper: N.
    pub ess: Option<f64>,
    /// The prior over the weights. Paper: isotropic, set as weight decay δ.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// β₁, the decay of the average gradient. Paper: 0.9.
    #[config(default = 0.9)]
    pub momentum: f64,
    /// ρ = 1−β₂, the weight of a step in the average of the Hessian. Paper: 0.00001, for hundreds of thousands
    /// of steps.
    #[config(default = "Rate::Constant(0.01)")]
    pub precision_rate: Rate,
    /// h₀, the initial Hessian of the mean negative log-likelihood; by default that of the squared gradients at the
    /// end of the first stage, or 1 without a first stage. Paper: a constant, 1 in its program.
    pub initial_hessian: Option<f64>,
    /// ξ, the largest element of a direction, in units of the weights; by default unbounded. Paper: unbounded, or
    /// 0.001 for transformers.
    pub clip_radius: Option<f64>,
    /// The largest step Δ of the mean from one gradient, √(ΔᵀPΔ) posterior standard deviations; a gradient with a
    /// longer one counts less. Paper: no bound.
    #[config(default = 2.0)]
    pub radius: f64,
    /// Draws per mini-batch. Paper: 1.
    #[config(default = 2)]
    pub draws: usize,
    /// Whether draws are antithetic pairs m ± ε; `draws` must then be even or 1. Paper: no.
    #[config(default = true)]
    pub antithetic: bool,
    /// The initial mean. Paper: any.
    #[config(default = "InitialMean::Model")]
    pub initial_mean: InitialMean,
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

impl IvonConfig {
    /// The published algorithm, with the constants of its program: a single stage, a slow average of the Hessian,
    /// no bound on a step, one draw and no average.
    pub fn paper(train_len: usize) -> Self {
        Self::new(train_len)
            .with_precision_rate(Rate::Constant(1e-5))
            .with_mean_stage(MeanStage::None)
            .with_averaging(Averaging::None)
            .with_radius(f64::INFINITY)
            .with_draws(1)
            .with_antithetic(false)
    }

    /// Checks the settings. The error names the field.
    pub fn validate(&self) -> Result<()> {
        counts([("train_len", self.train_len), ("draws", self.draws)])?;
        pairs(self.draws, self.antithetic)?;
        fraction("momentum", self.momentum)?;
        self.precision_rate.check_weight("precision_rate")?;
        above_zero("radius", self.radius)?;
        for (field, value) in [
            ("ess", self.ess),
            ("initial_hessian", self.initial_hessian),
            ("clip_radius", self.clip_radius),
            ("mean_stage_rate", Some(self.mean_stage_rate)),
        ] {
            value.map_or(Ok(()), |value| positive(field, value))?;
        }
        Ok(())
    }

    /// The memory needed to train `weights` weights, without the model's activations.
    pub fn memory(&self, weights: usize) -> MemoryPlan {
        // The model, the draws and their gradients.
        let mut plan = MemoryPlan::natural(weights, 0, 1, 2 * self.draws + 1);
        let stage = match self.mean_stage {
            MeanStage::None => 0,
            _ => MeanTraining::bytes(weights),
        };
        let average = usize::from(self.averaging != Averaging::None);
        plan.parameters += stage + average * weights * size_of::<f32>();
        plan
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<Ivon> {
        self.validate()?;
        let noise = Noise::new(self.seed, self.noise);
        let setup = Setup::new(model, &self.group, self.train_len, noise)?;
        let layout = &setup.layout;
        let mean = self.initial_mean.of(layout.flatten(model)?);
        let device = mean.device();
        let ess = self.ess.unwrap_or(self.train_len as f64);
        let prior = self.prior.resolve(layout)?;
        let has_first_stage = self.mean_stage != MeanStage::None;
        let curvature = match self.initial_hessian {
            None if has_first_stage => FIRST_DEVIATION.log_variance(layout, &device).neg().exp(),
            hessian => {
                let hessian = hessian.unwrap_or(INITIAL_HESSIAN);
                prior.expanded(&device).add_scalar(ess * hessian)
            }
        }
        .div_scalar(ess);
        Ok(Ivon {
            moment: buffer(mean.zeros_like()),
            curvature: buffer(curvature),
            weight: buffer(Tensor::zeros([1], &device)),
            average: (self.averaging != Averaging::None).then(|| buffer(mean.clone())),
            mean_training: has_first_stage.then(|| MeanTraining::new(&mean)),
            mean: buffer(mean),
            fixed: Arc::new(Fixed {
                config: self.clone(),
                setup,
                prior,
                ess,
            }),
        })
    }
}

/// IVON's mean, average gradient and curvature.
#[derive(Module, Debug)]
pub struct Ivon {
    mean: Param<Tensor<1>>,
    moment: Param<Tensor<1>>,
    curvature: Param<Tensor<1>>,
    /// w. Under its id, a step's number of examples is accumulated.
    weight: Param<Tensor<1>>,
    average: Option<Param<Tensor<1>>>,
    mean_training: Option<MeanTraining>,
    #[module(skip)]
    fixed: Arc<Fixed>,
}

/// What does not change in a training.
#[derive(Debug)]
struct Fixed {
    config: IvonConfig,
    setup: Setup,
    prior: PriorPrecisions,
    /// λ.
    ess: f64,
}

impl Ivon {
    /// The configuration.
    pub fn config(&self) -> &IvonConfig {
        &self.fixed.config
    }

    fn parts(&self) -> PrecisionParts {
        let curvature = self.curvature.val().without_autodiff();
        PrecisionParts {
            mean: self.mean.val().without_autodiff(),
            factors: None,
            precision: curvature.mul_scalar(self.fixed.ess),
        }
    }

    /// The step after which draws are made; `None` while only the mean learns.
    fn second_stage(&self) -> Option<u64> {
        let training = self.mean_training.as_ref();
        training.map_or(Some(0), MeanTraining::end)
    }

    /// The number of means in the average after `step` steps.
    fn averaged(&self, step: u64) -> u64 {
        self.config().averaging.count(self.second_stage(), step)
    }
}

impl Fixed {
    /// δ, broadcastable to `[D]`.
    fn delta(&self, device: &Device) -> Tensor<1> {
        self.prior.tensor(device).div_scalar(self.ess)
    }
}

impl Algorithm for Ivon {
    type Signal = MeanGradients;
    type Posterior = FactorPosterior;
    type ClosedForm = IvonStep;

    fn setup(&self) -> &Setup {
        &self.fixed.setup
    }

    fn posterior(&self, step: u64) -> Result<FactorPosterior> {
        let PrecisionParts {
            mean, precision, ..
        } = self.parts();
        let mean = match &self.average {
            Some(average) if self.averaged(step) > 0 => average.val().without_autodiff(),
            _ => mean,
        };
        FactorPosterior::precision(self.setup().layout.clone(), mean, None, precision)
    }

    fn last_mean(&self) -> Option<Tensor<1>> {
        let is_averaged = self.average.is_some();
        is_averaged.then(|| self.mean.val().without_autodiff())
    }

    fn with_prior(self, prior: &Prior) -> Result<Self> {
        let Fixed {
            config, setup, ess, ..
        } = self.fixed.as_ref();
        let fixed = Fixed {
            config: config.clone().with_prior(prior.clone()),
            setup: setup.clone(),
            prior: prior.resolve(&setup.layout)?,
            ess: *ess,
        };
        Ok(Self {
            fixed: Arc::new(fixed),
            ..self
        })
    }

    fn update_from_sum(&self, step: u64, gradients: &mut GradAdaptor) -> Result<Option<IvonStep>> {
        let device = self.mean.val().device().inner();
        let mut take = |param| take_sum(gradients, param, &device);
        let sums = take(&self.mean).zip(take(&self.weight));
        let products = take(&self.curvature);
        sums.map(|(gradient, examples)| self.update(step, gradient, products, examples))
            .transpose()
    }

    fn apply_step(self, update: IvonStep, learning_rate: f64) -> Self {
        self.with_update(update, learning_rate)
    }
}

impl FromGradients for Ivon {
    fn propose(&self, id: StepId) -> Result<Proposal> {
        let parts = self.parts();
        let noise = id.noise(self.setup().noise);
        if self.second_stage().is_none() {
            let weights = parts.mean;
            return Ok(Proposal::new(id, vec![Draw { weights, noise }]));
        }
        let config = self.config();
        let noises = draw_noises(noise, config.draws, config.antithetic);
        let draws = precision_draws(&parts, &noises)?.draws;
        Ok(Proposal::new(id, Draw::all(draws, noises)))
    }

    /// The sums over examples of ĝ and of ĝ⊙(θ−m), and the number of examples.
    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<IvonStep>> {
        let mean = self.mean.val().without_autodiff();
        let gradients = gradients.into_iter().map(|parts| Tensor::cat(parts, 0));
        let gradients: Vec<_> = gradients.collect();
        let weight = batch_size as f64 / gradients.len() as f64;
        let sum = |vectors: Vec<Tensor<1>>| {
            let sum = vectors.into_iter().reduce(|sum, vector| sum + vector);
            sum.map_or_else(|| mean.zeros_like(), |sum| sum.mul_scalar(weight))
        };
        let mut sums = GradientsParams::new();
        if self.second_stage().is_some() {
            let pairs = proposal.draws.into_iter().zip(gradients.clone());
            let products = pairs.map(|(draw, gradient)| gradient * (draw.weights - mean.clone()));
            sums.register(self.curvature.id, sum(products.collect()));
        }
        sums.register(self.mean.id, sum(gradients));
        let examples = Tensor::<1>::from_data([batch_size as f32], &mean.device());
        sums.register(self.weight.id, examples);
        Ok(Update::Gradients(sums))
    }
}
