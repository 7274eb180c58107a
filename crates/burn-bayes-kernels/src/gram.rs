//! The K × K matrix B = F diag(1/ψ) Fᵀ = V Vᵀ, alone or fused with a draw that reads the same factors.
//!
//! The rows of F, scaled by ψ^-½, are packed tile by tile into panels that fit the cache. Products
//! are summed in `f32` in separate lanes within a block, and in `f64` across blocks. Only the upper
//! triangle is computed.

use crate::draw::draw_tile;
use crate::gaussian::{Draw, FactorUnits, LowRankGaussian};
use crate::parallel::{BLOCK, LANES, Tile, dispatch, sum_lanes, tree_reduce, with_scratch};
use crate::register_tiles::{add_inner_products, pack_scaled_row};
use pulp::{Simd, WithSimd};

/// Number of elements per tile for small ranks; a multiple of the group size of the normals.
const TILE: usize = 256;

/// Target size of the packed factors, in numbers: half the level-2 cache of a small core.
const SCRATCH: usize = 1 << 15;

/// Writes B to `gram`, which is [rank, rank].
///
/// # Panics
///
/// If the lengths do not match.
pub fn gram(gaussian: &LowRankGaussian<'_>, rank: usize, gram: &mut [f64]) {
    gaussian.check(rank);
    reduce(gaussian, rank, None, gram);
}

/// Writes one draw to `theta` and B to `gram`, which is [rank, rank].
///
/// # Panics
///
/// If the lengths do not match.
pub fn draw_and_gram(
    gaussian: &LowRankGaussian<'_>,
    draw: &Draw<'_>,
    theta: &mut [f32],
    gram: &mut [f64],
) {
    let rank = draw.latent.len();
    gaussian.check(rank);
    assert_eq!(
        theta.len(),
        gaussian.mean.len(),
        "the draw has another length than the mean"
    );
    reduce(gaussian, rank, Some((draw, theta)), gram);
}

fn reduce(
    gaussian: &LowRankGaussian<'_>,
    rank: usize,
    draw: Option<(&Draw<'_>, &mut [f32])>,
    gram: &mut [f64],
) {
    assert_eq!(
        gram.len(),
        rank * rank,
        "the result is not [{rank}, {rank}]"
    );
    match rank {
        1 => reduce_panels::<1>(gaussian, rank, draw, gram),
        2 => reduce_panels::<2>(gaussian, rank, draw, gram),
        _ => reduce_panels::<4>(gaussian, rank, draw, gram),
    }
    for row in 1..rank {
        for column in 0..row {
            gram[row * rank + column] = gram[column * rank + row];
        }
    }
}

fn reduce_panels<const HEIGHT: usize>(
    gaussian: &LowRankGaussian<'_>,
    rank: usize,
    draw: Option<(&Draw<'_>, &mut [f32])>,
    gram: &mut [f64],
) {
    let length = gaussian.diagonal.len();
    let padded_rank = rank.next_multiple_of(HEIGHT);
    let tile = (SCRATCH / padded_rank.max(1) / 64 * 64).clamp(64, TILE);
    let panels = padded_rank / HEIGHT;
    let pairs = panels * (panels + 1) / 2;
    let (draw, theta) = draw.unzip();
    let sum = tree_reduce(
        theta,
        length,
        length * (rank + 1),
        &|start, theta: Option<&mut [f32]>| {
            let length = (length - start).min(BLOCK);
            with_scratch(
                padded_rank * tile + pairs * HEIGHT * HEIGHT * LANES,
                |scratch| {
                    let mut sum = vec![0.0; rank * rank];
                    let draw = draw.zip(theta);
                    let sum_mut = sum.as_mut_slice();
                    let leaf = Leaf::<HEIGHT> {
                        gaussian,
                        rank,
                        start,
                        length,
                        tile,
                        draw,
                        scratch,
                        sum: sum_mut,
                    };
                    dispatch(leaf);
                    sum
                },
            )
        },
        &|mut left, right| {
            left.iter_mut()
                .zip(right)
                .for_each(|(left, right)| *left += right);
            left
        },
    );
    gram.copy_from_slice(&sum);
}

struct Leaf<'a, const HEIGHT: usize> {
    gaussian: &'a LowRankGaussian<'a>,
    rank: usize,
    start: usize,
    length: usize,
    tile: usize,
    draw: Option<(&'a Draw<'a>, &'a mut [f32])>,
    scratch: &'a mut [f32],
    sum: &'a mut [f64],
}

impl<const HEIGHT: usize> WithSimd for Leaf<'_, HEIGHT> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            gaussian,
            rank,
            start,
            length,
            tile,
            mut draw,
            scratch,
            sum,
        } = self;
        let panels = rank.div_ceil(HEIGHT);
        let panel_length = HEIGHT * tile;
        let (scratch, sums) = scratch.split_at_mut(panels * panel_length);
        sums.fill(0.0);
        if !rank.is_multiple_of(HEIGHT) {
            scratch[(panels - 1) * panel_length..].fill(0.0);
        }
        let stride = gaussian.diagonal.len();
        let mut deviations = Tile::<TILE>::zeros();
        let mut inverses = Tile::<TILE>::zeros();
        for offset in (0..length).step_by(tile) {
            let width = tile.min(length - offset);
            let first = start + offset;
            let deviations = &mut deviations.0[..width];
            let inverses = &mut inverses.0[..width];
            gaussian
                .diagonal
                .deviations_and_inverses(first, deviations, inverses);
            if gaussian.units == FactorUnits::Deviations {
                inverses.fill(1.0);
            }
            if let Some((draw, theta)) = &mut draw {
                let theta = &mut theta[offset..offset + width];
                draw_tile::<TILE>(gaussian, draw, first, deviations, theta);
            }
            for row in 0..rank {
                let panel = &mut scratch[row / HEIGHT * panel_length..][..panel_length];
                let values = &gaussian.factors[row * stride + first..][..width];
                pack_scaled_row::<LANES, S>(simd, values, inverses, row % HEIGHT, HEIGHT, panel);
            }
            let used = HEIGHT * width.next_multiple_of(LANES);
            let mut pairs = sums.chunks_exact_mut(HEIGHT * HEIGHT * LANES);
            for row in 0..panels {
                let left = &scratch[row * panel_length..][..used];
                for (column, sums) in (row..panels).zip(&mut pairs) {
                    let right = &scratch[column * panel_length..][..used];
                    add_inner_products::<HEIGHT, S>(simd, left, right, sums);
                }
            }
        }
        let mut pairs = sums.chunks_exact(HEIGHT * HEIGHT * LANES);
        for row in 0..panels {
            for (column, sums) in (row..panels).zip(&mut pairs) {
                write_sums::<HEIGHT>(sums, row * HEIGHT, column * HEIGHT, rank, sum);
            }
        }
    }
}

/// Sums the lanes of a tile of entries that starts at `row` and `column`.
#[inline(always)]
fn write_sums<const HEIGHT: usize>(
    sums: &[f32],
    row: usize,
    column: usize,
    rank: usize,
    gram: &mut [f64],
) {
    let columns = HEIGHT.min(rank - column);
    let (lanes, _) = sums.as_chunks::<LANES>();
    for (row, lanes) in (row..rank).zip(lanes.chunks_exact(HEIGHT)) {
        let entries = &mut gram[row * rank + column..][..columns];
        for (entry, lanes) in entries.iter_mut().zip(lanes) {
            *entry = sum_lanes(lanes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::draw as draw_alone;
    use crate::gaussian::Diagonal;
    use crate::gaussian::FactorUnits::{Deviations, Weights};
    use crate::normal::NormalStream;
    use crate::parallel::tests::{LENGTHS, numbers, on_any_thread_count};

    fn gram_alone(gaussian: &LowRankGaussian<'_>, rank: usize) -> Vec<f64> {
        let mut result = vec![f64::NAN; rank * rank];
        gram(gaussian, rank, &mut result);
        result
    }

    fn oracle(factors: &[f32], rank: usize, log_variance: &[f32]) -> (Vec<f64>, Vec<f64>) {
        let length = log_variance.len();
        let (mut sums, mut sizes) = (vec![0.0; rank * rank], vec![0.0; rank * rank]);
        for row in 0..rank {
            for column in 0..rank {
                for i in 0..length {
                    let left = f64::from(factors[row * length + i]);
                    let right = f64::from(factors[column * length + i]);
                    let product = left * right * (-f64::from(log_variance[i])).exp();
                    sums[row * rank + column] += product;
                    sizes[row * rank + column] += product.abs();
                }
            }
        }
        (sums, sizes)
    }

    #[test]
    fn entries_are_weighted_inner_products() {
        for length in LENGTHS {
            for rank in [0, 1, 2, 3, 4, 5, 8, 33] {
                let factors = numbers(2, rank * length);
                let log_variance: Vec<f32> = numbers(3, length).iter().map(|x| 3.0 * x).collect();
                let zeros = vec![0.0; length];
                for (units, scale) in [(Weights, &log_variance), (Deviations, &zeros)] {
                    let gaussian = LowRankGaussian {
                        mean: &zeros,
                        factors: &factors,
                        units,
                        diagonal: Diagonal::LogVariance(&log_variance),
                    };
                    let result = on_any_thread_count(|| gram_alone(&gaussian, rank));
                    let (sums, sizes) = oracle(&factors, rank, scale);
                    for ((result, sum), size) in result.iter().zip(sums).zip(sizes) {
                        // Each scaled factor has an error of 2.5 eps; sums of 64 terms in f32 add
                        // some more.
                        assert!((result - sum).abs() <= 8.0 * f64::from(f32::EPSILON) * size);
                    }
                    for row in 0..rank {
                        for column in 0..rank {
                            assert_eq!(result[row * rank + column], result[column * rank + row]);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn large_ranks_use_small_tiles() {
        let (length, rank) = (300, 150);
        let factors = numbers(2, rank * length);
        let log_variance = numbers(3, length);
        let variance: Vec<f32> = log_variance.iter().map(|x| x.exp()).collect();
        let gaussian = LowRankGaussian {
            mean: &vec![0.0; length],
            factors: &factors,
            units: Weights,
            diagonal: Diagonal::Variance(&variance),
        };
        let result = gram_alone(&gaussian, rank);
        let (sums, sizes) = oracle(&factors, rank, &log_variance);
        for ((result, sum), size) in result.iter().zip(sums).zip(sizes) {
            assert!((result - sum).abs() <= 8.0 * f64::from(f32::EPSILON) * size);
        }
    }

    #[test]
    fn together_is_the_same_as_separately() {
        for length in LENGTHS {
            for (rank, units) in [(0, Weights), (1, Weights), (2, Deviations), (6, Weights)] {
                let (mean, factors) = (numbers(1, length), numbers(2, rank * length));
                let (variance, latent) = (vec![0.3; length], numbers(4, rank));
                let diagonal = Diagonal::Variance(&variance);
                let gaussian = LowRankGaussian {
                    mean: &mean,
                    factors: &factors,
                    units,
                    diagonal,
                };
                let noise = NormalStream { seed: 5, stream: 6 };
                let one = Draw {
                    latent: &latent,
                    noise,
                    sign: -1.0,
                };
                let (theta, both) = on_any_thread_count(|| {
                    let (mut theta, mut both) = (vec![0.0; length], vec![0.0; rank * rank]);
                    draw_and_gram(&gaussian, &one, &mut theta, &mut both);
                    (theta, both)
                });
                let mut theta_alone = vec![0.0; length];
                draw_alone(&gaussian, &one, &mut theta_alone);
                assert_eq!(theta, theta_alone);
                assert_eq!(both, gram_alone(&gaussian, rank));
            }
        }
    }
}
