//! Inner products of the rows of two matrices over all weights, in single precision: units of a GPU that multiply
//! matrices round their arguments to fewer digits.
//!
//! Each cube adds the products over its share of the weights, and a second kernel adds the sums of the cubes.

use burn::cubecl;
use cubecl::prelude::*;

/// Units of a cube.
pub(super) const UNITS: usize = 256;

/// Numbers in a cube's shared memory.
const SHARED: usize = 2048;

/// The shapes that a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    left: usize,
    right: usize,
}

impl Form {
    /// Whether as many rows fit into the memory of a cube.
    pub(super) fn new(left: usize, right: usize) -> Option<Self> {
        let rows = left + right;
        (left > 0 && right > 0 && rows <= SHARED / 16).then_some(Self { left, right })
    }

    fn pairs(self) -> usize {
        self.left * self.right
    }

    /// Weights whose numbers are in shared memory at a time.
    pub(super) fn width(self) -> usize {
        SHARED / (self.left + self.right)
    }

    /// Units that share a pair of rows.
    fn shares(self) -> usize {
        (UNITS / self.pairs()).max(1)
    }

    /// Pairs of one unit.
    fn pairs_of_unit(self) -> usize {
        self.pairs().div_ceil(UNITS)
    }
}

/// Writes the sums of this cube to its row of `sums`, `[cubes, pairs]`.
#[cube(launch)]
pub(super) fn partial_kernel(
    left: &Tensor<f32>,
    right: &Tensor<f32>,
    sums: &mut [f32],
    len: u32,
    #[comptime] form: Form,
) {
    let rows = comptime!(form.left + form.right);
    let width = comptime!(form.width());
    let pairs = comptime!(form.pairs());
    let shares = comptime!(form.shares());
    let units = comptime!(UNITS);
    let len = len as usize;
    let unit = UNIT_POS as usize;
    let mut tile = Shared::<[f32]>::new_slice(comptime!(rows * width));
    let mut totals = Array::<f32>::new(comptime!(form.pairs_of_unit()));
    for mine in 0..comptime!(form.pairs_of_unit()) {
        totals[mine] = 0.0f32;
    }
    let share = unit / pairs;

    let mut start = CUBE_POS * width;
    while start < len {
        let mut place = unit;
        while place < comptime!(rows * width) {
            let row = place / width;
            let weight = start + place % width;
            let mut value = 0.0f32;
            if weight < len {
                if row < comptime!(form.left) {
                    value = left[row * left.stride(0) + weight];
                } else {
                    value = right[(row - comptime!(form.left)) * right.stride(0) + weight];
                }
            }
            tile[place] = value;
            place += units;
        }
        sync_cube();
        if share < shares {
            for mine in 0..comptime!(form.pairs_of_unit()) {
                let pair = unit % pairs + mine * units;
                if pair < pairs {
                    let left_row = pair / comptime!(form.right) * width;
                    let right_row = (comptime!(form.left) + pair % comptime!(form.right)) * width;
                    let mut total = 0.0f32;
                    let mut column = share;
                    while column < width {
                        total += tile[left_row + column] * tile[right_row + column];
                        column += shares;
                    }
                    totals[mine] += total;
                }
            }
        }
        sync_cube();
        start += CUBE_COUNT * width;
    }

    if comptime!(shares > 1) {
        // One pair for each unit, and several units for each pair.
        let mut of_units = Shared::<[f32]>::new_slice(UNITS);
        of_units[unit] = totals[0];
        sync_cube();
        if unit < pairs {
            let mut total = 0.0f32;
            for share in 0..shares {
                total += of_units[share * pairs + unit];
            }
            sums[CUBE_POS * pairs + unit] = total;
        }
    } else {
        for mine in 0..comptime!(form.pairs_of_unit()) {
            let pair = unit + mine * units;
            if pair < pairs {
                sums[CUBE_POS * pairs + pair] = totals[mine];
            }
        }
    }
}

/// Adds the rows of `sums`.
#[cube(launch)]
pub(super) fn total_kernel(sums: &[f32], out: &mut [f32], cubes: u32, #[comptime] form: Form) {
    let pairs = comptime!(form.pairs());
    let pair = ABSOLUTE_POS;
    if pair < pairs {
        let mut total = 0.0f32;
        for cube in 0..cubes as usize {
            total += sums[cube * pairs + pair];
        }
        out[pair] = total;
    }
}
