//! Every operation as nodes.

use burn::tensor::{Slice, TensorData};
use burn_bayes_program::Expr;

use super::dims::Dim;
use super::formula::{Named, formula};
use super::message::{Attribute, Kind};
use super::translation::{Translated, Translation};
use super::writer::{integer, integers, kind_of, number};
use crate::operation::{AxisRule, Compiled, Operation};

impl Translation<'_> {
    /// The names of the results.
    pub(super) fn results(&mut self, operation: &Operation) -> Translated<Vec<String>> {
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
                    Expr::Constant(value) => *value,
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
        settings: Vec<Attribute>,
    ) -> Translated {
        let operands = operation.inputs.iter();
        let operands: Translated<Vec<_>> = operands.map(|input| self.named(input)).collect();
        let operands = operands?;
        let operands: Vec<_> = operands.iter().map(String::as_str).collect();
        Ok(self.writer.node(operator, &operands, settings))
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
            Kind::Float => self.writer.numbers(&[], &[value]),
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
