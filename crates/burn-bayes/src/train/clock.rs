//! When a step happens, as part of the model's record.
//!
//! The number of optimiser steps names every random number of the training, so it must be saved
//! and restored with the parameters. It is one integer tensor in records, and a plain number in
//! between: nothing is read from a device during a step, because optimisers never map the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
    Param, ParamId,
};
use burn::tensor::{Device, Int, Tensor};

use crate::methods::Tick;

/// Counts optimiser steps, and the gradients taken since the last of them.
///
/// Clones share the count of gradients, so that a learner's copies see one training; a fork to
/// another device starts its own copy, so that all replicas of a step use the same noise. Replicas
/// are forked anew for every batch, so batches that they accumulate for one step share a draw.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// Where the tensor of a record is.
    device: Device,
    id: ParamId,
    step: u64,
    pass: Arc<AtomicU64>,
}

/// A step number is stored as two digits in this base, which fit the smallest integer of any
/// backend.
const BASE: u64 = 1 << 30;

impl Clock {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            device: device.clone().inner(),
            id: ParamId::new(),
            step: 0,
            pass: Arc::default(),
        }
    }

    fn at(self, step: u64) -> Self {
        Self {
            step,
            pass: Arc::default(),
            ..self
        }
    }

    /// Optimiser steps made so far.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// The time of a gradient, which passes by being asked for.
    pub(crate) fn tick(&self) -> Tick {
        Tick {
            step: self.step,
            pass: self.pass.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// After one more optimiser step.
    pub(crate) fn stepped(self) -> Self {
        let step = self.step + 1;
        self.at(step)
    }

    fn param(&self) -> Param<Tensor<1, Int>> {
        let digits = [(self.step / BASE) as i32, (self.step % BASE) as i32];
        Param::initialized(self.id, Tensor::from_data(digits, &self.device))
    }
}

impl Module for Clock {
    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        visitor.visit_int(&self.param());
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let param = mapper.map_int(self.param());
        let digits: Vec<i64> = param.val().into_data().iter::<i64>().collect();
        let step = digits
            .iter()
            .fold(0, |step, &digit| step * BASE + digit.unsigned_abs());
        let clock = Self {
            id: param.id,
            ..self
        };
        if step == clock.step {
            clock
        } else {
            clock.at(step)
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
        let restored = Clock::new(&device).load_record(clock.clone().into_record());
        assert_eq!(restored.step(), clock.step());
    }

    #[test]
    fn clones_share_the_pass_and_forks_do_not() {
        let device = Device::default();
        let clock = Clock::new(&device);
        let (clone, fork) = (clock.clone(), clock.clone().fork(&device));
        assert_eq!(
            [clock.tick().pass, clone.tick().pass, fork.tick().pass],
            [0, 1, 0]
        );
        assert_eq!(clock.stepped().tick(), Tick { step: 1, pass: 0 });
    }
}
