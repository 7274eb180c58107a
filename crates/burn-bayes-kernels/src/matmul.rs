//! A matrix product of strided matrices.

use gemm::{Parallelism, gemm};

/// The number of multiplications from which on several threads share a product.
const PARALLEL: usize = 1 << 21;

/// A matrix in memory.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// The place of the first element.
    pub offset: usize,
    /// The distance of rows, and that of columns.
    pub strides: [isize; 2],
}

impl Matrix {
    /// Whether every element of `[rows, columns]` lies within `len` numbers.
    fn fits(self, sizes: [usize; 2], len: usize) -> bool {
        let mut ends = [self.offset as isize; 2];
        for (size, stride) in sizes.into_iter().zip(self.strides) {
            let Some(reach) = isize::try_from(size - 1)
                .ok()
                .and_then(|last| last.checked_mul(stride))
            else {
                return false;
            };
            let Some(end) = ends[usize::from(reach > 0)].checked_add(reach) else {
                return false;
            };
            ends[usize::from(reach > 0)] = end;
        }
        ends[0] >= 0 && (ends[1] as usize) < len
    }
}

/// Whether the elements of `[rows, columns]` have places of their own.
fn is_apart([rows, columns]: [usize; 2], strides: [isize; 2]) -> bool {
    let [down, along] = strides.map(isize::unsigned_abs);
    let reaches_over = |near: usize, count: usize, far: usize| near > 0 && far > near * (count - 1);
    match [rows, columns] {
        [1, 1] => true,
        [_, 1] => down > 0,
        [1, _] => along > 0,
        _ => reaches_over(along, columns, down) || reaches_over(down, rows, along),
    }
}

/// `out`, `[m, n]`, = `left`, `[m, k]`, times `right`, `[k, n]`, added to what `out` holds if `is_added`.
///
/// # Panics
///
/// If a matrix reaches beyond its memory, or if elements of `out` overlap.
pub fn matmul(
    [m, n, k]: [usize; 3],
    (left, left_at): (&[f32], Matrix),
    (right, right_at): (&[f32], Matrix),
    (out, out_at): (&mut [f32], Matrix),
    is_added: bool,
) {
    if m == 0 || n == 0 {
        return;
    }
    assert!(k > 0, "a product has at least one term");
    assert!(
        left_at.fits([m, k], left.len())
            && right_at.fits([k, n], right.len())
            && out_at.fits([m, n], out.len()),
        "a matrix of a product of {m}×{k} and {k}×{n} reaches beyond its memory"
    );
    assert!(
        is_apart([m, n], out_at.strides),
        "elements of a product of {m}×{k} and {k}×{n} overlap"
    );
    // A thread computes whole elements, so that the number of threads does not change them.
    let parallelism = match m * n * k >= PARALLEL {
        true => Parallelism::Rayon(0),
        false => Parallelism::None,
    };
    // SAFETY: `fits` was asked for each of the three matrices, and `out` overlaps neither operand, because it is
    // borrowed exclusively. Its elements are apart.
    unsafe {
        gemm(
            m,
            n,
            k,
            out.as_mut_ptr().add(out_at.offset),
            out_at.strides[1],
            out_at.strides[0],
            is_added,
            left.as_ptr().add(left_at.offset),
            left_at.strides[1],
            left_at.strides[0],
            right.as_ptr().add(right_at.offset),
            right_at.strides[1],
            right_at.strides[0],
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, len: usize) -> Vec<f32> {
        (0..len)
            .map(|i| ((i * 37 + seed * 11) % 19) as f32 - 9.0)
            .collect()
    }

    #[test]
    fn the_product_is_that_of_three_loops() {
        // Miri is a thousand times slower.
        let largest = if cfg!(miri) { 5 } else { 140 };
        for [m, n, k] in [[1, 1, 1], [3, 5, 2], [17, 1, 33], [largest, largest, 120]] {
            let k = k.min(largest);
            let (left, right) = (numbers(1, m * k), numbers(2, k * n));
            for is_added in [false, true] {
                let mut out = numbers(3, m * n + 1);
                let before = out.clone();
                // The left matrix is transposed, and the first number of `out` does not belong to it.
                let at = |offset, strides| Matrix { offset, strides };
                matmul(
                    [m, n, k],
                    (&left, at(0, [1, m as isize])),
                    (&right, at(0, [n as isize, 1])),
                    (&mut out, at(1, [n as isize, 1])),
                    is_added,
                );
                assert_eq!(out[0], before[0]);
                for i in 0..m {
                    for j in 0..n {
                        // Small integers: sums are exact.
                        let sum: f32 = (0..k).map(|l| left[l * m + i] * right[l * n + j]).sum();
                        let known = if is_added { before[1 + i * n + j] } else { 0.0 };
                        assert_eq!(out[1 + i * n + j], sum + known, "[{i}, {j}]");
                    }
                }
            }
        }
    }

    #[test]
    fn a_matrix_beyond_its_memory_is_refused() {
        let refused = |strides, offset| is_refused(Matrix { offset, strides }, [4, 1]);
        assert!(!refused([4, 1], 0));
        assert!(!refused([-4, 1], 8));
        assert!(refused([4, 1], 1));
        assert!(refused([-4, 1], 7));
        assert!(refused([isize::MAX, 1], 0));
    }

    #[test]
    fn elements_of_a_product_that_overlap_are_refused() {
        let refused = |strides| {
            is_refused(
                Matrix {
                    offset: 0,
                    strides: [4, 1],
                },
                strides,
            )
        };
        // The rows follow each other, or each is a column of memory.
        assert!(!refused([4, 1]) && !refused([1, 2]));
        assert!(refused([0, 1]) && refused([1, 0]) && refused([3, 1]) && refused([1, 1]));
    }

    /// Whether the product of 2×3 and 3×4 with these places is refused.
    fn is_refused(right_at: Matrix, strides: [isize; 2]) -> bool {
        let (left, right) = (vec![1.0; 6], vec![1.0; 12]);
        let at = |strides| Matrix { offset: 0, strides };
        let product = || {
            let out = (&mut [0.0; 8][..], at(strides));
            matmul(
                [2, 4, 3],
                (&left, at([3, 1])),
                (&right, right_at),
                out,
                false,
            );
        };
        std::panic::catch_unwind(product).is_err()
    }
}
