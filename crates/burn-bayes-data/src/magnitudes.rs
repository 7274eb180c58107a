//! Logarithmic scales of columns with long tails.
//!
//! ```text
//! y = asinh(x/u)
//! ```
//!
//! is nearly ±ln(2|x|/u) far from 0, and x/u near it, so that there is one of every number. The unit u is a fifth of the
//! geometric mean of the sizes that are not 0: most numbers are where y is a logarithm.
//!
//! Numbers are counted by sign and size, because chunks of rows are not kept.

use std::collections::BTreeMap;

use crate::scale::ColumnScale;

/// Bins of a factor of two: sizes are known to 2 %.
const BINS: f64 = 16.0;
/// The bin of the smallest number is above 0 with this added.
const SMALLEST: i32 = 1080 * 16;
/// The geometric mean of sizes, in units.
const TYPICAL: f64 = 5.0;
/// A distribution whose kurtosis is above that of an exponential one, or nearly, has long tails. Those of logarithms are to be half as
/// long.
const LONG: f64 = 6.0;

/// How often numbers of each sign and size occur.
#[derive(Debug, Clone, Default)]
pub(crate) struct Magnitudes(BTreeMap<i32, u64>);

impl Magnitudes {
    pub(crate) fn push(&mut self, value: f64) {
        let bin = match value {
            0.0 => 0,
            _ => (BINS * value.abs().log2()).floor() as i32 + SMALLEST,
        };
        let bin = if value < 0.0 { -bin } else { bin };
        *self.0.entry(bin).or_default() += 1;
    }

    /// Numbers in the middle of their bins, with their counts.
    fn numbers(&self) -> impl Iterator<Item = (f64, f64)> {
        self.0.iter().map(|(&bin, &count)| {
            let size = || ((f64::from(bin.abs() - SMALLEST) + 0.5) / BINS).exp2();
            let value = match bin {
                0 => 0.0,
                1.. => size(),
                _ => -size(),
            };
            (value, count as f64)
        })
    }

    /// Mean, variance and kurtosis of a function of the numbers.
    fn moments(&self, of: impl Fn(f64) -> f64) -> [f64; 3] {
        let average = |of: &dyn Fn(f64) -> f64| {
            let numbers = self.numbers();
            let (sum, total) = numbers.fold((0.0, 0.0), |(sum, total), (value, count)| {
                (sum + count * of(value), total + count)
            });
            sum / total
        };
        let mean = average(&of);
        let variance = average(&|value| (of(value) - mean).powi(2));
        let fourth = average(&|value| ((of(value) - mean) / variance.sqrt()).powi(4));
        [mean, variance, fourth]
    }

    /// The unit u, and the scale of y; `None` unless the tails are long and those of y much shorter.
    pub(crate) fn logarithmic(&self) -> Option<(f64, ColumnScale)> {
        let sizes = self.numbers().filter(|(value, _)| *value != 0.0);
        let (sum, total) = sizes.fold((0.0, 0.0), |(sum, total), (value, count)| {
            (sum + count * value.abs().ln(), total + count)
        });
        let unit = (sum / total).exp() / TYPICAL;
        let [_, _, kurtosis] = self.moments(|value| value / unit);
        let [centre, variance, of_logarithms] = self.moments(|value| logarithm(value, unit));
        let is_long = kurtosis > LONG && of_logarithms < 0.5 * kurtosis;
        let scale = ColumnScale {
            centre,
            spread: variance.sqrt(),
            is_logarithmic: false,
        };
        (is_long && unit.is_normal() && scale.spread > 0.0).then_some((unit, scale))
    }
}

/// The logarithm of both signs of a number in these units.
pub(crate) fn logarithm(value: f64, unit: f64) -> f64 {
    (value / unit).asinh()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(values: &[f64]) -> Option<(f64, ColumnScale)> {
        let mut magnitudes = Magnitudes::default();
        values.iter().for_each(|&value| magnitudes.push(value));
        magnitudes.logarithmic()
    }

    /// Quantiles of a standard normal, nearly.
    fn normals() -> impl Iterator<Item = f64> {
        (1..1000).map(|place| {
            let share = f64::from(place) / 1000.0;
            (share / (1.0 - share)).ln() / 1.7
        })
    }

    #[test]
    fn long_tails_have_a_logarithmic_scale_in_any_unit() {
        let amounts: Vec<f64> = normals().map(|normal| (1.5 * normal).exp()).collect();
        for unit in [1e-150, 1.0, 1e150] {
            let scaled: Vec<f64> = amounts.iter().map(|amount| unit * amount).collect();
            let (found, scale) = fit(&scaled).unwrap();
            assert!((found / unit / 0.2 - 1.0).abs() < 0.03, "{found}");
            let logarithms = scaled.iter().map(|&v| scale.apply(logarithm(v, found)));
            let logarithms: Vec<f64> = logarithms.collect();
            let count = logarithms.len() as f64;
            let mean = logarithms.iter().sum::<f64>() / count;
            let variance = logarithms.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
            assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02);
        }
        // Of both signs, and with zeros.
        let both: Vec<f64> = amounts.iter().flat_map(|&v| [v, -v, 0.0]).collect();
        let (unit, scale) = fit(&both).unwrap();
        assert!(scale.centre.abs() < 1e-9);
        assert_eq!(logarithm(0.0, unit), 0.0);
        assert_eq!(logarithm(-3.0, unit), -logarithm(3.0, unit));
    }

    #[test]
    fn short_tails_and_two_values_keep_their_scale() {
        let even: Vec<f64> = (0..100).map(f64::from).collect();
        let rare: Vec<f64> = (0..100).map(|row| f64::from(row % 50 == 0)).collect();
        let bell: Vec<f64> = normals().map(|normal| 100.0 + normal).collect();
        for values in [&even[..], &rare, &bell, &[0.0; 5], &[7.0; 5], &[]] {
            assert!(fit(values).is_none());
        }
    }

    #[test]
    fn the_largest_and_the_smallest_numbers_are_counted() {
        // Too far apart for any scale.
        let values = [f64::MAX, f64::MIN_POSITIVE, 5e-324, -1e-300, 0.0];
        assert!(fit(&values).is_none());
        let values: Vec<f64> = (0..100).map(|power| 10f64.powi(power - 50)).collect();
        assert!(fit(&values).is_some());
    }
}
