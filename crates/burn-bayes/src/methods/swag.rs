//! SWAG: a Gaussian fitted to the iterates of ordinary training (Maddox et al. 2019).
//!
//! After step `start`, every `interval` steps, with t counting the iterates taken:
//!
//! * δ = θ − θ̄, θ̄ ← θ̄ + δ/t;
//! * v ← (1 − 1/t)(v + δ²/t), the variance mean θ² − θ̄² in Welford's form, which avoids
//!   subtracting squares;
//! * d_t = θ − θ̄; the last K of them are kept.
//!
//! The posterior is N(θ̄, FᵀF + diag ψ) with ψ = ½v, F = D̂/√(2(K−1)), K the number of deviations
//! kept. Running statistics such as those of batch norm are those of the last iterate, which only approximate those of θ̄;
//! [`Predictor::with_refreshed_statistics`](crate::Predictor::with_refreshed_statistics) recomputes them.
//!
//! | symbol | field |
//! |---|---|
//! | θ̄ | `mean` |
//! | v | `variance` |
//! | D̂ | `deviations` |
//! | t | computed from the step number |

use std::convert::Infallible;
use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::algorithm::{Algorithm, FromIterates, Iterates, Setup};
use super::iterate_schedule::IterateSchedule;
use super::settings::{BayesianConfig, LearningRates, MethodConfig};
use super::start::{buffer, updated};
use crate::error::{Error, Result};
use crate::kernels::composed::at_least;
use crate::kernels::{self, Moments};
use crate::memory::{MemoryPlan, OptimizerMemory};
use crate::posterior::FactorPosterior;

/// Settings of SWAG.
///
/// ```
/// use burn_bayes::{BayesianConfig, SwagConfig};
///
/// // Ten iterates: after steps 100, 110, … 190 of a training of 200 steps.
/// let swag = SwagConfig::new().with_start(Some(100)).with_interval(Some(10)).with_rank(5);
/// let config = BayesianConfig::new(60_000, swag);
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct SwagConfig {
    /// The first optimiser step (from 1) whose weights are collected; by default that after three quarters of the training, as
    /// in the paper. The loss should have levelled off there.
    pub start: Option<u64>,
    /// Steps between two iterates; by default for about 40 of them. Close iterates are strongly correlated. Paper: one epoch.
    pub interval: Option<u64>,
    /// K, the maximum number of deviations kept; at most the number of weights. Paper: 20.
    #[config(default = 20)]
    pub rank: usize,
}

/// The approximate number of iterates, many times more than the factors need.
const ITERATES: u64 = 40;

impl SwagConfig {
    /// The settings of the SWAG paper for `epochs` epochs with mini-batches of `batch_size`: one
    /// iterate at the end of every epoch once 75 % of the epochs are complete.
    ///
    /// ```
    /// use burn_bayes::SwagConfig;
    ///
    /// let config = SwagConfig::paper(60_000, 128, 40);
    /// assert_eq!((config.start, config.interval), (Some(30 * 469), Some(469)));
    /// ```
    pub fn paper(train_len: usize, batch_size: usize, epochs: usize) -> Self {
        let epoch = train_len.div_ceil(batch_size.max(1)).max(1);
        let first = (3 * epochs).div_ceil(4);
        Self::new()
            .with_start(Some((first * epoch) as u64))
            .with_interval(Some(epoch as u64))
    }

    fn schedule(&self, steps: Option<u64>) -> Result<IterateSchedule> {
        IterateSchedule::new(self.start, self.interval, steps, ITERATES)
    }

    /// K for a model with `weights` weights. One deviation has no spread, so a single weight gets
    /// none.
    fn rank_for(&self, weights: usize) -> usize {
        match self.rank.min(weights) {
            1 => 0,
            rank => rank,
        }
    }
}

impl MethodConfig for SwagConfig {
    type Algorithm = Swag;

    const USES: &'static [&'static str] = &[];

    fn learning_rates(&self) -> LearningRates {
        LearningRates::ITERATES
    }

    fn validate(BayesianConfig { method, steps, .. }: &BayesianConfig<Self>) -> Result<()> {
        method.schedule(*steps)?;
        if method.rank == 1 {
            let problem = "is 1; one deviation has no spread: use 0 for a diagonal, or at least 2";
            return Err(Error::config("rank", problem));
        }
        Ok(())
    }

    fn memory(
        config: &BayesianConfig<Self>,
        weights: usize,
        optimizer: OptimizerMemory,
    ) -> MemoryPlan {
        let rank = config.method.rank_for(weights);
        let mut plan = MemoryPlan::iterates(weights, 2 + rank, optimizer);
        // A step that collects an iterate holds the old and the new rows.
        plan.scratch += (1 + rank) * weights * size_of::<f32>();
        plan
    }

    fn build<M: Module>(config: &BayesianConfig<Self>, model: &M) -> Result<Swag> {
        let setup = Setup::of(config, model)?;
        let layout = &setup.layout;
        let weights = layout.flatten(model)?;
        let device = weights.device();
        let rank = config.method.rank_for(layout.len());
        let deviations = (rank > 0).then(|| buffer(Tensor::zeros([rank, layout.len()], &device)));
        Ok(Swag {
            variance: buffer(weights.zeros_like()),
            mean: buffer(weights),
            deviations,
            settings: Arc::new(Settings {
                schedule: config.method.schedule(config.steps)?,
                config: config.method.clone(),
                setup,
            }),
        })
    }
}

/// SWAG's running moments.
#[derive(Module, Debug)]
pub struct Swag {
    mean: Param<Tensor<1>>,
    variance: Param<Tensor<1>>,
    deviations: Option<Param<Tensor<2>>>,
    #[module(skip)]
    settings: Arc<Settings>,
}

#[derive(Debug)]
struct Settings {
    config: SwagConfig,
    schedule: IterateSchedule,
    setup: Setup,
}

impl Swag {
    /// The configuration.
    pub fn config(&self) -> &SwagConfig {
        &self.settings.config
    }

    fn schedule(&self) -> IterateSchedule {
        self.settings.schedule
    }
}

impl Algorithm for Swag {
    type Signal = Iterates;
    type Posterior = FactorPosterior;
    type ClosedForm = Infallible;

    fn setup(&self) -> &Setup {
        &self.settings.setup
    }

    fn perturbs_weights(&self) -> bool {
        false
    }

    fn freezes_statistics(&self, step: u64) -> bool {
        step >= self.schedule().start
    }

    fn posterior(&self, step: u64) -> Result<FactorPosterior> {
        let taken = self.schedule().enough("SWAG", step)?;
        let mean = self.mean.val().without_autodiff();
        // A weight that has not changed has variance zero; a posterior needs a positive variance.
        let variance = self.variance.val().without_autodiff().mul_scalar(0.5);
        let variance = at_least(variance, f32::MIN_POSITIVE);
        let factors = self.deviations.as_ref().map(|deviations| {
            let [rank, len] = deviations.dims();
            let kept = rank.min(usize::try_from(taken).unwrap_or(rank));
            let scale = 1.0 / (2.0 * (kept as f64 - 1.0)).sqrt();
            let rows = deviations.val().without_autodiff();
            rows.slice([0..kept, 0..len]).mul_scalar(scale)
        });
        FactorPosterior::covariance(self.setup().layout.clone(), mean, factors, variance)
    }

    fn apply_step(self, update: Infallible, _learning_rate: f64) -> Self {
        match update {}
    }
}

impl FromIterates for Swag {
    fn wants(&self, step: u64) -> bool {
        self.schedule().takes(step)
    }

    fn observe(mut self, step: u64, weights: Tensor<1>) -> Self {
        let taken = self.schedule().taken(step) as usize;
        let moments = Moments {
            mean: self.mean.val().without_autodiff(),
            variance: self.variance.val().without_autodiff(),
        };
        // A sharded optimiser moves parameters between devices, but not buffers.
        let weights = weights.to_device(&moments.mean.device());
        let (moments, deviation) = kernels::running_moments(moments, &weights, taken);
        self.deviations = self.deviations.map(|deviations| {
            updated(deviations, |rows| {
                let [max_rank, len] = rows.dims();
                let row = (taken - 1) % max_rank;
                rows.slice_assign([row..row + 1, 0..len], deviation.unsqueeze())
            })
        });
        self.mean = updated(self.mean, |_| moments.mean);
        self.variance = updated(self.variance, |_| moments.variance);
        self
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::LinearConfig;
    use burn::tensor::Device;

    use super::*;

    fn swag(start: u64, interval: u64) -> Swag {
        let layer = LinearConfig::new(2, 1).init(&Device::default().autodiff());
        BayesianConfig::new(
            10,
            SwagConfig::new()
                .with_start(Some(start))
                .with_interval(Some(interval))
                .with_rank(2),
        )
        .build(&layer)
        .unwrap()
    }

    #[test]
    fn iterates_are_wanted_from_the_start_at_every_interval() {
        let swag = swag(4, 3);
        let wanted: Vec<u64> = (1..=12).filter(|&step| swag.wants(step)).collect();
        assert_eq!(wanted, [4, 7, 10]);
    }

    #[test]
    fn the_iterates_of_a_training_of_known_length_are_those_of_its_last_quarter() {
        let layer = LinearConfig::new(2, 1).init(&Device::default().autodiff());
        let config = BayesianConfig::new(10, SwagConfig::new().with_rank(2)).with_steps(1000);
        let swag = config.build(&layer).unwrap();
        let wanted: Vec<u64> = (1..=1000).filter(|&step| swag.wants(step)).collect();
        assert_eq!((wanted.len(), wanted[0], wanted[1]), (42, 750, 756));
    }

    #[test]
    fn the_papers_iterates_are_the_ends_of_the_last_quarter_of_the_epochs() {
        // Three mini-batches of at most four rows make an epoch.
        let config = BayesianConfig::new(10, SwagConfig::paper(10, 4, 8).with_rank(2));
        let layer = LinearConfig::new(2, 1).init(&Device::default().autodiff());
        let swag = config.build(&layer).unwrap();
        let wanted: Vec<u64> = (1..=24).filter(|&step| swag.wants(step)).collect();
        assert_eq!(wanted, [18, 21, 24]);
    }

    #[test]
    fn refused_settings_name_their_field() {
        let cases = [
            (SwagConfig::new(), "start"),
            (SwagConfig::new().with_start(Some(0)), "start"),
            (
                SwagConfig::new().with_start(Some(1)).with_interval(Some(0)),
                "interval",
            ),
            (SwagConfig::new().with_start(Some(1)).with_rank(1), "rank"),
        ];
        for (method, field) in cases {
            let error = BayesianConfig::new(10, method).validate().expect_err(field);
            assert!(
                error.is_config() && error.to_string().starts_with(field),
                "{error}"
            );
        }
    }

    #[test]
    fn too_few_iterates_are_an_error_that_says_so() {
        let error = swag(100, 1).posterior(100).unwrap_err();
        assert!(
            error.is_too_early() && error.to_string().contains("start"),
            "{error}"
        );
    }

    #[test]
    fn small_deviations_of_large_weights_keep_their_variance() {
        let mut swag = swag(1, 1);
        let device = swag.mean.val().device();
        let iterates = |step: u64| 1.0 + 1e-4 * [-1.0f32, 0.5, 1.5, -0.25, 0.75][step as usize % 5];
        for step in 1..=1000 {
            swag = swag.observe(step, Tensor::full([3], iterates(step), &device));
        }
        let values = (1..=5).map(|step| f64::from(iterates(step)));
        let mean = values.clone().sum::<f64>() / 5.0;
        let expected = 0.5 * values.map(|value| (value - mean).powi(2)).sum::<f64>() / 5.0;
        let posterior = swag.posterior(1000).unwrap();
        let variance: Vec<f32> = posterior.diagonal().try_into_vec_as().unwrap();
        // The mean has an error of up to one ulp, 10⁻³ of a deviation.
        for found in variance {
            assert!((f64::from(found) / expected - 1.0).abs() < 4e-3, "{found}");
        }
    }

    #[test]
    fn a_model_of_few_weights_has_as_many_deviations() {
        let device = Device::default().autodiff();
        for (inputs, rank) in [(4, 4), (1, 0)] {
            let layer = LinearConfig::new(inputs, 1).with_bias(false).init(&device);
            let mut swag = BayesianConfig::new(10, SwagConfig::new().with_start(Some(1)))
                .build(&layer)
                .unwrap();
            for (step, value) in [(1, 1.0), (2, 3.0), (3, 8.0), (4, 5.0), (5, 6.0)] {
                swag = swag.observe(step, Tensor::full([inputs], value, &device.clone().inner()));
            }
            assert_eq!(swag.posterior(5).unwrap().rank(), rank);
        }
    }

    #[test]
    fn moments_follow_the_iterates_worked_by_hand() {
        let mut swag = swag(1, 1);
        let device = swag.mean.val().device();
        for (step, value) in [(1, 1.0), (2, 3.0), (3, 8.0)] {
            swag = swag.observe(step, Tensor::full([3], value, &device));
        }
        // Mean 4, squared deviations 9, 1 and 16; deviations 3−2 = 1 and 8−4 = 4 (the first was
        // dropped).
        let posterior = swag.posterior(3).unwrap();
        let mean: Vec<f32> = posterior.mean().try_into_vec_as().unwrap();
        let variance: Vec<f32> = posterior.diagonal().try_into_vec_as().unwrap();
        let factors: Vec<f32> = posterior.factors().unwrap().try_into_vec_as().unwrap();
        assert_eq!(mean, [4.0; 3]);
        let expected = 0.5 * (9.0 + 1.0 + 16.0) / 3.0;
        assert!(
            variance
                .iter()
                .all(|value| (value - expected).abs() < 8.0 * f32::EPSILON * expected)
        );
        let root = 2f32.sqrt();
        let close = |value: f32, expected: f32| (value - expected).abs() < 4.0 * f32::EPSILON * 4.0;
        assert!(
            close(factors[0], 4.0 / root) && close(factors[3], 1.0 / root),
            "{factors:?}"
        );
    }
}
