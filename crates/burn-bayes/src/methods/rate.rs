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
    /// η (1 + t/(s T))^−p in a training of T steps; η where T is not known. For averages of Price's estimates, which are noisier
    /// the more mini-batches an epoch has, η is at most 0.4 divided by their number.
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

/// The largest first weight of one of Price's estimates, in mini-batches of an epoch.
///
/// The estimate g⊙(θ−μ)⊙d of the curvature of N examples, from M of them and S draws, has the relative deviation √(N/MS): that of
/// g is √(d/NM), where d is N times the mean of the examples' squared gradients. In an average with the weight ρ, the relative
/// variance is ρN/2MS: .1 with ρ = .4 M/N and two draws. With ρ = .01 and a thousand mini-batches in an epoch it is 2.5, and most
/// precisions are far too small.
const PRICE_WEIGHT: f64 = 0.4;

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

    /// The weight of one of Price's estimates in the average of them, after `step` steps of `length`.
    pub(crate) fn of_price(self, length: Option<u64>, step: u64) -> PriceWeight {
        let (rate, first) = (self.within(length), self.at(0));
        let weight = rate.at(step);
        let most = match self {
            Self::Decaying { .. } => PRICE_WEIGHT * weight / first,
            _ => f64::INFINITY,
        };
        PriceWeight { weight, most }
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

/// The weight of one of Price's estimates in the average of them: the smaller of two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PriceWeight {
    /// For any mini-batch.
    pub(crate) weight: f64,
    /// For one mini-batch in an epoch; less for each of several. Infinite for a rate that does not follow the training.
    pub(crate) most: f64,
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
    fn estimates_by_price_have_less_weight_in_small_batches() {
        let rate = Rate::tuned(0.1);
        let first = rate.of_price(Some(1000), 0);
        assert_eq!(first.weight, 0.1);
        assert!((first.most - 0.4).abs() < 1e-12);
        // Both decay alike.
        let later = rate.of_price(Some(1000), 300);
        assert!((later.weight - 0.1 * 4.0_f64.powf(-0.75)).abs() < 1e-12);
        assert!((later.most / later.weight - 4.0).abs() < 1e-12);
        // What is set for any training is used for any batch.
        let constant = Rate::Constant(0.1).of_price(Some(1000), 300);
        assert_eq!([constant.weight, constant.most], [0.1, f64::INFINITY]);
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
