//! When SGHMC makes noise, how large its steps are, and which of its weights are kept.

use std::f64::consts::PI;

use burn_bayes::methods::IterateSchedule;
use burn_bayes::methods::checks::counts;
use burn_bayes::{Error, Result};
use serde::{Deserialize, Serialize};

/// The steps after which a sampler keeps its weights, and how its learning rate changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SamplingSchedule {
    /// The rate of the optimiser at all steps.
    Constant {
        /// The first optimiser step (from 1) whose weights are kept; those before it are the burn-in.
        start: u64,
        /// Steps between two samples.
        interval: u64,
    },
    /// Cycles (Zhang et al. 2020): in each, the rate falls from that of the optimiser to zero along a cosine.
    Cyclical {
        /// The number of steps of a cycle.
        length: u64,
        /// The fraction at the beginning of a cycle in which there is no noise and no sample. Paper: 0.8 to 0.94.
        exploration: f64,
        /// The number of samples from a cycle, at equal distances, the last of them at its end. Paper: 3.
        samples: u64,
    },
}

impl SamplingSchedule {
    pub(super) fn validate(self) -> Result<()> {
        match self {
            Self::Constant { start, interval } => {
                counts([("start", start), ("interval", interval)])
            }
            Self::Cyclical {
                length,
                exploration,
                samples,
            } => {
                counts([("length", length), ("samples", samples)])?;
                match (0.0..1.0).contains(&exploration) {
                    true => Ok(()),
                    false => {
                        let problem = format!("is {exploration}; it must be in [0, 1)");
                        Err(Error::config("exploration", problem))
                    }
                }
            }
        }
    }

    /// The multiple of the optimiser's rate at step `step` (from 1).
    pub(super) fn rate(self, step: u64) -> f64 {
        match self {
            Self::Constant { .. } => 1.0,
            Self::Cyclical { length, .. } => {
                let passed = ((step - 1) % length) as f64 / length as f64;
                0.5 * (1.0 + (PI * passed).cos())
            }
        }
    }

    /// Whether step number `step` (from 1) has noise.
    pub(super) fn is_noisy(self, step: u64) -> bool {
        match self {
            Self::Constant { .. } => true,
            Self::Cyclical { length, .. } => (step - 1) % length >= length - self.sampling_steps(),
        }
    }

    /// The number of samples after step number `step` (from 1).
    pub(super) fn taken(self, step: u64) -> u64 {
        match self {
            Self::Constant { start, interval } => IterateSchedule { start, interval }.taken(step),
            Self::Cyclical {
                length, samples, ..
            } => {
                let sampling = self.sampling_steps();
                let samples = samples.min(sampling);
                let left = length - step % length;
                let missing = left.div_ceil(sampling / samples);
                step / length * samples + samples.saturating_sub(missing)
            }
        }
    }

    /// Whether the weights after step number `step` (from 1) are a sample.
    pub(super) fn takes(self, step: u64) -> bool {
        self.taken(step) > self.taken(step - 1)
    }

    /// The number of steps before the first that may be a sample.
    pub(super) fn burn_in(self) -> u64 {
        match self {
            Self::Constant { start, .. } => start - 1,
            Self::Cyclical { length, .. } => length - self.sampling_steps(),
        }
    }

    /// The number of steps with noise in a cycle; at least one.
    fn sampling_steps(self) -> u64 {
        match self {
            Self::Constant { .. } => 1,
            Self::Cyclical {
                length,
                exploration,
                ..
            } => length - ((exploration * length as f64) as u64).min(length - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(last: u64, is_wanted: impl Fn(u64) -> bool) -> Vec<u64> {
        (1..=last).filter(|&step| is_wanted(step)).collect()
    }

    #[test]
    fn a_constant_schedule_keeps_weights_at_every_interval() {
        let schedule = SamplingSchedule::Constant {
            start: 4,
            interval: 3,
        };
        assert_eq!(steps(12, |step| schedule.takes(step)), [4, 7, 10]);
        assert_eq!(schedule.taken(3), 0);
        assert!((1..=12).all(|step| schedule.is_noisy(step) && schedule.rate(step) == 1.0));
    }

    #[test]
    fn a_cycle_explores_without_noise_and_ends_with_samples() {
        let schedule = |samples| SamplingSchedule::Cyclical {
            length: 10,
            exploration: 0.4,
            samples,
        };
        let [three, one, many] = [3, 1, 100].map(schedule);
        assert_eq!(steps(20, |step| three.takes(step)), [6, 8, 10, 16, 18, 20]);
        assert_eq!(steps(20, |step| one.takes(step)), [10, 20]);
        assert_eq!(steps(10, |step| many.takes(step)), [5, 6, 7, 8, 9, 10]);
        assert_eq!(
            [three.taken(9), three.taken(10), three.taken(16)],
            [2, 3, 4]
        );
        let noisy = steps(12, |step| three.is_noisy(step));
        assert_eq!(noisy, [5, 6, 7, 8, 9, 10]);
        assert_eq!(
            [three.rate(1), three.rate(6), three.rate(11)],
            [1.0, 0.5, 1.0]
        );
        assert!(three.rate(10) > 0.0 && three.rate(10) < 0.03);
    }

    #[test]
    fn refused_schedules_name_their_field() {
        let cyclical = |length, exploration, samples| SamplingSchedule::Cyclical {
            length,
            exploration,
            samples,
        };
        let constant = |start, interval| SamplingSchedule::Constant { start, interval };
        let cases = [
            (constant(0, 1), "start"),
            (constant(1, 0), "interval"),
            (cyclical(0, 0.5, 1), "length"),
            (cyclical(10, 1.0, 1), "exploration"),
            (cyclical(10, f64::NAN, 1), "exploration"),
            (cyclical(10, 0.5, 0), "samples"),
        ];
        for (schedule, field) in cases {
            let error = schedule.validate().expect_err(field);
            let message = error.to_string();
            assert!(error.is_config() && message.starts_with(field), "{message}");
        }
    }
}
