//! [`Recorded`]: a number of a training that its record stores and no device computes with.
//!
//! It is an integer tensor in records and a plain value in memory: optimisers never map it, so a step reads
//! nothing from a device.

use std::fmt;

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
    Param, ParamId,
};
use burn::tensor::{Device, Int, Tensor};

/// A value that a record stores as a number below 2⁶¹.
pub(crate) trait RecordedValue: Clone + fmt::Debug + Send {
    /// The number in a record.
    fn number(&self) -> u64;

    /// The value after a record with this number was loaded.
    fn restored(self, number: u64) -> Self;

    /// The value of a copy on another device.
    fn forked(self) -> Self {
        self
    }
}

impl RecordedValue for u64 {
    fn number(&self) -> u64 {
        *self
    }

    fn restored(self, number: u64) -> Self {
        number
    }
}

/// A module whose only content is a value on the host.
#[derive(Clone, Debug)]
pub(crate) struct Recorded<T> {
    /// The device of the tensor in a record.
    device: Device,
    id: ParamId,
    value: T,
}

/// A record has two digits in this base, which fit the smallest integer type of all backends.
const BASE: u64 = 1 << 30;

impl<T: RecordedValue> Recorded<T> {
    pub(crate) fn new(value: T, device: &Device) -> Self {
        Self {
            device: device.clone().inner(),
            id: ParamId::new(),
            value,
        }
    }

    pub(crate) fn value(&self) -> &T {
        &self.value
    }

    pub(crate) fn with_value(self, value: T) -> Self {
        Self { value, ..self }
    }

    fn param(&self) -> Param<Tensor<1, Int>> {
        let number = self.value.number();
        let digits = [(number / BASE) as i32, (number % BASE) as i32];
        Param::initialized(self.id, Tensor::from_data(digits, &self.device))
    }
}

impl<T: RecordedValue> Module for Recorded<T> {
    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        visitor.visit_int(&self.param());
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let param = mapper.map_int(self.param());
        let digits: Vec<i64> = param.val().into_data().iter::<i64>().collect();
        let digit = |at: usize| digits.get(at).map_or(0, |digit| digit.unsigned_abs());
        Self {
            id: param.id,
            value: self.value.restored(digit(0) * BASE + digit(1)),
            ..self
        }
    }

    fn to_device(self, device: &Device) -> Self {
        Self {
            device: device.clone().inner(),
            ..self
        }
    }

    fn fork(self, device: &Device) -> Self {
        let value = self.value.clone().forked();
        self.to_device(device).with_value(value)
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

impl<T: RecordedValue> ModuleDisplayDefault for Recorded<T> {
    fn content(&self, content: Content) -> Option<Content> {
        content.add_formatted(&self.to_string()).optional()
    }
}

impl<T: RecordedValue> ModuleDisplay for Recorded<T> {}

impl<T: fmt::Debug> fmt::Display for Recorded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_restores_numbers_of_one_and_of_two_digits() {
        let device = Device::default();
        for number in [0, 1, BASE - 1, BASE, 3 * BASE + 17, (1 << 61) - 1] {
            let record = Recorded::new(number, &device).into_record();
            let restored = Recorded::new(5, &device).load_record(record);
            assert_eq!(restored.value(), &number);
        }
    }
}
