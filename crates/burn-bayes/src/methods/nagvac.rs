//! NAGVAC: natural gradients of a Gaussian with one factor (Tran et al. 2020), a step of which costs O(D).
//!
//! The posterior is q = N(μ, bbᵀ + diag c²), κ = Σ b²/c². With the gradients g₁, g₂, g₃ of the variational
//! objective with respect to μ, b and log c, those of [`Vifa`](super::Vifa) at rank 1, the natural gradient with
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
//! where the last is the geodesic step of [`Von`](super::Von)'s precision, which keeps c² positive.
//!
//! **Safeguards.** a is at least `damping`: at κ → 0 the Fisher matrix of b is singular, and the noise of g₂
//! would be divided by κ. w is at least 0.1: r > ½ occurs only for a weight that has most of κ. With both, the
//! matrices of the blocks only become larger, so steps become shorter. A step of μ or of (b, c) that is longer than
//! `radius` in the Fisher metric is shortened, and one that is not finite is rejected.
//!
//! The training begins with the mean and the scale of the covariance ([`Stages`]), and the posterior has the average of
//! the iterates of the last stage ([`Averaging`]). Gradients are returned as sums over examples, so they may be
//! accumulated over mini-batches and devices, as those of [`Ivon`](super::Ivon).
//!
//! | symbol | field |
//! |---|---|
//! | μ, b, 2 log c | `mean`, `factor`, `log_variance` |
//! | n̄ | `velocity` |
//! | N | `train_len` |
//! | α | `prior` |
//! | ρ | `covariance_rate` |
//! | η | the optimiser's learning rate |

mod natural_gradient;

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param, ParamGroup};
use burn::optim::{GradAdaptor, GradientsParams};
use burn::tensor::Tensor;
pub use natural_gradient::NagvacStep;

use super::algorithm::{
    Algorithm, Draw, FromGradients, GradientPieces, MeanGradients, Proposal, Setup, Stage, StepId,
    Update, joined, purpose, take_sum,
};
use super::average::{Average, Averaging, Iterate};
use super::checks::{above_zero, counts, pairs, positive};
use super::mean_stage::MeanStage;
use super::natural::fraction;
use super::rate::Rate;
use super::stages::{NARROW, StageSettings, StageSignal, Staged, Stages, averaged};
use super::start::{InitialDeviation, InitialMean, buffer, orthogonal_rows};
use crate::error::{Error, Result};
use crate::kernels::{
    self, CovarianceParts, Diagonal, DrawGradient, FactorUnits, Objective, Scratch,
};
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::noise::{Noise, NoiseSource};
use crate::posterior::FactorPosterior;
use crate::prior::Prior;

/// Settings of NAGVAC.
///
/// ```
/// use burn_bayes::methods::NagvacConfig;
///
/// let config = NagvacConfig::new(60_000).with_draws(4);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct NagvacConfig {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// λ, the effective sample size, the weight of the mean negative log-likelihood against the divergence from the
    /// prior; by default the larger of N and the number of weights. A larger one gives a narrower posterior. Paper: N.
    pub ess: Option<f64>,
    /// The prior over the weights. Paper: isotropic.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// ρ, the learning rate of b and c. Paper: that of the mean.
    #[config(default = "Rate::Constant(0.01)")]
    pub covariance_rate: Rate,
    /// The decay of the average of the natural gradients. Paper: 0.6 to 0.9.
    #[config(default = 0.9)]
    pub momentum: f64,
    /// The least a, in the Fisher matrix of b. Paper: 0.
    #[config(default = 0.5)]
    pub damping: f64,
    /// Draws per mini-batch. Paper: 10 to 100.
    #[config(default = 2)]
    pub draws: usize,
    /// Whether draws are antithetic pairs μ ± ε; `draws` must then be even or 1. Paper: no.
    #[config(default = true)]
    pub antithetic: bool,
    /// The largest step of the mean, and of b and c, in the Fisher metric; a longer step is shortened. Paper: the
    /// norm of the gradient is clipped.
    #[config(default = 3.0)]
    pub radius: f64,
    /// The initial mean. Paper: any.
    #[config(default = "InitialMean::Model")]
    pub initial_mean: InitialMean,
    /// The initial c; by default that of the squared gradients at the end of the first stage, or 0.03 divided by the
    /// square root of the fan-in without a first stage. Paper: a constant.
    pub initial_deviation: Option<InitialDeviation>,
    /// The initial norm κ^½ of b in units of c; its direction is random. Paper: any.
    #[config(default = 0.5)]
    pub factor_scale: f64,
    /// The first stage, in which only the mean learns. Paper: none.
    #[config(default = "MeanStage::UntilArrival { at_most: None }")]
    pub mean_stage: MeanStage,
    /// The learning rate of the first stage, which Adam makes.
    #[config(default = 0.01)]
    pub mean_stage_rate: f64,
    /// The average of the iterates that is the posterior. Paper: none.
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

impl NagvacConfig {
    /// Checks the settings. The error names the field.
    pub fn validate(&self) -> Result<()> {
        counts([("train_len", self.train_len), ("draws", self.draws)])?;
        pairs(self.draws, self.antithetic)?;
        fraction("momentum", self.momentum)?;
        fraction("damping", self.damping)?;
        self.covariance_rate.check_weight("covariance_rate")?;
        above_zero("radius", self.radius)?;
        let deviation = self.initial_deviation.map(InitialDeviation::scale);
        for (field, value) in [
            ("factor_scale", self.factor_scale),
            ("mean_stage_rate", self.mean_stage_rate),
            ("initial_deviation", deviation.unwrap_or(1.0)),
            ("ess", self.ess.unwrap_or(1.0)),
        ] {
            positive(field, value)?;
        }
        Ok(())
    }

    /// The memory needed to train `weights` weights, without the model's activations.
    pub fn memory(&self, weights: usize) -> MemoryPlan {
        // The velocity has the size of the parameters, as the moment of an optimiser has.
        let mut plan = MemoryPlan::gaussian(weights, 1, self.draws, OptimizerMemory::Momentum);
        // The natural gradient.
        plan.gradients *= 2;
        plan.parameters += self.stages().bytes(weights, 3 * weights);
        plan
    }

    /// The settings of the stages. A deviation that is set is not searched for.
    fn stages(&self) -> StageSettings {
        StageSettings::new(self.train_len, self.mean_stage, self.averaging)
            .with_adam(self.mean_stage_rate, self.initial_deviation.is_some())
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<Nagvac> {
        self.validate()?;
        let noise = Noise::new(self.seed, self.noise);
        let setup = Setup::new(model, &self.group, self.train_len, noise)?
            .with_ess(self.ess)
            .with_settings(&self.clone().with_group(ParamGroup::all()));
        setup.check_rank(1)?;
        let layout = &setup.layout;
        let mean = self.initial_mean.of(layout.flatten(model)?);
        let device = mean.device();
        let deviation = self.initial_deviation.unwrap_or(NARROW);
        let log_variance = deviation.log_variance(layout, &device);
        let noise = setup.noise.fold(purpose::INITIAL_FACTORS);
        let direction = orthogonal_rows(1, layout.len(), noise, &device)?
            .ok_or_else(|| Error::config("group", "has no weights"))?
            .mul_scalar(self.factor_scale);
        let scale = log_variance.clone().mul_scalar(0.5).exp();
        let factor = direction * scale.unsqueeze::<2>();
        let average = Average::new(Iterate {
            mean: mean.clone(),
            factors: Some(factor.clone()),
            log_variance: Some(log_variance.clone()),
        });
        Ok(Nagvac {
            velocity: Velocity {
                mean: buffer(mean.zeros_like()),
                factor: buffer(mean.zeros_like()),
                log_variance: buffer(mean.zeros_like()),
            },
            stages: Stages::new(self.stages(), &setup, &self.prior, average)?,
            mean: buffer(mean),
            factor: buffer(factor),
            log_variance: buffer(log_variance),
            fixed: Arc::new(Fixed {
                config: self.clone(),
                setup,
                scratch: Scratch::default(),
            }),
        })
    }
}

/// NAGVAC's Gaussian and the averages of its natural gradients.
#[derive(Module, Debug)]
pub struct Nagvac {
    mean: Param<Tensor<1>>,
    /// b, `[1, D]`.
    factor: Param<Tensor<2>>,
    log_variance: Param<Tensor<1>>,
    velocity: Velocity,
    stages: Stages,
    #[module(skip)]
    fixed: Arc<Fixed>,
}

/// n̄₁, n̄₂/c and n̄₃.
#[derive(Module, Debug)]
struct Velocity {
    mean: Param<Tensor<1>>,
    factor: Param<Tensor<1>>,
    log_variance: Param<Tensor<1>>,
}

/// What does not change in a training.
#[derive(Debug)]
struct Fixed {
    config: NagvacConfig,
    setup: Setup,
    scratch: Scratch,
}

impl Nagvac {
    /// The configuration.
    pub fn config(&self) -> &NagvacConfig {
        &self.fixed.config
    }

    fn parts(&self) -> CovarianceParts {
        CovarianceParts {
            mean: self.mean.val().without_autodiff(),
            factors: Some(self.factor.val().without_autodiff()),
            units: FactorUnits::Weights,
            diagonal: Diagonal::LogVariance(self.log_variance.val().without_autodiff()),
        }
    }
}

impl Algorithm for Nagvac {
    type Signal = MeanGradients;
    type Posterior = FactorPosterior;
    type ClosedForm = Staged<NagvacStep>;

    fn setup(&self) -> &Setup {
        &self.fixed.setup
    }

    fn posterior(&self, _step: u64) -> Result<FactorPosterior> {
        let average = self.stages.average();
        let average = average.and_then(|average| average.parts(FactorUnits::Weights));
        let parts = average.unwrap_or_else(|| match self.stages.start_so_far(self.setup()) {
            Some(precision) => self.started(precision).parts(),
            None => self.parts(),
        });
        let layout = self.setup().layout.clone();
        FactorPosterior::covariance(layout, parts.mean, parts.factors, parts.diagonal.variance())
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
        let examples = self.stages.take_examples(gradients, &device);
        let factor = take_sum(gradients, &self.factor, &device);
        let factor = factor.map(|sum| sum.reshape([-1]));
        let mut take = |param| take_sum(gradients, param, &device);
        let sums = take(&self.mean).zip(factor).zip(take(&self.log_variance));
        sums.zip(examples)
            .map(|(((mean, factor), log_variance), examples)| {
                let update = self.update(step, [mean, factor, log_variance], examples)?;
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

impl FromGradients for Nagvac {
    fn propose(&self, id: StepId) -> Result<Proposal> {
        let (parts, setup) = (self.parts(), self.setup());
        if let Some(proposal) = self.stages.mean_proposal(setup, id, parts.mean.clone()) {
            return Ok(proposal);
        }
        let config = self.config();
        let noises = self
            .stages
            .noises(setup, id, config.draws, config.antithetic);
        let (weights, gram) = kernels::draws_and_gram(&parts, &noises, &self.fixed.scratch);
        Ok(Proposal::new(id, Draw::all(weights, noises)).with_gram(gram))
    }

    /// The gradients of the objective, multiplied by the number of examples, and that number.
    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<Self::ClosedForm>> {
        let mut sums = GradientsParams::new();
        let Fixed { setup, scratch, .. } = self.fixed.as_ref();
        let stages = &self.stages;
        if self.stage() == Stage::Mean {
            let gradients = joined(gradients).into_iter();
            let signal = averaged(gradients).map(StageSignal::Mean);
            stages.register(signal, batch_size, &self.mean, &mut sums);
            return Ok(Update::Gradients(sums));
        }
        let weight = batch_size as f64;
        let scale = setup.ess / gradients.len().max(1) as f64;
        let draws = proposal.draws.into_iter().zip(gradients);
        let draws = draws.map(|(draw, parts)| DrawGradient {
            noise: draw.noise,
            parts,
        });
        let kappa = proposal.gram.iter().sum::<f64>();
        let objective = Objective {
            scale,
            temperature: 1.0,
            prior: stages.prior(),
            inner_inverse: &[(1.0 + kappa).recip()],
            scratch,
        };
        let draws: Vec<_> = draws.collect();
        let gradient = kernels::covariance_gradient(&self.parts(), &draws, objective);
        let signal = (self.stage() == Stage::Scale).then(|| {
            let growth = gradient.log_variance.clone().mul_scalar(-2.0);
            StageSignal::Scale(Stages::sums(&setup.layout, growth))
        });
        if signal.is_none() {
            sums.register(self.mean.id, gradient.mean.mul_scalar(weight));
            if let Some(factors) = gradient.factors {
                sums.register(self.factor.id, factors.mul_scalar(weight));
            }
            let log_variance = gradient.log_variance.mul_scalar(weight);
            sums.register(self.log_variance.id, log_variance);
        }
        stages.register(signal, batch_size, &self.mean, &mut sums);
        Ok(Update::Gradients(sums))
    }
}
