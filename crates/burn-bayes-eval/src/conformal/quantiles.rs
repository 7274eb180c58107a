//! Conformalised quantile regression (CQR).
//!
//!   s = max(lower − y, y − upper),     interval [lower − q̂, upper + q̂]
//!
//! q̂ is the [`conformal_threshold`] of s; it is below zero, and shortens the intervals, if they
//! cover too much. Better than residuals if the spread of the target depends on the row in a way
//! that the quantiles have learned. The limits may come from a quantile regression or from
//! [`PredictionIntervals::central`]. An interval whose limits would cross is their common middle.
//!
//! Reference: Y. Romano, E. Patterson and E. J. Candès, "Conformalized quantile regression" (2019).

use crate::Bounded;
use crate::check;
use crate::conformal::limits::{outward, rounding};
use crate::conformal::threshold::conformal_threshold;
use crate::error::EvalError;
use crate::regression::PredictionIntervals;

/// Intervals that are moved outwards by one distance at both limits.
///
/// ```
/// use burn_bayes_eval::{ConformalQuantiles, PredictionIntervals};
///
/// let known = PredictionIntervals::new(&[0.0, 0.0, 0.0], &[1.0, 2.0, 3.0])?;
/// let conformal = ConformalQuantiles::calibrate(&known, &[1.5, 1.0, -1.0], 0.5)?;
/// assert_eq!(conformal.threshold(), 0.5); // the scores are 0.5, −1 and 1
/// let intervals = conformal.intervals(&PredictionIntervals::new(&[5.0], &[6.0])?)?;
/// assert_eq!((intervals.lower()[0], intervals.upper()[0]), (4.5, 6.5));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConformalQuantiles {
    threshold: f64,
}

impl ConformalQuantiles {
    /// Computes the distance at which intervals contain the target with probability `level`.
    ///
    /// # Errors
    /// A data error if there is not one finite target per interval or a limit is infinite; a config
    /// error if the level is not strictly between 0 and 1.
    pub fn calibrate(
        calibration: &PredictionIntervals<'_>,
        targets: &[f64],
        level: f64,
    ) -> Result<Self, EvalError> {
        check::same_length("targets", targets.len(), calibration.lower().len())?;
        check::finite("targets", targets)?;
        check::finite("lower limits", calibration.lower())?;
        check::finite("upper limits", calibration.upper())?;
        let limits = calibration.lower().iter().zip(calibration.upper());
        let scores: Vec<f64> = limits
            .zip(targets)
            .map(|((lower, upper), y)| (lower - y).at_least(y - upper))
            .collect();
        Ok(Self {
            threshold: conformal_threshold(&scores, level)?,
        })
    }

    /// The distance by which both limits move outwards.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// The conformal intervals of new rows.
    ///
    /// # Errors
    /// A data error if a limit is infinite.
    pub fn intervals(
        &self,
        predicted: &PredictionIntervals<'_>,
    ) -> Result<PredictionIntervals<'static>, EvalError> {
        check::finite("lower limits", predicted.lower())?;
        check::finite("upper limits", predicted.upper())?;
        let limits = predicted.lower().iter().zip(predicted.upper());
        let moved = |(lower, upper): (&f64, &f64)| {
            let error = |end: &f64| rounding(end.abs() + self.threshold.abs());
            let low = -outward(self.threshold - lower, error(lower), |mirrored| {
                lower + mirrored <= self.threshold
            });
            let high = outward(upper + self.threshold, error(upper), |answer| {
                answer - upper <= self.threshold
            });
            let middle = 0.5 * (lower + upper);
            if low > high {
                (middle, middle)
            } else {
                (low, high)
            }
        };
        let (lower, upper): (Vec<f64>, Vec<f64>) = limits.map(moved).unzip();
        PredictionIntervals::new(lower, upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_wide_intervals_shrink_but_never_cross() {
        let known = PredictionIntervals::new(&[-5.0; 4], &[5.0; 4]).unwrap();
        let conformal = ConformalQuantiles::calibrate(&known, &[0.0; 4], 0.5).unwrap();
        assert_eq!(conformal.threshold(), -5.0);
        let new = PredictionIntervals::new(&[0.0, -6.0], &[2.0, 6.0]).unwrap();
        let found = conformal.intervals(&new).unwrap();
        assert_eq!((found.lower()[0], found.upper()[0]), (1.0, 1.0));
        // −1 and 1, and the next numbers, whose scores round to the same.
        for (limit, answer) in [(found.lower()[1], -1.0), (found.upper()[1], 1.0)] {
            assert!((limit - answer).abs() <= 4.0 * f64::EPSILON, "{limit}");
        }
        assert_eq!(found.coverage(&[1.0, -1.0]).unwrap(), 1.0);
    }

    #[test]
    fn infinite_limits_and_wrong_lengths_are_errors() {
        let open = PredictionIntervals::new(&[0.0], &[f64::INFINITY]).unwrap();
        assert!(
            ConformalQuantiles::calibrate(&open, &[1.0], 0.5)
                .unwrap_err()
                .is_data()
        );
        let known = PredictionIntervals::new(&[0.0], &[1.0]).unwrap();
        assert!(
            ConformalQuantiles::calibrate(&known, &[], 0.5)
                .unwrap_err()
                .is_data()
        );
        let conformal = ConformalQuantiles::calibrate(&known, &[1.0], 0.5).unwrap();
        assert!(conformal.intervals(&open).unwrap_err().is_data());
        // Too few rows for the level: the whole line.
        let conformal = ConformalQuantiles::calibrate(&known, &[1.0], 0.9).unwrap();
        assert_eq!(
            conformal.intervals(&known).unwrap().lower()[0],
            f64::NEG_INFINITY
        );
    }
}
