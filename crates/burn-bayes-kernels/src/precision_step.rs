//! Natural-gradient steps of a Gaussian in precision form, N(μ, (UᵀU + diag d)⁻¹).

use crate::parallel::{RowsMut, Tile, for_each_block, tree_reduce, vectorise, with_scratch};
use crate::precision::PrecisionGaussian;
use crate::segments::ConstantRuns;
use crate::tile_sums::{TILE, add_scaled, add_squares, added, inner_product};

/// The inputs of a step of the precision.
#[derive(Clone, Copy, Debug)]
pub struct PrecisionStep<'a> {
    /// Σ g².
    pub squares: &'a [f32],
    /// The mean g.
    pub gradient: &'a [f32],
    /// Q, [rank, rank].
    pub mixing: &'a [f32],
    /// β.
    pub rate: f32,
    /// The factor of the squares.
    pub square_scale: f32,
    /// N.
    pub gradient_scale: f32,
    /// α as (number of parameters, precision), in the order of the parameters.
    pub prior_precision: &'a [(usize, f32)],
}

/// The outputs of a step.
#[derive(Debug)]
pub struct PrecisionOut<'a> {
    /// On input the contribution of the gradients to U⁺, on output U⁺.
    pub factors: &'a mut [f32],
    /// d⁺.
    pub precision: &'a mut [f32],
    /// ĝ.
    pub gradient: &'a mut [f32],
}

/// Computes the step; returns U⁺ d⁺⁻¹ U⁺ᵀ, then U⁺ (ĝ/d⁺), then Σ ĝ²/d⁺ and Σ d⁺.
///
/// # Panics
///
/// If the lengths do not match; without parameters, Q may have any size.
pub fn precision_step(
    gaussian: &PrecisionGaussian<'_>,
    step: &PrecisionStep<'_>,
    out: PrecisionOut<'_>,
) -> Vec<f64> {
    gaussian.check();
    let (length, rank) = (gaussian.precision.len(), gaussian.rank());
    for (name, found) in [
        ("the sum of squares", step.squares.len()),
        ("the gradient", step.gradient.len()),
        ("the new precision", out.precision.len()),
        ("the new gradient", out.gradient.len()),
    ] {
        assert_eq!(found, length, "{name} has another length than the mean");
    }
    assert!(
        step.mixing.len() == rank * rank || length == 0,
        "the mixing matrix is not [{rank}, {rank}]"
    );
    let prior = ConstantRuns::new(step.prior_precision);
    assert_eq!(
        prior.len(),
        length,
        "the prior has another number of parameters"
    );
    assert_eq!(
        out.factors.len(),
        rank * length,
        "the rows are not [{rank}, {length}]"
    );
    let task = (
        out.precision,
        out.gradient,
        RowsMut::new(out.factors, length),
    );
    let leaf = |start: usize, task: (&mut [f32], &mut [f32], RowsMut<'_>)| {
        let (precision, gradient, RowsMut(mut factors)) = task;
        let mut sums = vec![0.0; rank * (rank + 1) + 2];
        with_scratch(rank * TILE, |scaled| {
            vectorise(
                #[inline(always)]
                || {
                    for offset in (0..precision.len()).step_by(TILE) {
                        let width = TILE.min(precision.len() - offset);
                        let first = start + offset;
                        let span = first..first + width;
                        let mut lost = Tile::<TILE>::zeros();
                        let lost = &mut lost.0[..width];
                        let squares = lost.iter_mut().zip(&step.squares[span.clone()]);
                        squares.for_each(|(lost, square)| *lost = step.square_scale * square);
                        for row in gaussian.rows(first, width) {
                            add_squares(lost, 1.0 - step.rate, row);
                        }
                        for (at, row) in factors.iter_mut().enumerate() {
                            let row = &mut row[offset..offset + width];
                            for (share, old) in step.mixing[at * rank..]
                                .iter()
                                .zip(gaussian.rows(first, width))
                            {
                                add_scaled(row, *share, old);
                            }
                            add_squares(lost, -1.0, row);
                        }

                        let mut alphas = Tile::<TILE>::zeros();
                        let alphas = &mut alphas.0[..width];
                        prior.copy_to(first, alphas);
                        let precision = &mut precision[offset..offset + width];
                        let before = gaussian.precision[span.clone()].iter();
                        for (((new, old), alpha), lost) in
                            precision.iter_mut().zip(before).zip(&*alphas).zip(&*lost)
                        {
                            let kept = (1.0 - step.rate) * old + step.rate * alpha;
                            // Not `max`, which drops NaN.
                            *new = kept + if *lost < 0.0 { 0.0 } else { *lost };
                        }
                        let gradient = &mut gradient[offset..offset + width];
                        let terms = step.gradient[span.clone()].iter().zip(&gaussian.mean[span]);
                        for ((new, (g, mean)), alpha) in
                            gradient.iter_mut().zip(terms).zip(&*alphas)
                        {
                            *new = step.gradient_scale * g + alpha * mean;
                        }

                        let (gram, rest) = sums.split_at_mut(rank * rank);
                        let (projection, totals) = rest.split_at_mut(rank);
                        for (row, scaled) in factors.iter().zip(scaled.chunks_exact_mut(TILE)) {
                            let row = &row[offset..offset + width];
                            let quotients = scaled.iter_mut().zip(row).zip(&*precision);
                            quotients.for_each(|((scaled, u), d)| *scaled = u / d);
                        }
                        for (at, scaled) in scaled.chunks_exact(TILE).take(rank).enumerate() {
                            let scaled = &scaled[..width];
                            for (column, row) in factors.iter().enumerate().skip(at) {
                                let row = &row[offset..offset + width];
                                gram[at * rank + column] += inner_product(scaled, row);
                            }
                            projection[at] += inner_product(scaled, gradient);
                        }
                        let quotients = lost.iter_mut().zip(&*gradient).zip(&*precision);
                        quotients.for_each(|((quotient, g), d)| *quotient = g / d);
                        totals[0] += inner_product(lost, gradient);
                        lost.fill(1.0);
                        totals[1] += inner_product(lost, precision);
                    }
                },
            );
        });
        sums
    };
    let mut sums = tree_reduce(task, length, length * (2 * rank + 4), &leaf, &added);
    for row in 1..rank {
        for column in 0..row {
            sums[row * rank + column] = sums[column * rank + row];
        }
    }
    sums
}

/// v ← m v + (1−m) s, or v = s without momentum, with s = scale (ĝ − Uᵀw)/d; μ ← μ − η v.
#[derive(Clone, Copy, Debug)]
pub struct MeanStep<'a> {
    /// w.
    pub weights: &'a [f32],
    /// The factor of the direction.
    pub scale: f32,
    /// m.
    pub momentum: f32,
    /// η.
    pub learning_rate: f32,
}

/// Computes the step: ĝ in `mean` is replaced by μ⁺, and v in `velocity`, if there is one, by v⁺.
///
/// # Panics
///
/// If the lengths do not match; without parameters, there may be any number of weights.
pub fn mean_step(
    gaussian: &PrecisionGaussian<'_>,
    step: MeanStep<'_>,
    mean: &mut [f32],
    velocity: Option<&mut [f32]>,
) {
    let length = mean.len();
    gaussian.check();
    assert_eq!(
        length,
        gaussian.mean.len(),
        "the gradient has another length than the mean"
    );
    gaussian.check_weights(step.weights);
    if let Some(velocity) = &velocity {
        assert_eq!(
            velocity.len(),
            length,
            "the velocity has another length than the mean"
        );
    }
    let work = length * (step.weights.len() + 3);
    let leaf = |start: usize, (mean, mut velocity): (&mut [f32], Option<&mut [f32]>)| {
        vectorise(
            #[inline(always)]
            || {
                for (index, mean) in mean.chunks_mut(TILE).enumerate() {
                    let (offset, width) = (index * TILE, mean.len());
                    let first = start + offset;
                    for (row, weight) in gaussian.rows(first, width).zip(step.weights) {
                        add_scaled(mean, -*weight, row);
                    }
                    let precision = &gaussian.precision[first..first + width];
                    let quotients = mean.iter_mut().zip(precision);
                    quotients.for_each(|(direction, d)| *direction = step.scale * (*direction / d));
                    if let Some(velocity) = &mut velocity {
                        let velocity = &mut velocity[offset..offset + width];
                        for (direction, velocity) in mean.iter_mut().zip(velocity) {
                            *velocity =
                                step.momentum * *velocity + (1.0 - step.momentum) * *direction;
                            *direction = *velocity;
                        }
                    }
                    let old = &gaussian.mean[first..first + width];
                    let moved = mean.iter_mut().zip(old);
                    moved.for_each(|(mean, old)| *mean = old - step.learning_rate * *mean);
                }
            },
        );
    };
    for_each_block((mean, velocity), length, work, &leaf);
}
