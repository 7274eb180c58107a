//! What a method says of itself: its settings and its tuned learning rates.

use std::fmt::Debug;

use burn::module::Module;

use super::algorithm::Algorithm;
use super::settings::BayesianConfig;
use crate::error::Result;
use crate::memory::{MemoryPlan, OptimizerMemory};

/// The settings of a method: what its equations name, and nothing else.
///
/// The functions are called by [`BayesianConfig`], which adds what all methods share.
pub trait MethodConfig: Clone + Debug {
    /// The algorithm of the method.
    type Algorithm: Algorithm;

    /// The shared settings that it uses, by name, of those that not all methods use.
    const USES: &'static [&'static str];

    /// The tuned learning rates.
    fn learning_rates(&self) -> LearningRates {
        LearningRates::PLAIN
    }

    /// Checks the settings of the method. The error names the field.
    fn validate(config: &BayesianConfig<Self>) -> Result<()>;

    /// The algorithm for the weights of `model`, from settings that are valid.
    fn build<M: Module>(config: &BayesianConfig<Self>, model: &M) -> Result<Self::Algorithm>;

    /// The memory needed to train `weights` weights, without the model's activations.
    fn memory(
        config: &BayesianConfig<Self>,
        weights: usize,
        optimizer: OptimizerMemory,
    ) -> MemoryPlan;
}

/// The learning rates of a method that were chosen on small networks and tables (`benches/TUNING.md`), and their decay.
///
/// ```
/// use burn_bayes::{BayesianConfig, SlangConfig};
///
/// let config = BayesianConfig::new(455, SlangConfig::new());
/// let rates = config.learning_rates().over(2_000).init();
/// // Learner::new(config.init(model), optimizer, rates)
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LearningRates {
    /// That of the mean, and of an ordinary training.
    pub mean: f64,
    /// That of the factors, where the user's optimiser trains them.
    pub factors: f64,
    /// That of the diagonal, where the user's optimiser trains it.
    pub diagonal: f64,
    /// The decay time constant, as a fraction of the training; 0 for constant rates.
    pub decay: f64,
}

impl LearningRates {
    /// Those of an ordinary training by Adam.
    pub const PLAIN: Self = Self::new(0.01);

    /// The same rate for everything, and the decay of an ordinary training.
    pub const fn new(mean: f64) -> Self {
        Self {
            mean,
            factors: mean,
            diagonal: mean,
            decay: 0.1,
        }
    }

    /// With this decay.
    #[must_use]
    pub const fn with_decay(self, decay: f64) -> Self {
        Self { decay, ..self }
    }

    /// With other rates of factors and diagonal.
    #[must_use]
    pub const fn with_covariance(self, factors: f64, diagonal: f64) -> Self {
        Self {
            factors,
            diagonal,
            ..self
        }
    }

    /// Those of SWAG, factor analysis and iterate averaging: the covariance is that of the last steps, whose size a slow
    /// decay leaves nearly constant.
    pub const ITERATES: Self = Self::PLAIN.with_decay(0.5);
}
