//! Every operation as values of a program's graph.

use std::collections::BTreeMap;

use burn::backend::ir::TensorIr;
use burn::tensor::Slice;
use burn_bayes_program::{Axis, Expr, Graph, Unary, Value};

use crate::axis::{ExampleAxis, follow};
use crate::operation::{AxisRule, Compiled, Operation, slot};
use crate::plan::{ExampleCopy, Tap};

/// The values of the slots, as far as operations were added.
#[derive(Default)]
pub(super) struct Values {
    pub(super) graph: Graph,
    pub(super) of: BTreeMap<usize, Value>,
    /// The example axis of the slots that have one.
    pub(super) axes: BTreeMap<usize, ExampleAxis>,
    pub(super) examples: usize,
    /// The numbers of the running statistics of batch norm in training mode, by slot.
    pub(super) running: BTreeMap<usize, usize>,
    /// The statistics of the batch for these, in the order of evaluation.
    pub(super) statistics: Vec<(usize, Value)>,
}

impl Values {
    fn axis(&self, tensor: &TensorIr) -> Option<ExampleAxis> {
        self.axes.get(&slot(tensor)).copied()
    }

    /// The axes of a tensor; `None` if rows cannot be told apart.
    pub(super) fn axes_of(shape: &[usize], examples: Option<ExampleAxis>) -> Option<Vec<Axis>> {
        if shape.contains(&0) {
            return None;
        }
        let mut axes: Vec<_> = shape.iter().map(|&len| Axis::fixed(len)).collect();
        if let Some(ExampleAxis { axis, outer, inner }) = examples {
            if outer > 1 {
                return None;
            }
            axes[axis] = Axis::rows(inner);
        }
        Some(axes)
    }

    pub(super) fn value(&self, operation: &Operation, index: usize) -> Option<Value> {
        self.of.get(&slot(operation.inputs.get(index)?)).cloned()
    }

    /// An operand of an operation that combines equal axes. Where all entries of its axis of examples are one and the
    /// same, only one is left.
    fn aligned(&self, operation: &Operation, index: usize, axes: &[Axis]) -> Option<Value> {
        let value = self.value(operation, index)?;
        let rows = axes.iter().position(|axis| axis.per_row);
        Some(match rows {
            Some(rows)
                if !value.is_per_row()
                    && value.axes().len() == axes.len()
                    && value.axes()[rows].len == axes[rows].len * self.examples
                    && value.is_repeated(rows) =>
            {
                value.sliced(rows, 0, 1, 1)
            }
            _ => value,
        })
    }

    fn all_aligned(&self, operation: &Operation, axes: &[Axis]) -> Option<Vec<Value>> {
        let operands = 0..operation.inputs.len();
        operands
            .map(|index| self.aligned(operation, index, axes))
            .collect()
    }

    /// Adds an operation; `None` if there is no way to compile it.
    pub(super) fn add(&mut self, operation: &Operation) -> Option<()> {
        let has_examples = |input: &TensorIr| self.axis(input).is_some();
        let examples = if operation.inputs.iter().any(has_examples) {
            Some(follow(operation, self.examples, |tensor| self.axis(tensor)).ok()?)
        } else {
            None
        };
        let axes = Self::axes_of(&operation.out().shape, examples)?;
        let values = self.results(operation, &axes)?;
        for (out, value) in operation.outputs.iter().zip(values) {
            let expected = Self::axes_of(&out.shape, examples)?;
            // A value that is broadcast keeps its axes of length one.
            self.of.insert(slot(out), value.expanded(&expected)?);
            if let Some(examples) = examples {
                self.axes.insert(slot(out), examples);
            }
        }
        Some(())
    }

    /// Adds the bias of a product with a tap.
    pub(super) fn add_tap(&mut self, tap: &Tap) -> Option<()> {
        let mut value = self.of.get(&tap.product)?.clone();
        if let Some(bias) = &tap.bias {
            let shape: Vec<_> = bias.shape.iter().map(|&len| Axis::fixed(len)).collect();
            let bias = self.of.get(&bias.slot)?.clone();
            let bias = self.graph.reshaped(&bias, &shape)?;
            value = self.plus(value, bias)?;
        }
        self.of.insert(slot(&tap.output), value);
        self.axes.insert(slot(&tap.output), tap.output_axis);
        Some(())
    }

    /// Adds one copy of a parameter for each example.
    pub(super) fn add_copy(&mut self, copied: &ExampleCopy) -> Option<()> {
        let axes = Self::axes_of(&copied.shape, Some(copied.axis))?;
        let source = self.of.get(&copied.source)?.expanded(&axes)?;
        let copy = self.graph.copied(source);
        self.of.insert(copied.target, copy);
        self.axes.insert(copied.target, copied.axis);
        Some(())
    }

    /// The results, whose first has these axes.
    fn results(&mut self, operation: &Operation, axes: &[Axis]) -> Option<Vec<Value>> {
        let x = self.value(operation, 0)?;
        let value = match (&*operation.compiled, &operation.axes) {
            (Compiled::No, _) => return None,
            (Compiled::Map(formula), _) => {
                let operands = self.all_aligned(operation, axes)?;
                self.graph.map(formula.clone(), &operands)?
            }
            (Compiled::Sum { is_mean }, AxisRule::Along(over)) => {
                let count: usize = over.iter().map(|&axis| x.axes()[axis].len).product();
                let sum = self.graph.sum(&x, over);
                if *is_mean {
                    self.scaled(&sum, 1.0 / count as f32)?
                } else {
                    sum
                }
            }
            (
                Compiled::Extreme {
                    is_largest,
                    is_index,
                },
                AxisRule::Along(over),
            ) => {
                let [value, index] = self.graph.extreme(&x, over, *is_largest);
                return Some(match is_index {
                    true => vec![index],
                    false => vec![value, index],
                });
            }
            (Compiled::Softmax { is_log, is_negated }, AxisRule::Along(over)) => {
                let x = if *is_negated {
                    self.scaled(&x, -1.0)?
                } else {
                    x
                };
                self.graph.softmax(&x, over[0], *is_log)
            }
            (Compiled::Normalise { epsilon }, AxisRule::LayerNorm) => {
                self.layer_norm(operation, &x, *epsilon)?
            }
            (Compiled::Normalise { epsilon }, _) => self.batch_norm(operation, &x, *epsilon)?,
            (Compiled::Pool(pool), _) => self.pooled(&x, pool, axes)?,
            (Compiled::Pad { padding, value }, _) => self.padded(&x, padding, value)?,
            (_, AxisRule::Reshape) => self.graph.reshaped(&x, axes)?,
            (_, AxisRule::Permute(order)) => x.permuted(order),
            (_, AxisRule::Expand) => x.expanded(axes)?,
            (_, AxisRule::Slice(ranges)) => sliced(&x, ranges, &operation.inputs[0].shape),
            (_, AxisRule::SliceAssign(ranges)) => {
                let value = self.value(operation, 1)?;
                self.slice_assigned(&x, &value, ranges, &operation.inputs[0].shape)?
            }
            (_, AxisRule::Flip(over)) => over.iter().fold(x, |x, &axis| {
                let len = x.axes()[axis].len;
                x.sliced(axis, len - 1, -1, len)
            }),
            (_, AxisRule::Cat(axis)) => {
                let parts = self.all_aligned(operation, axes)?;
                self.concatenated(parts, *axis, axes)?
            }
            (_, AxisRule::Repeat(axis, times)) => {
                let mut repeated = axes.to_vec();
                repeated.splice(*axis..=*axis, [Axis::fixed(*times), x.axes()[*axis]]);
                let repeated = x.inserted(*axis).expanded(&repeated)?;
                self.graph.reshaped(&repeated, axes)?
            }
            (_, AxisRule::Select(axis)) => {
                let mut index = self.value(operation, 1)?;
                for _ in axis + 1..x.axes().len() {
                    index = index.inserted(index.axes().len());
                }
                self.graph.picked(&x, &index, *axis)?
            }
            (_, AxisRule::Gather(axis)) => {
                let index = self.value(operation, 1)?;
                let mut table = x;
                for (other, to) in index.axes().iter().enumerate() {
                    if other != *axis && !to.per_row && table.axes()[other].len > to.len {
                        table = table.sliced(other, 0, 1, to.len);
                    }
                }
                self.graph.picked(&table, &index, *axis)?
            }
            (_, AxisRule::Embedding) => {
                let index = self.value(operation, 1)?;
                let rank = index.axes().len();
                let index = index.inserted(rank);
                let table = (1..rank).fold(x, |table, _| table.inserted(0));
                self.graph.picked(&table, &index, rank - 1)?
            }
            (_, AxisRule::Matmul) => {
                let left = self.aligned(operation, 0, axes)?;
                let right = self.aligned(operation, 1, axes)?;
                self.matmul(&left, &right)?
            }
            (_, AxisRule::Convolution(options)) => {
                self.convolution(operation, &x, options, axes)?
            }
            (_, AxisRule::Linear) => {
                let weight = self.value(operation, 1)?;
                let product = self.matmul(&x, &weight)?;
                match self.value(operation, 2) {
                    Some(bias) => self.plus(product, bias)?,
                    None => product,
                }
            }
            _ => return None,
        };
        Some(vec![value])
    }

    pub(super) fn plus(&mut self, value: Value, other: Value) -> Option<Value> {
        let sum = Expr::Operand(0) + Expr::Operand(1);
        self.graph.map(sum, &[value, other])
    }

    fn scaled(&mut self, value: &Value, factor: f32) -> Option<Value> {
        let scaled = Expr::Operand(0) * Expr::Constant(factor);
        self.graph.map(scaled, std::slice::from_ref(value))
    }

    /// `[…, m, k]` times `[…, k, n]`.
    fn matmul(&mut self, left: &Value, right: &Value) -> Option<Value> {
        let left = left.inserted(left.axes().len());
        let right = right.inserted(right.axes().len() - 2);
        let over = left.axes().len().max(right.axes().len()) - 2;
        let product = self.graph.product(&left, &right, &[over])?;
        Some(product.removed(over))
    }

    fn layer_norm(&mut self, operation: &Operation, x: &Value, epsilon: f64) -> Option<Value> {
        let last = x.axes().len() - 1;
        let share = 1.0 / x.axes()[last].len as f32;
        let sum = self.graph.sum(x, &[last]);
        let centred = Expr::Operand(0) - Expr::Operand(1) * Expr::Constant(share);
        let centred = self.graph.map(centred, &[x.clone(), sum])?;
        let square = Expr::Operand(0) * Expr::Operand(0);
        let squares = self.graph.map(square, std::slice::from_ref(&centred))?;
        let variance = self.graph.sum(&squares, &[last]);
        let variance_of = Expr::Operand(1) * Expr::Constant(share);
        let deviation = (variance_of + Expr::Constant(epsilon as f32)).apply(Unary::Sqrt);
        let normal = Expr::Operand(0) / deviation;
        let normal = self.graph.map(normal, &[centred, variance])?;
        let scale = self.value(operation, 1)?;
        let scaled = Expr::Operand(0) * Expr::Operand(1);
        match self.value(operation, 2) {
            Some(shift) => {
                let shifted = scaled + Expr::Operand(2);
                self.graph.map(shifted, &[normal, scale, shift])
            }
            None => self.graph.map(scaled, &[normal, scale]),
        }
    }

    /// The running mean and variance of a layer in training mode. Fails if it has only one of the two.
    fn running_statistics(&self, operation: &Operation) -> Option<Option<[usize; 2]>> {
        let of = |index: usize| {
            let input = operation.inputs.get(index)?;
            self.running.get(&slot(input)).copied()
        };
        match (of(3), of(4)) {
            (None, None) => Some(None),
            (mean, variance) => Some(Some([mean?, variance?])),
        }
    }

    fn batch_norm(&mut self, operation: &Operation, x: &Value, epsilon: f64) -> Option<Value> {
        // [C] → [C, 1, …]
        let rank = x.axes().len();
        let channel = |index| {
            let value = self.value(operation, index)?;
            Some((2..rank).fold(value, |value, _| value.inserted(value.axes().len())))
        };
        let (scale, shift) = (channel(1)?, channel(2)?);
        if let Some(running) = self.running_statistics(operation)? {
            let over: Vec<_> = (0..rank).filter(|&axis| axis != 1).collect();
            let affine = [&scale, &shift];
            let of = self
                .graph
                .batch_normalised(x, &over, epsilon as f32, affine)?;
            self.statistics
                .extend(running.into_iter().zip([of.mean, of.variance]));
            return Some(of.value);
        }
        let (mean, variance) = (channel(3)?, channel(4)?);
        let deviation = (Expr::Operand(1) + Expr::Constant(epsilon as f32)).apply(Unary::Sqrt);
        let factor = Expr::Operand(0) / deviation;
        let factor = self.graph.map(factor, &[scale, variance])?;
        let normal = (Expr::Operand(0) - Expr::Operand(1)) * Expr::Operand(2) + Expr::Operand(3);
        self.graph.map(normal, &[x.clone(), mean, factor, shift])
    }

    pub(super) fn padded(
        &mut self,
        x: &Value,
        padding: &[(usize, usize)],
        value: &Expr,
    ) -> Option<Value> {
        let padded = self.graph.padded(x, padding);
        if *value == Expr::Constant(0.0) {
            return Some(padded);
        }
        let inside = self.inside(&padded, padding);
        let filled = Expr::select(Expr::Operand(1), Expr::Operand(0), value.clone());
        self.graph.map(filled, &[padded, inside])
    }

    /// Zero for the padding of a padded value, which has none along the axis of rows, and one inside of it.
    fn inside(&mut self, padded: &Value, padding: &[(usize, usize)]) -> Value {
        let lens: Vec<_> = padded
            .axes()
            .iter()
            .map(|axis| if axis.per_row { 1 } else { axis.len })
            .collect();
        let count = lens.iter().product();
        let element = |mut number: usize| {
            let mut all = true;
            for axis in (0..lens.len()).rev() {
                let index = number % lens[axis];
                number /= lens[axis];
                let (before, after) = padding[axis];
                all &= (before..lens[axis] - after).contains(&index);
            }
            f32::from(u8::from(all))
        };
        let values = (0..count).map(element).collect();
        self.graph.constant(&lens, values)
    }

    fn slice_assigned(
        &mut self,
        x: &Value,
        value: &Value,
        ranges: &[Slice],
        shape: &[usize],
    ) -> Option<Value> {
        let mut padding = vec![(0, 0); shape.len()];
        for (axis, range) in ranges.iter().enumerate() {
            if x.axes()[axis].per_row {
                continue;
            }
            if range.step != 1 {
                return None;
            }
            let range = range.to_range(shape[axis]);
            padding[axis] = (range.start, shape[axis] - range.end);
        }
        let mut axes = x.axes().to_vec();
        for (axis, (before, after)) in axes.iter_mut().zip(&padding) {
            axis.len -= before + after;
        }
        let value = value.expanded(&axes)?;
        let placed = self.graph.padded(&value, &padding);
        let inside = self.inside(&placed, &padding);
        let chosen = Expr::select(Expr::Operand(2), Expr::Operand(1), Expr::Operand(0));
        self.graph.map(chosen, &[x.clone(), placed, inside])
    }

    fn concatenated(&mut self, parts: Vec<Value>, axis: usize, axes: &[Axis]) -> Option<Value> {
        // Parts that are the same for all rows are repeated.
        let parts: Option<Vec<_>> = parts
            .into_iter()
            .map(|part| {
                let mut full = axes.to_vec();
                full[axis] = part.axes()[axis];
                part.expanded(&full)
            })
            .collect();
        Some(self.graph.concatenated(&parts?, axis))
    }
}

fn sliced(x: &Value, ranges: &[Slice], shape: &[usize]) -> Value {
    let mut value = x.clone();
    for (axis, range) in ranges.iter().enumerate() {
        if x.axes()[axis].per_row {
            continue;
        }
        let len = range.output_size(shape[axis]);
        let bounds = range.to_range(shape[axis]);
        let start = if range.step < 0 {
            bounds.end - 1
        } else {
            bounds.start
        };
        value = value.sliced(axis, start, range.step, len);
    }
    value
}
