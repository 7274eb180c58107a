//! [`Recorded`]: numbers of a training that its record stores and no device computes with.
//!
//! It is an integer tensor in records and a plain value in memory: optimisers never map it, so a step reads
//! nothing from a device.

use std::fmt;

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
    Param, ParamId,
};
use burn::tensor::{Device, Int, Tensor};

/// A value that a record stores as numbers, always equally many.
pub(crate) trait RecordedValue: Clone + fmt::Debug + Send {
    /// The numbers in a record.
    fn numbers(&self) -> Vec<u64>;

    /// The value after a record with these numbers was loaded.
    fn restored(self, numbers: &[u64]) -> Self;

    /// The value of a copy on another device.
    fn forked(self) -> Self {
        self
    }
}

impl RecordedValue for u64 {
    fn numbers(&self) -> Vec<u64> {
        vec![*self]
    }

    fn restored(self, numbers: &[u64]) -> Self {
        numbers.first().copied().unwrap_or(self)
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

/// A record has three digits of so many bits for a number, which fit the smallest integer type of all backends.
const BITS: u32 = 22;
const DIGITS: usize = 3;

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
        let digits = self.value.numbers().into_iter().flat_map(|number| {
            let digit = |at: u32| ((number >> (at * BITS)) & ((1 << BITS) - 1)) as i32;
            [digit(0), digit(1), digit(2)]
        });
        let digits: Vec<i32> = digits.collect();
        Param::initialized(self.id, Tensor::from_data(digits.as_slice(), &self.device))
    }
}

impl<T: RecordedValue> Module for Recorded<T> {
    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        visitor.visit_int(&self.param());
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        let param = mapper.map_int(self.param());
        let digits: Vec<i64> = param.val().into_data().iter::<i64>().collect();
        let numbers = digits.chunks_exact(DIGITS).map(|digits| {
            let places = digits.iter().zip(0..);
            places.fold(0, |number, (digit, at): (_, u32)| {
                number | digit.unsigned_abs() << (at * BITS)
            })
        });
        let numbers: Vec<u64> = numbers.collect();
        Self {
            id: param.id,
            value: self.value.restored(&numbers),
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
    fn a_record_restores_numbers_of_any_size() {
        let device = Device::default();
        for number in [0, 1, (1 << BITS) - 1, 1 << BITS, 3 << 40, u64::MAX] {
            let record = Recorded::new(number, &device).into_record();
            let restored = Recorded::new(5, &device).load_record(record);
            assert_eq!(restored.value(), &number);
        }
    }
}
