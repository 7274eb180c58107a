//! Rewrites the operations that hide an element-wise use of a parameter inside a larger one.
//!
//! Layer norm and batch norm scale and shift by parameters. As two operations more, multiplication
//! and addition, those parameters meet the batch as any other does.

use std::collections::BTreeSet;

use burn::backend::ir::{
    BaseOperationIr, BinaryOpIr, ModuleOperationIr, NumericOperationIr, OperationIr, ShapeOpIr,
    TensorId, TensorIr, TensorStatus,
};
use burn::tensor::{Shape, TensorData};

use crate::capture::Recording;

/// The recording with the scales and shifts of normalisations as operations of their own, where they
/// come from parameters of the layout; `parameters` says which of the module's tensors are.
pub(crate) fn lowered(mut recording: Recording, parameters: &[Option<usize>]) -> Recording {
    let held = recording.held.iter().zip(parameters);
    let mut wanted: BTreeSet<usize> = held
        .filter_map(|(slot, parameter)| parameter.map(|_| *slot))
        .collect();
    for operation in std::mem::take(&mut recording.operations) {
        if operation
            .inputs()
            .any(|input| wanted.contains(&slot(input)))
        {
            wanted.extend(operation.outputs().map(slot));
        }
        match parts(&operation, &wanted, &mut recording) {
            Some(parts) => recording.operations.extend(parts),
            None => recording.operations.push(operation),
        }
    }
    recording
}

pub(crate) fn slot(tensor: &TensorIr) -> usize {
    tensor.id.value() as usize
}

fn parts(
    operation: &OperationIr,
    wanted: &BTreeSet<usize>,
    recording: &mut Recording,
) -> Option<Vec<OperationIr>> {
    let OperationIr::Module(module) = operation else {
        return None;
    };
    let mut module = module.clone();
    let (gamma, beta, out, channel) = match &mut module {
        ModuleOperationIr::LayerNorm(op) => {
            let last = op.input.shape.num_dims() - 1;
            (&mut op.gamma, op.beta.take(), &mut op.out, last)
        }
        ModuleOperationIr::BatchNorm(op) => (&mut op.gamma, Some(op.beta.clone()), &mut op.out, 1),
        _ => return None,
    };
    let is_wanted = |tensor: &TensorIr| wanted.contains(&slot(tensor));
    if !is_wanted(gamma) && !beta.as_ref().is_some_and(is_wanted) {
        return None;
    }
    let (result, scale, shift) = (out.clone(), gamma.clone(), beta);
    let mut across = vec![1; result.shape.num_dims()];
    across[channel] = scale.shape.num_elements();
    *gamma = recording.filled(&scale, 1.0);
    *out = recording.tensor(&result, &result.shape);
    let normalised = out.clone();
    if let ModuleOperationIr::BatchNorm(op) = &mut module {
        op.beta = recording.filled(&scale, 0.0);
    }
    let scaled = match &shift {
        Some(_) => recording.tensor(&result, &result.shape),
        None => result.clone(),
    };
    let factor = recording.tensor(&scale, &across);
    let mut operations = vec![
        OperationIr::Module(module),
        reshape(scale, factor.clone()),
        binary(NumericOperationIr::Mul, normalised, factor, scaled.clone()),
    ];
    if let Some(shift) = shift {
        let summand = recording.tensor(&shift, &across);
        operations.push(reshape(shift, summand.clone()));
        operations.push(binary(NumericOperationIr::Add, scaled, summand, result));
    }
    Some(operations)
}

impl Recording {
    /// A new tensor of the type of `like`.
    pub(crate) fn tensor(&mut self, like: &TensorIr, shape: &[usize]) -> TensorIr {
        let number = self.slots;
        self.slots += 1;
        TensorIr {
            id: TensorId::new(number as u64),
            shape: Shape::from(shape.to_vec()),
            status: TensorStatus::ReadOnly,
            dtype: like.dtype,
        }
    }

    /// A new constant of the shape of `like`.
    fn filled(&mut self, like: &TensorIr, value: f32) -> TensorIr {
        let tensor = self.tensor(like, &like.shape);
        let data = TensorData::full(like.shape.clone(), value).convert_dtype(like.dtype);
        self.constants.push((slot(&tensor), data));
        tensor
    }
}

pub(crate) fn reshape(input: TensorIr, out: TensorIr) -> OperationIr {
    let shape = ShapeOpIr { input, out };
    OperationIr::BaseFloat(BaseOperationIr::Reshape(shape))
}

fn binary(
    operation: fn(BinaryOpIr) -> NumericOperationIr,
    lhs: TensorIr,
    rhs: TensorIr,
    out: TensorIr,
) -> OperationIr {
    OperationIr::NumericFloat(out.dtype, operation(BinaryOpIr { lhs, rhs, out }))
}
