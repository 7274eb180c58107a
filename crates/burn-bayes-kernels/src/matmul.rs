//! A matrix product of strided matrices.

use gemm::{Parallelism, gemm};

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

/// `out`, `[m, n]`, = `left`, `[m, k]`, times `right`, `[k, n]`, added to what `out` holds if `is_added`.
///
/// # Panics
///
/// If a matrix reaches beyond its memory.
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
    // SAFETY: `fits` was asked for each of the three matrices, and `out` overlaps neither operand, because it is
    // borrowed exclusively.
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
            Parallelism::None,
        );
    }
}
