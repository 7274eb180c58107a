//! Running moments of iterates, in one pass:
//!
//! ```text
//! θ̄ ← θ̄ + (θ − θ̄)/t,   s ← s + (θ² − s)/t,   d = θ − θ̄
//! ```
//!
//! with θ̄ in the last equation the new mean. Maddox, Garipov, Izmailov, Vetrov, Wilson (2019), "A
//! simple baseline for Bayesian uncertainty in deep learning" (SWAG).

use super::parallel::{Tile, for_each_block, vectorise};
use super::segments::Concatenation;

/// Elements that are worked on at a time.
const TILE: usize = 512;

/// Takes iterate number `time` (from 1) into the moments and writes its deviation, if wanted.
///
/// With `time` = 1 the moments become those of the iterate, up to rounding, if they were finite.
///
/// # Panics
///
/// If the lengths do not match.
pub(crate) fn update_moments(
    iterate: &[&[f32]],
    time: usize,
    mean: &mut [f32],
    square: &mut [f32],
    deviation: Option<&mut [f32]>,
) {
    let length = mean.len();
    let iterate = Concatenation::new(iterate);
    assert_eq!(
        iterate.len(),
        length,
        "the iterate has another number of parameters"
    );
    assert_eq!(square.len(), length, "the second moment has another length");
    if let Some(deviation) = &deviation {
        assert_eq!(deviation.len(), length, "the deviation has another length");
    }
    let share = (1.0 / time as f64) as f32;
    let task = (mean, square, deviation);
    for_each_block(
        task,
        length,
        3 * length,
        &|start, (mean, square, deviation)| {
            vectorise(
                #[inline(always)]
                || update_leaf(&iterate, share, start, mean, square, deviation),
            );
        },
    );
}

#[inline(always)]
fn update_leaf(
    iterate: &Concatenation<'_>,
    share: f32,
    start: usize,
    mean: &mut [f32],
    square: &mut [f32],
    mut deviation: Option<&mut [f32]>,
) {
    let length = mean.len();
    let mut values = Tile::<TILE>::zeros();
    for offset in (0..length).step_by(TILE) {
        let width = TILE.min(length - offset);
        let values = &mut values.0[..width];
        iterate.copy_to(start + offset, values);
        let mean = &mut mean[offset..offset + width];
        let square = &mut square[offset..offset + width];
        for i in 0..width {
            mean[i] = (values[i] - mean[i]).mul_add(share, mean[i]);
            square[i] = values[i]
                .mul_add(values[i], -square[i])
                .mul_add(share, square[i]);
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
    use super::super::parallel::tests::{LENGTHS, numbers, on_any_thread_count};
    use super::*;

    #[test]
    fn moments_are_those_of_all_iterates() {
        for length in LENGTHS {
            let cut = length / 3;
            let (mean, square, deviation) = on_any_thread_count(|| {
                let (mut mean, mut square) = (numbers(7, length), numbers(8, length));
                let mut deviation = vec![f32::NAN; length];
                for time in 1..=6 {
                    let iterate = numbers(100 + time as u64, length);
                    let pieces = [&iterate[..cut], &[], &iterate[cut..]];
                    let deviation = (time == 6).then_some(&mut deviation[..]);
                    update_moments(&pieces, time, &mut mean, &mut square, deviation);
                }
                (mean, square, deviation)
            });
            let iterates: Vec<_> = (1..=6).map(|time| numbers(100 + time, length)).collect();
            for i in 0..length {
                let values = || iterates.iter().map(|iterate| f64::from(iterate[i]));
                let exact_mean = values().sum::<f64>() / 6.0;
                let exact_square = values().map(|value| value * value).sum::<f64>() / 6.0;
                // Six updates of numbers below 2.
                let tolerance = 6.0 * 2.0 * f64::from(f32::EPSILON);
                assert!((f64::from(mean[i]) - exact_mean).abs() < tolerance);
                assert!((f64::from(square[i]) - exact_square).abs() < tolerance);
                assert_eq!(deviation[i], iterates[5][i] - mean[i]);
            }
        }
    }
}
