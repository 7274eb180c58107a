//! Running moments of iterates, in one pass:
//!
//! ```text
//! δ = θ − θ̄,   θ̄ ← θ̄ + δ/t,   v ← (1 − 1/t)(v + δ²/t),   d = θ − θ̄
//! ```
//!
//! where θ̄ in the last equation is the new mean. t·v is Welford's sum of squared deviations, to
//! which an iterate adds δ(θ − θ̄) = (1 − 1/t)δ². No large terms are subtracted, so v stays
//! accurate for deviations that are small relative to the mean, and is never negative. B. P.
//! Welford (1962), "Note on a method for calculating corrected sums of squares and products";
//! Maddox, Garipov, Izmailov, Vetrov, Wilson (2019), "A simple baseline for Bayesian uncertainty in
//! deep learning" (SWAG).

use crate::parallel::{Tile, for_each_block, vectorise};
use crate::segments::Concatenation;

/// Number of elements per tile.
const TILE: usize = 512;

/// Adds iterate number `time` (from 1) to the moments and writes its deviation, if requested.
///
/// With `time` = 1 the moments are set to those of the iterate; previous values are ignored if they
/// are finite.
///
/// # Panics
///
/// If the lengths do not match, or `time` is 0.
pub fn update_moments(
    iterate: &[&[f32]],
    time: usize,
    mean: &mut [f32],
    variance: &mut [f32],
    deviation: Option<&mut [f32]>,
) {
    assert!(time > 0, "iterates are counted from 1");
    let length = mean.len();
    let iterate = Concatenation::new(iterate);
    assert_eq!(
        iterate.len(),
        length,
        "the iterate has another number of parameters"
    );
    assert_eq!(variance.len(), length, "the variance has another length");
    if let Some(deviation) = &deviation {
        assert_eq!(deviation.len(), length, "the deviation has another length");
    }
    let task = (mean, variance, deviation);
    for_each_block(
        task,
        length,
        3 * length,
        &|start, (mean, variance, deviation)| {
            vectorise(
                #[inline(always)]
                || update_leaf(&iterate, time, start, mean, variance, deviation),
            );
        },
    );
}

#[inline(always)]
fn update_leaf(
    iterate: &Concatenation<'_>,
    time: usize,
    start: usize,
    mean: &mut [f32],
    variance: &mut [f32],
    mut deviation: Option<&mut [f32]>,
) {
    let length = mean.len();
    let share = 1.0 / time as f64;
    let (share, rest) = (share as f32, (1.0 - share) as f32);
    let mut values = Tile::<TILE>::zeros();
    for offset in (0..length).step_by(TILE) {
        let width = TILE.min(length - offset);
        let values = &mut values.0[..width];
        iterate.copy_to(start + offset, values);
        let mean = &mut mean[offset..offset + width];
        let variance = &mut variance[offset..offset + width];
        if time == 1 {
            // θ̄ + (θ − θ̄) would differ from θ by rounding relative to the unrelated initial mean.
            mean.copy_from_slice(values);
        }
        for i in 0..width {
            let gap = values[i] - mean[i];
            mean[i] = gap.mul_add(share, mean[i]);
            variance[i] = rest * (gap * gap).mul_add(share, variance[i]);
        }
        if let Some(deviation) = &mut deviation {
            let deviation = &mut deviation[offset..offset + width];
            for i in 0..width {
                deviation[i] = values[i] - mean[i];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::{LENGTHS, numbers, on_any_thread_count};

    #[test]
    fn moments_are_those_of_all_iterates() {
        for length in LENGTHS {
            let cut = length / 3;
            let (mean, variance, deviation) = on_any_thread_count(|| {
                let (mut mean, mut variance) = (numbers(7, length), numbers(8, length));
                let mut deviation = vec![f32::NAN; length];
                for time in 1..=6 {
                    let iterate = numbers(100 + time as u64, length);
                    let pieces = [&iterate[..cut], &[], &iterate[cut..]];
                    let deviation = (time == 6).then_some(&mut deviation[..]);
                    update_moments(&pieces, time, &mut mean, &mut variance, deviation);
                }
                (mean, variance, deviation)
            });
            let iterates: Vec<_> = (1..=6).map(|time| numbers(100 + time, length)).collect();
            for i in 0..length {
                let values = || iterates.iter().map(|iterate| f64::from(iterate[i]));
                let exact_mean = values().sum::<f64>() / 6.0;
                let squares = values().map(|value| (value - exact_mean).powi(2));
                let exact_variance = squares.sum::<f64>() / 6.0;
                // Six updates of numbers below 2.
                let tolerance = 6.0 * 2.0 * f64::from(f32::EPSILON);
                assert!((f64::from(mean[i]) - exact_mean).abs() < tolerance);
                assert!((f64::from(variance[i]) - exact_variance).abs() < tolerance);
                assert_eq!(deviation[i], iterates[5][i] - mean[i]);
            }
        }
    }
}
