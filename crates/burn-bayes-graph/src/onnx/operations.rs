//! Every operation as nodes.
//!
//! The tensor of a slot has the recorded shape in the file too, with lengths that are multiples of the number of rows.

use std::collections::{BTreeMap, BTreeSet};

use burn::backend::ir::TensorIr;
use burn::backend::ops::BoolTensorOps;
use burn::backend::{Dispatch, DispatchDevice, DispatchTensor};
use burn::tensor::{Bool, Int, Shape, Slice, Tensor, TensorData};

use super::dims::{Dim, all_fixed};
use super::formula::{Named, formula};
use super::traced::Traced;
use super::writer::{GraphWriter, integer, integers, kind_of, number};
use crate::dyn_tensor::DynTensor;
use crate::operation::{AxisRule, Compiled, Operation, Slots, slot};
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
type Translated<T = String> = Result<T, String>;

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

    /// The name of the tensor of a slot.
    pub(super) fn named(&mut self, tensor: &TensorIr) -> Translated {
        let slot = slot(tensor);
        if let Some(name) = self.names.get(&slot) {
            return Ok(name.clone());
        }
        let name = if self.is_constant.contains(&slot) {
            let value = data_of(self.constants.get(slot).clone());
            self.writer.data(&tensor.shape, &value)
        } else {
            let values = self.traced.constant(slot);
            let values = values.ok_or("an operand has no value")?.to_vec();
            self.constant_of_rows(self.traced.dims(slot), &values)?
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
    fn shape(&mut self, dims: &[Dim]) -> String {
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

    /// The names of the results.
    fn results(&mut self, operation: &Operation) -> Translated<Vec<String>> {
        let one = |name| Ok(vec![name]);
        let refused = || Err("ONNX files with it are not supported".to_owned());
        match (&*operation.compiled, &operation.axes) {
            (_, AxisRule::Creation) => one(self.created(operation)?),
            (Compiled::No, _) => refused(),
            (Compiled::Map(expr), _) => {
                let operands = 0..operation.inputs.len();
                let operands: Translated<Vec<_>> = operands
                    .map(|index| {
                        Ok(Named {
                            name: self.operand(operation, index)?,
                            kind: kind_of(operation.inputs[index].dtype),
                        })
                    })
                    .collect();
                let kind = kind_of(operation.out().dtype);
                match formula(self.writer, expr, &operands?, kind) {
                    Some(name) => one(name),
                    None => refused(),
                }
            }
            (Compiled::Sum { is_mean }, AxisRule::Along(over)) => {
                let x = self.operand(operation, 0)?;
                one(self.sum(&x, over, *is_mean))
            }
            (
                Compiled::Extreme {
                    is_largest,
                    is_index,
                },
                AxisRule::Along(over),
            ) => {
                let x = self.operand(operation, 0)?;
                Ok(self.extreme(&x, over, *is_largest, *is_index))
            }
            (Compiled::Softmax { is_log, is_negated }, AxisRule::Along(over)) => {
                let mut x = self.operand(operation, 0)?;
                if *is_negated {
                    x = self.plain("Neg", &[&x]);
                }
                let operator = if *is_log { "LogSoftmax" } else { "Softmax" };
                one(self
                    .writer
                    .node(operator, &[&x], vec![integer("axis", over[0])]))
            }
            (Compiled::Normalise { epsilon }, rule) => {
                let operator = match rule {
                    AxisRule::LayerNorm => "LayerNormalization",
                    AxisRule::BatchNorm => "BatchNormalization",
                    _ => return refused(),
                };
                let settings = vec![number("epsilon", *epsilon as f32)];
                one(self.of_all(operator, operation, settings)?)
            }
            (Compiled::Pool(pool), _) => one(self.pooled(operation, pool)?),
            (Compiled::Pad { padding, value }, _) => {
                let value = match value {
                    burn_bayes_program::Expr::Constant(value) => *value,
                    _ => return refused(),
                };
                one(self.pad(operation, padding, value)?)
            }
            (_, rule) => one(self.by_rule(operation, rule)?),
        }
    }

    /// What the rule for axes says.
    fn by_rule(&mut self, operation: &Operation, rule: &AxisRule) -> Translated {
        Ok(match rule {
            AxisRule::Reshape => {
                let x = self.operand(operation, 0)?;
                self.reshaped(&x, self.dims(operation.out()))
            }
            AxisRule::Permute(axes) => {
                let axes = integers("perm", axes.iter().copied());
                self.of_all("Transpose", operation, vec![axes])?
            }
            AxisRule::Expand => {
                let x = self.operand(operation, 0)?;
                let shape = self.shape(self.dims(operation.out()));
                self.plain("Expand", &[&x, &shape])
            }
            AxisRule::Slice(ranges) => self.sliced(operation, ranges)?,
            AxisRule::SliceAssign(ranges) => self.slice_assigned(operation, ranges)?,
            AxisRule::Flip(axes) => self.flipped(operation, axes)?,
            AxisRule::Cat(axis) => {
                self.of_all("Concat", operation, vec![integer("axis", *axis)])?
            }
            AxisRule::Repeat(..) => self.repeated(operation)?,
            AxisRule::Select(axis) => {
                self.of_all("Gather", operation, vec![integer("axis", *axis)])?
            }
            AxisRule::Embedding => self.of_all("Gather", operation, vec![integer("axis", 0)])?,
            AxisRule::Gather(axis) => {
                self.of_all("GatherElements", operation, vec![integer("axis", *axis)])?
            }
            AxisRule::Matmul => self.of_all("MatMul", operation, Vec::new())?,
            AxisRule::Linear => {
                let (x, weight) = (self.operand(operation, 0)?, self.operand(operation, 1)?);
                let product = self.plain("MatMul", &[&x, &weight]);
                match operation.inputs.len() {
                    2 => product,
                    _ => {
                        let bias = self.operand(operation, 2)?;
                        self.plain("Add", &[&product, &bias])
                    }
                }
            }
            AxisRule::Convolution(options) => self.convolution(operation, options)?,
            _ => return Err("ONNX files with it are not supported".into()),
        })
    }

    /// A node of all operands.
    pub(super) fn of_all(
        &mut self,
        operator: &str,
        operation: &Operation,
        settings: Vec<super::message::Attribute>,
    ) -> Translated {
        let operands = operation.inputs.iter();
        let operands: Translated<Vec<_>> = operands.map(|input| self.named(input)).collect();
        let operands = operands?;
        let operands: Vec<_> = operands.iter().map(String::as_str).collect();
        Ok(self.writer.node(operator, &operands, settings))
    }

    /// A tensor of one number whose shape depends on the number of rows.
    fn created(&mut self, operation: &Operation) -> Translated {
        if !operation.is_supported() || !operation.inputs.is_empty() {
            return Err("ONNX files with it are not supported".into());
        }
        let mut slots = Slots::new(self.traced.recording.slots.0, self.device.clone());
        operation.run(&mut slots);
        let value = data_of(slots.get(slot(operation.out())).clone());
        self.constant_of_rows(self.dims(operation.out()), &[value])
    }

    pub(super) fn reshaped(&mut self, x: &str, dims: &[Dim]) -> String {
        let of_rows = dims.iter().filter(|dim| dim.fixed().is_none()).count();
        let shape = match of_rows {
            0 | 1 => {
                let lens = dims
                    .iter()
                    .map(|dim| dim.fixed().map_or(-1, |len| len as i64));
                let lens: Vec<_> = lens.collect();
                self.writer.vector(&lens)
            }
            _ => self.shape(dims),
        };
        self.plain("Reshape", &[x, &shape])
    }

    fn sum(&mut self, x: &str, over: &[usize], is_mean: bool) -> String {
        let keep = integer("keepdims", 1);
        if is_mean {
            let axes = integers("axes", over.iter().copied());
            return self.writer.node("ReduceMean", &[x], vec![axes, keep]);
        }
        let axes = self.vector(over);
        self.writer.node("ReduceSum", &[x, &axes], vec![keep])
    }

    /// The largest or smallest entries, and their indices.
    fn extreme(
        &mut self,
        x: &str,
        over: &[usize],
        is_largest: bool,
        is_index: bool,
    ) -> Vec<String> {
        let keep = || integer("keepdims", 1);
        let [of_value, of_index] = match is_largest {
            true => ["ReduceMax", "ArgMax"],
            false => ["ReduceMin", "ArgMin"],
        };
        let settings = vec![integer("axis", over[0]), keep()];
        let index = self.writer.node(of_index, &[x], settings);
        if is_index {
            return vec![index];
        }
        let settings = vec![integers("axes", over.iter().copied()), keep()];
        vec![self.writer.node(of_value, &[x], settings), index]
    }

    fn sliced(&mut self, operation: &Operation, ranges: &[Slice]) -> Translated {
        let x = self.operand(operation, 0)?;
        let dims = self.dims(&operation.inputs[0]);
        let [mut starts, mut ends, mut axes, mut steps] = [const { Vec::new() }; 4];
        for (axis, range) in ranges.iter().enumerate() {
            let Some(len) = whole_or_fixed(range, dims[axis], self.dims(operation.out())[axis])?
            else {
                continue;
            };
            let bounds = range.to_range(len);
            let (start, end) = match range.step < 0 {
                // To before the first element: before its index from the end.
                true if bounds.start == 0 => (bounds.end as i64 - 1, -(len as i64) - 1),
                true => (bounds.end as i64 - 1, bounds.start as i64 - 1),
                false => (bounds.start as i64, bounds.end as i64),
            };
            starts.push(start);
            ends.push(end);
            axes.push(axis as i64);
            steps.push(range.step as i64);
        }
        Ok(self.slice(&x, [&starts, &ends, &axes, &steps]))
    }

    fn flipped(&mut self, operation: &Operation, over: &[usize]) -> Translated {
        let x = self.operand(operation, 0)?;
        let dims = self.dims(operation.out());
        let lens: Option<Vec<_>> = over.iter().map(|&axis| dims[axis].fixed()).collect();
        let lens = lens.ok_or("it reverses the rows")?;
        let starts = vec![-1; over.len()];
        let ends: Vec<_> = lens.iter().map(|&len| -(len as i64) - 1).collect();
        let axes: Vec<_> = over.iter().map(|&axis| axis as i64).collect();
        Ok(self.slice(&x, [&starts, &ends, &axes, &starts]))
    }

    /// Starts, ends, axes and steps.
    fn slice(&mut self, x: &str, parts: [&[i64]; 4]) -> String {
        if parts[2].is_empty() {
            return self.plain("Identity", &[x]);
        }
        let [starts, ends, axes, steps] = parts.map(|part| self.writer.vector(part));
        self.plain("Slice", &[x, &starts, &ends, &axes, &steps])
    }

    fn slice_assigned(&mut self, operation: &Operation, ranges: &[Slice]) -> Translated {
        let (x, value) = (self.operand(operation, 0)?, self.operand(operation, 1)?);
        let dims = self.dims(operation.out());
        let of_value = self.dims(&operation.inputs[1]);
        let mut padding = vec![(0, 0); dims.len()];
        // Which elements are replaced: along the axis of rows all of them.
        let mut mask = vec![1; dims.len()];
        for (axis, range) in ranges.iter().enumerate() {
            let Some(len) = whole_or_fixed(range, dims[axis], of_value[axis])? else {
                continue;
            };
            if range.step != 1 {
                return Err("it has steps".into());
            }
            let range = range.to_range(len);
            padding[axis] = (range.start, len - range.end);
            mask[axis] = len;
        }
        let is_replaced = |mut number: usize| {
            let mut all = true;
            for axis in (0..mask.len()).rev() {
                let index = number % mask[axis];
                number /= mask[axis];
                let (before, after) = padding[axis];
                all &= (before..mask[axis] - after).contains(&index);
            }
            all
        };
        let count = mask.iter().product();
        let chosen: Vec<bool> = (0..count).map(is_replaced).collect();
        let chosen = TensorData::new(chosen, mask.clone());
        let chosen = self.writer.data(&mask, &chosen);
        let placed = self.padded(&value, &padding, None);
        Ok(self.plain("Where", &[&chosen, &placed, &x]))
    }

    fn repeated(&mut self, operation: &Operation) -> Translated {
        let x = self.operand(operation, 0)?;
        let (from, to) = (self.dims(&operation.inputs[0]), self.dims(operation.out()));
        let whole = |to: usize, from: usize| to.is_multiple_of(from).then_some(to / from);
        let times = from.iter().zip(to).map(|(from, to)| match (*from, *to) {
            (Dim::Fixed(from), Dim::Fixed(to)) => whole(to, from).map(Dim::Fixed),
            (Dim::Rows(from), Dim::Rows(to)) => whole(to, from).map(Dim::Fixed),
            (Dim::Fixed(from), Dim::Rows(to)) => whole(to, from).map(Dim::Rows),
            (Dim::Rows(_), Dim::Fixed(_)) => None,
        });
        let times: Option<Vec<_>> = times.collect();
        let times = times.ok_or("the number of copies depends on the number of rows")?;
        let times = self.shape(&times);
        Ok(self.plain("Tile", &[&x, &times]))
    }

    fn pad(&mut self, operation: &Operation, padding: &[(usize, usize)], value: f32) -> Translated {
        let x = self.operand(operation, 0)?;
        let value = match kind_of(operation.out().dtype) {
            super::message::Kind::Float => self.writer.numbers(&[], &[value]),
            _ => self.writer.integers(&[], &[value as i64]),
        };
        Ok(self.padded(&x, padding, Some(&value)))
    }

    /// Padding before and after every axis; with zeros if there is no value.
    pub(super) fn padded(
        &mut self,
        x: &str,
        padding: &[(usize, usize)],
        value: Option<&str>,
    ) -> String {
        if padding.iter().all(|&(before, after)| before + after == 0) {
            return x.to_owned();
        }
        let (before, after): (Vec<_>, Vec<_>) = padding.iter().copied().unzip();
        let sizes = self.vector(&[before, after].concat());
        let operands: Vec<_> = [x, &sizes].into_iter().chain(value).collect();
        self.plain("Pad", &operands)
    }
}

/// The length of an axis that is sliced; `None` if the whole axis of rows is kept.
fn whole_or_fixed(range: &Slice, from: Dim, to: Dim) -> Result<Option<usize>, String> {
    match from {
        Dim::Fixed(len) => Ok(Some(len)),
        Dim::Rows(_) if from == to && range.step == 1 => Ok(None),
        Dim::Rows(_) => Err("it takes some of the rows".into()),
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
    use burn::backend::TensorMetadata;
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
