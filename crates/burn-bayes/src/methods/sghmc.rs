//! SGHMC and SGLD: samples from the posterior by gradient steps with noise (Chen et al. 2014; Welling and Teh 2011).
//!
//! With the gradient g of the mean negative log-likelihood of a mini-batch at θ,
//!
//! * v ← (1−φ) v − ℓ (g + α⊙θ/N) + √(2φℓT/N) ε with ε ~ N(0, I)
//! * θ ← θ + v
//!
//! For a small ℓ and exact gradients, θ is distributed as p(θ | D)^(1/T). SGLD is φ = 1, without a memory in v. The
//! papers' step sizes are ℓ/N (SGHMC) and 2ℓ/N (SGLD); ℓ has the scale of the learning rate of gradient descent.
//!
//! Mini-batches add noise of their own, of which nothing is subtracted (β̂ = 0 in the paper), so a large ℓ or small
//! mini-batches make the samples too wide. A [`SamplingSchedule`] says which θ are samples, and whether ℓ falls in
//! cycles (Zhang et al. 2020), each of which may end in another mode. Samples of one chain are not independent.
//!
//! The posterior is the mixture of the last samples, with equal weights; before the first one, it is θ.
//!
//! | symbol | field |
//! |---|---|
//! | θ, v | `position`, `velocity` |
//! | N | `train_len` |
//! | α | `prior` |
//! | φ, T | `friction`, `temperature` |
//! | ℓ | the optimiser's learning rate, times the schedule's |

mod schedule;

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param, ParamGroup};
use burn::optim::{GradAdaptor, GradientsParams};
use burn::tensor::Tensor;
use burn_bayes_graph::Layout;

pub use self::schedule::SamplingSchedule;
use super::algorithm::{
    Algorithm, Draw, FromGradients, GradientPieces, MeanGradients, Proposal, Setup, StepId, Update,
    take_sum,
};
use super::checks::{above_zero, counts, not_negative};
use super::samples::Samples;
use super::start::{buffer, updated};
use crate::error::{Error, Result};
use crate::memory::MemoryPlan;
use crate::noise::{Noise, NoiseSource};
use crate::posterior::{Mixture, PointPosterior};
use crate::prior::{Prior, PriorPrecisions};

/// Settings of SGHMC and SGLD.
///
/// ```
/// use burn_bayes::methods::{SamplingSchedule, SghmcConfig};
///
/// // Four cycles in 20 000 steps, with three samples from each.
/// let schedule = SamplingSchedule::Cyclical { length: 5_000, exploration: 0.8, samples: 3 };
/// let sghmc = SghmcConfig::new(60_000, schedule);
///
/// let schedule = SamplingSchedule::Constant { start: 10_000, interval: 500 };
/// let sgld = SghmcConfig::sgld(60_000, schedule);
/// # assert_eq!(sgld.friction, 1.0);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct SghmcConfig {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// The weights that are samples.
    pub schedule: SamplingSchedule,
    /// The maximum number of samples kept; later ones replace the oldest.
    #[config(default = 20)]
    pub max_samples: usize,
    /// φ, the fraction of the velocity that a step takes away; 1 is SGLD. Paper: 0.1.
    #[config(default = 0.1)]
    pub friction: f64,
    /// T, the temperature; below 1, samples are closer to the mode. Paper: 1.
    #[config(default = 1.0)]
    pub temperature: f64,
    /// The prior over the weights.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// The parameters that get a posterior; the others stay point estimates.
    #[config(default = "ParamGroup::all()")]
    pub group: ParamGroup,
    /// Seed of the noise.
    #[config(default = 0)]
    pub seed: u64,
    /// The generator of the random normals.
    #[config(default = "NoiseSource::Host")]
    pub noise: NoiseSource,
}

impl SghmcConfig {
    /// SGLD: no velocity.
    pub fn sgld(train_len: usize, schedule: SamplingSchedule) -> Self {
        Self::new(train_len, schedule).with_friction(1.0)
    }

    /// Checks the settings. The error names the field.
    pub fn validate(&self) -> Result<()> {
        counts([
            ("train_len", self.train_len),
            ("max_samples", self.max_samples),
        ])?;
        self.schedule.validate()?;
        above_zero("friction", self.friction)?;
        if self.friction > 1.0 {
            let problem = format!("is {}; it must be at most 1", self.friction);
            return Err(Error::config("friction", problem));
        }
        not_negative("temperature", self.temperature)
    }

    /// The memory needed to train `weights` weights, without the model's activations.
    pub fn memory(&self, weights: usize) -> MemoryPlan {
        let mut plan = MemoryPlan::natural(weights, 0, 0, 5);
        // A step that keeps a sample has the old and the new rows.
        let samples = self.max_samples * weights * size_of::<f32>();
        plan.parameters += samples;
        plan.scratch += samples;
        plan
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<Sghmc> {
        self.validate()?;
        let noise = Noise::new(self.seed, self.noise);
        let setup = Setup::new(model, &self.group, self.train_len, noise)?
            .with_settings(&self.clone().with_group(ParamGroup::all()));
        let prior = self.prior.resolve(&setup.layout)?;
        let position = setup.layout.flatten(model)?;
        let device = position.device();
        Ok(Sghmc {
            velocity: buffer(position.zeros_like()),
            position: buffer(position),
            samples: Samples::new(self.max_samples, model, &setup.layout, &device),
            examples: buffer(Tensor::zeros([1], &device)),
            settings: Arc::new(Settings {
                config: self.clone(),
                setup,
                prior,
            }),
        })
    }
}

/// The state of a chain, and its samples.
#[derive(Module, Debug)]
pub struct Sghmc {
    position: Param<Tensor<1>>,
    velocity: Param<Tensor<1>>,
    samples: Samples,
    /// Its id is that of the number of examples of a step; the value is unused.
    examples: Param<Tensor<1>>,
    #[module(skip)]
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    config: SghmcConfig,
    setup: Setup,
    prior: PriorPrecisions,
}

/// A step of SGHMC, before the learning rate is applied.
#[derive(Debug)]
pub struct SghmcStep {
    /// The number of the step, from 1.
    step: u64,
    /// g + α⊙θ/N.
    gradient: Tensor<1>,
}

impl Sghmc {
    /// The configuration.
    pub fn config(&self) -> &SghmcConfig {
        &self.settings.config
    }

    /// The number of the sample that is taken after optimiser step number `step`, from 1.
    fn sample_after(&self, step: u64) -> Option<u64> {
        let schedule = &self.config().schedule;
        schedule.takes(step).then(|| schedule.taken(step))
    }

    /// The position as the sample of this step, if one is taken.
    fn with_sample(mut self, step: u64) -> Self {
        if let Some(number) = self.sample_after(step) {
            let position = self.position.val().without_autodiff();
            self.samples = self.samples.with_weights(number, position);
        }
        self
    }

    /// The number of samples that the posterior has after `step` steps.
    pub fn samples(&self, step: u64) -> usize {
        let config = self.config();
        let taken = usize::try_from(config.schedule.taken(step));
        taken.map_or(config.max_samples, |taken| taken.min(config.max_samples))
    }
}

impl Algorithm for Sghmc {
    type Signal = MeanGradients;
    type Posterior = Mixture<PointPosterior>;
    type ClosedForm = SghmcStep;

    fn setup(&self) -> &Setup {
        &self.settings.setup
    }

    fn posterior(&self, step: u64) -> Result<Mixture<PointPosterior>> {
        let layout = &self.setup().layout;
        match self.samples(step) {
            0 => {
                let position = self.position.val().without_autodiff();
                Mixture::uniform(vec![PointPosterior::new(layout.clone(), position)?])
            }
            count => self.samples.mixture(layout, count),
        }
    }

    fn wants_state(&self, step: u64) -> Option<&Arc<Layout>> {
        self.sample_after(step)?;
        self.samples.changing()
    }

    fn observe_state(mut self, step: u64, state: Tensor<1>) -> Self {
        if let Some(number) = self.sample_after(step) {
            self.samples = self.samples.with_state(number, state);
        }
        self
    }

    fn with_prior(self, prior: &Prior) -> Result<Self> {
        let Settings { config, setup, .. } = self.settings.as_ref();
        let settings = Settings {
            config: config.clone().with_prior(prior.clone()),
            setup: setup.clone(),
            prior: prior.resolve(&setup.layout)?,
        };
        Ok(Self {
            settings: Arc::new(settings),
            ..self
        })
    }

    fn update_from_sum(&self, step: u64, gradients: &mut GradAdaptor) -> Result<Option<SghmcStep>> {
        let position = self.position.val().without_autodiff();
        let device = position.device();
        let sum = take_sum(gradients, &self.position, &device);
        let Some((sum, examples)) = sum.zip(take_sum(gradients, &self.examples, &device)) else {
            return Ok(None);
        };
        let Settings { setup, prior, .. } = self.settings.as_ref();
        let share = prior.tensor(&device).div_scalar(setup.train_len as f64);
        let gradient = sum / examples + share * position;
        // One number read from the device; it is not finite if any element is not finite.
        let size: f64 = gradient.clone().sum().into_scalar();
        match size.is_finite() {
            true => Ok(Some(SghmcStep { step, gradient })),
            false => Err(setup.non_finite(step, gradient)),
        }
    }

    fn apply_step(mut self, update: SghmcStep, learning_rate: f64) -> Self {
        let SghmcStep { step, gradient } = update;
        let Settings { config, setup, .. } = self.settings.as_ref();
        let rate = learning_rate * config.schedule.rate(step);
        let mut push = gradient.mul_scalar(-rate);
        if config.schedule.is_noisy(step) && config.temperature > 0.0 {
            let variance = 2.0 * config.friction * rate * config.temperature;
            let deviation = (variance / setup.train_len as f64).sqrt();
            let id = StepId {
                step: step - 1,
                pass: 0,
            };
            let normals = id
                .noise(setup.noise)
                .normal(setup.layout.len(), &push.device());
            push = push + normals.mul_scalar(deviation);
        }
        let kept = 1.0 - config.friction;
        self.velocity = updated(self.velocity, |velocity| velocity.mul_scalar(kept) + push);
        let velocity = self.velocity.val().without_autodiff();
        self.position = updated(self.position, |position| position + velocity);
        self.with_sample(step)
    }
}

impl FromGradients for Sghmc {
    fn propose(&self, id: StepId) -> Result<Proposal> {
        let weights = self.position.val().without_autodiff();
        let noise = id.noise(self.setup().noise);
        Ok(Proposal::new(id, vec![Draw { weights, noise }]))
    }

    /// The sum over examples of their gradients, and the number of examples.
    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<SghmcStep>> {
        let _ = proposal;
        let gradient = gradients.into_iter().next();
        let gradient = gradient.ok_or_else(|| Error::config("draws", "gave no gradients"))?;
        let sum = Tensor::cat(gradient, 0).mul_scalar(batch_size as f64);
        let examples = Tensor::<1>::from_data([batch_size as f32], &sum.device());
        let mut sums = GradientsParams::new();
        sums.register(self.position.id, sum);
        sums.register(self.examples.id, examples);
        Ok(Update::Gradients(sums))
    }

    /// The sample of a rejected step, which has no update, is the position before.
    fn after_step(self, step: u64) -> Self {
        self.with_sample(step)
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::LinearConfig;
    use burn::tensor::Device;

    use super::*;
    use crate::posterior::Posterior;

    const ROWS: usize = 50;

    /// A model without biases, of as many weights.
    fn built(config: &SghmcConfig, weights: usize) -> Sghmc {
        let layer = LinearConfig::new(weights, 1).with_bias(false);
        let layer = layer.init(&Device::default().autodiff());
        config.build(&layer).unwrap()
    }

    /// One step with the gradient of a mini-batch of `rows` rows.
    fn stepped(sghmc: Sghmc, step: u64, rate: f64, gradient: Tensor<1>, rows: usize) -> Sghmc {
        let id = StepId {
            step: step - 1,
            pass: 0,
        };
        let proposal = sghmc.propose(id).unwrap();
        let update = sghmc.step(proposal, vec![vec![gradient]], rows).unwrap();
        let Update::Gradients(sums) = update else {
            panic!("sums are additive");
        };
        let update = sghmc.update_from_sum(step, &mut sums.into()).unwrap();
        sghmc.apply_step(update.unwrap(), rate)
    }

    fn position(sghmc: &Sghmc) -> Tensor<1> {
        sghmc.position.val().without_autodiff()
    }

    fn constant(start: u64, interval: u64) -> SamplingSchedule {
        SamplingSchedule::Constant { start, interval }
    }

    /// The variance of θ_t = a θ_(t−1) − b θ_(t−2) + noise of variance σ².
    fn stationary_variance(a: f64, b: f64, noise: f64) -> f64 {
        noise * (1.0 + b) / ((1.0 - b) * ((1.0 + b).powi(2) - a * a))
    }

    /// Independent weights under a Gaussian log-likelihood of precision λ each: the chain is an autoregression, whose
    /// variance is known at every step size, and tends to 1/(λ + α) for small ones.
    #[test]
    fn the_variance_of_a_chain_is_that_of_its_autoregression() {
        const WEIGHTS: usize = 400;
        const STEPS: u64 = 1500;
        const BURN_IN: u64 = 500;
        let (precision, alpha, rate) = (8.0, 2.0, 0.5);
        for friction in [1.0, 0.2] {
            let config = SghmcConfig::new(ROWS, constant(STEPS, 1))
                .with_friction(friction)
                .with_prior(Prior::isotropic(alpha));
            let mut sghmc = built(&config, WEIGHTS);
            let (mut sum, mut count) = (0.0, 0.0);
            for step in 1..=STEPS {
                let gradient = position(&sghmc).mul_scalar(precision / ROWS as f64);
                sghmc = stepped(sghmc, step, rate, gradient, ROWS);
                if step > BURN_IN && step.is_multiple_of(10) {
                    let squares: f64 = position(&sghmc).square().sum().into_scalar();
                    sum += squares;
                    count += WEIGHTS as f64;
                }
            }
            // η times the curvature, with η = ℓ/N.
            let pull = rate * (precision + alpha) / ROWS as f64;
            let noise = 2.0 * friction * rate / ROWS as f64;
            let expected = stationary_variance(2.0 - friction - pull, 1.0 - friction, noise);
            let found = sum / count;
            // Between two of the values the correlation is below 0.5, so a third of them is independent.
            let error = expected * (2.0 * 3.0 / count).sqrt();
            assert!((found - expected).abs() < 4.0 * error, "{found} {expected}");
            let limit = 1.0 / (precision + alpha);
            assert!((expected / limit - 1.0).abs() < 0.06, "{expected} {limit}");
        }
    }

    #[test]
    fn without_noise_a_step_is_gradient_descent_with_momentum() {
        let config = SghmcConfig::new(ROWS, constant(1, 1))
            .with_temperature(0.0)
            .with_friction(0.25)
            .with_prior(Prior::isotropic(5.0));
        let mut sghmc = built(&config, 3);
        let values = |sghmc: &Sghmc| -> Vec<f64> { position(sghmc).into_data().iter().collect() };
        let mut expected = values(&sghmc);
        let mut velocity = vec![0.0; 3];
        for step in 1..=6 {
            let gradient = position(&sghmc).mul_scalar(0.7).add_scalar(0.3);
            for (weight, velocity) in expected.iter_mut().zip(&mut velocity) {
                let gradient = 0.7 * *weight + 0.3 + 5.0 / ROWS as f64 * *weight;
                *velocity = 0.75 * *velocity - 0.1 * gradient;
                *weight += *velocity;
            }
            sghmc = stepped(sghmc, step, 0.1, gradient, 7);
        }
        for (found, expected) in values(&sghmc).iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn the_last_samples_are_kept() {
        let config = SghmcConfig::sgld(ROWS, constant(2, 2)).with_max_samples(3);
        let mut sghmc = built(&config, 2);
        let mut visited = Vec::new();
        for step in 1..=9 {
            let gradient = position(&sghmc);
            sghmc = stepped(sghmc, step, 0.1, gradient, ROWS);
            let values: Vec<f32> = position(&sghmc).try_into_vec_as().unwrap();
            visited.push(values);
            let expected = [0, 1, 1, 2, 2, 3, 3, 3, 3][step as usize - 1];
            assert_eq!(sghmc.samples(step), expected);
        }
        let posterior = sghmc.posterior(9).unwrap();
        assert_eq!(posterior.weights(), [1.0 / 3.0; 3]);
        let sample = |index: usize| -> Vec<f32> {
            let point = posterior.component(index).unwrap();
            point.weights().try_into_vec_as().unwrap()
        };
        // Steps 2, 4, 6 and 8; the last replaces the first.
        let found = [sample(0), sample(1), sample(2)];
        assert_eq!(found, [7, 3, 5].map(|step: usize| visited[step].clone()));
    }

    #[test]
    fn a_rejected_step_at_a_sampling_time_keeps_the_position_as_the_sample() {
        let mut sghmc = built(&SghmcConfig::new(ROWS, constant(1, 1)), 2);
        let gradient = position(&sghmc);
        sghmc = stepped(sghmc, 1, 0.1, gradient, ROWS).after_step(2);
        let posterior = sghmc.posterior(2).unwrap();
        for index in 0..2 {
            let sample = posterior.component(index).unwrap().weights();
            assert_eq!(sample.to_data(), position(&sghmc).to_data());
        }
    }

    #[test]
    fn before_the_first_sample_the_posterior_is_the_current_weights() {
        let sghmc = built(&SghmcConfig::new(ROWS, constant(100, 1)), 4);
        let mean = sghmc.posterior(99).unwrap().mean_weights().unwrap();
        let found: Vec<f32> = mean.try_into_vec_as().unwrap();
        let expected: Vec<f32> = position(&sghmc).try_into_vec_as().unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_gradient_that_is_not_finite_is_refused() {
        let sghmc = built(&SghmcConfig::new(ROWS, constant(1, 1)), 2);
        let bad = Tensor::<1>::full([2], f32::NAN, &Device::default());
        let proposal = sghmc.propose(StepId::default()).unwrap();
        let update = sghmc.step(proposal, vec![vec![bad]], 1).unwrap();
        let Update::Gradients(gradients) = update else {
            panic!("sums are additive");
        };
        let error = sghmc.update_from_sum(1, &mut gradients.into()).unwrap_err();
        assert!(
            error.is_numerical() && error.to_string().contains("weight"),
            "{error}"
        );
    }

    #[test]
    fn refused_settings_name_their_field() {
        let config = SghmcConfig::new(ROWS, constant(1, 1));
        let cases = [
            (SghmcConfig::new(0, constant(1, 1)), "train_len"),
            (SghmcConfig::new(ROWS, constant(0, 1)), "start"),
            (config.clone().with_max_samples(0), "max_samples"),
            (config.clone().with_friction(0.0), "friction"),
            (config.clone().with_friction(1.5), "friction"),
            (config.with_temperature(-1.0), "temperature"),
        ];
        for (config, field) in cases {
            let error = config.validate().expect_err(field);
            let message = error.to_string();
            assert!(error.is_config() && message.starts_with(field), "{message}");
        }
    }
}
