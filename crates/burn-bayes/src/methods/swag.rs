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

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;

use super::algorithm::{Algorithm, FromIterates, Iterates};
use super::iterate_schedule::IterateSchedule;
use super::method_config::{LearningRates, MethodConfig};
use super::settings::BayesianConfig;
use super::setup::Setup;
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

    /// The iterates of a training of this number of steps.
    ///
    /// # Errors
    ///
    /// Those of [`IterateSchedule::new`].
    #[doc(hidden)]
    pub fn schedule(&self, steps: Option<u64>) -> Result<IterateSchedule> {
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
