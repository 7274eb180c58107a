//! What runs: instructions over buffers, in stages.

use std::sync::Arc;

use burn_bayes_kernels::Step;

use crate::graph::Route;
use crate::product::ProductLoops;
use crate::shape::Axis;

/// The memory of a node.
#[derive(Clone, Debug)]
pub(crate) enum Buffer {
    /// Of a fixed length.
    Shared(usize),
    /// Of this length for every row of a block of so many.
    Rows {
        len: usize,
        block: usize,
    },
    /// Of this length for every row: a later stage reads it.
    Kept(usize),
    /// Given by the caller.
    GivenShared {
        number: usize,
        len: usize,
    },
    /// Given by the caller, of this length for every row.
    GivenRows {
        number: usize,
        len: usize,
    },
    Constant(Arc<[f32]>),
}

/// An operand or target of an instruction.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) buffer: usize,
    pub(crate) offset: usize,
    /// The distance of elements along each axis of the instruction's loop.
    pub(crate) strides: Vec<isize>,
    /// Whether elements lie one after the other in the order of the loop.
    pub(crate) is_linear: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Instruction {
    Zero(usize),
    Map {
        steps: Vec<Step>,
        axes: Vec<Axis>,
        operands: Vec<Place>,
        target: Place,
        is_added: bool,
    },
    Product {
        loops: ProductLoops,
        /// Left, right and target.
        buffers: [usize; 3],
        is_added: bool,
    },
    Arg {
        axes: Vec<Axis>,
        of: Place,
        window: Arc<[usize]>,
        is_largest: bool,
        target: usize,
    },
    Pick {
        axes: Vec<Axis>,
        table: Place,
        index: Place,
        route: Route,
        target: usize,
    },
    AddPicked {
        axes: Vec<Axis>,
        values: Place,
        index: Place,
        route: Route,
        target: Place,
    },
}

/// A pass over all rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stage {
    /// The sums over rows of earlier stages that this one is the first to read.
    pub(crate) earlier_sums: Vec<usize>,
    /// Once, before the rows.
    pub(crate) shared: Vec<Instruction>,
    /// For every block of rows.
    pub(crate) rows: Vec<Instruction>,
    /// The number of rows of a block.
    pub(crate) block: usize,
}

/// A list of instructions over buffers.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) buffers: Vec<Buffer>,
    /// One after the other; there is at least one.
    pub(crate) stages: Vec<Stage>,
    /// The sums over rows that no stage reads.
    pub(crate) last_sums: Vec<usize>,
    /// Once, after all rows.
    pub(crate) after: Vec<Instruction>,
    /// The buffers of the results.
    pub(crate) outputs: Vec<usize>,
    /// The stages that compute the results.
    pub(crate) output_stages: Vec<usize>,
}

impl Stage {
    /// Whether it reads or writes a buffer.
    pub(crate) fn uses(&self, buffer: usize) -> bool {
        let mut is_used = false;
        for instruction in self.shared.iter().chain(&self.rows) {
            instruction.for_buffers(&mut |of| is_used |= of == buffer);
        }
        is_used
    }
}

impl Instruction {
    /// Visits the buffers that it reads and writes.
    pub(crate) fn for_buffers(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Self::Zero(buffer) => visit(*buffer),
            Self::Map {
                operands, target, ..
            } => {
                operands.iter().for_each(|place| visit(place.buffer));
                visit(target.buffer);
            }
            Self::Product { buffers, .. } => buffers.iter().for_each(|&buffer| visit(buffer)),
            Self::Arg { of, target, .. } => {
                visit(of.buffer);
                visit(*target);
            }
            Self::Pick {
                table,
                index,
                target,
                ..
            } => {
                visit(table.buffer);
                visit(index.buffer);
                visit(*target);
            }
            Self::AddPicked {
                values,
                index,
                target,
                ..
            } => [values, index, target]
                .iter()
                .for_each(|place| visit(place.buffer)),
        }
    }
}

impl Buffer {
    /// The numbers of each row.
    pub(crate) fn row_len(&self) -> usize {
        match self {
            Self::Rows { len, .. } | Self::Kept(len) | Self::GivenRows { len, .. } => *len,
            _ => 0,
        }
    }
}
