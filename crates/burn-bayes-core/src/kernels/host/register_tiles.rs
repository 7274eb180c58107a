//! The two products whose cost grows with the square of the rank, tiled so that the accumulators
//! stay in vector registers.
//!
//! Written with explicit vectors, because the compiler does not keep a two-dimensional tile of
//! accumulators in registers reliably. A machine vector may be narrower than [`LANES`]: a tile is
//! then computed in several passes over disjoint lanes, so that each sum has the same terms in the
//! same order on every CPU.
//!
//! Goto, van de Geijn (2008), "Anatomy of high-performance matrix multiplication", ACM TOMS 34(3).

use super::parallel::LANES;
use pulp::Simd;

/// Elements of a strip, the unit in which [`combine_rows`] works.
pub(crate) const STRIP: usize = 2 * LANES;

/// Writes `row ⊙ scale` as row `index` of a panel with the layout `[chunk][HEIGHT][WIDTH]`, where
/// a chunk is `WIDTH` elements and a multiple of [`LANES`].
///
/// The last chunk is filled up with zeros; chunks beyond it are left alone.
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

/// Adds all inner products between the rows of two panels with the layout of
/// [`pack_scaled_row`] for chunks of [`LANES`], without yet adding up the lanes.
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
