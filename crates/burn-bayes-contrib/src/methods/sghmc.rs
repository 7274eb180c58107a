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
//! first, and then the variances σ² of a Gaussian around them are found ([stages](burn_bayes::methods::Staged)). P = λσ² stays: with it, ℓ is a
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
//! | v, P | `velocity`, `preconditioner` |
//! | φ, T | `friction`, `temperature` |
//! | ℓ | the optimiser's learning rate, times the schedule's |

mod schedule;

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::optim::{GradAdaptor, GradientsParams};
use burn::tensor::Tensor;
use burn_bayes::graph::Layout;
use burn_bayes::memory::{MemoryPlan, OptimizerMemory};
use burn_bayes::methods::checks::{above_zero, counts, not_negative};
use burn_bayes::methods::{
    Context, Draw, GradientPieces, Iterate, LearningRates, Learns, MethodState, Proposal, Stage,
    Staged, StagedConfig, Start, StepId, Update, buffer, joined, take_sum, updated,
};
use burn_bayes::posterior::{Mixture, PointPosterior};
use burn_bayes::{Error, Noise, Result};

use super::samples::Samples;

pub use self::schedule::SamplingSchedule;

/// Settings of SGHMC and SGLD.
///
/// ```
/// use burn_bayes::BayesianConfig;
/// use burn_bayes_contrib::methods::{SamplingSchedule, SghmcConfig};
///
/// // Four cycles in 20 000 steps, with three samples from each.
/// let schedule = SamplingSchedule::Cyclical { length: 5_000, exploration: 0.8, samples: 3 };
/// let sghmc = BayesianConfig::new(60_000, SghmcConfig::new(schedule));
///
/// let schedule = SamplingSchedule::Constant { start: 10_000, interval: 500 };
/// let sgld = BayesianConfig::new(60_000, SghmcConfig::sgld(schedule));
/// # assert_eq!(sgld.method.friction, 1.0);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct SghmcConfig {
    /// The weights that are samples. The first stages end before the first of them: by default, the first stage has at most
    /// half of the steps before it.
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
}

impl SghmcConfig {
    /// SGLD: no velocity.
    pub fn sgld(schedule: SamplingSchedule) -> Self {
        Self::new(schedule).with_friction(1.0)
    }
}

/// SGHMC or SGLD.
pub type Sghmc = Staged<SghmcState>;

impl StagedConfig for SghmcConfig {
    type State = SghmcState;

    const DRAWS: usize = 1;
    const USES: &'static [&'static str] = &[
        "ess",
        "prior",
        "initial_mean",
        "mean_stage",
        "mean_stage_rate",
    ];

    fn learning_rates(&self) -> LearningRates {
        // A step of SGHMC is that of SGLD divided by the friction.
        let rate = match self.friction < 1.0 {
            true => 0.0005,
            false => 0.002,
        };
        LearningRates::new(rate).with_decay(0.0)
    }

    fn validate(&self) -> Result<()> {
        counts([("max_samples", self.max_samples)])?;
        self.schedule.validate()?;
        above_zero("friction", self.friction)?;
        if self.friction > 1.0 {
            let problem = format!("is {}; it must be at most 1", self.friction);
            return Err(Error::config("friction", problem));
        }
        not_negative("temperature", self.temperature)
    }

    fn start<M: Module>(&self, start: Start<'_, M>) -> Result<SghmcState> {
        let device = start.mean.device();
        let layout = &start.setup.layout;
        Ok(SghmcState {
            velocity: buffer(start.mean.zeros_like()),
            preconditioner: buffer(start.mean.ones_like()),
            samples: Samples::new(self.max_samples, start.model, layout, &device),
            config: self.clone(),
        })
    }

    fn memory(&self, weights: usize, _draws: usize, _: OptimizerMemory) -> MemoryPlan {
        let mut plan = MemoryPlan::natural(weights, 0, 1, 5);
        // A step that keeps a sample has the old and the new rows.
        let samples = self.max_samples * weights * size_of::<f32>();
        plan.parameters += samples;
        plan.scratch += samples;
        plan
    }

    fn averaged(&self) -> usize {
        0
    }

    fn burn_in(&self) -> Option<u64> {
        Some(self.schedule.burn_in())
    }
}

/// The state of a chain besides its position, and its samples.
#[derive(Module, Debug)]
pub struct SghmcState {
    velocity: Param<Tensor<1>>,
    preconditioner: Param<Tensor<1>>,
    samples: Samples,
    #[module(skip)]
    config: SghmcConfig,
}

/// A step of SGHMC, before the learning rate is applied.
#[derive(Debug)]
pub struct SghmcStep {
    /// g + α⊙θ/λ.
    gradient: Tensor<1>,
}

impl SghmcState {
    /// The number of samples that the posterior has after `step` steps.
    pub fn samples(&self, context: Context<'_>, step: u64) -> usize {
        let most = self.config.max_samples;
        let taken = usize::try_from(self.taken(context, step));
        taken.map_or(most, |taken| taken.min(most))
    }

    /// The number of samples taken in `step` steps. There are none in the first stages.
    fn taken(&self, context: Context<'_>, step: u64) -> u64 {
        let schedule = &self.config.schedule;
        match context.stage {
            Stage::Posterior | Stage::Single => {
                schedule.taken(step) - schedule.taken(context.since.min(step))
            }
            Stage::Mean | Stage::Scale => 0,
        }
    }

    /// The number of the sample that is taken after optimiser step number `step`, from 1.
    fn sample_after(&self, context: Context<'_>, step: u64) -> Option<u64> {
        let is_taken = self.config.schedule.takes(step);
        Some(self.taken(context, step)).filter(|&number| is_taken && number > 0)
    }

    fn preconditioner(&self) -> Tensor<1> {
        self.preconditioner.val().without_autodiff()
    }
}

impl MethodState for SghmcState {
    type Signal = GradientPieces;
    type Posterior = Mixture<PointPosterior>;
    type Step = SghmcStep;

    const LEARNS: Learns = Learns::FromSums;
    const PERTURBS_WEIGHTS: bool = false;

    /// The position itself, after the first stages.
    fn propose(
        &self,
        context: Context<'_>,
        mean: Tensor<1>,
        id: StepId,
        noises: Vec<Noise>,
    ) -> Result<Proposal> {
        let deviation = self.variance(context).sqrt();
        let draws = noises.into_iter().map(|noise| {
            let weights = match context.stage {
                Stage::Scale => {
                    let normals = noise.normal(context.setup.layout.len(), &mean.device());
                    mean.clone() + normals * deviation.clone()
                }
                _ => mean.clone(),
            };
            Draw { weights, noise }
        });
        Ok(Proposal::new(id, draws.collect()))
    }

    fn variance(&self, context: Context<'_>) -> Tensor<1> {
        self.preconditioner().div_scalar(context.setup.ess)
    }

    fn started(mut self, context: Context<'_>, precision: Tensor<1>, _: Tensor<1>) -> Self {
        let variance = precision.recip().mul_scalar(context.setup.ess);
        self.preconditioner = updated(self.preconditioner, |_| variance);
        self
    }

    fn rescaled(mut self, _context: Context<'_>, factors: Tensor<1>) -> Self {
        self.preconditioner = updated(self.preconditioner, |variance| variance * factors);
        self
    }

    /// The sum over examples of their gradients.
    fn update(
        &self,
        _context: Context<'_>,
        mean: &Param<Tensor<1>>,
        _proposal: Proposal,
        gradients: GradientPieces,
        examples: usize,
    ) -> Result<Update<SghmcStep>> {
        let mut sums = GradientsParams::new();
        if let Some(gradient) = joined(gradients).into_iter().next() {
            sums.register(mean.id, gradient.mul_scalar(examples as f64));
        }
        Ok(Update::Gradients(sums))
    }

    fn update_from_sum(
        &self,
        context: Context<'_>,
        mean: &Param<Tensor<1>>,
        step: u64,
        sums: &mut GradAdaptor,
        examples: Tensor<1>,
    ) -> Result<Option<SghmcStep>> {
        let device = examples.device();
        let Some(sum) = take_sum(sums, mean, &device) else {
            return Ok(None);
        };
        let share = context.prior.tensor(&device).div_scalar(context.setup.ess);
        let gradient = sum / examples + share * mean.val().without_autodiff();
        // One number read from the device; it is not finite if any element is not finite.
        let size: f64 = gradient.clone().sum().into_scalar();
        match size.is_finite() {
            true => Ok(Some(SghmcStep { gradient })),
            false => Err(context.setup.non_finite(step, gradient)),
        }
    }

    fn apply_step(
        mut self,
        context: Context<'_>,
        mean: Param<Tensor<1>>,
        step: u64,
        update: SghmcStep,
        learning_rate: f64,
    ) -> (Self, Param<Tensor<1>>) {
        let (config, setup) = (&self.config, context.setup);
        let rate = learning_rate * config.schedule.rate(step);
        let preconditioner = self.preconditioner();
        let mut push = (update.gradient * preconditioner.clone()).mul_scalar(-rate);
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
        (self, updated(mean, |position| position + velocity))
    }

    fn posterior(
        &self,
        context: Context<'_>,
        iterate: Iterate,
        step: u64,
    ) -> Result<Mixture<PointPosterior>> {
        let layout = &context.setup.layout;
        let taken = usize::try_from(self.taken(context, step)).unwrap_or(usize::MAX);
        match taken.min(self.config.max_samples) {
            0 => Mixture::uniform(vec![PointPosterior::new(layout.clone(), iterate.mean)?]),
            count => self.samples.mixture(layout, count),
        }
    }

    /// The sample of a rejected step, which has no update, is the position before.
    fn after_step(mut self, context: Context<'_>, mean: &Param<Tensor<1>>, step: u64) -> Self {
        if let Some(number) = self.sample_after(context, step) {
            let position = mean.val().without_autodiff();
            self.samples = self.samples.with_weights(number, position);
        }
        self
    }

    fn wants_state(&self, context: Context<'_>, step: u64) -> Option<&Arc<Layout>> {
        self.sample_after(context, step)?;
        self.samples.changing()
    }

    fn observe_state(mut self, context: Context<'_>, step: u64, state: Tensor<1>) -> Self {
        if let Some(number) = self.sample_after(context, step) {
            self.samples = self.samples.with_state(number, state);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::LinearConfig;
    use burn::tensor::Device;
    use burn_bayes::methods::{Algorithm, FromGradients};
    use burn_bayes::posterior::Posterior;
    use burn_bayes::{BayesianConfig, Prior};

    use super::*;

    const ROWS: usize = 50;

    /// A model without biases, of as many weights.
    fn built(config: &BayesianConfig<SghmcConfig>, weights: usize) -> Sghmc {
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
        sghmc.apply_step(update.unwrap(), rate).after_step(step)
    }

    fn position(sghmc: &Sghmc) -> Tensor<1> {
        sghmc.last_mean().unwrap()
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
            let config = BayesianConfig::paper(
                ROWS,
                SghmcConfig::new(constant(STEPS, 1)).with_friction(friction),
            )
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
        let config = BayesianConfig::paper(
            ROWS,
            SghmcConfig::new(constant(1, 1))
                .with_temperature(0.0)
                .with_friction(0.25),
        )
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
        let config = BayesianConfig::paper(
            ROWS,
            SghmcConfig::new(constant(2, 2))
                .with_friction(1.0)
                .with_max_samples(3),
        );
        let mut sghmc = built(&config, 2);
        let mut visited = Vec::new();
        for step in 1..=9 {
            let gradient = position(&sghmc);
            sghmc = stepped(sghmc, step, 0.1, gradient, ROWS);
            let values: Vec<f32> = position(&sghmc).try_into_vec_as().unwrap();
            visited.push(values);
            let expected = [0, 1, 1, 2, 2, 3, 3, 3, 3][step as usize - 1];
            assert_eq!(sghmc.state().samples(sghmc.context(), step), expected);
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
        let mut sghmc = built(
            &BayesianConfig::paper(ROWS, SghmcConfig::new(constant(1, 1))),
            2,
        );
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
        let sghmc = built(
            &BayesianConfig::paper(ROWS, SghmcConfig::new(constant(100, 1))),
            4,
        );
        let mean = sghmc.posterior(99).unwrap().mean_weights().unwrap();
        let found: Vec<f32> = mean.try_into_vec_as().unwrap();
        let expected: Vec<f32> = position(&sghmc).try_into_vec_as().unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_gradient_that_is_not_finite_is_refused() {
        let sghmc = built(
            &BayesianConfig::paper(ROWS, SghmcConfig::new(constant(1, 1))),
            2,
        );
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
        let config = SghmcConfig::new(constant(1, 1));
        let cases = [
            (SghmcConfig::new(constant(0, 1)), "start"),
            (config.clone().with_max_samples(0), "max_samples"),
            (config.clone().with_friction(0.0), "friction"),
            (config.clone().with_friction(1.5), "friction"),
            (config.with_temperature(-1.0), "temperature"),
        ];
        for (method, field) in cases {
            let error = BayesianConfig::new(ROWS, method)
                .validate()
                .expect_err(field);
            let message = error.to_string();
            assert!(error.is_config() && message.starts_with(field), "{message}");
        }
    }
}
