//! SGHMC and SGLD: samples from the posterior by gradient steps with noise (Chen et al. 2014; Welling and Teh 2011).
//!
//! With the gradient g of the mean negative log-likelihood of a mini-batch at θ and a diagonal matrix P,
//!
//! * v ← (1−φ) v − ℓ P⊙(g + α⊙θ/λ) + √(2φℓT P/λ)⊙ε with ε ~ N(0, I)
//! * θ ← θ + v
//!
//! For a small ℓ, exact gradients and λ = N, θ is distributed as p(θ | D)^(1/T) with every P. SGLD is φ = 1, without a
//! memory in v. The papers have P = 1 and the step sizes ℓ/N (SGHMC) and 2ℓ/N (SGLD), so that ℓ has the scale of the
//! learning rate of gradient descent, which depends on the model.
//!
//! At equilibrium, every weight that the data determine adds T/2 nats to the loss of the N examples together, so with
//! many more weights than examples the samples of the posterior itself predict little. As for the other methods, λ is
//! by default the larger of N and the number of weights.
//!
//! **Stages.** Gradient descent takes long to a mode, and its largest rate depends on the layers. So Adam trains the weights
//! first, and then the variances σ² of a Gaussian around them are found ([`Stages`]). P = λσ² stays: with it, ℓ is a
//! fraction of the distance to the mode of a weight's conditional distribution. The stages take at most three quarters of
//! the steps before the first sample; fewer than 16 such steps have none.
//!
//! Mini-batches add noise of their own, of which nothing is subtracted (β̂ = 0 in the paper), so a large ℓ or small
//! mini-batches make the samples too wide. A [`SamplingSchedule`] says which θ are samples, and whether ℓ falls in
//! cycles (Zhang et al. 2020), each of which may end in another mode. Samples of one chain are not independent.
//!
//! The posterior is the mixture of the last samples, with equal weights; before the first one, it is θ.
//!
//! | symbol | field |
//! |---|---|
//! | θ, v, P | `position`, `velocity`, `preconditioner` |
//! | N, λ | `train_len`, `ess` |
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
    Algorithm, Draw, FromGradients, GradientPieces, MeanGradients, Proposal, Setup, Stage, StepId,
    Update, joined, take_sum,
};
use super::average::{Average, Averaging, Iterate};
use super::checks::{above_zero, counts, not_negative, positive};
use super::mean_stage::MeanStage;
use super::samples::Samples;
use super::stages::{StageEvent, StageSettings, StageSignal, Staged, Stages};
use super::start::{buffer, updated};
use crate::error::{Error, Result};
use crate::memory::MemoryPlan;
use crate::noise::{Noise, NoiseSource};
use crate::posterior::{Mixture, PointPosterior};
use crate::prior::Prior;

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
    /// λ, the effective sample size, the weight of the mean negative log-likelihood against the prior and the noise; by default the larger of N
    /// and the number of weights. Paper: N.
    pub ess: Option<f64>,
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
    /// The first stage, in which Adam trains the weights without noise: by default at most half of the steps before the first
    /// sample. Paper: none.
    #[config(default = "MeanStage::UntilArrival { at_most: None }")]
    pub mean_stage: MeanStage,
    /// The learning rate of the first stage.
    #[config(default = 0.01)]
    pub mean_stage_rate: f64,
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
    /// The published algorithms: without a first stage.
    pub fn paper(train_len: usize, schedule: SamplingSchedule) -> Self {
        Self::new(train_len, schedule)
            .with_ess(Some(train_len as f64))
            .with_mean_stage(MeanStage::None)
    }

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
        positive("ess", self.ess.unwrap_or(1.0))?;
        positive("mean_stage_rate", self.mean_stage_rate)?;
        not_negative("temperature", self.temperature)
    }

    /// The memory needed to train `weights` weights, without the model's activations.
    pub fn memory(&self, weights: usize) -> MemoryPlan {
        let mut plan = MemoryPlan::natural(weights, 0, 1, 5);
        plan.parameters += self.stages().bytes(weights, 0);
        // A step that keeps a sample has the old and the new rows.
        let samples = self.max_samples * weights * size_of::<f32>();
        plan.parameters += samples;
        plan.scratch += samples;
        plan
    }

    fn stages(&self) -> StageSettings {
        StageSettings::new(self.train_len, self.mean_stage, Averaging::None)
            .with_adam(self.mean_stage_rate, false)
            .within(self.schedule.burn_in())
    }

    /// The algorithm for the weights of `model`.
    pub fn build<M: Module>(&self, model: &M) -> Result<Sghmc> {
        self.validate()?;
        let noise = Noise::new(self.seed, self.noise);
        let setup = Setup::new(model, &self.group, self.train_len, noise)?
            .with_ess(self.ess)
            .with_settings(&self.clone().with_group(ParamGroup::all()));
        let position = setup.layout.flatten(model)?;
        let device = position.device();
        let average = Average::new(Iterate::of_mean(position.clone()));
        Ok(Sghmc {
            stages: Stages::new(self.stages(), &setup, &self.prior, average)?,
            velocity: buffer(position.zeros_like()),
            preconditioner: buffer(position.ones_like()),
            position: buffer(position),
            samples: Samples::new(self.max_samples, model, &setup.layout, &device),
            settings: Arc::new(Settings {
                config: self.clone(),
                setup,
            }),
        })
    }
}

/// The state of a chain, and its samples.
#[derive(Module, Debug)]
pub struct Sghmc {
    position: Param<Tensor<1>>,
    velocity: Param<Tensor<1>>,
    preconditioner: Param<Tensor<1>>,
    samples: Samples,
    stages: Stages,
    #[module(skip)]
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    config: SghmcConfig,
    setup: Setup,
}

/// A step of SGHMC, before the learning rate is applied.
#[derive(Debug)]
pub struct SghmcStep {
    /// The number of the step, from 1.
    step: u64,
    /// g + α⊙θ/λ.
    gradient: Tensor<1>,
}

impl Sghmc {
    /// The configuration.
    pub fn config(&self) -> &SghmcConfig {
        &self.settings.config
    }

    /// The number of samples taken in `step` steps. There are none in the first stages.
    fn taken(&self, step: u64) -> u64 {
        let schedule = &self.config().schedule;
        match self.stages.is_learning_posterior() {
            true => schedule.taken(step) - schedule.taken(self.stages.posterior_since().min(step)),
            false => 0,
        }
    }

    /// The number of the sample that is taken after optimiser step number `step`, from 1.
    fn sample_after(&self, step: u64) -> Option<u64> {
        let is_taken = self.config().schedule.takes(step);
        Some(self.taken(step)).filter(|&number| is_taken && number > 0)
    }

    /// The position as the sample of this step, if one is taken.
    fn with_sample(mut self, step: u64) -> Self {
        if let Some(number) = self.sample_after(step) {
            let position = self.position.val().without_autodiff();
            self.samples = self.samples.with_weights(number, position);
        }
        self
    }

    fn preconditioner(&self) -> Tensor<1> {
        self.preconditioner.val().without_autodiff()
    }

    /// σ², the variances of the Gaussian around the position.
    fn variance(&self) -> Tensor<1> {
        self.preconditioner().div_scalar(self.setup().ess)
    }

    /// The number of samples that the posterior has after `step` steps.
    pub fn samples(&self, step: u64) -> usize {
        let most = self.config().max_samples;
        let taken = usize::try_from(self.taken(step));
        taken.map_or(most, |taken| taken.min(most))
    }
}

impl Algorithm for Sghmc {
    type Signal = MeanGradients;
    type Posterior = Mixture<PointPosterior>;
    type ClosedForm = Staged<SghmcStep>;

    fn setup(&self) -> &Setup {
        &self.settings.setup
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

    fn perturbs_weights(&self) -> bool {
        false
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

    fn update_from_sum(
        &self,
        step: u64,
        gradients: &mut GradAdaptor,
    ) -> Result<Option<Self::ClosedForm>> {
        let (stages, setup) = (&self.stages, self.setup());
        if let Some(update) = stages.update_from_sum(setup, step, &self.position, gradients)? {
            return Ok(Some(Staged::Stage(update)));
        }
        let position = self.position.val().without_autodiff();
        let device = position.device();
        let sum = take_sum(gradients, &self.position, &device);
        let Some((sum, examples)) = sum.zip(stages.take_examples(gradients, &device)) else {
            return Ok(None);
        };
        let share = stages.prior().tensor(&device).div_scalar(setup.ess);
        let gradient = sum / examples + share * position;
        // One number read from the device; it is not finite if any element is not finite.
        let size: f64 = gradient.clone().sum().into_scalar();
        match size.is_finite() {
            true => Ok(Some(Staged::Posterior(SghmcStep { step, gradient }))),
            false => Err(setup.non_finite(step, gradient)),
        }
    }

    fn apply_step(mut self, update: Self::ClosedForm, learning_rate: f64) -> Self {
        let Settings { config, setup } = self.settings.as_ref();
        let SghmcStep { step, gradient } = match update {
            Staged::Posterior(step) => step,
            Staged::Stage(update) => {
                let preconditioner = self.preconditioner();
                let (stages, position, event) = self.stages.apply(setup, update, self.position);
                let found = match event {
                    StageEvent::Start(curvature) => {
                        let precision = stages.start(setup, curvature);
                        precision.recip().mul_scalar(setup.ess)
                    }
                    StageEvent::Rescale(factors) => preconditioner * factors,
                    StageEvent::Nothing => preconditioner,
                };
                self.preconditioner = updated(self.preconditioner, |_| found);
                self.stages = stages;
                self.position = position;
                return self;
            }
        };
        let rate = learning_rate * config.schedule.rate(step);
        let preconditioner = self.preconditioner();
        let mut push = (gradient * preconditioner.clone()).mul_scalar(-rate);
        if config.schedule.is_noisy(step) && config.temperature > 0.0 {
            let variance = 2.0 * config.friction * rate * config.temperature;
            let deviation = (variance / setup.ess).sqrt();
            let step = step - 1;
            let noise = StepId { step, pass: 0 }.noise(setup.noise);
            let normals = noise.normal(setup.layout.len(), &push.device());
            push = push + (normals * preconditioner.sqrt()).mul_scalar(deviation);
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
        if self.stage() != Stage::Scale {
            let noise = id.noise(self.setup().noise);
            return Ok(Proposal::new(id, vec![Draw { weights, noise }]));
        }
        let noises = self.stages.noises(self.setup(), id, 1, false);
        let deviation = self.variance().sqrt();
        let draws = noises.into_iter().map(|noise| {
            let normals = noise.normal(self.setup().layout.len(), &weights.device());
            let weights = weights.clone() + normals * deviation.clone();
            Draw { weights, noise }
        });
        Ok(Proposal::new(id, draws.collect()))
    }

    /// The sum over examples of their gradients, and the number of examples.
    fn step(
        &self,
        proposal: Proposal,
        gradients: GradientPieces,
        batch_size: usize,
    ) -> Result<Update<Self::ClosedForm>> {
        let gradients = joined(gradients);
        let mut sums = GradientsParams::new();
        let position = || self.position.val().without_autodiff();
        let gaussian = || (position(), self.variance());
        let signal = (self.stages).signal(self.setup(), &proposal, &gradients, gaussian);
        // After the stages, a step learns from the same sum of gradients as in the first.
        let signal = signal.or_else(|| gradients.into_iter().next().map(StageSignal::Mean));
        (self.stages).register(signal, batch_size, &self.position, &mut sums);
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
            let config = SghmcConfig::paper(ROWS, constant(STEPS, 1))
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
        let config = SghmcConfig::paper(ROWS, constant(1, 1))
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
        let config = SghmcConfig::paper(ROWS, constant(2, 2))
            .with_friction(1.0)
            .with_max_samples(3);
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
        let mut sghmc = built(&SghmcConfig::paper(ROWS, constant(1, 1)), 2);
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
        let sghmc = built(&SghmcConfig::paper(ROWS, constant(100, 1)), 4);
        let mean = sghmc.posterior(99).unwrap().mean_weights().unwrap();
        let found: Vec<f32> = mean.try_into_vec_as().unwrap();
        let expected: Vec<f32> = position(&sghmc).try_into_vec_as().unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_gradient_that_is_not_finite_is_refused() {
        let sghmc = built(&SghmcConfig::paper(ROWS, constant(1, 1)), 2);
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
        let config = SghmcConfig::paper(ROWS, constant(1, 1));
        let cases = [
            (SghmcConfig::paper(0, constant(1, 1)), "train_len"),
            (SghmcConfig::paper(ROWS, constant(0, 1)), "start"),
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
