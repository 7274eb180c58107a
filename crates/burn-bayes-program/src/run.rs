//! Programs, and how they run.

use burn_bayes_kernels::{
    Matrix, Route as KernelRoute, Strided, Target, add_picked, arg_extreme, map_strided, matmul,
    pick,
};

use rayon::prelude::*;

use crate::graph::{Graph, Route, Value};
use crate::instructions::{Buffer, Instruction, Place, Schedule, Stage};
use crate::product::{Loop, ProductLoops};
use crate::schedule::{MOST_AXES, Unsupported, schedule};
use crate::shape::{Axis, View};

/// A list of instructions over fixed memory, for any number of rows.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) schedule: Schedule,
    outputs: Vec<Output>,
    /// The multiplications of products for every row, and those that are the same for all rows.
    multiplications: [u64; 2],
}

/// A result of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// The number of elements, or that for each row.
    pub len: usize,
    /// Whether there is an entry for every row.
    pub per_row: bool,
}

/// The values that a run reads.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The values that are the same for all rows.
    pub shared: &'a [&'a [f32]],
    /// The values with an entry for every row.
    pub rows: &'a [&'a [f32]],
    /// The number of rows.
    pub count: usize,
}

/// The memory of a run, for one program.
#[derive(Debug, Default)]
pub struct Workspace {
    buffers: Vec<Vec<f32>>,
    /// Those of further parts of the rows.
    parts: Vec<Workspace>,
}

impl Program {
    /// A program for these values of a graph.
    pub fn new(mut graph: Graph, outputs: &[Value]) -> Result<Self, Unsupported> {
        let mut nodes = Vec::with_capacity(outputs.len());
        for output in outputs {
            let whole = View::whole(output.axes());
            let is_whole = output.view.is_same(&whole)
                && graph.nodes[output.node].axes == whole.axes
                && !graph.is_leaf(output.node);
            nodes.push(if is_whole {
                output.node
            } else {
                graph.copied(output.clone()).node
            });
        }
        let described = nodes.iter().map(|&node| {
            let node = &graph.nodes[node];
            Output {
                len: crate::shape::elements(&node.axes),
                per_row: node.is_per_row(),
            }
        });
        let outputs = described.collect();
        let schedule = schedule(&graph, &nodes)?;
        let multiplications = graph.multiplications();
        Ok(Self {
            schedule,
            outputs,
            multiplications,
        })
    }

    /// The number of multiplications in the products of a run for so many rows.
    pub fn multiplications(&self, count: usize) -> u64 {
        let [of_row, shared] = self.multiplications;
        of_row.saturating_mul(count as u64).saturating_add(shared)
    }

    /// The results, in the order of [`new`](Self::new).
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The number of numbers that a run computes for so many rows.
    pub fn numbers(&self, count: usize) -> usize {
        let numbers = self.schedule.buffers.iter().map(|buffer| match buffer {
            Buffer::Rows { len, .. } | Buffer::Kept(len) => len * count,
            Buffer::Shared(len) => *len,
            _ => 0,
        });
        numbers.sum()
    }

    /// The number of rows that are computed together, in the stage where they are the fewest.
    pub fn block(&self) -> usize {
        let blocks = self.schedule.stages.iter().map(|stage| stage.block);
        blocks.min().unwrap_or(1)
    }

    /// The number of instructions.
    pub fn instructions(&self) -> usize {
        let Schedule { stages, after, .. } = &self.schedule;
        let of_stage = |stage: &Stage| stage.shared.len() + stage.rows.len();
        stages.iter().map(of_stage).sum::<usize>() + after.len()
    }

    /// Computes the results into `outputs`, one slice for each.
    ///
    /// Many rows are divided into parts for several threads. The division depends on the program and the number of rows
    /// alone, and sums are added up in order, so that results are the same bits for any number of threads.
    ///
    /// # Panics
    ///
    /// If a given value or an output has another length than the program, or an index is out of bounds.
    pub fn run(&self, given: Given<'_>, memory: &mut Workspace, outputs: &mut [&mut [f32]]) {
        self.check(given, outputs);
        let parts = self.parts(given.count);
        if parts == 1 {
            self.prepare(given.count, memory);
            for stage in 0..self.schedule.stages.len() {
                self.run_stage(stage, given, memory, outputs);
            }
        } else {
            self.run_parts(parts, given, memory, outputs);
        }
        self.run_all(&self.schedule.after, given, memory, 0..0);
        for (number, output) in self.outputs.iter().enumerate() {
            if !output.per_row {
                let buffer = self.schedule.outputs[number];
                outputs[number].copy_from_slice(&memory.buffers[buffer][..output.len]);
            }
        }
    }

    /// The number of parts into which so many rows are divided.
    pub(crate) fn parts(&self, count: usize) -> usize {
        /// The number of numbers that are worth a thread.
        const SHARE: usize = 1 << 16;
        /// The most parts: each has sums of its own.
        const MOST: usize = 8;
        let numbers = self.numbers(count);
        let buffers = &self.schedule.buffers;
        let of_stages = self.schedule.stages.iter();
        let sums = of_stages.flat_map(|stage| &stage.earlier_sums);
        let sums = sums.chain(&self.schedule.last_sums);
        let sums = sums.map(|&sum| match buffers[sum] {
            Buffer::Shared(len) => len,
            _ => 0,
        });
        // Adding up the sums of the parts must cost little.
        let by_sums = numbers / (4 * sums.sum::<usize>()).max(1);
        let blocks = count.div_ceil(self.block());
        MOST.min(blocks).min(numbers / SHARE).min(by_sums).max(1)
    }

    /// Runs a stage on all given rows, and exports the results of rows that it computes.
    fn run_stage(
        &self,
        number: usize,
        given: Given<'_>,
        memory: &mut Workspace,
        outputs: &mut [&mut [f32]],
    ) {
        let stage = &self.schedule.stages[number];
        self.run_all(&stage.shared, given, memory, 0..0);
        let mut first = 0;
        while first < given.count {
            let last = given.count.min(first + stage.block);
            self.run_all(&stage.rows, given, memory, first..last);
            self.export(number, memory, outputs, first..last);
            first = last;
        }
    }

    fn run_parts(
        &self,
        parts: usize,
        given: Given<'_>,
        memory: &mut Workspace,
        outputs: &mut [&mut [f32]],
    ) {
        // Whole blocks.
        let block = self.block();
        let rows = given.count.div_ceil(block).div_ceil(parts) * block;
        let mut rest: Vec<&mut [f32]> = outputs.iter_mut().map(|output| &mut **output).collect();
        let mut others = std::mem::take(&mut memory.parts);
        others.resize_with(given.count.div_ceil(rows) - 1, Workspace::default);
        let mut workspaces = std::iter::once(&mut *memory).chain(&mut others);
        let mut parts = Vec::with_capacity(parts);
        for first in (0..given.count).step_by(rows) {
            let count = rows.min(given.count - first);
            let mut own = Vec::with_capacity(rest.len());
            for (rest, output) in rest.iter_mut().zip(&self.outputs) {
                let len = if output.per_row {
                    count * output.len
                } else {
                    0
                };
                let (part, after) = std::mem::take(rest).split_at_mut(len);
                own.push(part);
                *rest = after;
            }
            let memory = workspaces.next().expect("as many as parts");
            self.prepare(count, memory);
            parts.push(Part {
                rows: self.rows_of(given, first..first + count),
                count,
                outputs: own,
                memory,
            });
        }
        for (number, stage) in self.schedule.stages.iter().enumerate() {
            add_up(&mut parts, &stage.earlier_sums, true);
            let run = |part: &mut Part<'_>| {
                let given = Given {
                    shared: given.shared,
                    rows: &part.rows,
                    count: part.count,
                };
                self.run_stage(number, given, part.memory, &mut part.outputs);
            };
            match rayon::current_num_threads() {
                1 => parts.iter_mut().for_each(run),
                _ => parts.par_iter_mut().for_each(run),
            }
        }
        add_up(&mut parts, &self.schedule.last_sums, false);
        drop(parts);
        memory.parts = others;
    }

    /// The given values of some rows.
    fn rows_of<'a>(&self, given: Given<'a>, rows: std::ops::Range<usize>) -> Vec<&'a [f32]> {
        let mut parts: Vec<&[f32]> = given.rows.to_vec();
        for buffer in &self.schedule.buffers {
            if let Buffer::GivenRows { number, len } = buffer {
                parts[*number] = &given.rows[*number][rows.start * len..rows.end * len];
            }
        }
        parts
    }

    fn check(&self, given: Given<'_>, outputs: &[&mut [f32]]) {
        for buffer in &self.schedule.buffers {
            match buffer {
                Buffer::GivenShared { number, len } => {
                    assert_eq!(given.shared[*number].len(), *len, "shared value {number}");
                }
                Buffer::GivenRows { number, len } => {
                    let found = given.rows[*number].len();
                    assert_eq!(found, given.count * len, "value {number} of the rows");
                }
                _ => {}
            }
        }
        assert_eq!(outputs.len(), self.outputs.len(), "the number of outputs");
        for (output, found) in self.outputs.iter().zip(outputs) {
            let rows = if output.per_row { given.count } else { 1 };
            assert_eq!(found.len(), rows * output.len, "the length of an output");
        }
    }

    /// Makes room for so many rows.
    fn prepare(&self, count: usize, memory: &mut Workspace) {
        memory
            .buffers
            .resize(self.schedule.buffers.len(), Vec::new());
        for (buffer, memory) in self.schedule.buffers.iter().zip(&mut memory.buffers) {
            let len = match buffer {
                Buffer::Shared(len) => *len,
                Buffer::Rows { len, block } => count.min(*block) * len,
                Buffer::Kept(len) => count * len,
                _ => 0,
            };
            if memory.len() < len {
                memory.resize(len, 0.0);
            }
        }
    }

    fn export(
        &self,
        stage: usize,
        memory: &Workspace,
        outputs: &mut [&mut [f32]],
        rows: std::ops::Range<usize>,
    ) {
        for (number, output) in self.outputs.iter().enumerate() {
            if output.per_row && self.schedule.output_stages[number] == stage {
                let buffer = self.schedule.outputs[number];
                let start = self.schedule.buffers[buffer].start(rows.start);
                let to = &mut outputs[number][rows.start * output.len..rows.end * output.len];
                to.copy_from_slice(&memory.buffers[buffer][start..start + to.len()]);
            }
        }
    }

    fn run_all(
        &self,
        instructions: &[Instruction],
        given: Given<'_>,
        memory: &mut Workspace,
        rows: std::ops::Range<usize>,
    ) {
        let mut block = Block {
            buffers: &self.schedule.buffers,
            given,
            memory,
            rows,
        };
        for instruction in instructions {
            block.run(instruction);
        }
    }
}

/// Adds up sums over rows of all parts in order: in the first part, and if `is_shared` in all of them.
fn add_up(parts: &mut [Part<'_>], sums: &[usize], is_shared: bool) {
    let Some((first, others)) = parts.split_first_mut() else {
        return;
    };
    for &buffer in sums {
        let sum = &mut first.memory.buffers[buffer];
        for other in &*others {
            for (sum, value) in sum.iter_mut().zip(&other.memory.buffers[buffer]) {
                *sum += value;
            }
        }
        for other in others.iter_mut().filter(|_| is_shared) {
            other.memory.buffers[buffer].copy_from_slice(sum);
        }
    }
}

impl Buffer {
    /// The place of a row, given the first row of its block.
    fn start(&self, first: usize) -> usize {
        match self {
            Self::Kept(len) => first * len,
            _ => 0,
        }
    }
}

/// A part of the rows.
struct Part<'a> {
    /// The given values.
    rows: Vec<&'a [f32]>,
    count: usize,
    /// The places of the results.
    outputs: Vec<&'a mut [f32]>,
    memory: &'a mut Workspace,
}

/// The execution of instructions on a block of rows.
struct Block<'a> {
    buffers: &'a [Buffer],
    given: Given<'a>,
    memory: &'a mut Workspace,
    rows: std::ops::Range<usize>,
}

/// The lengths of axes on a block.
struct Lens([usize; MOST_AXES], usize);

impl Lens {
    fn as_slice(&self) -> &[usize] {
        &self.0[..self.1]
    }
}

impl Block<'_> {
    fn lens(&self, axes: &[Axis]) -> Lens {
        let mut lens = Lens([1; MOST_AXES], axes.len());
        for (len, axis) in lens.0.iter_mut().zip(axes) {
            *len = self.len(*axis);
        }
        lens
    }

    fn len(&self, axis: Axis) -> usize {
        if axis.per_row {
            axis.len * self.rows.len()
        } else {
            axis.len
        }
    }

    fn data(&self, buffer: usize) -> &[f32] {
        match &self.buffers[buffer] {
            Buffer::Shared(_) | Buffer::Rows { .. } => &self.memory.buffers[buffer],
            Buffer::Kept(len) => {
                &self.memory.buffers[buffer][self.rows.start * len..self.rows.end * len]
            }
            Buffer::GivenShared { number, .. } => self.given.shared[*number],
            Buffer::GivenRows { number, len } => {
                &self.given.rows[*number][self.rows.start * len..self.rows.end * len]
            }
            Buffer::Constant(values) => values,
        }
    }

    /// The place in a buffer of the block's first row.
    fn start(&self, buffer: usize) -> usize {
        self.buffers[buffer].start(self.rows.start)
    }

    fn operand<'a>(&'a self, place: &'a Place) -> Strided<'a> {
        Strided {
            data: self.data(place.buffer),
            offset: place.offset,
            strides: &place.strides,
            is_linear: place.is_linear,
        }
    }

    fn run(&mut self, instruction: &Instruction) {
        match instruction {
            Instruction::Zero(buffer) => {
                let start = self.start(*buffer);
                let len = match self.buffers[*buffer] {
                    Buffer::Rows { len, .. } | Buffer::Kept(len) => len * self.rows.len(),
                    _ => self.memory.buffers[*buffer].len(),
                };
                self.memory.buffers[*buffer][start..start + len].fill(0.0);
            }
            Instruction::Map {
                steps,
                axes,
                operands,
                target,
                is_added,
            } => {
                let lens = self.lens(axes);
                let mut out = std::mem::take(&mut self.memory.buffers[target.buffer]);
                let empty = Strided {
                    data: &[],
                    offset: 0,
                    strides: &[],
                    is_linear: false,
                };
                let mut strided = [empty; 16];
                for (strided, place) in strided.iter_mut().zip(operands) {
                    *strided = self.operand(place);
                }
                let to = Target {
                    data: &mut out[self.start(target.buffer)..],
                    offset: target.offset,
                    strides: &target.strides,
                    is_linear: target.is_linear,
                    is_added: *is_added,
                };
                let strided = &strided[..operands.len()];
                map_strided(steps, lens.as_slice(), strided, to);
                self.memory.buffers[target.buffer] = out;
            }
            Instruction::Product {
                loops,
                buffers,
                is_added,
            } => self.product(loops, *buffers, *is_added),
            Instruction::Arg {
                axes,
                of,
                window,
                is_largest,
                target,
            } => {
                let lens = self.lens(axes);
                let len = lens.as_slice().iter().product();
                let mut out = std::mem::take(&mut self.memory.buffers[*target]);
                let of = self.operand(of);
                let to = &mut out[self.start(*target)..][..len];
                arg_extreme(&of, lens.as_slice(), window, *is_largest, to);
                self.memory.buffers[*target] = out;
            }
            Instruction::Pick {
                axes,
                table,
                index,
                route,
                target,
            } => {
                let lens = self.lens(axes);
                let len = lens.as_slice().iter().product();
                let mut out = std::mem::take(&mut self.memory.buffers[*target]);
                let (table, index) = (self.operand(table), self.operand(index));
                let to = &mut out[self.start(*target)..][..len];
                pick(&table, &index, route.kernel(), lens.as_slice(), to);
                self.memory.buffers[*target] = out;
            }
            Instruction::AddPicked {
                axes,
                values,
                index,
                route,
                target,
            } => {
                let lens = self.lens(axes);
                let mut out = std::mem::take(&mut self.memory.buffers[target.buffer]);
                let (values, index) = (self.operand(values), self.operand(index));
                let to = Target {
                    data: &mut out[self.start(target.buffer)..],
                    offset: target.offset,
                    strides: &target.strides,
                    is_linear: false,
                    is_added: true,
                };
                add_picked(&values, &index, route.kernel(), lens.as_slice(), to);
                self.memory.buffers[target.buffer] = out;
            }
        }
    }

    fn product(&mut self, loops: &ProductLoops, [left, right, target]: [usize; 3], is_added: bool) {
        let start = self.start(target);
        let mut out = std::mem::take(&mut self.memory.buffers[target]);
        let sizes = [loops.m, loops.n, loops.k].map(|one| self.len(one.axis));
        let (left, right) = (self.data(left), self.data(right));
        let others: Vec<(usize, [isize; 3])> = loops
            .others
            .iter()
            .map(|one: &Loop| (self.len(one.axis), one.strides))
            .collect();
        let repeats: usize = others.iter().map(|(len, _)| len).product();
        for repeat in 0..repeats {
            let mut places = loops.offsets.map(|offset| offset as isize);
            let mut rest = repeat;
            for (len, strides) in others.iter().rev() {
                let index = (rest % len) as isize;
                rest /= len;
                for (place, stride) in places.iter_mut().zip(strides) {
                    *place += index * stride;
                }
            }
            let at = |side: usize, rows: Loop, columns: Loop| Matrix {
                offset: places[side] as usize,
                strides: [rows.strides[side], columns.strides[side]],
            };
            matmul(
                sizes,
                (left, at(0, loops.m, loops.k)),
                (right, at(1, loops.k, loops.n)),
                (&mut out[start..], at(2, loops.m, loops.n)),
                is_added,
            );
        }
        self.memory.buffers[target] = out;
    }
}

impl Route {
    fn kernel(&self) -> KernelRoute<'_> {
        match self {
            Self::Listed(distances) => KernelRoute::Listed(distances),
            Self::Even { stride, count } => KernelRoute::Even {
                stride: *stride,
                count: *count,
            },
        }
    }
}
