//! Splits normalisations into the normalisation itself, a product and a sum.
//!
//! Layer norm and batch norm scale and shift by parameters. After the split, element-wise operations use
//! these parameters, for which there are rules.

use std::collections::BTreeSet;

use burn::backend::ir::TensorIr;
use burn::tensor::TensorData;

use crate::capture::Recording;
use crate::operation::{AxisRule, Operation, slot};
use crate::parameters::parameter_slots;

/// Splits the normalisations whose scale or shift depends on parameters of the layout. `parameters` marks
/// these among the module's tensors.
pub(crate) fn lowered(mut recording: Recording, parameters: &[Option<usize>]) -> Recording {
    let mut wanted = parameter_slots(&recording.module_tensors, parameters);
    for operation in std::mem::take(&mut recording.operations) {
        if operation.reads(|slot| wanted.contains(&slot)) {
            wanted.extend(operation.outputs.iter().map(slot));
        }
        let operations = split(operation, &wanted, &mut recording);
        recording.operations.extend(operations);
    }
    recording
}

/// Splits a normalisation if its scale or shift is wanted. Returns any other operation unchanged.
fn split(
    mut operation: Operation,
    wanted: &BTreeSet<usize>,
    recording: &mut Recording,
) -> Vec<Operation> {
    let result = operation.out().clone();
    let channel = match operation.axes {
        AxisRule::LayerNorm => result.shape.num_dims() - 1,
        AxisRule::BatchNorm => 1,
        _ => return vec![operation],
    };
    let (scale, shift) = (
        operation.inputs[1].clone(),
        operation.inputs.get(2).cloned(),
    );
    let is_wanted = |tensor: &TensorIr| wanted.contains(&slot(tensor));
    if !is_wanted(&scale) && !shift.as_ref().is_some_and(is_wanted) {
        return vec![operation];
    }
    operation.inputs[1] = recording.filled(&scale, 1.0);
    match operation.axes {
        AxisRule::BatchNorm => operation.inputs[2] = recording.filled(&scale, 0.0),
        _ => operation.inputs.truncate(2),
    }
    let normalised = recording.slots.tensor(&result, &result.shape);
    operation.outputs = vec![normalised.clone()];
    let mut across = vec![1; result.shape.num_dims()];
    across[channel] = scale.shape.num_elements();
    let scaled = match &shift {
        Some(_) => recording.slots.tensor(&result, &result.shape),
        None => result.clone(),
    };
    let factor = recording.slots.tensor(&scale, &across);
    let mut operations = vec![
        operation,
        Operation::reshape(scale, factor.clone()),
        Operation::mul(normalised, factor, scaled.clone()),
    ];
    if let Some(shift) = shift {
        let summand = recording.slots.tensor(&shift, &across);
        operations.push(Operation::reshape(shift, summand.clone()));
        operations.push(Operation::add(scaled, summand, result));
    }
    operations
}

impl Recording {
    /// A new constant tensor with the shape of `like`.
    fn filled(&mut self, like: &TensorIr, value: f32) -> TensorIr {
        let tensor = self.slots.tensor(like, &like.shape);
        let data = TensorData::full(like.shape.clone(), value).convert_dtype(like.dtype);
        self.constants.push((slot(&tensor), data));
        tensor
    }
}
