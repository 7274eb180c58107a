//! The tensors of one replay.

use burn::backend::ir::{TensorIr, TensorStatus};
use burn::backend::{DispatchDevice, DispatchTensor};

use super::{Operation, slot};

/// The tensors of one replay, by slot.
#[derive(Debug)]
pub(crate) struct Slots {
    values: Vec<Option<DispatchTensor>>,
    device: DispatchDevice,
}

impl Slots {
    pub(crate) fn new(len: usize, device: DispatchDevice) -> Self {
        Self {
            values: vec![None; len],
            device,
        }
    }

    /// The tensor in a slot, which the caller or an earlier operation has set.
    pub(crate) fn get(&self, slot: usize) -> &DispatchTensor {
        self.values[slot]
            .as_ref()
            .expect("operations are replayed in the order in which they were recorded")
    }

    pub(crate) fn set(&mut self, slot: usize, value: DispatchTensor) {
        self.values[slot] = Some(value);
    }

    pub(crate) fn device(&self) -> &DispatchDevice {
        &self.device
    }

    /// All slots that are set, with their tensors.
    pub(crate) fn into_filled(self) -> Vec<(usize, DispatchTensor)> {
        let values = self.values.into_iter().enumerate();
        values
            .filter_map(|(slot, value)| Some((slot, value?)))
            .collect()
    }

    /// Reads an operand.
    pub(super) fn input(&mut self, operation: &Operation, index: usize) -> DispatchTensor {
        self.read(&operation.inputs[index])
    }

    /// Reads an optional operand.
    pub(super) fn optional_input(
        &mut self,
        operation: &Operation,
        index: usize,
    ) -> Option<DispatchTensor> {
        operation.inputs.get(index).map(|input| self.read(input))
    }

    /// Reads a tensor. The last use takes it out of its slot, so that operations can work in place.
    pub(super) fn read(&mut self, operand: &TensorIr) -> DispatchTensor {
        let slot = slot(operand);
        match operand.status {
            TensorStatus::ReadWrite => self.values[slot].take(),
            TensorStatus::ReadOnly | TensorStatus::NotInit => self.values[slot].clone(),
        }
        .expect("operations are replayed in the order in which they were recorded")
    }

    pub(super) fn write(&mut self, out: &TensorIr, value: DispatchTensor) {
        self.set(slot(out), value);
    }
}
