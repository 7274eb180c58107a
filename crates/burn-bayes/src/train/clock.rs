//! The training progress, as part of the model's record.
//!
//! All random numbers of training are functions of the number of optimiser steps, and training
//! stops after too many rejected steps, so both counts are saved and restored with the parameters. So is a mark of the
//! prior over functions, which contains code and therefore is not saved itself: a resumed training needs the same prior.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::Device;

use crate::error::{Error, Result};
use crate::methods::StepId;
use crate::recorded::{Recorded, RecordedValue};

/// Counts optimiser steps and the gradients since the last step.
///
/// Clones share the count of gradients, so that the copies made by a Learner count together. A fork
/// to another device has its own count, so that all replicas of a step use the same noise. Replicas
/// are forked for every mini-batch, so mini-batches that are accumulated for one step share a draw.
pub(crate) type Clock = Recorded<Counts>;

/// What a clock counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    step: u64,
    /// Number of consecutive rejected steps.
    rejections: u32,
    /// That of the prior over functions with which the training goes on.
    prior: PriorMark,
    /// That of the loaded record.
    recorded_prior: PriorMark,
    pass: Arc<AtomicU64>,
}

/// Identifies a prior over functions; the default means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PriorMark(u16);

impl PriorMark {
    /// Of a description, different for different ones with probability 0.999.
    pub(crate) fn new(description: &str) -> Self {
        let hash = description
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self(1 + (hash % (MARKS - 1)) as u16)
    }
}

/// Upper bound of step numbers. Multiples of it store the rejected steps.
const STEPS: u64 = 1 << 46;
/// Upper bound of numbers of rejected steps. Multiples of it store the mark of a prior.
const REJECTIONS: u64 = 1 << 4;
/// The number of marks, with that of no prior.
const MARKS: u64 = 1 << 10;

impl RecordedValue for Counts {
    fn number(&self) -> u64 {
        let prior = match self.prior {
            PriorMark(0) => self.recorded_prior,
            prior => prior,
        };
        (u64::from(prior.0) * REJECTIONS + u64::from(self.rejections)) * STEPS + self.step
    }

    fn restored(self, number: u64) -> Self {
        if number == self.number() {
            return self;
        }
        let counts = number / STEPS;
        Self {
            step: number % STEPS,
            rejections: (counts % REJECTIONS) as u32,
            recorded_prior: PriorMark((counts / REJECTIONS) as u16),
            pass: Arc::default(),
            ..self
        }
    }

    fn forked(self) -> Self {
        let pass = self.pass.load(Ordering::Relaxed);
        Self {
            pass: Arc::new(AtomicU64::new(pass)),
            ..self
        }
    }
}

impl Clock {
    /// A clock before the first step.
    pub(crate) fn start(device: &Device) -> Self {
        Self::new(Counts::default(), device)
    }

    /// The number of optimiser steps so far.
    pub(crate) fn step(&self) -> u64 {
        self.value().step
    }

    /// Number of consecutive rejected steps.
    pub(crate) fn rejections(&self) -> u32 {
        self.value().rejections
    }

    /// The id of the next gradient. Advances the pass.
    pub(crate) fn next_pass(&self) -> StepId {
        StepId {
            step: self.step(),
            pass: self.value().pass.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The clock after one more optimiser step, which may have been rejected.
    pub(crate) fn after_step(self, is_rejected: bool) -> Self {
        let rejections = if is_rejected {
            self.rejections() + 1
        } else {
            0
        };
        let counts = Counts {
            step: self.step() + 1,
            rejections,
            pass: Arc::default(),
            ..self.value().clone()
        };
        self.with_value(counts)
    }

    /// The clock of a training with this prior over functions.
    pub(crate) fn with_function_prior(self, prior: PriorMark) -> Self {
        let counts = Counts {
            prior,
            ..self.value().clone()
        };
        self.with_value(counts)
    }

    /// Fails if the loaded record is of a training with another prior over functions.
    pub(crate) fn check_function_prior(&self) -> Result<()> {
        let Counts {
            prior,
            recorded_prior: recorded,
            ..
        } = *self.value();
        let problem = match (prior, recorded) {
            (_, PriorMark(0)) => return Ok(()),
            (prior, recorded) if prior == recorded => return Ok(()),
            (PriorMark(0), _) => {
                "is over functions in the loaded record, which does not contain it: set it again by `with_function_prior`"
            }
            _ => {
                "over functions is another than that of the loaded record; resume with the same kernel, points and settings"
            }
        };
        Err(Error::config("prior", problem))
    }
}

#[cfg(test)]
mod tests {
    use burn::module::{Module, ModuleMapper, Param};
    use burn::tensor::{Int, Tensor, TensorData};

    use super::*;

    /// Replaces the integers of a module, as a record does, and keeps what it had.
    struct Load {
        digits: [i32; 2],
        before: Vec<i64>,
    }

    impl ModuleMapper for Load {
        fn map_int<const D: usize>(
            &mut self,
            param: Param<Tensor<D, Int>>,
        ) -> Param<Tensor<D, Int>> {
            let digits = self.digits;
            self.before = param.val().into_data().iter::<i64>().collect();
            param.map(|tensor| {
                let data = TensorData::new(digits.to_vec(), tensor.shape());
                Tensor::from_data(data, &tensor.device())
            })
        }
    }

    #[test]
    fn a_record_keeps_its_form() {
        // The low digit is the step modulo 2³⁰, and the high digit counts rejections in units of 2¹⁶.
        let digits = [3 + 4 * (1 << 16), 17];
        let mut load = Load {
            digits,
            before: Vec::new(),
        };
        let clock = Clock::start(&Device::default()).map(&mut load);
        assert_eq!(load.before, [0, 0]);
        assert_eq!(clock.step(), 3 * (1 << 30) + 17);
        assert_eq!(clock.rejections(), 4);
        let _ = clock.clone().map(&mut load);
        assert_eq!(load.before, digits.map(i64::from));
        let restored = Clock::start(&Device::default()).load_record(clock.into_record());
        assert_eq!(
            (restored.step(), restored.rejections()),
            (3 * (1 << 30) + 17, 4)
        );
    }

    #[test]
    fn a_record_demands_its_prior_over_functions() {
        let device = Device::default();
        let start = || Clock::start(&device);
        let [prior, other] = ["rbf", "linear"].map(PriorMark::new);
        let record = |clock: Clock| clock.after_step(true).into_record();
        let trained = || record(start().with_function_prior(prior));
        let resumed = start().with_function_prior(prior).load_record(trained());
        assert_eq!((resumed.step(), resumed.rejections()), (1, 1));
        assert!(resumed.check_function_prior().is_ok());
        let later = start().load_record(trained());
        let message = later.check_function_prior().unwrap_err().to_string();
        assert!(message.contains("with_function_prior"), "{message}");
        // A record of the resumed training still demands it.
        let again = start().load_record(record(later));
        assert!(again.check_function_prior().is_err());
        assert!(
            again
                .with_function_prior(prior)
                .check_function_prior()
                .is_ok()
        );
        let wrong = start().with_function_prior(other).load_record(trained());
        assert!(wrong.check_function_prior().is_err());
        // A prior may be added to a training without one.
        let added = start().with_function_prior(prior);
        let added = added.load_record(record(start()));
        assert!(added.check_function_prior().is_ok());
    }

    #[test]
    fn clones_share_the_pass_and_forks_do_not() {
        let device = Device::default();
        let clock = Clock::start(&device);
        let (clone, fork) = (clock.clone(), clock.clone().fork(&device));
        assert_eq!(
            [
                clock.next_pass().pass,
                clone.next_pass().pass,
                fork.next_pass().pass
            ],
            [0, 1, 0]
        );
        let id = StepId { step: 1, pass: 0 };
        assert_eq!(clock.after_step(false).next_pass(), id);
    }
}
