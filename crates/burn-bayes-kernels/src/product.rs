//! A matrix product, written directly to its destination.
//!
//! Uses the library of Burn's CPU backend. The partition does not depend on the number of threads,
//! so neither do the results.

use gemm::{Parallelism, gemm};
use rayon::prelude::*;

/// Number of rows of the product per task.
const ROWS: usize = 128;

/// `out`, `[height, width]`, = leftᵀ diag(weights) right, with `left` `[n, height]` and `right`
/// `[n, width]`, all in row-major order.
pub fn weighted_product(
    out: &mut [f32],
    [height, width]: [usize; 2],
    left: &[f32],
    right: &[f32],
    weights: &[f32],
) {
    let terms = weights.len();
    assert!(
        out.len() == height * width
            && left.len() == terms * height
            && right.len() == terms * width
            && !out.is_empty(),
        "the sizes of a product"
    );
    let mut scaled = Vec::with_capacity(right.len());
    for (row, weight) in right.chunks_exact(width).zip(weights) {
        scaled.extend(row.iter().map(|value| value * weight));
    }
    let pieces = out.par_chunks_mut(ROWS * width).enumerate();
    pieces.for_each(|(piece, out)| {
        let first = piece * ROWS;
        let rows = out.len() / width;
        // SAFETY: the sizes were compared above. Element (i, j) of the product is at i·width + j of
        // `out`, (i, k) of the left side at k·height + first + i of `left` with first + i < height,
        // (k, j) of the right side at k·width + j of `scaled`; `out` overlaps neither.
        unsafe {
            gemm(
                rows,
                width,
                terms,
                out.as_mut_ptr(),
                1,
                width as isize,
                false,
                left.as_ptr().add(first),
                height as isize,
                1,
                scaled.as_ptr(),
                1,
                width as isize,
                0.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_that_of_three_loops() {
        for [terms, height, width] in [[1, 1, 1], [3, 5, 2], [64, 300, 17]] {
            let numbers = |seed: usize, len: usize| -> Vec<f32> {
                (0..len)
                    .map(|i| ((i * 37 + seed * 11) % 19) as f32 - 9.0)
                    .collect()
            };
            let left = numbers(1, terms * height);
            let right = numbers(2, terms * width);
            let weights = numbers(3, terms);
            let mut out = vec![f32::NAN; height * width];
            weighted_product(&mut out, [height, width], &left, &right, &weights);
            for i in 0..height {
                for j in 0..width {
                    // Small integers: sums are exact.
                    let sum: f32 = (0..terms)
                        .map(|k| left[k * height + i] * weights[k] * right[k * width + j])
                        .sum();
                    assert_eq!(out[i * width + j], sum, "[{i}, {j}] of {height}×{width}");
                }
            }
        }
    }
}
