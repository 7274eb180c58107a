//! The training progress, as part of the model's record.
//!
//! All random numbers of training are functions of the number of optimiser steps, and training
//! stops after too many rejected steps, so both counts are saved and restored with the parameters.
//! They are an integer tensor in records and plain numbers in memory: optimisers never map the
//! clock, so a step reads nothing from a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
    Param, ParamId,
};
use burn::tensor::{Device, Int, Tensor};

use crate::methods::StepId;

/// Counts optimiser steps and the gradients since the last step.
///
/// Clones share the count of gradients, so that the copies made by a Learner count together. A fork
/// to another device has its own count, so that all replicas of a step use the same noise. Replicas
/// are forked for every mini-batch, so mini-batches that are accumulated for one step share a draw.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// The device of the tensor in a record.
    device: Device,
    id: ParamId,
    step: u64,
    /// Number of consecutive rejected steps.
    rejections: u32,
    pass: Arc<AtomicU64>,
}

/// A step number is stored as two digits in this base, which fit the smallest integer type of all
/// backends.
const BASE: u64 = 1 << 30;

/// The number of values of the high digit. Multiples of it store the rejected steps, so that records
/// without any have the form that they always had.
const HIGH_DIGITS: u64 = 1 << 16;

impl Clock {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            device: device.clone().inner(),
            id: ParamId::new(),
            step: 0,
            rejections: 0,
            pass: Arc::default(),
        }
    }

    fn at(self, step: u64, rejections: u32) -> Self {
        Self {
            step,
            rejections,
            pass: Arc::default(),
            ..self
        }
    }

    /// The number of optimiser steps so far.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Number of consecutive rejected steps.
    pub(crate) fn rejections(&self) -> u32 {
        self.rejections
    }

    /// The id of the next gradient. Advances the pass.
    pub(crate) fn next_pass(&self) -> StepId {
        StepId {
            step: self.step,
            pass: self.pass.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The clock after one more optimiser step, which may have been rejected.
    pub(crate) fn after_step(self, is_rejected: bool) -> Self {
        let step = self.step + 1;
        let rejections = if is_rejected { self.rejections + 1 } else { 0 };
        self.at(step, rejections)
    }

    fn param(&self) -> Param<Tensor<1, Int>> {
        let high = self.step / BASE + u64::from(self.rejections) * HIGH_DIGITS;
        let numbers = [high as i32, (self.step % BASE) as i32];
        Param::initialized(self.id, Tensor::from_data(numbers, &self.device))
    }
}

impl Module for Clock {
    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        visitor.visit_int(&self.param());
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let param = mapper.map_int(self.param());
        let numbers: Vec<i64> = param.val().into_data().iter::<i64>().collect();
        let number = |at: usize| numbers.get(at).map_or(0, |number| number.unsigned_abs());
        let step = number(0) % HIGH_DIGITS * BASE + number(1);
        let rejections = (number(0) / HIGH_DIGITS) as u32;
        let clock = Self {
            id: param.id,
            ..self
        };
        match (step, rejections) == (clock.step, clock.rejections) {
            true => clock,
            false => clock.at(step, rejections),
        }
    }

    fn to_device(self, device: &Device) -> Self {
        Self {
            device: device.clone().inner(),
            ..self
        }
    }

    fn fork(self, device: &Device) -> Self {
        let pass = self.pass.load(Ordering::Relaxed);
        Self {
            device: device.clone().inner(),
            pass: Arc::new(AtomicU64::new(pass)),
            ..self
        }
    }

    fn collect_devices(&self, devices: Devices) -> Devices {
        devices
    }

    fn materialize(self) -> Self {
        self
    }

    fn valid(&self) -> Self {
        self.clone()
    }

    fn train(self) -> Self {
        self
    }
}

impl ModuleDisplayDefault for Clock {
    fn content(&self, content: Content) -> Option<Content> {
        content.add("step", &self.step).optional()
    }
}

impl ModuleDisplay for Clock {}

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock(step={})", self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_restores_a_step_beyond_one_digit() {
        let device = Device::default();
        let mut clock = Clock::new(&device);
        clock.step = 3 * BASE + 17;
        clock.rejections = 4;
        let restored = Clock::new(&device).load_record(clock.clone().into_record());
        assert_eq!(restored.step(), clock.step());
        assert_eq!(restored.rejections(), clock.rejections());
    }

    #[test]
    fn clones_share_the_pass_and_forks_do_not() {
        let device = Device::default();
        let clock = Clock::new(&device);
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
