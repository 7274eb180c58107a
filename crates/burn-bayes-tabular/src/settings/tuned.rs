//! Defaults that depend on the method.

use burn_bayes::methods::{LearningRates, Rate};

use super::choices::Activation;
use super::method::MethodRow;

/// The settings whose default depends on the method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuned {
    /// The learning rate of the mean.
    pub learning_rate: f64,
    /// That of the factors.
    pub factors_learning_rate: f64,
    /// That of the diagonal, or the initial rate of the covariance.
    pub diagonal_learning_rate: f64,
    /// The decay time constant of the learning rates, as a fraction of training; 0 for constant rates.
    pub decay: f64,
    /// The initial posterior standard deviation of a weight, times the square root of its fan-in.
    pub initial_deviation: f64,
    /// The number of weight draws per training step.
    pub draws: usize,
    /// The activation function of the hidden layers.
    pub activation: Activation,
}

impl Tuned {
    /// The learning rates of a training.
    pub fn learning_rates(&self) -> LearningRates {
        LearningRates::new(self.learning_rate)
            .with_covariance(self.factors_learning_rate, self.diagonal_learning_rate)
            .with_decay(self.decay)
    }

    /// The rate of the covariance.
    pub fn covariance_rate(&self) -> Rate {
        let rate = self.diagonal_learning_rate.min(1.0);
        match self.decay > 0.0 {
            true => Rate::tuned(rate).with_time_constant(self.decay),
            false => Rate::Constant(rate),
        }
    }
}

/// Defaults that depend on the method and other settings.
#[derive(Clone, Copy, Debug)]
pub struct MethodDefaults {
    /// The tuned settings.
    pub tuned: Tuned,
    /// The rank of a posterior with at least as many weights.
    pub rank: usize,
    /// The method.
    pub(crate) row: MethodRow,
}
