//! The two products whose cost grows with the square of the rank, tiled so that the accumulators
//! stay in vector registers.
//!
//! Explicit vectors are used because the compiler does not reliably keep a two-dimensional tile of
//! accumulators in registers. If a machine vector is narrower than [`LANES`], a tile is computed in
//! several passes over disjoint lanes, so that each sum has the same terms in the same order on
//! every CPU.
//!
//! Goto, van de Geijn (2008), "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3).

use crate::parallel::LANES;
use pulp::Simd;

/// Number of elements of a strip, the unit of work of [`combine_rows`].
pub(crate) const STRIP: usize = 2 * LANES;

/// Writes `row ⊙ scale` as row `index` of a panel with the layout `[chunk][HEIGHT][WIDTH]`, where
/// a chunk is `WIDTH` elements and a multiple of [`LANES`].
///
/// The last chunk is padded with zeros; later chunks are not changed.
#[inline(always)]
pub(crate) fn pack_scaled_row<const WIDTH: usize, S: Simd>(
    simd: S,
    row: &[f32],
    scale: &[f32],
    index: usize,
    height: usize,
    panel: &mut [f32],
) {
    let (row_chunks, row_rest) = row.as_chunks::<WIDTH>();
    let (scale_chunks, scale_rest) = scale[..row.len()].as_chunks::<WIDTH>();
    for (chunk, (row, scale)) in row_chunks.iter().zip(scale_chunks).enumerate() {
        let out = &mut panel[(chunk * height + index) * WIDTH..][..WIDTH];
        let (row, scale) = (S::as_simd_f32s(row).0, S::as_simd_f32s(scale).0);
        for ((out, row), scale) in S::as_mut_simd_f32s(out).0.iter_mut().zip(row).zip(scale) {
            *out = simd.mul_f32s(*row, *scale);
        }
    }
    if !row_rest.is_empty() {
        let out = &mut panel[(row_chunks.len() * height + index) * WIDTH..][..WIDTH];
        out.fill(0.0);
        for ((out, row), scale) in out.iter_mut().zip(row_rest).zip(scale_rest) {
            *out = row * scale;
        }
    }
}

/// Adds all inner products between the rows of two panels with the layout of [`pack_scaled_row`]
/// for chunks of [`LANES`], without summing over the lanes.
///
/// `sums` has the layout `[left row][right row][LANES]`.
#[inline(always)]
pub(crate) fn add_inner_products<const HEIGHT: usize, S: Simd>(
    simd: S,
    left: &[f32],
    right: &[f32],
    sums: &mut [f32],
) {
    let vectors = LANES / S::F32_LANES;
    let sums = &mut S::as_mut_simd_f32s(sums).0[..HEIGHT * HEIGHT * vectors];
    for vector in 0..vectors {
        let mut tile = [[simd.splat_f32s(0.0); HEIGHT]; HEIGHT];
        for row in 0..HEIGHT {
            for column in 0..HEIGHT {
                tile[row][column] = sums[(row * HEIGHT + column) * vectors + vector];
            }
        }
        let left = S::as_simd_f32s(left).0.chunks_exact(HEIGHT * vectors);
        let right = S::as_simd_f32s(right).0.chunks_exact(HEIGHT * vectors);
        for (left, right) in left.zip(right) {
            let right: [S::f32s; HEIGHT] = std::array::from_fn(|row| right[row * vectors + vector]);
            for (row, sums) in tile.iter_mut().enumerate() {
                let left = left[row * vectors + vector];
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = simd.mul_add_f32s(left, right, *sum);
                }
            }
        }
        for row in 0..HEIGHT {
            for column in 0..HEIGHT {
                sums[(row * HEIGHT + column) * vectors + vector] = tile[row][column];
            }
        }
    }
}

/// `out[r] = Σ_j coefficients[j][r] · strip[j]` for `HEIGHT` rows over one strip.
///
/// `coefficients` has the layout `[j][HEIGHT]`, `strip` has `[j][STRIP]`; row `r` of the result
/// goes to `out[r · stride..][..STRIP]`.
#[inline(always)]
pub(crate) fn combine_rows<const HEIGHT: usize, S: Simd>(
    simd: S,
    coefficients: &[f32],
    strip: &[f32],
    out: &mut [f32],
    stride: usize,
) {
    // Two vectors of each row at a time: with HEIGHT = 8, sixteen accumulators.
    let pairs = STRIP / (2 * S::F32_LANES);
    let coefficients = coefficients.as_chunks::<HEIGHT>().0;
    for pair in 0..pairs {
        let mut tile = [[simd.splat_f32s(0.0); 2]; HEIGHT];
        let vectors = S::as_simd_f32s(strip).0.chunks_exact(2 * pairs);
        for (coefficients, vectors) in coefficients.iter().zip(vectors) {
            let (first, second) = (vectors[2 * pair], vectors[2 * pair + 1]);
            for (sums, coefficient) in tile.iter_mut().zip(coefficients) {
                let coefficient = simd.splat_f32s(*coefficient);
                sums[0] = simd.mul_add_f32s(coefficient, first, sums[0]);
                sums[1] = simd.mul_add_f32s(coefficient, second, sums[1]);
            }
        }
        for (row, sums) in tile.iter().enumerate() {
            let out = S::as_mut_simd_f32s(&mut out[row * stride..][..STRIP]).0;
            out[2 * pair] = sums[0];
            out[2 * pair + 1] = sums[1];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::{numbers, on_any_instruction_set};
    use crate::parallel::{dispatch, sum_lanes};
    use pulp::WithSimd;

    struct Pack<'a, const WIDTH: usize> {
        rows: &'a [Vec<f32>],
        scale: &'a [f32],
        panel: &'a mut [f32],
    }

    impl<const WIDTH: usize> WithSimd for Pack<'_, WIDTH> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let height = self.rows.len();
            for (index, row) in self.rows.iter().enumerate() {
                pack_scaled_row::<WIDTH, S>(simd, row, self.scale, index, height, self.panel);
            }
        }
    }

    fn pack<const WIDTH: usize>(rows: &[Vec<f32>], scale: &[f32]) -> Vec<f32> {
        let length = rows.len() * scale.len().next_multiple_of(WIDTH);
        on_any_instruction_set(|| {
            let mut panel = vec![9.0; length];
            dispatch(Pack::<WIDTH> {
                rows,
                scale,
                panel: &mut panel,
            });
            panel
        })
    }

    struct InnerProducts<'a>(&'a [f32], &'a [f32], &'a mut [f32]);

    impl WithSimd for InnerProducts<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            add_inner_products::<4, S>(simd, self.0, self.1, self.2);
        }
    }

    struct Combine<'a, const HEIGHT: usize>(&'a [f32], &'a [f32], &'a mut [f32]);

    impl<const HEIGHT: usize> WithSimd for Combine<'_, HEIGHT> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            combine_rows::<HEIGHT, S>(simd, self.0, self.1, self.2, STRIP);
        }
    }

    fn rows(seed: u64, count: usize, length: usize) -> Vec<Vec<f32>> {
        (0..count)
            .map(|row| numbers(seed + row as u64, length))
            .collect()
    }

    #[test]
    fn rows_are_packed_by_chunk_and_padded() {
        for length in [1, 15, 16, 17, 31, 32, 33, 100] {
            let (rows, scale) = (rows(1, 3, length), numbers(9, length));
            let panel = pack::<STRIP>(&rows, &scale);
            for (index, value) in panel.iter().enumerate() {
                let (chunk, rest) = (index / (3 * STRIP), index % (3 * STRIP));
                let (row, column) = (rest / STRIP, chunk * STRIP + rest % STRIP);
                let expected = if column < length {
                    rows[row][column] * scale[column]
                } else {
                    0.0
                };
                assert_eq!(*value, expected);
            }
        }
    }

    #[test]
    fn inner_products_are_added() {
        for length in [1, 16, 17, 200] {
            let (left, right, ones) = (rows(1, 4, length), rows(5, 4, length), vec![1.0; length]);
            let (left_panel, right_panel) = (pack::<16>(&left, &ones), pack::<16>(&right, &ones));
            let sums = on_any_instruction_set(|| {
                let mut sums = vec![0.0; 16 * LANES];
                dispatch(InnerProducts(&left_panel, &right_panel, &mut sums));
                dispatch(InnerProducts(&left_panel, &right_panel, &mut sums));
                sums
            });
            for (entry, lanes) in sums.as_chunks::<LANES>().0.iter().enumerate() {
                let pairs = left[entry / 4].iter().zip(&right[entry % 4]);
                let products = || {
                    pairs
                        .clone()
                        .map(|(a, b)| 2.0 * f64::from(*a) * f64::from(*b))
                };
                let size: f64 = products().map(f64::abs).sum();
                let error = (sum_lanes(lanes) - products().sum::<f64>()).abs();
                assert!(error <= 4.0 * f64::from(f32::EPSILON) * size);
            }
        }
    }

    #[test]
    fn rows_are_combined() {
        check_combination::<1>();
        check_combination::<2>();
        check_combination::<4>();
        check_combination::<8>();
    }

    fn check_combination<const HEIGHT: usize>() {
        for inner in [1, 2, 7, 20] {
            let (coefficients, strip) = (numbers(1, inner * HEIGHT), numbers(2, inner * STRIP));
            let out = on_any_instruction_set(|| {
                let mut out = vec![9.0; HEIGHT * STRIP];
                dispatch(Combine::<HEIGHT>(&coefficients, &strip, &mut out));
                out
            });
            for (index, value) in out.iter().enumerate() {
                let (row, column) = (index / STRIP, index % STRIP);
                let expected = (0..inner).fold(0.0f32, |sum, j| {
                    coefficients[j * HEIGHT + row].mul_add(strip[j * STRIP + column], sum)
                });
                assert_eq!(*value, expected);
            }
        }
    }
}
