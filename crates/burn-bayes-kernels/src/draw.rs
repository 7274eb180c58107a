//! Draws from a low-rank-plus-diagonal Gaussian in one pass over its parameters:
//!
//! ```text
//! θ = mean + Σ_k h_k F_k + sign · ψ^½ ⊙ z
//!   = mean + ψ^½ ⊙ (Σ_k h_k V_k + sign · z)
//! ```
//!
//! z is generated on the fly and never stored: a gradient regenerates it from the same stream.
//! Several draws are computed tile by tile, so that the factors are read from main memory only
//! once.

use crate::gaussian::{Draw, FactorUnits, LowRankGaussian, add_rows};
use crate::normal::{GROUP, fill_groups};
use crate::parallel::{RowsMut, Tile, for_each_block, vectorise};

/// Number of elements per tile; a multiple of the group size of the normals.
const TILE: usize = 512;

/// Writes one draw to `theta`.
///
/// # Panics
///
/// If the lengths do not match.
pub fn draw(gaussian: &LowRankGaussian<'_>, draw: &Draw<'_>, theta: &mut [f32]) {
    draws(gaussian, std::slice::from_ref(draw), theta);
}

/// Writes draws to the rows of `thetas`, which is [draws, parameters].
///
/// # Panics
///
/// If the lengths do not match, or the draws differ in rank.
pub fn draws(gaussian: &LowRankGaussian<'_>, draws: &[Draw<'_>], thetas: &mut [f32]) {
    let length = gaussian.mean.len();
    for draw in draws {
        gaussian.check(draw.latent.len());
    }
    assert_eq!(
        thetas.len(),
        draws.len() * length,
        "the output is not [draws, parameters]"
    );
    let work = draws.len() * (gaussian.factors.len() + length);
    let rows = RowsMut::new(thetas, length);
    for_each_block(
        rows,
        length,
        work,
        &|start, RowsMut(mut rows): RowsMut<'_>| {
            vectorise(
                #[inline(always)]
                || draw_leaf(gaussian, draws, start, &mut rows),
            );
        },
    );
}

#[inline(always)]
fn draw_leaf(
    gaussian: &LowRankGaussian<'_>,
    draws: &[Draw<'_>],
    start: usize,
    rows: &mut [&mut [f32]],
) {
    let length = rows.first().map_or(0, |row| row.len());
    let mut deviations = Tile::<TILE>::zeros();
    for offset in (0..length).step_by(TILE) {
        let range = offset..length.min(offset + TILE);
        let deviations = &mut deviations.0[..range.len()];
        gaussian.diagonal.deviations(start + offset, deviations);
        for (draw, row) in draws.iter().zip(rows.iter_mut()) {
            draw_tile::<TILE>(
                gaussian,
                draw,
                start + offset,
                deviations,
                &mut row[range.clone()],
            );
        }
    }
}

/// One draw of the elements from `start`, given their ψ^½.
#[inline(always)]
pub(crate) fn draw_tile<const LENGTH: usize>(
    gaussian: &LowRankGaussian<'_>,
    draw: &Draw<'_>,
    start: usize,
    deviations: &[f32],
    out: &mut [f32],
) {
    let length = out.len();
    let mut noise = Tile::<LENGTH>::zeros();
    fill_groups(
        draw.noise,
        start,
        &mut noise.0[..length.next_multiple_of(GROUP)],
    );
    let (noise, deviations) = (&noise.0[..length], &deviations[..length]);
    let mean = &gaussian.mean[start..start + length];
    let stride = gaussian.mean.len();
    let row = |k: usize| &gaussian.factors[k * stride + start..];
    match gaussian.units {
        FactorUnits::Weights => {
            for i in 0..length {
                out[i] = (draw.sign * noise[i]).mul_add(deviations[i], mean[i]);
            }
            add_rows(out, draw.latent, row);
        }
        FactorUnits::Deviations => {
            for i in 0..length {
                out[i] = draw.sign * noise[i];
            }
            add_rows(out, draw.latent, row);
            for i in 0..length {
                out[i] = out[i].mul_add(deviations[i], mean[i]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gaussian::Diagonal;
    use crate::gaussian::FactorUnits::{Deviations, Weights};
    use crate::normal::{NormalStream, normal};
    use crate::parallel::tests::{LENGTHS, numbers, on_any_thread_count};

    const NOISE: NormalStream = NormalStream { seed: 8, stream: 3 };

    #[test]
    fn draws_are_the_sum_of_their_parts() {
        for length in LENGTHS {
            for rank in [0, 1, 2, 4, 5, 9] {
                let (mean, factors) = (numbers(1, length), numbers(2, rank * length));
                let log_variance: Vec<f32> = numbers(3, length).iter().map(|x| 4.0 * x).collect();
                let variance: Vec<f32> = log_variance.iter().map(|x| x.exp()).collect();
                let latent = numbers(4, rank);
                let mut noise = vec![0.0; length];
                normal(NOISE, &mut noise);
                for sign in [1.0, -1.0] {
                    for (diagonal, units) in [
                        (Diagonal::LogVariance(&log_variance), Weights),
                        (Diagonal::LogVariance(&log_variance), Deviations),
                        (Diagonal::Variance(&variance), Weights),
                    ] {
                        let gaussian = LowRankGaussian {
                            mean: &mean,
                            factors: &factors,
                            units,
                            diagonal,
                        };
                        let one = Draw {
                            latent: &latent,
                            noise: NOISE,
                            sign,
                        };
                        let theta = on_any_thread_count(|| {
                            let mut theta = vec![f32::NAN; length];
                            draw(&gaussian, &one, &mut theta);
                            theta
                        });
                        for i in 0..length {
                            let deviation = f64::from(log_variance[i] / 2.0).exp();
                            let mut exact = f64::from(mean[i]);
                            exact += f64::from(sign * noise[i]) * deviation;
                            let mut size = exact.abs() + 7.0 * deviation;
                            for k in 0..rank {
                                let unit = match units {
                                    Weights => 1.0,
                                    Deviations => deviation,
                                };
                                let factor = unit * f64::from(factors[k * length + i]);
                                let part = f64::from(latent[k]) * factor;
                                exact += part;
                                size += part.abs();
                            }
                            let error = (f64::from(theta[i]) - exact).abs();
                            assert!(error <= 2.0 * f64::from(f32::EPSILON) * size);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn several_draws_are_the_same_as_one_at_a_time() {
        let (length, rank) = (5000, 3);
        let (mean, factors) = (numbers(1, length), numbers(2, rank * length));
        let (log_variance, latents) = (numbers(3, length), numbers(4, 5 * rank));
        let diagonal = Diagonal::LogVariance(&log_variance);
        let gaussian = LowRankGaussian {
            mean: &mean,
            factors: &factors,
            units: Deviations,
            diagonal,
        };
        let five: Vec<_> = latents
            .chunks(rank)
            .zip(10..)
            .map(|(latent, stream)| {
                let sign = if stream % 2 == 0 { 1.0 } else { -1.0 };
                Draw {
                    latent,
                    noise: NormalStream { seed: 1, stream },
                    sign,
                }
            })
            .collect();
        let thetas = on_any_thread_count(|| {
            let mut thetas = vec![f32::NAN; 5 * length];
            draws(&gaussian, &five, &mut thetas);
            thetas
        });
        for (one, together) in five.iter().zip(thetas.chunks(length)) {
            let mut theta = vec![f32::NAN; length];
            draw(&gaussian, one, &mut theta);
            assert_eq!(theta, together);
        }
    }

    #[test]
    fn no_draws_are_nothing() {
        let diagonal = Diagonal::Variance(&[1.0]);
        draws(
            &LowRankGaussian {
                mean: &[0.0],
                factors: &[],
                units: Weights,
                diagonal,
            },
            &[],
            &mut [],
        );
    }
}
