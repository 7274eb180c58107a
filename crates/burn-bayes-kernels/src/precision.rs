//! Draws from a Gaussian in precision form, N(μ, (UᵀU + diag d)⁻¹).
//!
//! Work is divided into tiles that stay in the cache for the products of all pairs of rows of U.
//! Inner products are summed in `f32` in separate lanes within a tile, and in `f64` across tiles.

use crate::normal::{NormalStream, fill_normal};
use crate::parallel::{BLOCK, Tile, for_each_block, tree_reduce, vectorise, with_scratch};
use crate::tile_sums::{TILE, add_scaled, added, inner_product};

/// A Gaussian in precision form.
#[derive(Clone, Copy, Debug)]
pub struct PrecisionGaussian<'a> {
    /// μ.
    pub mean: &'a [f32],
    /// U, row-major; empty at rank 0.
    pub factors: &'a [f32],
    /// d.
    pub precision: &'a [f32],
}

impl PrecisionGaussian<'_> {
    /// Elements `first..first + width` of every row of U.
    #[inline(always)]
    pub(crate) fn rows(&self, first: usize, width: usize) -> impl Iterator<Item = &[f32]> + Clone {
        let length = self.precision.len().max(1);
        let rows = self.factors.chunks_exact(length);
        rows.map(move |row| &row[first..first + width])
    }

    /// K; 0 if there are no parameters.
    pub(crate) fn rank(&self) -> usize {
        self.factors
            .len()
            .checked_div(self.precision.len())
            .unwrap_or(0)
    }

    /// Checks that the shapes of the parts match.
    pub(crate) fn check(&self) {
        let (length, rank) = (self.precision.len(), self.rank());
        assert_eq!(
            self.mean.len(),
            length,
            "the precision has another length than the mean"
        );
        assert_eq!(
            self.factors.len(),
            rank * length,
            "the factors are not [{rank}, {length}]"
        );
    }
}

impl PrecisionGaussian<'_> {
    /// Checks that there is one weight for each factor.
    pub(crate) fn check_weights(&self, weights: &[f32]) {
        let (found, rank) = (weights.len(), self.rank());
        assert!(
            found == rank || self.precision.is_empty(),
            "{found} weights of {rank} factors"
        );
    }
}

/// A stream of standard normals with a sign.
#[derive(Clone, Copy, Debug)]
pub struct SignedNoise {
    /// The normals.
    pub stream: NormalStream,
    /// 1 or −1.
    pub sign: f32,
}

/// U Uᵀ, then U d⁻¹ Uᵀ, then U (d^-½ ⊙ ε) of every draw, each row-major. Without parameters there are no factors,
/// and the result is empty.
///
/// # Panics
///
/// If the lengths do not match.
pub fn projections(gaussian: &PrecisionGaussian<'_>, noises: &[SignedNoise]) -> Vec<f64> {
    let rank = gaussian.rank();
    let mut sums = all_projections(gaussian, noises, true);
    for row in 1..rank {
        for column in 0..row {
            for block in [0, rank * rank] {
                sums[block + row * rank + column] = sums[block + column * rank + row];
            }
        }
    }
    sums
}

/// U (d^-½ ⊙ ε) of every draw, row-major; the same numbers as those of [`projections`].
///
/// # Panics
///
/// If the lengths do not match.
pub fn noise_products(gaussian: &PrecisionGaussian<'_>, noises: &[SignedNoise]) -> Vec<f64> {
    all_projections(gaussian, noises, false)
}

/// The upper triangles of U Uᵀ and U d⁻¹ Uᵀ, if requested, then U (d^-½ ⊙ ε) of every draw.
fn all_projections(
    gaussian: &PrecisionGaussian<'_>,
    noises: &[SignedNoise],
    with_grams: bool,
) -> Vec<f64> {
    gaussian.check();
    let (length, rank) = (gaussian.precision.len(), gaussian.rank());
    let gram_len = if with_grams { rank * rank } else { 0 };
    let leaf = |start: usize, (): ()| {
        let end = length.min(start + BLOCK);
        let mut sums = vec![0.0; 2 * gram_len + rank * noises.len()];
        with_scratch((rank + 1) * TILE, |scratch| {
            vectorise(
                #[inline(always)]
                || {
                    let (scaled, normals) = scratch.split_at_mut(rank * TILE);
                    for first in (start..end).step_by(TILE) {
                        let width = TILE.min(end - first);
                        let mut deviations = Tile::<TILE>::zeros();
                        let deviations = &mut deviations.0[..width];
                        let precision = &gaussian.precision[first..first + width];
                        deviations
                            .iter_mut()
                            .zip(precision)
                            .for_each(|(r, d)| *r = 1.0 / d.sqrt());
                        for (row, scaled) in gaussian
                            .rows(first, width)
                            .zip(scaled.chunks_exact_mut(TILE))
                        {
                            let products = scaled.iter_mut().zip(row).zip(&*deviations);
                            products.for_each(|((scaled, u), r)| *scaled = u * r);
                        }
                        let (plain, rest) = sums.split_at_mut(gram_len);
                        let (whitened, projected) = rest.split_at_mut(gram_len);
                        let rows = gaussian.rows(first, width).enumerate();
                        for (at, left) in rows.filter(|_| with_grams) {
                            for (column, right) in gaussian.rows(first, width).enumerate().skip(at)
                            {
                                plain[at * rank + column] += inner_product(left, right);
                                let row = &scaled[at * TILE..][..width];
                                let other = &scaled[column * TILE..][..width];
                                whitened[at * rank + column] += inner_product(row, other);
                            }
                        }
                        let normals = &mut normals[..width];
                        for (noise, sums) in
                            noises.iter().zip(projected.chunks_exact_mut(rank.max(1)))
                        {
                            fill_normal(noise.stream, first, normals);
                            for (row, sum) in scaled.chunks_exact(TILE).zip(sums) {
                                let product = inner_product(&row[..width], normals);
                                *sum += f64::from(noise.sign) * product;
                            }
                        }
                    }
                },
            );
        });
        sums
    };
    let work = length * (rank + noises.len());
    tree_reduce((), length, work, &leaf, &added)
}

/// θ = μ + d^-½ ⊙ ε − (U/d)ᵀ w.
///
/// # Panics
///
/// If the lengths do not match; without parameters, there may be any number of weights.
pub fn precision_draw(
    gaussian: &PrecisionGaussian<'_>,
    noise: SignedNoise,
    weights: &[f32],
    theta: &mut [f32],
) {
    let length = theta.len();
    gaussian.check();
    assert_eq!(
        length,
        gaussian.mean.len(),
        "the draw has another length than the mean"
    );
    gaussian.check_weights(weights);
    for_each_block(
        theta,
        length,
        length * (weights.len() + 1),
        &|start, theta: &mut [f32]| {
            vectorise(
                #[inline(always)]
                || {
                    for (index, theta) in theta.chunks_mut(TILE).enumerate() {
                        let (first, width) = (start + index * TILE, theta.len());
                        let mut explained = Tile::<TILE>::zeros();
                        let explained = &mut explained.0[..width];
                        for (row, weight) in gaussian.rows(first, width).zip(weights) {
                            add_scaled(explained, *weight, row);
                        }
                        fill_normal(noise.stream, first, theta);
                        let precision = &gaussian.precision[first..first + width];
                        let mean = &gaussian.mean[first..first + width];
                        let others = explained.iter().zip(precision).zip(mean);
                        for (theta, ((explained, d), mean)) in theta.iter_mut().zip(others) {
                            let own = noise.sign * *theta / d.sqrt();
                            *theta = mean + (own - explained / d);
                        }
                    }
                },
            );
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal::normal;
    use crate::parallel::tests::{LENGTHS, numbers, on_any_instruction_set, on_any_thread_count};
    use crate::precision_step::{MeanStep, PrecisionOut, PrecisionStep, mean_step, precision_step};

    /// Everything a step depends on, owned.
    struct Case {
        mean: Vec<f32>,
        factors: Vec<f32>,
        precision: Vec<f32>,
        rows: Vec<f32>,
        squares: Vec<f32>,
        gradient: Vec<f32>,
        mixing: Vec<f32>,
        prior: [(usize, f32); 2],
        length: usize,
    }

    const NOISES: [SignedNoise; 2] = [noise(1, 1.0), noise(2, -1.0)];
    const RATE: f32 = 0.25;
    const SQUARE_SCALE: f32 = 3.0;
    const GRADIENT_SCALE: f32 = 40.0;

    const fn noise(stream: u64, sign: f32) -> SignedNoise {
        SignedNoise {
            stream: NormalStream { seed: 5, stream },
            sign,
        }
    }

    impl Case {
        fn new(length: usize, rank: usize) -> Self {
            Self {
                mean: numbers(1, length),
                factors: numbers(2, rank * length),
                precision: numbers(3, length).iter().map(|x| x.abs() + 0.5).collect(),
                rows: numbers(4, rank * length),
                squares: numbers(5, length).iter().map(|x| x * x).collect(),
                gradient: numbers(6, length),
                mixing: numbers(7, rank * rank),
                prior: [(length / 2, 0.5), (length - length / 2, 2.0)],
                length,
            }
        }

        fn gaussian(&self) -> PrecisionGaussian<'_> {
            PrecisionGaussian {
                mean: &self.mean,
                factors: &self.factors,
                precision: &self.precision,
            }
        }

        fn step(&self) -> [Vec<f32>; 3] {
            self.step_and_sums().0
        }

        /// U⁺, d⁺, ĝ, and the sums.
        fn step_and_sums(&self) -> ([Vec<f32>; 3], Vec<f64>) {
            let mut factors = self.rows.clone();
            let [mut precision, mut gradient] = [vec![0.0; self.length], vec![0.0; self.length]];
            let step = PrecisionStep {
                squares: &self.squares,
                gradient: &self.gradient,
                mixing: &self.mixing,
                rate: RATE,
                square_scale: SQUARE_SCALE,
                gradient_scale: GRADIENT_SCALE,
                prior_precision: &self.prior,
            };
            let out = PrecisionOut {
                factors: &mut factors,
                precision: &mut precision,
                gradient: &mut gradient,
            };
            let sums = precision_step(&self.gaussian(), &step, out);
            ([factors, precision, gradient], sums)
        }

        fn factor(&self, row: usize, at: usize) -> f64 {
            f64::from(self.factors[row * self.length + at])
        }
    }

    fn normals(noise: SignedNoise, length: usize) -> Vec<f64> {
        let mut values = vec![0.0; length];
        normal(noise.stream, &mut values);
        values
            .iter()
            .map(|value| f64::from(noise.sign * value))
            .collect()
    }

    #[track_caller]
    fn close(found: f64, expected: f64, size: f64) {
        let allowed = 32.0 * f64::from(f32::EPSILON) * size;
        assert!(
            (found - expected).abs() <= allowed,
            "{found}, expected {expected} ± {allowed:e}"
        );
    }

    #[test]
    fn projections_are_the_inner_products() {
        for (length, rank) in LENGTHS.into_iter().zip((0..4).cycle()) {
            let case = Case::new(length, rank);
            let found = on_any_thread_count(|| projections(&case.gaussian(), &NOISES));
            let sum = |term: &dyn Fn(usize) -> f64| (0..length).map(term).sum::<f64>();
            let size = length as f64 + 1.0;
            let precision = |at: usize| f64::from(case.precision[at]);
            let (plain, rest) = found.split_at(rank * rank);
            let (whitened, projected) = rest.split_at(rank * rank);
            for row in 0..rank {
                for column in 0..rank {
                    let product = |at| case.factor(row, at) * case.factor(column, at);
                    close(plain[row * rank + column], sum(&product), size);
                    let scaled = |at| product(at) / precision(at);
                    close(whitened[row * rank + column], sum(&scaled), 2.0 * size);
                }
                for (draw, noise) in NOISES.into_iter().enumerate() {
                    let normal = normals(noise, length);
                    let product = |at| case.factor(row, at) * normal[at] / precision(at).sqrt();
                    close(projected[draw * rank + row], sum(&product), 2.0 * size);
                }
            }
        }
    }

    #[test]
    fn a_draw_is_its_equation() {
        for (length, rank) in LENGTHS.into_iter().zip((0..4).cycle()) {
            let case = Case::new(length, rank);
            let weights = numbers(8, rank);
            let theta = on_any_thread_count(|| {
                let mut theta = vec![0.0; length];
                precision_draw(&case.gaussian(), NOISES[1], &weights, &mut theta);
                theta
            });
            let normal = normals(NOISES[1], length);
            for at in 0..length {
                let precision = f64::from(case.precision[at]);
                let explained: f64 = (0..rank)
                    .map(|row| f64::from(weights[row]) * case.factor(row, at))
                    .sum();
                let expected = f64::from(case.mean[at]) + normal[at] / precision.sqrt()
                    - explained / precision;
                close(theta[at].into(), expected, 10.0);
            }
        }
    }

    #[test]
    fn a_step_is_its_equations() {
        for (length, rank) in LENGTHS.into_iter().zip((0..4).cycle()) {
            let case = Case::new(length, rank);
            let (values, sums) = on_any_thread_count(|| case.step_and_sums());
            let [factors, precision, gradient] = values;
            let mut expected = vec![0.0; rank * (rank + 1) + 2];
            for at in 0..length {
                let new: Vec<f64> = (0..rank)
                    .map(|row| {
                        let old = |column| {
                            f64::from(case.mixing[row * rank + column]) * case.factor(column, at)
                        };
                        f64::from(case.rows[row * length + at]) + (0..rank).map(old).sum::<f64>()
                    })
                    .collect();
                let keep = 1.0 - f64::from(RATE);
                let before: f64 = (0..rank)
                    .map(|row| keep * case.factor(row, at).powi(2))
                    .sum();
                let gained = f64::from(SQUARE_SCALE * case.squares[at]);
                let after: f64 = new.iter().map(|u| u * u).sum();
                let alpha = if at < length / 2 { 0.5 } else { 2.0 };
                let d = keep * f64::from(case.precision[at])
                    + f64::from(RATE) * alpha
                    + (before + gained - after).max(0.0);
                let g = f64::from(GRADIENT_SCALE * case.gradient[at])
                    + alpha * f64::from(case.mean[at]);
                (0..rank).for_each(|row| close(factors[row * length + at].into(), new[row], 4.0));
                close(precision[at].into(), d, 20.0);
                close(gradient[at].into(), g, 50.0);
                for row in 0..rank {
                    for column in 0..rank {
                        expected[row * rank + column] += new[row] * new[column] / d;
                    }
                    expected[rank * rank + row] += new[row] * g / d;
                }
                expected[rank * (rank + 1)] += g * g / d;
                expected[rank * (rank + 1) + 1] += d;
            }
            for (found, expected) in sums.iter().zip(expected) {
                close(*found, expected, 5000.0 * (length as f64 + 1.0));
            }
        }
    }

    #[test]
    fn the_mean_moves_with_and_without_momentum() {
        for (length, rank) in LENGTHS.into_iter().zip((0..4).cycle()) {
            let case = Case::new(length, rank);
            let weights = numbers(8, rank);
            let step = MeanStep {
                weights: &weights,
                scale: 0.5,
                momentum: 0.75,
                learning_rate: 0.1,
            };
            let start = numbers(9, length);
            let [still, swung] = [false, true].map(|has_momentum| {
                on_any_thread_count(|| {
                    let (mut mean, mut velocity) = (case.gradient.clone(), start.clone());
                    let velocity_out = has_momentum.then_some(velocity.as_mut_slice());
                    mean_step(&case.gaussian(), step, &mut mean, velocity_out);
                    (mean, velocity)
                })
            });
            for (at, start) in start.iter().enumerate() {
                let explained: f64 = (0..rank)
                    .map(|row| f64::from(weights[row]) * case.factor(row, at))
                    .sum();
                let direction = 0.5 * (f64::from(case.gradient[at]) - explained)
                    / f64::from(case.precision[at]);
                let mean = f64::from(case.mean[at]);
                close(still.0[at].into(), mean - 0.1 * direction, 10.0);
                let velocity = 0.75 * f64::from(*start) + 0.25 * direction;
                close(swung.1[at].into(), velocity, 10.0);
                close(swung.0[at].into(), mean - 0.1 * velocity, 10.0);
            }
        }
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        let mut case = Case::new(600, 2);
        case.squares[530] = f32::NAN;
        let [_, precision, _] = case.step();
        assert!(precision[530].is_nan() && precision[529].is_finite());
        assert!(
            case.step_and_sums()
                .1
                .last()
                .is_some_and(|sum| sum.is_nan())
        );
    }

    #[test]
    fn any_instruction_set_gives_the_same_numbers() {
        let case = Case::new(1103, 3);
        let weights = numbers(8, 3);
        on_any_instruction_set(|| {
            let mut theta = vec![0.0; 1103];
            precision_draw(&case.gaussian(), NOISES[0], &weights, &mut theta);
            (
                projections(&case.gaussian(), &NOISES),
                theta,
                case.step_and_sums(),
            )
        });
    }
}
