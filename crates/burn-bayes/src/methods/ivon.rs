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
//! the mean and the scale of the precision ([`Stages`]). A gradient whose own step is longer than `radius`
//! posterior standard deviations is multiplied by the factor s that shortens it: g averages s ĝ, and δ⊙m is multiplied by
//! w, the same average of s (with no shortened gradient w is 1−β₁ᵗ). A step that is not finite is rejected.
//!
//! The posterior has the average of the means of the last stage ([`Averaging`]).
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
    Algorithm, Draw, FromGradients, GradientPieces, MeanGradients, Proposal, Setup, Stage, StepId,
    Update, joined, take_sum,
};
use super::average::{Average, Averaging, Iterate};
use super::checks::{above_zero, counts, pairs, positive};
use super::mean_stage::MeanStage;
use super::natural::fraction;
use super::rate::Rate;
use super::stages::{NARROW, StageSettings, Staged, Stages, averaged};
use super::start::{InitialMean, buffer};
use crate::error::Result;
use crate::kernels::statistics::PrecisionParts;
use crate::memory::MemoryPlan;
use crate::noise::{Noise, NoiseSource};
use crate::posterior::{FactorPosterior, precision_draws};
use crate::prior::Prior;
use crate::recorded::Recorded;

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
    /// λ, the effective sample size, the weight of the mean negative log-likelihood against the divergence from the
    /// prior; by default the larger of N and the number of weights. A larger one gives a narrower posterior. Paper: N.
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
            .with_ess(Some(train_len as f64))
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
        plan.parameters += self.stages().bytes(weights, weights);
        plan
    }

    /// The settings of the stages. A Hessian that is set is not searched for.
    fn stages(&self) -> StageSettings {
        StageSettings::new(self.train_len, self.mean_stage, self.averaging)
            .with_adam(self.mean_stage_rate, self.initial_hessian.is_some())
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<Ivon> {
        self.validate()?;
        let noise = Noise::new(self.seed, self.noise);
        let setup = Setup::new(model, &self.group, self.train_len, noise)?
            .with_ess(self.ess)
            .with_settings(&self.clone().with_group(ParamGroup::all()));
        let layout = &setup.layout;
        let mean = self.initial_mean.of(layout.flatten(model)?);
        let device = mean.device();
        let ess = setup.ess;
        let average = Average::new(Iterate::of_mean(mean.clone()));
        let stages = Stages::new(self.stages(), &setup, &self.prior, average)?;
        let curvature = match self.initial_hessian {
            None if stages.stage() == Stage::Mean => {
                NARROW.log_variance(layout, &device).neg().exp()
            }
            hessian => {
                let hessian = hessian.unwrap_or(INITIAL_HESSIAN);
                stages.prior().expanded(&device).add_scalar(ess * hessian)
            }
        }
        .div_scalar(ess);
        Ok(Ivon {
            moment: buffer(mean.zeros_like()),
            curvature: buffer(curvature),
            weight: buffer(Tensor::zeros([1], &device)),
            steps: Recorded::new(0, &device),
            stages,
            mean: buffer(mean),
            fixed: Arc::new(Fixed {
                config: self.clone(),
                setup,
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
    /// w.
    weight: Param<Tensor<1>>,
    /// Steps of the last stage.
    steps: Recorded<u64>,
    stages: Stages,
    #[module(skip)]
    fixed: Arc<Fixed>,
}

/// What does not change in a training.
#[derive(Debug)]
struct Fixed {
    config: IvonConfig,
    setup: Setup,
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
            precision: curvature.mul_scalar(self.setup().ess),
        }
    }
}

impl Ivon {
    /// δ, broadcastable to `[D]`.
    fn delta(&self, device: &Device) -> Tensor<1> {
        let alpha = self.stages.prior().tensor(device);
        alpha.div_scalar(self.fixed.setup.ess)
    }
}

impl Algorithm for Ivon {
    type Signal = MeanGradients;
    type Posterior = FactorPosterior;
    type ClosedForm = Staged<IvonStep>;

    fn setup(&self) -> &Setup {
        &self.fixed.setup
    }

    fn posterior(&self, _step: u64) -> Result<FactorPosterior> {
        let PrecisionParts {
            mean, precision, ..
        } = self.parts();
        let mean = self.stages.average().map_or(mean, Average::mean);
        let precision = self.stages.start_so_far(self.setup()).unwrap_or(precision);
        FactorPosterior::precision(self.setup().layout.clone(), mean, None, precision)
    }

    fn stages(&self) -> Option<&Stages> {
        Some(&self.stages)
    }

    fn map_stages(self, change: impl FnOnce(Stages) -> Stages) -> Self {
        Self {
            stages: change(self.stages),
            ..self
        }
    }

    fn last_mean(&self) -> Option<Tensor<1>> {
        Some(self.mean.val().without_autodiff())
    }

    fn update_from_sum(
        &self,
        step: u64,
        gradients: &mut GradAdaptor,
    ) -> Result<Option<Self::ClosedForm>> {
        let setup = &self.fixed.setup;
        let staged = self
            .stages
            .update_from_sum(setup, step, &self.mean, gradients)?;
        if let Some(update) = staged {
            return Ok(Some(Staged::Stage(update)));
        }
        let device = self.mean.val().device().inner();
        let mut take = |param| take_sum(gradients, param, &device);
        let sums = take(&self.mean).zip(take(&self.curvature));
        let examples = self.stages.take_examples(gradients, &device);
        sums.zip(examples)
            .map(|((gradient, products), examples)| {
                let update = self.update(step, gradient, products, examples)?;
                Ok(Staged::Posterior(update))
            })
            .transpose()
    }

    fn apply_step(self, update: Self::ClosedForm, learning_rate: f64) -> Self {
        match update {
            Staged::Posterior(update) => self.with_update(update, learning_rate),
            Staged::Stage(update) => self.with_stage(update),
        }
    }
}

impl FromGradients for Ivon {
    fn propose(&self, id: StepId) -> Result<Proposal> {
        let (parts, setup) = (self.parts(), self.setup());
        if let Some(proposal) = self.stages.mean_proposal(setup, id, parts.mean.clone()) {
            return Ok(proposal);
        }
        let config = self.config();
        let noises = self
            .stages
            .noises(setup, id, config.draws, config.antithetic);
        let draws = precision_draws(&parts, &noises)?.draws;
        Ok(Proposal::new(id, Draw::all(draws, noises)))
    }

    /// The sums over examples of ĝ and of ĝ⊙(θ−m), and the number of examples.
    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<Self::ClosedForm>> {
        let parts = self.parts();
        let gradients = joined(gradients);
        let setup = &self.fixed.setup;
        let gaussian = || (parts.mean.clone(), parts.precision.clone().recip());
        let signal = self.stages.signal(setup, &proposal, &gradients, gaussian);
        let mut sums = GradientsParams::new();
        if signal.is_none() {
            let weight = batch_size as f64;
            let draws = proposal.draws.iter().zip(&gradients);
            let products = draws.map(|(draw, gradient)| {
                gradient.clone() * (draw.weights.clone() - parts.mean.clone())
            });
            let both = averaged(gradients.iter().cloned()).zip(averaged(products));
            if let Some((gradient, product)) = both {
                sums.register(self.mean.id, gradient.mul_scalar(weight));
                sums.register(self.curvature.id, product.mul_scalar(weight));
            }
        }
        self.stages
            .register(signal, batch_size, &self.mean, &mut sums);
        Ok(Update::Gradients(sums))
    }
}
