//! Step sizes as functions of the step: those internal to an algorithm, which the optimiser's learning rate
//! does not control, and by [`RateSchedule`](crate::train::RateSchedule) the learning rate itself.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A step size as a function of t, the number of previous steps.
///
/// ```
/// use burn_bayes::methods::Rate;
///
/// let rate = Rate::Power { initial: 0.1, time_constant: 1.0, power: 0.5 };
/// assert_eq!([rate.at(0), rate.at(3)], [0.1, 0.05]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Rate {
    /// A constant.
    Constant(f64),
    /// η (1 + t/τ)^−p.
    Power {
        /// η.
        initial: f64,
        /// τ, in steps.
        time_constant: f64,
        /// p; for ½ < p ≤ 1 the noise of the steps averages out.
        power: f64,
    },
    /// η / (1 + tᵖ), the decay of SLANG's logistic regressions.
    Reciprocal {
        /// η.
        initial: f64,
        /// p.
        power: f64,
    },
    /// η (1 + t/(s T))^−p in a training of T steps; η where T is not known.
    Decaying {
        /// η.
        initial: f64,
        /// s, the time constant as a fraction of the training.
        time_constant: f64,
        /// p.
        power: f64,
    },
}

/// The power with which tuned rates decay.
pub(crate) const DECAY_POWER: f64 = 0.75;

impl Rate {
    /// The tuned decay from η, with a time constant of a tenth of the training.
    pub const fn tuned(initial: f64) -> Self {
        Self::Decaying {
            initial,
            time_constant: 0.1,
            power: DECAY_POWER,
        }
    }

    /// With this time constant, in the unit that the rate has it in.
    #[must_use]
    pub fn with_time_constant(self, to: f64) -> Self {
        match self {
            Self::Power { initial, power, .. } => Self::Power {
                initial,
                time_constant: to,
                power,
            },
            Self::Decaying { initial, power, .. } => Self::Decaying {
                initial,
                time_constant: to,
                power,
            },
            rate => rate,
        }
    }

    /// The rate in a training of this number of steps, if it is known.
    #[must_use]
    pub fn within(self, steps: Option<u64>) -> Self {
        match (self, steps) {
            (
                Self::Decaying {
                    initial,
                    time_constant,
                    power,
                },
                Some(steps),
            ) => Self::Power {
                initial,
                time_constant: time_constant * steps as f64,
                power,
            },
            (rate, _) => rate,
        }
    }

    /// The rate after `step` steps.
    pub fn at(self, step: u64) -> f64 {
        let time = step as f64;
        match self {
            Self::Constant(rate) | Self::Decaying { initial: rate, .. } => rate,
            Self::Power {
                initial,
                time_constant,
                power,
            } => initial * (1.0 + time / time_constant).powf(-power),
            Self::Reciprocal { initial, power } => initial / (1.0 + time.powf(power)),
        }
    }

    /// Fails if the rate is negative, not finite or can grow.
    pub(crate) fn check(self, field: &str) -> Result<()> {
        let (initial, is_falling) = match self {
            Self::Constant(rate) => (rate, true),
            Self::Power {
                initial,
                time_constant,
                power,
            }
            | Self::Decaying {
                initial,
                time_constant,
                power,
            } => {
                let usable = time_constant.is_finite() && time_constant > 0.0;
                (initial, usable && power.is_finite() && power >= 0.0)
            }
            Self::Reciprocal { initial, power } => (initial, power.is_finite() && power >= 0.0),
        };
        if is_falling && initial.is_finite() && initial >= 0.0 {
            return Ok(());
        }
        let problem = format!(
            "is {self:?}; the rate and the power must not be negative, the time constant must be \
             above zero, and all must be finite"
        );
        Err(Error::config(field, problem))
    }

    /// Fails unless the rate is the weight of a new value in an average: in (0, 1], and never growing.
    pub fn check_weight(self, field: &str) -> Result<()> {
        self.check(field)?;
        let initial = self.at(0);
        if initial > 0.0 && initial <= 1.0 {
            return Ok(());
        }
        let problem = format!("begins at {initial}; it must begin above zero and at most at 1");
        Err(Error::config(field, problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_decay_as_written() {
        let reciprocal = Rate::Reciprocal {
            initial: 0.05,
            power: 2.0,
        };
        assert_eq!([0, 1, 3].map(|t| reciprocal.at(t)), [0.05, 0.025, 0.005]);
        assert_eq!(Rate::Constant(0.3).at(1_000_000), 0.3);
    }

    #[test]
    fn a_rate_decays_with_the_length_of_the_training() {
        let rate = Rate::Decaying {
            initial: 0.2,
            time_constant: 0.5,
            power: 1.0,
        };
        assert_eq!([rate.at(0), rate.at(900)], [0.2, 0.2]);
        let rate = rate.within(Some(20));
        assert_eq!([rate.at(0), rate.at(10)], [0.2, 0.1]);
        assert_eq!(rate.within(Some(7)), rate);
    }

    #[test]
    fn rates_that_would_leave_the_precisions_are_refused() {
        let power = |initial, time_constant, power| Rate::Power {
            initial,
            time_constant,
            power,
        };
        for rate in [
            Rate::Constant(0.0),
            Rate::Constant(1.5),
            Rate::Constant(f64::NAN),
            power(0.1, 0.0, 1.0),
            power(0.1, 1.0, -1.0),
            Rate::Reciprocal {
                initial: 0.1,
                power: f64::INFINITY,
            },
        ] {
            let error = rate.check_weight("precision_rate").unwrap_err();
            assert!(error.to_string().starts_with("precision_rate"), "{error}");
        }
        assert!(power(1.0, 10.0, 0.0).check_weight("precision_rate").is_ok());
    }
}
