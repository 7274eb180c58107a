//! Calibration of real-valued predictive distributions, from the positions of the targets in them.
//!
//! The probability integral transform of a row is
//!
//!   u_r = F_r(y_r) = (1/S) Σ_s Φ((y_r − f_sr) √β_sr),
//!
//! uniform on [0, 1] if the predictions are calibrated. A ∪-shaped histogram means that they are
//! too narrow, a ∩-shaped one that they are too wide. At levels p_j = j/(m + 1), j = 1…m, the
//! observed frequency is
//!
//!   p̂_j = (1/N) #{r : u_r ≤ p_j},
//!
//! and the quantile calibration error is the mean of |p̂ − p| over the levels.
//!
//! References: A. P. Dawid, "Statistical theory: the prequential approach" (1984), for the
//! transform; V. Kuleshov, N. Fenner and S. Ermon, "Accurate uncertainties for deep learning using
//! calibrated regression" (2018), for p̂. They use a sum of squares.

use crate::check;
use crate::error::EvalError;
use crate::order::mean;
use crate::special::normal;
use crate::views::mixture::{TargetedMixture, average};

/// The probability integral transform of each row: the mixture's mass below the target.
///
/// ```
/// use burn_bayes_eval::{GaussianMixture, NoisePrecision, TargetedMixture, pit_values};
///
/// let mixture = GaussianMixture::new(&[-4.0, 4.0], 2, 1, NoisePrecision::Shared(1.0))?;
/// assert_eq!(pit_values(&TargetedMixture::new(&mixture, &[0.0])?), [0.5]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn pit_values(targeted: &TargetedMixture<'_>) -> Vec<f64> {
    let mixture = targeted.mixture();
    targeted.map(|row, target| {
        average(mixture.components(row), |component| {
            normal::cumulative(component.standardised(target))
        })
    })
}

/// Nominal and observed frequencies of quantiles, and the resulting calibration error.
///
/// ```
/// use burn_bayes_eval::QuantileCalibration;
///
/// // All targets are in the lower quarter: the predictions are too high.
/// let calibration = QuantileCalibration::new(&[0.1, 0.2, 0.2, 0.1], 3)?;
/// assert_eq!(calibration.points()[0].level, 0.25);
/// assert_eq!(calibration.points()[0].observed, 1.0);
/// assert_eq!(calibration.mean_absolute_error(), 0.5);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct QuantileCalibration {
    points: Vec<QuantilePoint>,
}

/// One level of a [`QuantileCalibration`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantilePoint {
    /// The nominal probability p.
    pub level: f64,
    /// The fraction p̂ of targets at or below their quantile at p.
    pub observed: f64,
}

impl QuantileCalibration {
    /// Compares transforms from [`pit_values`] at `levels` evenly spaced levels inside (0, 1).
    ///
    /// # Errors
    /// A data error if there are no values or one is not in [0, 1]; a config error if `levels` is
    /// zero or above a million.
    pub fn new(pit: &[f64], levels: usize) -> Result<Self, EvalError> {
        check::count("levels", levels, 1..=check::MOST_BINS)?;
        check::not_empty("transforms", pit.len())?;
        let cause = "targets or quantiles passed instead of their transforms";
        check::unit("transforms", pit, cause)?;
        let mut sorted = pit.to_vec();
        sorted.sort_by(f64::total_cmp);
        let point = |index: usize| {
            let level = index as f64 / (levels as f64 + 1.0);
            let below = sorted.partition_point(|&value| value <= level);
            QuantilePoint {
                level,
                observed: below as f64 / pit.len() as f64,
            }
        };
        Ok(Self {
            points: (1..=levels).map(point).collect(),
        })
    }

    /// The levels, by increasing probability.
    pub fn points(&self) -> &[QuantilePoint] {
        &self.points
    }

    /// Mean over levels of |p̂ − p|.
    pub fn mean_absolute_error(&self) -> f64 {
        let gaps = self
            .points
            .iter()
            .map(|point| (point.observed - point.level).abs());
        mean(&gaps.collect::<Vec<f64>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenly_spread_transforms_are_calibrated() {
        let calibration = QuantileCalibration::new(&[0.75, 0.25, 0.5, 1.0], 3).unwrap();
        assert_eq!(calibration.mean_absolute_error(), 0.0);
    }

    #[test]
    fn hand_worked_errors() {
        // Half the mass at 0, half at 1: p̂ = .5 at .25, .5, .75.
        let calibration = QuantileCalibration::new(&[0.0, 1.0], 3).unwrap();
        assert_eq!(calibration.mean_absolute_error(), 0.5 / 3.0);
    }

    #[test]
    fn rejects_what_is_no_transform() {
        assert!(QuantileCalibration::new(&[], 3).unwrap_err().is_data());
        for levels in [0, usize::MAX] {
            let error = QuantileCalibration::new(&[0.5], levels).unwrap_err();
            assert!(error.is_config());
        }
        assert_eq!(
            QuantileCalibration::new(&[0.5, 1.5], 3).unwrap_err().row(),
            Some(1)
        );
        assert_eq!(
            QuantileCalibration::new(&[f64::NAN], 3).unwrap_err().row(),
            Some(0)
        );
    }
}
