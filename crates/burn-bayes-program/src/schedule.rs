//! Turns a graph into instructions: what is read is computed, chains of formulas become one, and values that do not
//! depend on rows are computed once.
//!
//! A value that all rows share and a value of every row have levels: even ones and odd ones. A value of a row that reads
//! a sum over rows has a higher level than the terms of the sum. Two levels are a [`Stage`](crate::instructions::Stage).

use crate::expr::Expr;
use crate::graph::{Graph, Kind, Leaf, Part, Source, Value};
use crate::instructions::{Buffer, Instruction, Place, Schedule};
use crate::product::product_loops;
use crate::shape::{Axis, View, elements, row_axis};
use crate::stages::{RowSum, Staged};

/// Why a graph has no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// A formula has too many operands, or a loop too many axes.
    TooLarge,
}

/// Largest number of steps of a formula made of several.
const STEPS: usize = 24;
/// Largest number of operands of such a formula.
const OPERANDS: usize = 10;
/// Largest number of operands that the kernels take.
const MOST_OPERANDS: usize = 16;
/// Largest number of axes that the kernels take.
pub(crate) const MOST_AXES: usize = 8;

/// The instructions that compute `outputs`, each with its whole view.
pub(crate) fn schedule(graph: &Graph, outputs: &[usize]) -> Result<Schedule, Unsupported> {
    let mut scheduler = Scheduler::new(graph, outputs);
    scheduler.set_levels();
    for node in 0..graph.nodes.len() {
        if scheduler.is_live[node] {
            scheduler.add(node)?;
        }
    }
    let buffer = |node: &usize| scheduler.buffer_of[*node].expect("outputs are live");
    let outputs = outputs.iter().map(buffer).collect();
    Ok(
        Staged::new(scheduler.instructions, scheduler.row_sums)
            .schedule(scheduler.buffers, outputs),
    )
}

struct Scheduler<'a> {
    graph: &'a Graph,
    is_live: Vec<bool>,
    /// The number of places that read each node.
    uses: Vec<usize>,
    /// Even for values that all rows share, odd for values of every row.
    levels: Vec<usize>,
    buffers: Vec<Buffer>,
    buffer_of: Vec<Option<usize>>,
    /// The formulas of nodes that become a part of their only reader.
    inlined: Vec<Option<(Expr, Vec<Value>)>>,
    /// Those of each level.
    instructions: Vec<Vec<Instruction>>,
    row_sums: Vec<RowSum>,
}

impl<'a> Scheduler<'a> {
    fn new(graph: &'a Graph, outputs: &[usize]) -> Self {
        let count = graph.nodes.len();
        let mut is_live = vec![false; count];
        let mut uses = vec![0; count];
        for &output in outputs {
            is_live[output] = true;
            // A result is read from outside, in memory of its own.
            uses[output] += 2;
        }
        for node in (0..count).rev() {
            if is_live[node] {
                graph.nodes[node].kind.for_operands(&mut |operand| {
                    is_live[operand.node] = true;
                    uses[operand.node] += 1;
                });
            }
        }
        Self {
            graph,
            is_live,
            uses,
            levels: Vec::with_capacity(count),
            buffers: Vec::new(),
            buffer_of: vec![None; count],
            inlined: vec![None; count],
            instructions: Vec::new(),
            row_sums: Vec::new(),
        }
    }

    fn set_levels(&mut self) {
        for content in &self.graph.nodes {
            let mut latest = 0;
            content
                .kind
                .for_operands(&mut |operand| latest = latest.max(self.levels[operand.node]));
            self.levels.push(if content.is_per_row() {
                row_level(latest)
            } else if content.kind.is_over_rows() || latest % 2 == 1 {
                row_level(latest) + 1
            } else {
                latest
            });
        }
    }

    fn add(&mut self, node: usize) -> Result<(), Unsupported> {
        let content = &self.graph.nodes[node];
        match &content.kind {
            Kind::Leaf(leaf) => {
                let len = elements(&content.axes);
                let buffer = match leaf {
                    Leaf::Shared(number) => Buffer::GivenShared {
                        number: *number,
                        len,
                    },
                    Leaf::Rows(number) => Buffer::GivenRows {
                        number: *number,
                        len,
                    },
                    Leaf::Constant(values) => Buffer::Constant(values.clone()),
                };
                self.buffers.push(buffer);
                self.buffer_of[node] = Some(self.buffers.len() - 1);
            }
            Kind::Ruled { value, .. } => {
                self.add_formula(node, &Expr::Operand(0), std::slice::from_ref(value))?;
            }
            Kind::Map(expr, operands) => self.add_formula(node, expr, operands)?,
            Kind::Total(parts) => self.add_total(node, parts)?,
            Kind::Arg {
                of,
                window,
                is_largest,
            } => {
                let of = self.materialised(of)?;
                let order = loop_order(&content.axes);
                let mut places = [self.place(&of.view, of.node, &order)];
                let axes = merge(ordered(&content.axes, &order), &mut places)?;
                let [of] = places;
                let instruction = Instruction::Arg {
                    axes,
                    of,
                    window: window.clone(),
                    is_largest: *is_largest,
                    target: self.new_buffer(node),
                };
                self.emit(self.levels[node], instruction);
            }
            Kind::Pick {
                table,
                index,
                route,
            } => {
                let (table, index) = (self.materialised(table)?, self.materialised(index)?);
                let order = loop_order(&content.axes);
                let places = [&table, &index].map(|of| self.place(&of.view, of.node, &order));
                let mut places = places;
                let axes = merge(ordered(&content.axes, &order), &mut places)?;
                let [table, index] = places;
                let instruction = Instruction::Pick {
                    axes,
                    table,
                    index,
                    route: route.clone(),
                    target: self.new_buffer(node),
                };
                self.emit(self.levels[node], instruction);
            }
        }
        Ok(())
    }

    fn add_formula(
        &mut self,
        node: usize,
        expr: &Expr,
        operands: &[Value],
    ) -> Result<(), Unsupported> {
        let axes = &self.graph.nodes[node].axes;
        let (expr, operands) = self.fused(expr, operands, axes, self.levels[node]);
        if self.uses[node] == 1 {
            self.inlined[node] = Some((expr, operands));
            return Ok(());
        }
        self.add_map(node, &expr, &operands)
    }

    /// A formula with those of the operands that it alone reads.
    fn fused(
        &mut self,
        expr: &Expr,
        operands: &[Value],
        axes: &[Axis],
        level: usize,
    ) -> (Expr, Vec<Value>) {
        let mut kept: Vec<Value> = Vec::new();
        let mut exprs = Vec::with_capacity(operands.len());
        let mut steps = expr.steps().len();
        for (number, operand) in operands.iter().enumerate() {
            let still = operands.len() - number - 1;
            let inner = self.inlined[operand.node].take_if(|(inner, inside)| {
                let is_whole = self.graph.nodes[operand.node].axes == axes
                    && operand.view.is_same(&View::whole(axes));
                let of_rows = inside.iter().filter(|operand| operand.is_per_row());
                // In a later stage, what the formula reads must be kept instead of its result.
                let is_free = self.levels[operand.node] / 2 == level / 2 || of_rows.count() < 2;
                let same_time = (level % 2 == 1) == operand.is_per_row() && is_free;
                let len = inner.steps().len();
                let fits = steps + len <= STEPS && kept.len() + inside.len() + still <= OPERANDS;
                if is_whole && same_time && fits {
                    steps += len;
                }
                is_whole && same_time && fits
            });
            let mut place = |value: &Value| {
                let known = kept.iter().position(|known| known == value);
                Expr::Operand(known.unwrap_or_else(|| {
                    kept.push(value.clone());
                    kept.len() - 1
                }))
            };
            exprs.push(match inner {
                Some((inner, inside)) => {
                    let places: Vec<_> = inside.iter().map(&mut place).collect();
                    inner.with_operands(&|index| places[index].clone())
                }
                None => place(operand),
            });
        }
        (expr.with_operands(&|index| exprs[index].clone()), kept)
    }

    /// Emits a formula that was kept for its only reader, which cannot take it.
    fn materialised(&mut self, value: &Value) -> Result<Value, Unsupported> {
        if let Some((expr, operands)) = self.inlined[value.node].take() {
            self.add_map(value.node, &expr, &operands)?;
        }
        Ok(value.clone())
    }

    fn add_map(&mut self, node: usize, expr: &Expr, operands: &[Value]) -> Result<(), Unsupported> {
        let axes = self.graph.nodes[node].axes.clone();
        let target = self.new_buffer(node);
        let whole = View::whole(&axes);
        self.emit_map(
            self.levels[node],
            &axes,
            expr,
            operands,
            (target, &whole),
            false,
        )
    }

    fn emit_map(
        &mut self,
        level: usize,
        axes: &[Axis],
        expr: &Expr,
        operands: &[Value],
        (target, view): (usize, &View),
        is_added: bool,
    ) -> Result<(), Unsupported> {
        let operands: Vec<_> = operands
            .iter()
            .map(|operand| self.materialised(operand))
            .collect::<Result<_, _>>()?;
        let order = loop_order(axes);
        let mut places: Vec<_> = operands
            .iter()
            .map(|operand| self.place(&operand.view, operand.node, &order))
            .collect();
        let target = Place {
            buffer: target,
            offset: view.offset,
            strides: ordered(&view.strides, &order),
            is_linear: false,
        };
        places.push(target);
        let axes = merge(ordered(axes, &order), &mut places)?;
        if operands.len() > MOST_OPERANDS {
            return Err(Unsupported::TooLarge);
        }
        let target = places.pop().expect("it was added above");
        let instruction = Instruction::Map {
            steps: expr.steps(),
            axes,
            operands: places,
            target,
            is_added,
        };
        self.emit(level, instruction);
        Ok(())
    }

    fn add_total(&mut self, node: usize, parts: &[Part]) -> Result<(), Unsupported> {
        let content = &self.graph.nodes[node];
        let buffer = self.new_buffer(node);
        let is_per_row = content.is_per_row();
        // A sum over rows is added up over blocks.
        let over_rows = !is_per_row && content.kind.is_over_rows();
        if over_rows {
            let level = self.levels[node];
            self.row_sums.push(RowSum { buffer, level });
        }
        let is_written = !over_rows
            && parts.first().is_some_and(|part| {
                covers(&part.target, &content.axes) && part.is_written_at_once()
            });
        if !is_written {
            let level = if over_rows { 0 } else { self.levels[node] };
            self.emit(level, Instruction::Zero(buffer));
        }
        for (number, part) in parts.iter().enumerate() {
            let is_added = number > 0 || !is_written;
            // What does not depend on rows is added to the sum of all rows.
            let level = match over_rows && row_axis(&part.target.axes).is_some() {
                true => row_level(self.level_of(&part.source)),
                false => self.levels[node],
            };
            self.add_part(level, part, buffer, is_added)?;
        }
        Ok(())
    }

    fn level_of(&self, source: &Source) -> usize {
        let of = |value: &Value| self.levels[value.node];
        match source {
            Source::Copy(value) => of(value),
            Source::Product(left, right) => of(left).max(of(right)),
            Source::Routed { values, index, .. } => of(values).max(of(index)),
        }
    }

    fn add_part(
        &mut self,
        level: usize,
        part: &Part,
        buffer: usize,
        is_added: bool,
    ) -> Result<(), Unsupported> {
        let axes = &part.target.axes;
        match &part.source {
            Source::Copy(value) => {
                let copy = Expr::Operand(0);
                let (expr, operands) = self.fused(&copy, std::slice::from_ref(value), axes, level);
                let target = (buffer, &part.target);
                self.emit_map(level, axes, &expr, &operands, target, is_added)
            }
            Source::Product(left, right) => {
                let (left, right) = (self.materialised(left)?, self.materialised(right)?);
                let views = [&left.view, &right.view, &part.target];
                let loops = product_loops(axes, views);
                let buffers = [self.buffer(left.node), self.buffer(right.node), buffer];
                let instruction = Instruction::Product {
                    loops,
                    buffers,
                    is_added,
                };
                self.emit(level, instruction);
                Ok(())
            }
            Source::Routed {
                values,
                index,
                route,
            } => {
                let (values, index) = (self.materialised(values)?, self.materialised(index)?);
                let order = loop_order(axes);
                let target = Place {
                    buffer,
                    offset: part.target.offset,
                    strides: ordered(&part.target.strides, &order),
                    is_linear: false,
                };
                let mut places = [
                    self.place(&values.view, values.node, &order),
                    self.place(&index.view, index.node, &order),
                    target,
                ];
                let axes = merge(ordered(axes, &order), &mut places)?;
                let [values, index, target] = places;
                let instruction = Instruction::AddPicked {
                    axes,
                    values,
                    index,
                    route: route.clone(),
                    target,
                };
                self.emit(level, instruction);
                Ok(())
            }
        }
    }

    fn buffer(&self, node: usize) -> usize {
        self.buffer_of[node].expect("operands are computed before they are read")
    }

    fn place(&self, view: &View, node: usize, order: &[usize]) -> Place {
        Place {
            buffer: self.buffer(node),
            offset: view.offset,
            strides: ordered(&view.strides, order),
            is_linear: false,
        }
    }

    fn new_buffer(&mut self, node: usize) -> usize {
        let content = &self.graph.nodes[node];
        let len = elements(&content.axes);
        self.buffers.push(if content.is_per_row() {
            Buffer::Rows { len, block: 0 }
        } else {
            Buffer::Shared(len)
        });
        self.buffer_of[node] = Some(self.buffers.len() - 1);
        self.buffers.len() - 1
    }

    fn emit(&mut self, level: usize, instruction: Instruction) {
        let count = self.instructions.len().max(level + 1);
        self.instructions.resize_with(count, Vec::new);
        self.instructions[level].push(instruction);
    }
}

/// The smallest level of a value of every row that reads this level.
fn row_level(level: usize) -> usize {
    level | 1
}

impl Kind {
    /// Whether something is added for every row.
    fn is_over_rows(&self) -> bool {
        match self {
            Self::Total(parts) => parts
                .iter()
                .any(|part| row_axis(&part.target.axes).is_some()),
            _ => false,
        }
    }
}

impl Part {
    /// Whether one instruction writes each element once.
    fn is_written_at_once(&self) -> bool {
        match &self.source {
            Source::Copy(_) => {
                let mut axes = self.target.axes.iter().zip(&self.target.strides);
                axes.all(|(axis, &stride)| *axis == Axis::fixed(1) || stride != 0)
            }
            Source::Product(left, right) => {
                let views = [&left.view, &right.view, &self.target];
                product_loops(&self.target.axes, views).is_written_at_once()
            }
            Source::Routed { .. } => false,
        }
    }
}

/// Whether a target reaches every element of a node with these axes. For products, sums over an axis count as one.
fn covers(target: &View, axes: &[Axis]) -> bool {
    if row_axis(&target.axes).is_some() != row_axis(axes).is_some() || target.offset != 0 {
        return false;
    }
    let mut steps: Vec<(isize, usize)> = target
        .axes
        .iter()
        .zip(&target.strides)
        .filter(|(axis, stride)| **stride != 0 && (axis.len > 1 || axis.per_row))
        .map(|(axis, &stride)| (stride, axis.len))
        .collect();
    steps.sort_unstable();
    let mut reached = 1;
    for (stride, len) in steps {
        if stride != reached as isize {
            return false;
        }
        reached *= len;
    }
    reached == elements(axes)
}

/// The order of loops: rows first.
fn loop_order(axes: &[Axis]) -> Vec<usize> {
    let rows = row_axis(axes);
    let others = (0..axes.len()).filter(|&axis| Some(axis) != rows);
    rows.into_iter().chain(others).collect()
}

fn ordered<T: Clone>(values: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|&axis| values[axis].clone()).collect()
}

/// Merges axes that follow each other in all places, and marks the places that are linear. Fails if more are left than the
/// kernels take.
fn merge(axes: Vec<Axis>, places: &mut [Place]) -> Result<Vec<Axis>, Unsupported> {
    let mut merged: Vec<Axis> = Vec::new();
    let mut strides: Vec<Vec<isize>> = vec![Vec::new(); places.len()];
    for (number, axis) in axes.into_iter().enumerate() {
        if axis == Axis::fixed(1) {
            continue;
        }
        let follows = |(known, place): (&Vec<isize>, &Place)| {
            known
                .last()
                .is_some_and(|&outer| outer == place.strides[number] * axis.len as isize)
        };
        let all_follow =
            !axis.per_row && !merged.is_empty() && strides.iter().zip(&*places).all(follows);
        if all_follow {
            let last = merged.last_mut().expect("it is not empty");
            last.len *= axis.len;
            for (known, place) in strides.iter_mut().zip(&*places) {
                *known.last_mut().expect("as many as axes") = place.strides[number];
            }
        } else {
            merged.push(axis);
            for (known, place) in strides.iter_mut().zip(&*places) {
                known.push(place.strides[number]);
            }
        }
    }
    for (place, strides) in places.iter_mut().zip(strides) {
        let mut expected = 1;
        place.is_linear = strides.iter().zip(&merged).rev().all(|(&stride, axis)| {
            let fits = stride == expected;
            expected *= axis.len as isize;
            fits
        });
        place.strides = strides;
    }
    if merged.len() > MOST_AXES {
        return Err(Unsupported::TooLarge);
    }
    Ok(merged)
}
