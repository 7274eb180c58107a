//! A matrix product, written directly to its destination.
//!
//! Uses the library of Burn's CPU backend. The partition does not depend on the number of threads,
//! so neither do the results.

use gemm::{Parallelism, gemm};
use rayon::prelude::*;

/// Number of rows of the product per task.
const ROWS: usize = 128;

/// `out`, `[height, width]`, = leftᵀ diag(weights) right, with `left` `[n, height]` and `right`
/// `[n, width]`, all in row-major order. Without terms, n = 0, the product is zero.
///
/// # Panics
///
/// If the lengths do not match.
pub fn weighted_product(
    out: &mut [f32],
    [height, width]: [usize; 2],
    left: &[f32],
    right: &[f32],
    weights: &[f32],
) {
    let terms = weights.len();
    for (name, found, [rows, columns]) in [
        ("the product", out.len(), [height, width]),
        ("the left side", left.len(), [terms, height]),
        ("the right side", right.len(), [terms, width]),
    ] {
        assert!(
            rows.checked_mul(columns) == Some(found),
            "{name} has {found} numbers instead of {rows}×{columns}"
        );
    }
    if out.is_empty() || terms == 0 {
        // The pointers below would leave their slices.
        return out.fill(0.0);
    }
    let mut scaled = Vec::with_capacity(right.len());
    for (row, weight) in right.chunks_exact(width).zip(weights) {
        scaled.extend(row.iter().map(|value| value * weight));
    }
    let compute = |(piece, out): (usize, &mut [f32])| {
        let first = piece * ROWS;
        let rows = out.len() / width;
        debug_assert!(first + rows <= height && height <= left.len());
        // SAFETY: the sizes were compared above, and none is zero. Element (i, j) of the product is at i·width + j
        // of `out`, (i, k) of the left side at k·height + first + i of `left` with first + i < height, (k, j) of the
        // right side at k·width + j of `scaled`; `out` overlaps neither. `left` has at least `height` numbers, so that
        // `first` is inside.
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
    };
    if height <= ROWS {
        // A task for another thread takes longer than a small product.
        compute((0, out));
    } else {
        let pieces = out.par_chunks_mut(ROWS * width).enumerate();
        pieces.for_each(compute);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_that_of_three_loops() {
        let sizes = [
            [1, 1, 1],
            [3, 5, 2],
            [2, 2 * ROWS + 1, 3],
            [64, 300, 17],
            [0, 1, 1],
            [0, 2 * ROWS + 1, 3],
            [3, 0, 2],
            [3, 2, 0],
            [0, 0, 0],
        ];
        // Miri is a thousand times slower.
        let most = if cfg!(miri) { 2000 } else { usize::MAX };
        for [terms, height, width] in sizes {
            if terms * height * width > most {
                continue;
            }
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

    #[test]
    fn sizes_that_do_not_match_are_refused() {
        let refused = |out: usize, size: [usize; 2], left: usize, right: usize, terms: usize| {
            let [left, right, weights] = [left, right, terms].map(|len| vec![1.0; len]);
            let product = || weighted_product(&mut vec![0.0; out], size, &left, &right, &weights);
            std::panic::catch_unwind(product).is_err()
        };
        assert!(!refused(6, [2, 3], 8, 12, 4));
        assert!(refused(5, [2, 3], 8, 12, 4));
        assert!(refused(6, [2, 3], 9, 12, 4));
        assert!(refused(6, [2, 3], 8, 11, 4));
        assert!(refused(6, [2, 3], 8, 12, 0));
        // A product of sizes that would wrap to zero.
        assert!(refused(0, [1 << (usize::BITS / 2); 2], 0, 0, 0));
    }
}
