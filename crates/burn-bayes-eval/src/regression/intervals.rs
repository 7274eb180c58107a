//! Prediction intervals: coverage and width.
//!
//! The central interval at level ℓ of a mixture with distribution function F is
//!
//!   [F⁻¹((1 − ℓ)/2), F⁻¹((1 + ℓ)/2)],   F(x) = (1/S) Σ_s Φ((x − m_s)/σ_s).
//!
//! F⁻¹ is computed by Newton's method on ln F, starting from the quantile of the Gaussian with the
//! mixture's mean and variance. It lies between the smallest and the largest quantile of a
//! component, and beyond 40 standard deviations the mass of a component is zero in double
//! precision, so [min (m_s − 40σ_s), max (m_s + 40σ_s)] always brackets it. Upper quantiles are
//! solved in 1 − F, for full precision in the tail.
//!
//! Good intervals have coverage ≈ ℓ and, subject to this, the smallest mean width (sharpness).
//!
//! Reference: T. Gneiting, F. Balabdaoui and A. E. Raftery, "Probabilistic forecasts, calibration
//! and sharpness" (2007).

use std::borrow::Cow;

use crate::Bounded;
use crate::check;
use crate::error::{EvalError, Place};
use crate::order::mean;
use crate::special::normal;
use crate::special::roots::newton;
use crate::views::mixture::{Component, GaussianMixture, average, mean as mean_of, variance};

/// One closed interval per row.
///
/// ```
/// use burn_bayes_eval::{GaussianMixture, NoisePrecision, PredictionIntervals};
///
/// let mixture = GaussianMixture::new(&[0.0, 10.0], 1, 2, NoisePrecision::Shared(1.0))?;
/// let intervals = PredictionIntervals::central(&mixture, 0.95)?;
/// assert!((intervals.upper()[0] - 1.959_963_984_540_054).abs() < 1e-12);
/// assert_eq!(intervals.coverage(&[1.0, 13.0])?, 0.5);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PredictionIntervals<'a> {
    lower: Cow<'a, [f64]>,
    upper: Cow<'a, [f64]>,
}

impl<'a> PredictionIntervals<'a> {
    /// Intervals with given limits (borrowed or owned), which may be infinite.
    ///
    /// ```
    /// # use burn_bayes_eval::PredictionIntervals;
    /// let intervals = PredictionIntervals::new(&[0.0, 2.0], &[1.0, 5.0])?;
    /// assert_eq!((intervals.mean_width(), intervals.coverage(&[1.0, 1.0])?), (2.0, 0.5));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if the lengths differ, there are no rows, a limit is NaN or a lower limit is
    /// above its upper one.
    pub fn new(
        lower: impl Into<Cow<'a, [f64]>>,
        upper: impl Into<Cow<'a, [f64]>>,
    ) -> Result<Self, EvalError> {
        let (lower, upper) = (lower.into(), upper.into());
        check::not_empty("lower limits", lower.len())?;
        check::same_length("upper limits", upper.len(), lower.len())?;
        check::comparable("lower limits", &lower)?;
        check::comparable("upper limits", &upper)?;
        if let Some(row) = (0..lower.len()).find(|&row| lower[row] > upper[row]) {
            let expected = format!("at most the upper limit {}", upper[row]);
            let cause = "lower and upper limits swapped, or quantiles that cross";
            let place = Place::row(row);
            return Err(EvalError::data(
                "lower limits",
                place,
                lower[row],
                expected,
                cause,
            ));
        }
        Ok(Self { lower, upper })
    }

    /// The lower limits.
    pub fn lower(&self) -> &[f64] {
        &self.lower
    }

    /// The upper limits.
    pub fn upper(&self) -> &[f64] {
        &self.upper
    }

    /// Fraction of targets inside their interval, including the limits.
    ///
    /// # Errors
    /// A data error if there is not one target per interval or a target is not finite.
    pub fn coverage(&self, targets: &[f64]) -> Result<f64, EvalError> {
        let covered = self.covered(targets)?;
        let count = covered.iter().filter(|&&covered| covered).count();
        Ok(count as f64 / targets.len() as f64)
    }

    /// Whether each target is inside its interval, including the limits.
    ///
    /// # Errors
    /// A data error if there is not one target per interval or a target is not finite.
    pub fn covered(&self, targets: &[f64]) -> Result<Vec<bool>, EvalError> {
        check::same_length("targets", targets.len(), self.lower.len())?;
        check::finite("targets", targets)?;
        let limits = self.lower.iter().zip(self.upper.iter());
        let is_covered =
            |((lower, upper), target): ((&f64, &f64), &f64)| lower <= target && target <= upper;
        Ok(limits.zip(targets).map(is_covered).collect())
    }

    /// The width of each interval, in the unit of the target.
    pub fn widths(&self) -> Vec<f64> {
        // Equal limits have width 0 even if they are infinite.
        let width = |(lower, upper): (&f64, &f64)| if lower == upper { 0.0 } else { upper - lower };
        self.lower
            .iter()
            .zip(self.upper.iter())
            .map(width)
            .collect()
    }

    /// Mean width of the intervals, in the unit of the target.
    pub fn mean_width(&self) -> f64 {
        mean(&self.widths())
    }
}

impl PredictionIntervals<'static> {
    /// The central intervals of mixtures, with equal mass in both tails.
    ///
    /// # Errors
    /// A config error if the level is not strictly between 0 and 1.
    pub fn central(mixture: &GaussianMixture<'_>, level: f64) -> Result<Self, EvalError> {
        check::open_unit("level", level)?;
        let tail = Tail::of(0.5 * (1.0 - level));
        let rows = 0..mixture.rows();
        let lower: Vec<f64> = rows
            .clone()
            .map(|row| tail.lower_limit(mixture, row))
            .collect();
        let upper: Vec<f64> = rows.map(|row| tail.upper_limit(mixture, row)).collect();
        Ok(Self {
            lower: lower.into(),
            upper: upper.into(),
        })
    }
}

/// The quantile of each row's mixture at one probability.
///
/// ```
/// use burn_bayes_eval::{GaussianMixture, NoisePrecision, quantiles};
///
/// let mixture = GaussianMixture::new(&[-3.0, 5.0], 2, 1, NoisePrecision::Shared(1.0))?;
/// assert!((quantiles(&mixture, 0.5)?[0] - 1.0).abs() < 1e-12); // half-way between the components
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A config error if the probability is not strictly between 0 and 1.
pub fn quantiles(mixture: &GaussianMixture<'_>, probability: f64) -> Result<Vec<f64>, EvalError> {
    check::open_unit("probability", probability)?;
    let rows = 0..mixture.rows();
    Ok(if probability <= 0.5 {
        let tail = Tail::of(probability);
        rows.map(|row| tail.lower_limit(mixture, row)).collect()
    } else {
        let tail = Tail::of(1.0 - probability);
        rows.map(|row| tail.upper_limit(mixture, row)).collect()
    })
}

/// The mass beyond the requested limit of every row.
struct Tail {
    /// The logarithm of the mass.
    logarithm: f64,
    /// The quantile of the standard normal distribution.
    standard_limit: f64,
}

impl Tail {
    fn of(mass: f64) -> Self {
        Self {
            logarithm: mass.ln(),
            standard_limit: normal::quantile(mass),
        }
    }

    /// The x with F(x) = the mass.
    fn lower_limit(&self, mixture: &GaussianMixture<'_>, row: usize) -> f64 {
        let components: Vec<Component> = mixture.components(row).collect();
        mixture.target_at(self.limit(&components))
    }

    /// The x with 1 − F(x) = the mass, the lower limit of the mirrored mixture.
    fn upper_limit(&self, mixture: &GaussianMixture<'_>, row: usize) -> f64 {
        let mirror = |c: Component| Component { mean: -c.mean, ..c };
        let components: Vec<Component> = mixture.components(row).map(mirror).collect();
        mixture.target_at(-self.limit(&components))
    }

    fn limit(&self, components: &[Component]) -> f64 {
        let narrowest = components
            .iter()
            .map(|c| c.deviation)
            .fold(f64::INFINITY, f64::at_most);
        let below = components.iter().map(|c| c.mean - REACH * c.deviation);
        let above = components.iter().map(|c| c.mean + REACH * c.deviation);
        let low = below.fold(f64::INFINITY, f64::at_most);
        let high = above.fold(f64::NEG_INFINITY, f64::at_least);
        // The limit of the Gaussian with the mean and the variance of the mixture.
        let all = components.iter().copied();
        let start = mean_of(all.clone()) + variance(all).sqrt() * self.standard_limit;
        newton(low, high, start, narrowest, |limit| {
            let [mass, density] = at_limit(components, limit);
            (mass.ln() - self.logarithm, density / mass)
        })
    }
}

/// Number of standard deviations beyond which Φ is 0 in double precision.
const REACH: f64 = 40.0;

/// F and its slope.
fn at_limit(components: &[Component], limit: f64) -> [f64; 2] {
    let all = components.iter().copied();
    let mass = average(all.clone(), |c| normal::cumulative(c.standardised(limit)));
    let density = |c: Component| normal::density(c.standardised(limit)) / c.deviation;
    [mass, average(all, density)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoisePrecision;

    #[test]
    fn one_gaussian_has_the_table_quantiles() {
        let mixture = GaussianMixture::new(&[10.0], 1, 1, NoisePrecision::Shared(0.25)).unwrap();
        let cases = [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.001, -3.090_232_306_167_813_5),
        ];
        for (probability, z) in cases {
            let found = quantiles(&mixture, probability).unwrap()[0];
            assert!(
                (found - (10.0 + 2.0 * z)).abs() < 64.0 * f64::EPSILON * 16.0,
                "{found}"
            );
        }
    }

    #[test]
    fn both_tails_mirror_each_other() {
        let noise = NoisePrecision::PerDraw(&[1.0, 4.0]);
        let mixture = GaussianMixture::new(&[-1.0, 2.0], 2, 1, noise).unwrap();
        let mirrored = GaussianMixture::new(&[1.0, -2.0], 2, 1, noise).unwrap();
        let intervals = PredictionIntervals::central(&mixture, 0.9).unwrap();
        let mirrored = PredictionIntervals::central(&mirrored, 0.9).unwrap();
        assert_eq!(intervals.lower()[0], -mirrored.upper()[0]);
        assert_eq!(intervals.upper()[0], -mirrored.lower()[0]);
    }

    #[test]
    fn far_apart_components_are_bracketed() {
        let noise = NoisePrecision::PerDraw(&[1e12, 1.0]);
        let mixture = GaussianMixture::new(&[-1e6, 1e6], 2, 1, noise).unwrap();
        let low = quantiles(&mixture, 0.25).unwrap()[0];
        assert!((low + 1e6).abs() < 1e6 * 2.0 * f64::EPSILON); // median of the narrow component
        let high = quantiles(&mixture, 0.75).unwrap()[0];
        assert!((high - 1e6).abs() < 1e6 * 2.0 * f64::EPSILON);
    }

    #[test]
    fn the_largest_means_have_quantiles() {
        let noise = NoisePrecision::Shared(1.0);
        let mixture = GaussianMixture::new(&[0.0, 1e150], 2, 1, noise).unwrap();
        let low = quantiles(&mixture, 0.25).unwrap()[0];
        assert!(low.abs() < 8.0 * f64::EPSILON); // the median of the first component
        let high = quantiles(&mixture, 0.75).unwrap()[0];
        assert!((high / 1e150 - 1.0).abs() < 4.0 * f64::EPSILON);
        // Every number between the two is a median.
        let median = quantiles(&mixture, 0.5).unwrap()[0];
        assert!((0.0..=1e150).contains(&median), "{median}");
    }

    #[test]
    fn halving_finds_the_same() {
        use crate::special::roots::bisect;
        let means = [-3.0, 0.5, 0.6, 7.0, 100.0];
        let precisions = [4.0, 1e4, 1.0, 0.25, 1e-2];
        let mixture = GaussianMixture::new(&means, 5, 1, NoisePrecision::PerDraw(&precisions));
        let mixture = mixture.unwrap();
        let components: Vec<Component> = mixture.components(0).collect();
        for probability in [
            1e-200,
            1e-12,
            0.01,
            0.2,
            0.3,
            0.5,
            0.75,
            0.8,
            0.99,
            1.0 - 1e-12,
        ] {
            let found = quantiles(&mixture, probability).unwrap()[0];
            let halved = bisect(-1e3, 1e3, 0.0, |limit| {
                at_limit(&components, limit)[0] < probability
            });
            // If the slope is small, rounding of the mass moves the limit.
            let [mass, slope] = at_limit(&components, halved);
            let allowed = 16.0 * f64::EPSILON * (mass / slope + halved.abs());
            assert!(
                (found - halved).abs() <= allowed,
                "{probability}: {found} {halved}"
            );
        }
    }

    #[test]
    fn given_limits_count_their_ends() {
        let intervals = PredictionIntervals::new(&[0.0, 0.0, 0.0], &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(intervals.coverage(&[1.0, 0.0, 3.5]).unwrap(), 2.0 / 3.0);
        assert_eq!(intervals.mean_width(), 2.0);
        let whole = [f64::NEG_INFINITY];
        let unbounded = PredictionIntervals::new(&whole, &[f64::INFINITY]).unwrap();
        assert_eq!(unbounded.coverage(&[1e300]).unwrap(), 1.0);
        assert_eq!(unbounded.mean_width(), f64::INFINITY);
    }

    #[test]
    fn rejects_bad_limits_levels_and_targets() {
        assert_eq!(
            PredictionIntervals::new(&[0.0, 2.0], &[1.0, 1.0])
                .unwrap_err()
                .row(),
            Some(1)
        );
        assert!(
            PredictionIntervals::new(&[0.0], &[f64::NAN])
                .unwrap_err()
                .is_data()
        );
        assert!(
            PredictionIntervals::new(&[0.0], &[1.0, 2.0])
                .unwrap_err()
                .is_data()
        );
        assert!(
            PredictionIntervals::new(Vec::new(), Vec::new())
                .unwrap_err()
                .is_data()
        );
        let intervals = PredictionIntervals::new(&[0.0], &[1.0]).unwrap();
        assert!(intervals.coverage(&[]).unwrap_err().is_data());
        assert_eq!(intervals.coverage(&[f64::NAN]).unwrap_err().row(), Some(0));
        let mixture = GaussianMixture::new(&[0.0], 1, 1, NoisePrecision::Shared(1.0)).unwrap();
        for level in [0.0, 1.0, f64::NAN] {
            assert!(
                PredictionIntervals::central(&mixture, level)
                    .unwrap_err()
                    .is_config()
            );
            assert!(quantiles(&mixture, level).unwrap_err().is_config());
        }
    }
}
