//! VIFA: variational inference with a factor-analysis covariance (the VIFA paper, Alg. 1).
//!
//! The posterior is q = N(c, FᵀF + diag ψ), ψ = exp γ. With a draw θ = c + hᵀF + ψ^½⊙z and the
//! gradient g of the mean negative log-likelihood at θ, the objective N·E\[NLL\] + τ·KL(q‖prior)
//! has the unbiased gradient
//!
//! * ∇c = N g + τ α⊙c
//! * ∇F = N h gᵀ + τ (α⊙F − C)
//! * ∇γ = ½ [ N g⊙(ψ^½⊙z) + τ (−1 + Σ_k C_k⊙F_k + α⊙ψ) ]
//!
//! with A = F/ψ, B = F Aᵀ, C = (I+B)⁻¹A. The paper's −A + C Bᵀ is −C exactly; the N-terms are
//! averaged over L draws. No automatic differentiation through the posterior is needed.
//!
//! By default the factors are in units of the deviations, F = V diag(ψ^½), so that a step of an optimiser
//! has the same relative effect on a narrow and on a wide posterior. With C = (I + V Vᵀ)⁻¹V
//!
//! * ∇V = N h (g⊙ψ^½)ᵀ + τ (α⊙ψ⊙V − C)
//! * ∇γ = ½ [ N g⊙(θ−c) + τ (α⊙diag S − 1) ]
//!
//! With [`Bayesian::with_gauss_newton`](crate::Bayesian::with_gauss_newton) the N-terms of F and γ use the Gauss–Newton
//! matrix H instead of the draws' gradients, which takes the noise of h and z out of them: F·N H and ½ N ψ⊙diag H.
//!
//! The training begins with the mean and the scale of the covariance ([`Stages`]); the mean is trained by the user's
//! optimiser in all stages. The posterior is the average of the iterates of the last stage ([`Averaging`]).
//!
//! | symbol | field |
//! |---|---|
//! | c | `mean` |
//! | F or V, K | `factors`, `rank` |
//! | γ | `log_variance` |
//! | N | `train_len` |
//! | α | `prior` |
//! | τ | `temperature` |
//! | L | `draws` × `accumulation` |

mod clipping;
mod curvature;
mod published;
mod step;

use std::convert::Infallible;
use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param, ParamGroup};
use burn::optim::GradAdaptor;
use burn::tensor::Tensor;

use super::algorithm::{Algorithm, FromCurvature, FunctionPriorUse, MeanGradients, Setup, purpose};
use super::average::{Average, Averaging, Iterate};
use super::checks::{counts, not_negative, pairs, positive};
use super::mean_stage::MeanStage;
use super::stages::{StageEvent, StageSettings, Staged, Stages};
use super::start::{InitialDeviation, InitialMean, orthogonal_rows, trained, trained_value};
use crate::error::{Error, Result};
use crate::kernels::{CovarianceParts, Diagonal, FactorUnits, Scratch};
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::noise::{Noise, NoiseSource};
use crate::posterior::FactorPosterior;
use crate::prior::Prior;

/// Settings of VIFA.
///
/// ```
/// use burn_bayes::VifaConfig;
///
/// let config = VifaConfig::new(60_000).with_rank(8).with_draws(2);
/// println!("{}", config.memory(478_410, burn_bayes::memory::OptimizerMemory::Adam));
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct VifaConfig {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// λ, the effective sample size, the weight of the mean negative log-likelihood against the divergence from the
    /// prior; by default the larger of N and the number of weights. A larger one gives a narrower posterior. Paper: N.
    pub ess: Option<f64>,
    /// K, the number of low-rank factors; 0 is mean-field. Paper: 1.
    #[config(default = 1)]
    pub rank: usize,
    /// The prior over the weights. Paper: isotropic, its precision searched in 0.01..10.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// τ, the factor of the divergence from the prior. Paper: 1.
    #[config(default = 1.0)]
    pub temperature: f64,
    /// Draws per mini-batch. Paper: 1.
    #[config(default = 2)]
    pub draws: usize,
    /// Whether draws are antithetic pairs (h, z), (−h, −z); `draws` must then be even or 1. Paper: no.
    #[config(default = true)]
    pub antithetic: bool,
    /// Number of mini-batches whose gradients are added before a step; set it to the Learner's
    /// `grads_accumulation`. Each gradient is divided by this number, so that the sum is an
    /// average. Paper: L.
    #[config(default = 1)]
    pub accumulation: usize,
    /// Norm to which each of the three gradients is clipped. Paper: 10; none by default, because
    /// clipping biases the covariance. Cannot be combined with `accumulation`: clip in the
    /// optimiser instead.
    pub clip: Option<f64>,
    /// The initial mean. Paper: zero.
    #[config(default = "InitialMean::Model")]
    pub initial_mean: InitialMean,
    /// The initial ψ^½. Paper: 1.
    #[config(default = "InitialDeviation::FanInScaled(0.03)")]
    pub initial_deviation: InitialDeviation,
    /// The units of the factors. Paper: those of the weights.
    #[config(default = "FactorUnits::Deviations")]
    pub factor_units: FactorUnits,
    /// The initial norm of each row of factors; the rows are orthogonal. Paper: 1.
    #[config(default = 0.1)]
    pub factor_scale: f64,
    /// The first stage, in which only the mean learns. Paper: none.
    #[config(default = "MeanStage::UntilArrival { at_most: None }")]
    pub mean_stage: MeanStage,
    /// The average of the iterates that is the posterior, with aligned factors. Paper: none.
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

impl VifaConfig {
    /// Checks the settings. The error names the field.
    pub fn validate(&self) -> Result<()> {
        positive("initial_deviation", self.initial_deviation.scale())?;
        if self.rank > 0 {
            positive("factor_scale", self.factor_scale)?;
        }
        if let Some(clip) = self.clip {
            positive("clip", clip)?;
        }
        positive("ess", self.ess.unwrap_or(1.0))?;
        not_negative("temperature", self.temperature)?;
        counts([
            ("train_len", self.train_len),
            ("draws", self.draws),
            ("accumulation", self.accumulation),
        ])?;
        pairs(self.draws, self.antithetic)?;
        if self.clip.is_some() && self.accumulation > 1 {
            let problem = "would clip the gradient of each mini-batch instead of their sum; omit \
                           it and clip in the optimiser, which clips after accumulation";
            return Err(Error::config("clip", problem));
        }
        Ok(())
    }

    /// The memory needed to train `weights` weights.
    pub fn memory(&self, weights: usize, optimizer: OptimizerMemory) -> MemoryPlan {
        let mut plan = MemoryPlan::gaussian(weights, self.rank, self.draws, optimizer);
        let averaged = (2 + self.rank) * weights;
        plan.parameters += self.stages().bytes(weights, averaged);
        plan
    }

    /// The settings of the stages.
    fn stages(&self) -> StageSettings {
        StageSettings::new(self.train_len, self.mean_stage, self.averaging)
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<Vifa> {
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
        setup.check_rank(self.rank)?;
        let weights = layout.flatten(model)?;
        let device = weights.device();
        let mean = self.initial_mean.of(weights);
        let log_variance = self.initial_deviation.log_variance(layout, &device);
        let noise = setup.noise.fold(purpose::INITIAL_FACTORS);
        let factors = orthogonal_rows(self.rank, layout.len(), noise, &device)?
            .map(|rows| rows.mul_scalar(self.factor_scale));
        let average = Average::new(Iterate {
            mean: mean.clone(),
            factors: factors.clone(),
            log_variance: Some(log_variance.clone()),
        });
        Ok(Vifa {
            stages: Stages::new(self.stages(), &setup, &self.prior, average)?,
            mean: trained(mean),
            factors: factors.map(trained),
            log_variance: trained(log_variance),
            settings: Arc::new(Settings {
                config: self.clone(),
                setup,
                scratch: Scratch::default(),
            }),
        })
    }
}

/// VIFA's parameters.
#[derive(Module, Debug)]
pub struct Vifa {
    mean: Param<Tensor<1>>,
    factors: Option<Param<Tensor<2>>>,
    log_variance: Param<Tensor<1>>,
    stages: Stages,
    #[module(skip)]
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    config: VifaConfig,
    setup: Setup,
    scratch: Scratch,
}

impl Vifa {
    /// The configuration.
    pub fn config(&self) -> &VifaConfig {
        &self.settings.config
    }

    fn parts(&self) -> CovarianceParts {
        CovarianceParts {
            mean: self.mean.val().without_autodiff(),
            factors: self
                .factors
                .as_ref()
                .map(|factors| factors.val().without_autodiff()),
            units: self.config().factor_units,
            diagonal: Diagonal::LogVariance(self.log_variance.val().without_autodiff()),
        }
    }
}

impl Algorithm for Vifa {
    type Signal = MeanGradients;
    type Posterior = FactorPosterior;
    type ClosedForm = Staged<Infallible>;

    fn setup(&self) -> &Setup {
        &self.settings.setup
    }

    fn posterior(&self, _step: u64) -> Result<FactorPosterior> {
        let average = self.stages.average();
        let average = average.and_then(|average| average.parts(self.config().factor_units));
        let parts = average.unwrap_or_else(|| self.parts());
        let parts = parts.in_units_of_weights();
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

    fn function_prior_use(&self) -> FunctionPriorUse {
        FunctionPriorUse::Gradient
    }

    fn with_ess(self, ess: f64) -> Self {
        let Settings { config, setup, .. } = self.settings.as_ref();
        let settings = Settings {
            config: config.clone(),
            setup: setup.clone().with_ess(Some(ess)),
            scratch: Scratch::default(),
        };
        Self {
            settings: Arc::new(settings),
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
        let setup = &self.settings.setup;
        let update = self
            .stages
            .update_from_average(setup, step, &self.mean, gradients)?;
        Ok(update.map(Staged::Stage))
    }

    fn apply_step(mut self, update: Self::ClosedForm, _learning_rate: f64) -> Self {
        let update = match update {
            Staged::Stage(update) => update,
            Staged::Posterior(never) => match never {},
        };
        let (stages, mean, event) = self.stages.apply(&self.settings.setup, update, self.mean);
        self.stages = stages;
        self.mean = mean;
        if let StageEvent::Rescale(factors) = event {
            let growth = factors.clone().log();
            self.log_variance = self
                .log_variance
                .map(|value| trained_value(value.without_autodiff() + growth));
            if self.settings.config.factor_units == FactorUnits::Weights {
                let root = factors.sqrt().unsqueeze::<2>();
                self.factors = self.factors.map(|factors| {
                    factors.map(|value| trained_value(value.without_autodiff() * root))
                });
            }
        }
        self
    }
}

impl FromCurvature for Vifa {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_settings_name_their_field() {
        let base = VifaConfig::new(10);
        let cases = [
            (VifaConfig::new(0), "train_len"),
            (base.clone().with_draws(0), "draws"),
            (base.clone().with_accumulation(0), "accumulation"),
            (base.clone().with_temperature(-1.0), "temperature"),
            (base.clone().with_clip(Some(0.0)), "clip"),
            (VifaConfig::paper(10).with_accumulation(10), "clip"),
            (base.clone().with_factor_scale(f64::NAN), "factor_scale"),
            (
                base.with_initial_deviation(InitialDeviation::Constant(0.0)),
                "initial_deviation",
            ),
        ];
        for (config, field) in cases {
            let error = config.validate().expect_err(field);
            assert!(
                error.is_config() && error.to_string().starts_with(field),
                "{error}"
            );
        }
    }
}
