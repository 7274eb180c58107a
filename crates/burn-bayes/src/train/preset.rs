//! Tuned settings of each method.
//!
//! They were chosen for small networks on standardised tables, on training rows of the UCI sets
//! (`benches/TUNING.md`), and are the defaults of the program.

use super::staging::StagedLearningRate;
use crate::methods::{InitialDeviation, Rate};

/// Tuned settings of a method.
///
/// ```
/// use burn_bayes::SlangConfig;
/// use burn_bayes::train::Preset;
///
/// let steps = 2_000;
/// let preset = Preset::SLANG;
/// let config = SlangConfig::new(455).with_precision_rate(preset.precision_rate(steps));
/// let learning_rate = preset.learning_rates(steps).init();
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Preset {
    /// The learning rate of the mean.
    pub learning_rate: f64,
    /// The learning rate of VIFA's factors.
    pub factors_learning_rate: f64,
    /// The learning rate of the diagonal.
    pub diagonal_learning_rate: f64,
    /// The decay time constant of the learning rates, as a fraction of training; 0 for constant rates.
    pub decay: f64,
    /// The initial posterior standard deviation of a weight, times the square root of its fan-in. SLANG, VOGN,
    /// VON, Vadam, IVON and NAGVAC find theirs in their first stage.
    pub initial_deviation: f64,
    /// The number of weight draws per training step.
    pub draws: usize,
}

impl Preset {
    /// The power with which learning rates decay.
    pub const DECAY_POWER: f64 = 0.75;

    /// Ordinary training, and VAFC.
    pub const MAP: Self = Self {
        learning_rate: 0.01,
        factors_learning_rate: 0.01,
        diagonal_learning_rate: 0.01,
        decay: 0.1,
        initial_deviation: 0.03,
        draws: 1,
    };
    /// VIFA and mean-field variational inference, with an antithetic pair of draws. Noise that moves the factors of
    /// thousands of weights costs more than slow factors do.
    pub const VIFA: Self = Self {
        factors_learning_rate: 0.003,
        diagonal_learning_rate: 0.005,
        decay: 0.2,
        draws: 2,
        ..Self::MAP
    };
    /// SWAG. Its covariance is that of the last steps, whose size this slow decay leaves nearly constant.
    pub const SWAG: Self = Self {
        decay: 0.5,
        ..Self::MAP
    };
    /// Batch ensembles, where a step moves the shared matrices and both of a member's vectors.
    pub const BATCH_ENSEMBLE: Self = Self {
        learning_rate: 0.005,
        ..Self::MAP
    };
    /// SLANG and VOGN: natural steps of the mean, which a small rate of the precision keeps stable.
    pub const SLANG: Self = Self {
        learning_rate: 0.1,
        ..Self::MAP
    };
    /// VON, with an antithetic pair of draws.
    pub const VON: Self = Self {
        draws: 2,
        ..Self::SLANG
    };
    /// IVON, as VON.
    pub const IVON: Self = Self::VON;
    /// NAGVAC, with an antithetic pair of draws.
    pub const NAGVAC: Self = Self {
        learning_rate: 0.01,
        diagonal_learning_rate: 0.03,
        ..Self::VON
    };
    /// Vadam.
    pub const VADAM: Self = Self {
        learning_rate: 0.01,
        diagonal_learning_rate: 0.03,
        ..Self::MAP
    };

    /// SGLD, which has a learning rate only.
    pub const SGLD: Self = Self {
        learning_rate: 0.002,
        decay: 0.0,
        ..Self::MAP
    };
    /// SGHMC with the friction 0.1: as SGLD.
    pub const SGHMC: Self = Self {
        learning_rate: 0.25 * Self::SGLD.learning_rate,
        ..Self::SGLD
    };

    /// The time constant of the decay in a training of `steps` steps; `None` for constant rates.
    fn time_constant(&self, steps: usize) -> Option<f64> {
        let time_constant = self.decay * steps as f64;
        (time_constant > 0.0).then_some(time_constant)
    }

    /// The learning rates of a training of `steps` steps.
    pub fn learning_rates(&self, steps: usize) -> StagedLearningRate {
        let (mean, factors) = (self.learning_rate, self.factors_learning_rate);
        StagedLearningRate::new(mean, factors, self.diagonal_learning_rate)
            .with_time_constant(self.time_constant(steps))
            .with_power(Self::DECAY_POWER)
    }

    /// The rate of the precision of SLANG, VOGN, VON and IVON, and of NAGVAC's covariance, in a training of `steps` steps.
    pub fn precision_rate(&self, steps: usize) -> Rate {
        let initial = self.diagonal_learning_rate.min(1.0);
        match self.time_constant(steps) {
            Some(time_constant) => Rate::Power {
                initial,
                time_constant,
                power: Self::DECAY_POWER,
            },
            None => Rate::Constant(initial),
        }
    }

    /// The initial deviation, as the configurations take it.
    pub fn initial_deviation(&self) -> InitialDeviation {
        InitialDeviation::FanInScaled(self.initial_deviation)
    }
}
