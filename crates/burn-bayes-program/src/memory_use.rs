//! Upper bounds of the memory that programs and their runs hold.

use std::sync::Arc;

use crate::graph::Route;
use crate::instructions::{Buffer, Instruction, Place, Schedule, Stage};
use crate::run::Program;

impl Program {
    /// The memory of the program, and of a run of it for so many rows, in bytes.
    pub fn bytes(&self, count: usize) -> usize {
        let buffer = |buffer: &Buffer| match buffer {
            Buffer::Shared(len) => *len,
            Buffer::Rows { len, block } => count.min(*block) * len,
            _ => 0,
        };
        // The parts have these numbers for their own rows.
        let kept = |buffer: &Buffer| match buffer {
            Buffer::Kept(len) => count * len,
            _ => 0,
        };
        let constant = |buffer: &Buffer| match buffer {
            Buffer::Constant(values) => values.len(),
            _ => 0,
        };
        let buffers = &self.schedule.buffers;
        let numbers = self.parts(count) * buffers.iter().map(buffer).sum::<usize>()
            + buffers.iter().map(kept).sum::<usize>();
        let constants: usize = buffers.iter().map(constant).sum();
        let room = self.parts(count) * buffers.len() * (size_of::<Vec<f32>>() + ALLOCATION);
        (numbers + constants) * size_of::<f32>() + room + self.schedule.owned_bytes()
    }
}

/// What an allocation needs besides its contents.
const ALLOCATION: usize = 16;

/// The memory that a vector owns, besides what its elements own.
fn vec_bytes<T>(values: &Vec<T>) -> usize {
    values.capacity() * size_of::<T>() + ALLOCATION
}

impl Schedule {
    /// The memory of what it owns, in bytes.
    fn owned_bytes(&self) -> usize {
        let list = |list: &Vec<Instruction>| {
            let owned = list.iter().map(Instruction::owned_bytes);
            vec_bytes(list) + owned.sum::<usize>()
        };
        let stage = |stage: &Stage| {
            list(&stage.shared) + list(&stage.rows) + vec_bytes(&stage.earlier_sums)
        };
        vec_bytes(&self.buffers)
            + vec_bytes(&self.stages)
            + self.stages.iter().map(stage).sum::<usize>()
            + list(&self.after)
            + vec_bytes(&self.outputs)
            + vec_bytes(&self.output_stages)
            + vec_bytes(&self.last_sums)
    }
}

impl Instruction {
    fn owned_bytes(&self) -> usize {
        let place = |place: &Place| vec_bytes(&place.strides);
        let list = |window: &Arc<[usize]>| window.len() * size_of::<usize>() + 2 * ALLOCATION;
        let route = |route: &Route| match route {
            Route::Listed(distances) => list(distances),
            Route::Even { .. } => 0,
        };
        match self {
            Self::Zero(_) => 0,
            Self::Map {
                steps,
                axes,
                operands,
                target,
                ..
            } => {
                let of_operands = operands.iter().map(place).sum::<usize>();
                vec_bytes(steps)
                    + vec_bytes(axes)
                    + vec_bytes(operands)
                    + of_operands
                    + place(target)
            }
            Self::Product { loops, .. } => vec_bytes(&loops.others),
            Self::Arg {
                axes, of, window, ..
            } => vec_bytes(axes) + place(of) + list(window),
            Self::Pick {
                axes,
                table,
                index,
                route: by,
                ..
            } => vec_bytes(axes) + place(table) + place(index) + route(by),
            Self::AddPicked {
                axes,
                values,
                index,
                route: by,
                target,
            } => vec_bytes(axes) + place(values) + place(index) + route(by) + place(target),
        }
    }
}
