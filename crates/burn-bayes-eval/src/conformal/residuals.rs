//! Conformal prediction intervals for any real-valued prediction.
//!
//!   [`ConformalResidual`]:            s = |y − ŷ|,      interval ŷ ± q̂
//!   [`ConformalNormalisedResidual`]:  s = |y − ŷ|/σ̂,    interval ŷ ± q̂·σ̂
//!
//! | Symbol | Here |
//! |---|---|
//! | ŷ | `predicted`, for example [`GaussianMixture::mean`](crate::GaussianMixture::mean) |
//! | σ̂ | `spreads`, any positive estimate of the error of a row, for example the root of [`GaussianMixture::variance`](crate::GaussianMixture::variance) |
//! | q̂ | the threshold of [`conformal_threshold`] |
//!
//! Both have the same coverage. The first gives all intervals the same width, the second gives
//! uncertain rows wider intervals; σ̂ only needs to be proportional to the error.
//!
//! References: H. Papadopoulos et al., "Inductive confidence machines for regression" (2002), and
//! J. Lei et al., "Distribution-free predictive inference for regression" (2018), for both scores.

use crate::check;
use crate::conformal::conformal_threshold;
use crate::conformal::limits::{outward, rounding};
use crate::error::{EvalError, Place};
use crate::regression::PredictionIntervals;

/// Intervals with the same width for all rows.
///
/// ```
/// use burn_bayes_eval::ConformalResidual;
///
/// let conformal = ConformalResidual::calibrate(&[0.0, 1.0, 2.0], &[0.5, 1.0, 4.0], 0.5)?;
/// assert_eq!(conformal.threshold(), 0.5);
/// let intervals = conformal.intervals(&[10.0])?;
/// assert_eq!((intervals.lower()[0], intervals.upper()[0]), (9.5, 10.5));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConformalResidual {
    threshold: f64,
}

/// Intervals with widths proportional to a spread per row.
///
/// ```
/// use burn_bayes_eval::ConformalNormalisedResidual;
///
/// let (predicted, spreads, targets) = ([0.0, 1.0, 2.0], [1.0, 2.0, 1.0], [0.5, 2.0, 4.0]);
/// let conformal = ConformalNormalisedResidual::calibrate(&predicted, &spreads, &targets, 0.5)?;
/// let intervals = conformal.intervals(&[10.0, 20.0], &[1.0, 6.0])?;
/// assert_eq!((intervals.lower(), intervals.upper()), (&[9.5, 17.0][..], &[10.5, 23.0][..]));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConformalNormalisedResidual {
    threshold: f64,
}

impl ConformalResidual {
    /// Computes the half-width at which intervals contain the target with probability `level`.
    ///
    /// # Errors
    /// A data error if the lengths differ, there are no rows or a value is not finite; a config
    /// error if the level is not strictly between 0 and 1.
    pub fn calibrate(predicted: &[f64], targets: &[f64], level: f64) -> Result<Self, EvalError> {
        let scores = absolute_residuals(predicted, targets)?;
        let threshold = conformal_threshold(&scores, level)?;
        Ok(Self { threshold })
    }

    /// Half the width of the intervals.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// The prediction intervals of new rows.
    ///
    /// # Errors
    /// A data error if there are no rows or a prediction is not finite.
    pub fn intervals(&self, predicted: &[f64]) -> Result<PredictionIntervals<'static>, EvalError> {
        check::finite("predictions", predicted)?;
        around(predicted, |_| 1.0, self.threshold)
    }
}

impl ConformalNormalisedResidual {
    /// Computes the half-width, in spreads, at which intervals contain the target with probability
    /// `level`.
    ///
    /// # Errors
    /// A data error if the lengths differ, there are no rows, a value is not finite or a spread is
    /// not above zero; a config error if the level is not strictly between 0 and 1.
    pub fn calibrate(
        predicted: &[f64],
        spreads: &[f64],
        targets: &[f64],
        level: f64,
    ) -> Result<Self, EvalError> {
        check_spreads(spreads, predicted.len())?;
        let residuals = absolute_residuals(predicted, targets)?;
        let normalised = |(residual, spread): (f64, &f64)| residual / spread;
        let scores: Vec<f64> = residuals.into_iter().zip(spreads).map(normalised).collect();
        let threshold = conformal_threshold(&scores, level)?;
        Ok(Self { threshold })
    }

    /// Half the width of the intervals, in units of the spread.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// The prediction intervals of new rows.
    ///
    /// # Errors
    /// A data error if the lengths differ, there are no rows, a prediction is not finite, or a
    /// spread is not a finite number above zero.
    pub fn intervals(
        &self,
        predicted: &[f64],
        spreads: &[f64],
    ) -> Result<PredictionIntervals<'static>, EvalError> {
        check::finite("predictions", predicted)?;
        check_spreads(spreads, predicted.len())?;
        around(predicted, |row| spreads[row], self.threshold)
    }
}

fn absolute_residuals(predicted: &[f64], targets: &[f64]) -> Result<Vec<f64>, EvalError> {
    check::same_length("targets", targets.len(), predicted.len())?;
    check::finite("predictions", predicted)?;
    check::finite("targets", targets)?;
    let rows = predicted.iter().zip(targets);
    Ok(rows
        .map(|(predicted, target)| (target - predicted).abs())
        .collect())
}

fn check_spreads(spreads: &[f64], rows: usize) -> Result<(), EvalError> {
    check::same_length("spreads", spreads.len(), rows)?;
    check::finite("spreads", spreads)?;
    match spreads.iter().position(|spread| *spread <= 0.0) {
        Some(row) => Err(EvalError::data(
            "spreads",
            Place::row(row),
            spreads[row],
            "a number above 0",
            "draws that agree exactly, or the logarithm of a standard deviation",
        )),
        None => Ok(()),
    }
}

/// The intervals of the answers whose residual, divided by the spread of the row, is at most the threshold.
fn around(
    predicted: &[f64],
    spread: impl Fn(usize) -> f64,
    threshold: f64,
) -> Result<PredictionIntervals<'static>, EvalError> {
    let rows = predicted.iter().enumerate();
    let (lower, upper): (Vec<f64>, Vec<f64>) = rows
        .map(|(row, &centre)| {
            let spread = spread(row);
            let half_width = threshold * spread;
            let is_inside = |answer: f64| (answer - centre).abs() / spread <= threshold;
            let error = rounding(centre.abs() + half_width);
            let lower = -outward(half_width - centre, error, |mirrored| is_inside(-mirrored));
            (lower, outward(centre + half_width, error, is_inside))
        })
        .unzip();
    PredictionIntervals::new(lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_rows_for_the_level_give_the_whole_line() {
        let conformal = ConformalResidual::calibrate(&[0.0], &[1.0], 0.9).unwrap();
        let intervals = conformal.intervals(&[3.0]).unwrap();
        assert_eq!(intervals.lower()[0], f64::NEG_INFINITY);
        assert_eq!(intervals.coverage(&[1e300]).unwrap(), 1.0);
    }

    #[test]
    fn an_answer_on_the_limit_is_inside() {
        // In floating point, 1.3 + (3 − 1.3)/0.7 · 0.7 and its relatives may fall short of 3.
        for place in 1..400 {
            let (centre, spread) = (f64::from(place) / 7.0, f64::from(place % 13 + 1) / 10.0);
            for target in [centre.floor(), 3.0, -1.0, 0.1] {
                let (known, spreads) = ([centre], [spread]);
                let conformal =
                    ConformalNormalisedResidual::calibrate(&known, &spreads, &[target], 0.5);
                let found = conformal.unwrap().intervals(&known, &spreads).unwrap();
                assert_eq!(
                    found.coverage(&[target]).unwrap(),
                    1.0,
                    "{centre} {spread} {target}"
                );
                let conformal = ConformalResidual::calibrate(&known, &[target], 0.5).unwrap();
                let found = conformal.intervals(&known).unwrap();
                assert_eq!(found.coverage(&[target]).unwrap(), 1.0, "{centre} {target}");
            }
        }
    }

    #[test]
    fn equal_spreads_change_nothing() {
        let (predicted, targets) = ([0.0, 1.0, 2.0, 5.0], [0.25, 0.0, 2.5, 7.0]);
        let plain = ConformalResidual::calibrate(&predicted, &targets, 0.6).unwrap();
        let spreads = [2.0; 4];
        let scaled =
            ConformalNormalisedResidual::calibrate(&predicted, &spreads, &targets, 0.6).unwrap();
        assert_eq!(scaled.threshold(), 0.5 * plain.threshold());
        assert_eq!(
            scaled.intervals(&predicted, &spreads).unwrap(),
            plain.intervals(&predicted).unwrap()
        );
    }

    #[test]
    fn rejects_lengths_spreads_and_what_is_not_finite() {
        let calibrate = ConformalNormalisedResidual::calibrate;
        assert!(
            calibrate(&[0.0], &[1.0, 1.0], &[0.0], 0.5)
                .unwrap_err()
                .is_data()
        );
        assert!(calibrate(&[], &[], &[], 0.5).unwrap_err().is_data());
        for spread in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = calibrate(&[0.0, 0.0], &[1.0, spread], &[0.0, 0.0], 0.5).unwrap_err();
            assert_eq!(error.row(), Some(1));
        }
        let calibrate = ConformalResidual::calibrate;
        assert!(calibrate(&[0.0], &[], 0.5).unwrap_err().is_data());
        assert_eq!(
            calibrate(&[f64::NAN], &[0.0], 0.5).unwrap_err().row(),
            Some(0)
        );
        assert!(calibrate(&[0.0], &[0.0], 1.0).unwrap_err().is_config());
        let conformal = calibrate(&[0.0], &[0.0], 0.5).unwrap();
        assert!(conformal.intervals(&[f64::INFINITY]).unwrap_err().is_data());
        assert!(conformal.intervals(&[]).unwrap_err().is_data());
    }
}
