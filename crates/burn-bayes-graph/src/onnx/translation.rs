//! The nodes of a recording, and the names of its tensors.
//!
//! The tensor of a slot has the recorded shape in the file too, with lengths that are multiples of the number of rows. Operations
//! whose operands are all known are evaluated here.

use std::collections::{BTreeMap, BTreeSet};

use burn::backend::ir::TensorIr;
use burn::backend::ops::BoolTensorOps;
use burn::backend::{Dispatch, DispatchDevice, DispatchTensor, TensorMetadata};
use burn::tensor::{Bool, Int, Shape, Tensor, TensorData};

use super::dims::{Dim, all_fixed};
use super::traced::Traced;
use super::writer::{GraphWriter, integer};
use crate::dyn_tensor::DynTensor;
use crate::operation::{AxisRule, Operation, Slots, slot};
use crate::replay::upload;

/// The nodes of a recording.
pub(super) struct Translation<'a> {
    pub(super) traced: &'a Traced,
    pub(super) writer: &'a mut GraphWriter,
    /// The name of the number of rows, a vector of one integer.
    rows: &'a str,
    /// The tensors that have nodes.
    pub(super) names: BTreeMap<usize, String>,
    /// The values of tensors that depend on nothing.
    constants: Slots,
    is_constant: BTreeSet<usize>,
    device: &'a DispatchDevice,
}

/// The nodes of an operation, or the reason why there are none.
pub(super) type Translated<T = String> = Result<T, String>;

impl<'a> Translation<'a> {
    /// Constants are computed on `device`.
    pub(super) fn new(
        traced: &'a Traced,
        writer: &'a mut GraphWriter,
        rows: &'a str,
        device: &'a DispatchDevice,
    ) -> Self {
        let mut constants = Slots::new(traced.recording.slots.0, device.clone());
        let mut is_constant = BTreeSet::new();
        for (slot, value) in &traced.recording.constants {
            if all_fixed(traced.dims(*slot)).is_some() {
                constants.set(*slot, upload(value.clone(), device));
                is_constant.insert(*slot);
            }
        }
        Self {
            traced,
            writer,
            rows,
            names: BTreeMap::new(),
            constants,
            is_constant,
            device,
        }
    }

    /// Adds an operation.
    pub(super) fn add(&mut self, operation: &Operation) -> Translated<()> {
        let failed = |reason: String| format!("{}: {reason}", operation.name);
        if matches!(operation.axes, AxisRule::Random) {
            return Err(failed("a file has no random numbers".into()));
        }
        if self.is_evaluated(operation) {
            operation.run(&mut self.constants);
            self.is_constant.extend(operation.outputs.iter().map(slot));
            return Ok(());
        }
        let results = self.results(operation).map_err(failed)?;
        for (out, name) in operation.outputs.iter().zip(results) {
            self.names.insert(slot(out), name);
        }
        Ok(())
    }

    /// Whether the results have values that depend on nothing.
    fn is_evaluated(&self, operation: &Operation) -> bool {
        let mut outputs = operation.outputs.iter();
        operation.is_supported()
            && outputs.all(|out| all_fixed(self.traced.dims(slot(out))).is_some())
            && !operation.reads(|slot| !self.is_constant.contains(&slot))
    }

    pub(super) fn dims(&self, tensor: &TensorIr) -> &'a [Dim] {
        self.traced.dims(slot(tensor))
    }

    /// The lengths of axes that must not depend on the number of rows.
    pub(super) fn lens(&self, tensor: &TensorIr, from: usize) -> Translated<Vec<usize>> {
        all_fixed(&self.dims(tensor)[from..])
            .ok_or_else(|| "a spatial axis depends on the number of rows".into())
    }

    /// The name of an operand.
    pub(super) fn operand(&mut self, operation: &Operation, index: usize) -> Translated {
        let tensor = operation
            .inputs
            .get(index)
            .ok_or("it lacks an operand that it has in other recordings")?;
        self.named(tensor)
    }

    /// The name of a tensor.
    pub(super) fn named(&mut self, tensor: &TensorIr) -> Translated {
        self.named_slot(slot(tensor))
    }

    /// The name of the result of the recording.
    pub(super) fn result(&mut self) -> Translated {
        self.named_slot(self.traced.recording.losses)
    }

    fn named_slot(&mut self, slot: usize) -> Translated {
        if let Some(name) = self.names.get(&slot) {
            return Ok(name.clone());
        }
        let dims = self.traced.dims(slot);
        let name = match all_fixed(dims) {
            Some(shape) if self.is_constant.contains(&slot) => {
                let value = data_of(self.constants.get(slot).clone());
                self.writer.data(&shape, &value)
            }
            _ => {
                let values = self.traced.constant(slot);
                let values = values.ok_or("an operand has no value")?.to_vec();
                self.constant_of_rows(dims, &values)?
            }
        };
        self.names.insert(slot, name.clone());
        Ok(name)
    }

    /// A constant that is the same for every row, from its values at several numbers of rows.
    fn constant_of_rows(&mut self, dims: &[Dim], values: &[TensorData]) -> Translated {
        let firsts: Option<Vec<_>> = values.iter().map(|value| first_row(value, dims)).collect();
        let firsts = firsts.filter(|firsts| firsts.iter().all(|first| *first == firsts[0]));
        let Some([first, ..]) = firsts.as_deref() else {
            return Err(
                "a constant of the model has another value for every row, which a file for any number \
                 of rows cannot have; pass it in as a tensor of the batch"
                    .into(),
            );
        };
        let one = self.writer.data(&first.shape().to_vec(), first);
        let shape = self.shape(dims);
        Ok(self.plain("Expand", &[&one, &shape]))
    }

    /// A node without settings.
    pub(super) fn plain(&mut self, operator: &str, operands: &[&str]) -> String {
        self.writer.node(operator, operands, Vec::new())
    }

    /// A vector of lengths.
    pub(super) fn shape(&mut self, dims: &[Dim]) -> String {
        if let Some(lens) = all_fixed(dims) {
            return self.vector(&lens);
        }
        let pieces: Vec<_> = dims.iter().map(|dim| self.length(*dim)).collect();
        match &pieces[..] {
            [one] => one.clone(),
            _ => {
                let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
                self.writer
                    .node("Concat", &pieces, vec![integer("axis", 0)])
            }
        }
    }

    /// A vector of one length.
    fn length(&mut self, dim: Dim) -> String {
        match dim {
            Dim::Fixed(len) => self.vector(&[len]),
            Dim::Rows(1) => self.rows.to_owned(),
            Dim::Rows(each) => {
                let each = self.vector(&[each]);
                let rows = self.rows;
                self.plain("Mul", &[rows, &each])
            }
        }
    }

    pub(super) fn vector(&mut self, values: &[usize]) -> String {
        let values: Vec<_> = values.iter().map(|&value| value as i64).collect();
        self.writer.vector(&values)
    }

    /// A tensor of one number whose shape depends on the number of rows.
    pub(super) fn created(&mut self, operation: &Operation) -> Translated {
        if !operation.is_supported() || !operation.inputs.is_empty() {
            return Err("ONNX files with it are not supported".into());
        }
        // One row of it.
        let dims = self.dims(operation.out());
        let lens: Vec<_> = dims.iter().map(|dim| dim.fixed().unwrap_or(1)).collect();
        let mut one = operation.clone();
        one.outputs[0].shape = Shape::from(lens.clone());
        let mut slots = Slots::new(self.traced.recording.slots.0, self.device.clone());
        one.run(&mut slots);
        let value = data_of(slots.get(slot(one.out())).clone());
        let one = self.writer.data(&lens, &value);
        let shape = self.shape(dims);
        Ok(self.plain("Expand", &[&one, &shape]))
    }
}

/// The elements along axes of length one where those of all rows are the same. `None` if they are not.
fn first_row(value: &TensorData, dims: &[Dim]) -> Option<TensorData> {
    let shape = value.shape().to_vec();
    let is_of_rows = |axis: usize| dims[axis].fixed().is_none();
    let all: Vec<f64> = value.iter::<f64>().collect();
    let is_even = all.iter().all(|one| one.to_bits() == all[0].to_bits());
    let kept: Vec<_> = (0..shape.len())
        .map(|axis| {
            if is_of_rows(axis) || is_even {
                1
            } else {
                shape[axis]
            }
        })
        .collect();
    // The place of an element's first row.
    let first = |number: usize| {
        let (mut rest, mut place, mut stride) = (number, 0, 1);
        for axis in (0..shape.len()).rev() {
            place += (rest % shape[axis]) % kept[axis] * stride;
            rest /= shape[axis];
            stride *= shape[axis];
        }
        place
    };
    let is_same = |number: usize| all[number].to_bits() == all[first(number)].to_bits();
    if !(0..all.len()).all(is_same) {
        return None;
    }
    let firsts = (0..all.len()).filter(|&number| first(number) == number);
    let firsts: Vec<f64> = firsts.map(|number| all[number]).collect();
    Some(TensorData::new(firsts, kept).convert_dtype(value.dtype()))
}

/// The elements of a tensor.
pub(super) fn data_of(tensor: DispatchTensor) -> TensorData {
    let (dtype, shape) = (tensor.dtype(), tensor.shape());
    let flat = [shape.num_elements()];
    let data = if dtype.is_float() {
        DynTensor::new(tensor)
            .reshape(&flat)
            .typed::<1>()
            .into_data()
    } else if dtype.is_bool() {
        let flat = Dispatch::bool_reshape(tensor, Shape::from(flat.to_vec()));
        Tensor::<1, Bool>::from_dispatch(flat).into_data()
    } else {
        let flat = DynTensor::new(tensor).reshape(&flat).into_dispatch();
        Tensor::<1, Int>::from_dispatch(flat).into_data()
    };
    let (bytes, _, dtype) = data.into_parts();
    TensorData::from_bytes(bytes, shape, dtype)
}
