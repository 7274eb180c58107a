//! The training progress, as part of the model's record.
//!
//! All random numbers of training are functions of the number of optimiser steps, and training
//! stops after too many rejected steps, so both counts are saved and restored with the parameters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::tensor::Device;

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
    pass: Arc<AtomicU64>,
}

/// Upper bound of step numbers. Multiples of it store the rejected steps.
const STEPS: u64 = 1 << 46;

impl Counts {
    fn at(step: u64, rejections: u32) -> Self {
        Self {
            step,
            rejections,
            pass: Arc::default(),
        }
    }
}

impl RecordedValue for Counts {
    fn number(&self) -> u64 {
        u64::from(self.rejections) * STEPS + self.step
    }

    fn restored(self, number: u64) -> Self {
        match number == self.number() {
            true => self,
            false => Self::at(number % STEPS, (number / STEPS) as u32),
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
        let counts = Counts::at(self.step() + 1, rejections);
        self.with_value(counts)
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
