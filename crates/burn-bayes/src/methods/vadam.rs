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
//! itself, and then the scale of the precision N s + α is found ([`Stages`]). From there s and a go on without a bias.
//! The posterior has the average of the means of the last stage ([`Averaging`]).
//!
//! | symbol | field |
//! |---|---|
//! | μ, m, s, a | `mean`, `moment`, `scale`, `square` |
//! | N | `train_len` |
//! | α | `prior` |
//! | κ | `square_scale` |
//! | p₀ | `initial_precision` |
//! | γ₁, γ₂ | `gamma_1`, `gamma_2` |
//! | η | the optimiser's learning rate |

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param, ParamGroup};
use burn::tensor::Tensor;

use super::algorithm::{
    Algorithm, Draw, FromGradients, GradientPieces, MeanGradients, Proposal, Setup, Stage, StepId,
    Update, joined,
};
use super::average::{Average, Averaging, Iterate};
use super::checks::{counts, not_negative, positive};
use super::mean_stage::MeanStage;
use super::natural::fraction;
use super::stages::{StageEvent, StageSettings, StageUpdate, Staged, Stages, averaged};
use super::start::{InitialMean, buffer, updated};
use crate::error::{Error, Result};
use crate::kernels::composed::at_least;
use crate::kernels::statistics::PrecisionParts;
use crate::memory::MemoryPlan;
use crate::noise::{Noise, NoiseSource};
use crate::posterior::{FactorPosterior, precision_draws};
use crate::prior::Prior;
use crate::recorded::Recorded;

/// Settings of Vadam.
///
/// ```
/// use burn_bayes::methods::VadamConfig;
///
/// let config = VadamConfig::new(60_000).with_gamma_2(0.9);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct VadamConfig {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// λ, the effective sample size, the weight of the mean negative log-likelihood against the divergence from the
    /// prior; by default the larger of N and the number of weights. A larger one gives a narrower posterior. Paper: N.
    pub ess: Option<f64>,
    /// The prior over the weights. Paper: isotropic.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// γ₁, the decay of the average gradient. Paper: 0.9.
    #[config(default = 0.9)]
    pub gamma_1: f64,
    /// γ₂, the decay of the average squared gradient. Paper: 0.999.
    #[config(default = 0.999)]
    pub gamma_2: f64,
    /// κ, the number of examples in a mini-batch for which the step size is Adam's; with M examples it is
    /// divided by √(M/κ). By default that of every mini-batch. Paper: 1, with mini-batches of one example.
    pub square_scale: Option<f64>,
    /// Draws per mini-batch. Paper: 1.
    #[config(default = 1)]
    pub draws: usize,
    /// The initial mean. Paper: any.
    #[config(default = "InitialMean::Model")]
    pub initial_mean: InitialMean,
    /// Initial posterior precision, in addition to the prior's, if there is no first stage. Paper: a constant.
    #[config(default = 0.0)]
    pub initial_precision: f64,
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

impl VadamConfig {
    /// The published algorithm: a single stage and no average, and steps for mini-batches of one example.
    pub fn paper(train_len: usize) -> Self {
        Self::new(train_len)
            .with_ess(Some(train_len as f64))
            .with_mean_stage(MeanStage::None)
            .with_averaging(Averaging::None)
            .with_square_scale(Some(1.0))
    }

    /// Checks the settings. The error names the field.
    pub fn validate(&self) -> Result<()> {
        counts([("train_len", self.train_len), ("draws", self.draws)])?;
        fraction("gamma_1", self.gamma_1)?;
        fraction("gamma_2", self.gamma_2)?;
        positive("ess", self.ess.unwrap_or(1.0))?;
        positive("mean_stage_rate", self.mean_stage_rate)?;
        positive("square_scale", self.square_scale.unwrap_or(1.0))?;
        not_negative("initial_precision", self.initial_precision)?;
        Ok(())
    }

    /// The memory needed to train `weights` weights, without the model's activations.
    pub fn memory(&self, weights: usize) -> MemoryPlan {
        // The model, the draws, the mean gradient, the prior's gradient, and the new values.
        let mut plan = MemoryPlan::natural(weights, 0, 2, self.draws + 5);
        plan.parameters += self.stages().bytes(weights, weights);
        plan
    }

    /// The settings of the stages.
    fn stages(&self) -> StageSettings {
        StageSettings::new(self.train_len, self.mean_stage, self.averaging)
            .with_adam(self.mean_stage_rate, false)
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<Vadam> {
        self.validate()?;
        let setup = Setup::new(
            model,
            &self.group,
            self.train_len,
            Noise::new(self.seed, self.noise),
        )?
        .with_ess(self.ess)
        .with_settings(&self.clone().with_group(ParamGroup::all()));
        let layout = &setup.layout;
        let mean = self.initial_mean.of(layout.flatten(model)?);
        Ok(Vadam {
            moment: buffer(mean.zeros_like()),
            scale: buffer(mean.zeros_like()),
            square: buffer(mean.zeros_like()),
            steps: Recorded::new(0, &mean.device()),
            stages: Stages::new(
                self.stages(),
                &setup,
                &self.prior,
                Average::new(Iterate::of_mean(mean.clone())),
            )?,
            mean: buffer(mean),
            settings: Arc::new(Settings {
                config: self.clone(),
                setup,
            }),
        })
    }
}

/// Vadam's mean and moments.
#[derive(Module, Debug)]
pub struct Vadam {
    mean: Param<Tensor<1>>,
    moment: Param<Tensor<1>>,
    scale: Param<Tensor<1>>,
    square: Param<Tensor<1>>,
    /// Steps that the averages have taken in.
    steps: Recorded<u64>,
    stages: Stages,
    #[module(skip)]
    settings: Arc<Settings>,
}

/// A step of Vadam, before the learning rate is applied.
#[derive(Debug)]
pub struct VadamStep {
    /// The number of the step, from 1.
    step: u64,
    direction: Tensor<1>,
    moment: Tensor<1>,
    scale: Tensor<1>,
    square: Tensor<1>,
}

#[derive(Debug)]
struct Settings {
    config: VadamConfig,
    setup: Setup,
}

impl Vadam {
    /// The configuration.
    pub fn config(&self) -> &VadamConfig {
        &self.settings.config
    }

    /// N(μ, diag(N s + γ₂ᵗ p₀ + α)⁻¹) after t steps; in several stages, without p₀.
    fn parts(&self) -> PrecisionParts {
        let config = self.config();
        let mean = self.mean.val().without_autodiff();
        let scale = self.scale.val().without_autodiff();
        let initial = self.left(config.gamma_2) * config.initial_precision;
        let data = scale.mul_scalar(self.setup().ess).add_scalar(initial);
        PrecisionParts {
            factors: None,
            precision: data + self.stages.prior().expanded(&mean.device()),
            mean,
        }
    }

    /// γᵗ, the weight of an average's beginning: none after several stages.
    fn left(&self, decay: f64) -> f64 {
        match self.stage() {
            Stage::Single => decay.powi(power(*self.steps.value())),
            _ => 0.0,
        }
    }

    /// With this precision.
    fn with_precision(mut self, precision: Tensor<1>) -> Self {
        let alpha = self.stages.prior().expanded(&precision.device());
        let scale = at_least(precision - alpha, 0.0).div_scalar(self.setup().ess);
        self.scale = updated(self.scale, |_| scale);
        self
    }

    /// Applies a step of the first two stages.
    fn with_stage(mut self, update: StageUpdate) -> Self {
        let setup = &self.settings.setup;
        let (stages, mean, event) = self.stages.apply(setup, update, self.mean);
        self.stages = stages;
        self.mean = mean;
        match event {
            StageEvent::Start(curvature) => {
                let precision = self.stages.start(setup, curvature.clone());
                let square = curvature.div_scalar(setup.ess);
                self.square = updated(self.square, |_| square);
                self.with_precision(precision)
            }
            StageEvent::Rescale(factors) => {
                let precision = self.parts().precision / factors;
                self.with_precision(precision)
            }
            StageEvent::Nothing => self,
        }
    }
}

impl Algorithm for Vadam {
    type Signal = MeanGradients;
    type Posterior = FactorPosterior;
    type ClosedForm = Staged<VadamStep>;

    fn setup(&self) -> &Setup {
        &self.settings.setup
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

    fn apply_step(mut self, update: Self::ClosedForm, learning_rate: f64) -> Self {
        let made = match update {
            Staged::Stage(update) => return self.with_stage(update),
            Staged::Posterior(made) => made,
        };
        let change = made.direction.mul_scalar(learning_rate);
        self.mean = updated(self.mean, |mean| mean - change);
        self.moment = updated(self.moment, |_| made.moment);
        self.scale = updated(self.scale, |_| made.scale);
        self.square = updated(self.square, |_| made.square);
        let steps = self.steps.value() + 1;
        self.steps = self.steps.with_value(steps);
        let mean = self.mean.val().without_autodiff();
        self.stages = (self.stages).with_iterate(made.step, || Iterate::of_mean(mean));
        self
    }
}

impl FromGradients for Vadam {
    fn propose(&self, id: StepId) -> Result<Proposal> {
        let (parts, setup) = (self.parts(), self.setup());
        if let Some(proposal) = self.stages.mean_proposal(setup, id, parts.mean.clone()) {
            return Ok(proposal);
        }
        let noises = self.stages.noises(setup, id, self.config().draws, false);
        let draws = precision_draws(&parts, &noises)?.draws;
        Ok(Proposal::new(id, Draw::all(draws, noises)))
    }

    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<Self::ClosedForm>> {
        let Settings { config, setup } = self.settings.as_ref();
        let gradients = joined(gradients);
        let step = proposal.id.step + 1;
        let parts = self.parts();
        let gaussian = || (parts.mean.clone(), parts.precision.clone().recip());
        let stages = &self.stages;
        if let Some(signal) = stages.signal(setup, &proposal, &gradients, gaussian) {
            let examples = batch_size as u64;
            return Staged::update(stages.update(setup, step, signal, &parts.mean, examples));
        }
        let gradient = averaged(gradients.into_iter())
            .ok_or_else(|| Error::config("draws", "gave no gradients"))?;

        let alpha = stages.prior().expanded(&parts.mean.device());
        let alpha = alpha.div_scalar(setup.ess);
        let average = |old: &Param<Tensor<1>>, new: Tensor<1>, decay: f64| {
            old.val().without_autodiff().mul_scalar(decay) + new.mul_scalar(1.0 - decay)
        };
        let regularised = gradient.clone() + alpha.clone() * parts.mean;
        let moment = average(&self.moment, regularised, config.gamma_1);
        let examples = batch_size as f64;
        let squared = gradient.clone().square().mul_scalar(examples);
        let scale = average(&self.scale, squared.clone(), config.gamma_2);
        let square = average(&self.square, squared, config.gamma_2);

        let corrected = |moment: &Tensor<1>, decay: f64| {
            moment.clone().div_scalar(1.0 - decay * self.left(decay))
        };
        let divisor = corrected(&square, config.gamma_2);
        let divisor = divisor.div_scalar(config.square_scale.unwrap_or(examples));
        let direction = corrected(&moment, config.gamma_1) / (divisor.sqrt() + alpha);
        // One number read from the device; it is not finite if any element is not finite.
        let size: f64 = (direction.clone().square() + scale.clone())
            .sum()
            .into_scalar();
        if !size.is_finite() {
            let reason = setup.non_finite(step, gradient);
            return Ok(Update::Rejected(reason));
        }
        Ok(Update::ClosedForm(Staged::Posterior(VadamStep {
            step,
            direction,
            moment,
            scale,
            square,
        })))
    }
}

/// A step count as an exponent.
fn power(steps: u64) -> i32 {
    i32::try_from(steps).unwrap_or(i32::MAX)
}
