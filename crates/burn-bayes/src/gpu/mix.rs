//! Linear combinations of the rows of a matrix, in single precision like [inner products](super::inner_products).

use burn::cubecl;
use cubecl::prelude::*;

/// Writes W · rows, with W `[count, rank]`; a unit computes a column.
#[cube(launch)]
pub(super) fn mix_kernel(
    rows: &Tensor<f32>,
    weights: &[f32],
    out: &mut [f32],
    len: u32,
    count: u32,
    #[comptime] rank: usize,
) {
    let len = len as usize;
    let mut column = ABSOLUTE_POS;
    let mut values = Array::<f32>::new(rank);
    while column < len {
        for row in 0..rank {
            values[row] = rows[row * rows.stride(0) + column];
        }
        for target in 0..count as usize {
            let mut total = 0.0f32;
            for row in 0..rank {
                total += weights[target * rank + row] * values[row];
            }
            out[target * len + column] = total;
        }
        column += CUBE_COUNT * (CUBE_DIM as usize);
    }
}
