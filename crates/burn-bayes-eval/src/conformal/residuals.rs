//! Conformal prediction intervals for any real-valued prediction.
//!
//!   s = |y − ŷ|/σ̂,    interval ŷ ± q̂·σ̂
//!
//! | Symbol | Here |
//! |---|---|
//! | ŷ | `predicted`, for example [`GaussianMixture::mean`](crate::GaussianMixture::mean) |
//! | σ̂ | `spreads`, any positive estimate of the error of a row, for example the root of [`GaussianMixture::variance`](crate::GaussianMixture::variance) |
//! | q̂ | the threshold of [`conformal_threshold`](crate::conformal_threshold) |
//!
//! Uncertain rows have wider intervals; σ̂ only needs to be proportional to the error. With the same
//! σ̂ for all rows, all intervals have the same width.
//!
//! References: H. Papadopoulos et al., "Inductive confidence machines for regression" (2002), and
//! J. Lei et al., "Distribution-free predictive inference for regression" (2018), for the score.

use crate::check;
use crate::conformal::limits::{outward, rounding};
use crate::conformal::weighted_conformal_threshold;
use crate::error::{EvalError, Place};
use crate::regression::PredictionIntervals;

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
        Self::calibrate_weighted(
            predicted,
            spreads,
            targets,
            &vec![1.0; targets.len()],
            level,
        )
    }

    /// The same with a weight for each row, as in
    /// [`weighted_conformal_threshold`](crate::weighted_conformal_threshold).
    ///
    /// # Errors
    /// As [`calibrate`](Self::calibrate), and a data error if there is not one weight in [0, 1] per row.
    pub fn calibrate_weighted(
        predicted: &[f64],
        spreads: &[f64],
        targets: &[f64],
        weights: &[f64],
        level: f64,
    ) -> Result<Self, EvalError> {
        check_spreads(spreads, predicted.len())?;
        check::same_length("targets", targets.len(), predicted.len())?;
        check::finite("predictions", predicted)?;
        check::finite("targets", targets)?;
        let rows = predicted.iter().zip(spreads).zip(targets);
        let scores: Vec<f64> = rows
            .map(|((predicted, spread), target)| (target - predicted).abs() / spread)
            .collect();
        let threshold = weighted_conformal_threshold(&scores, weights, level)?;
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
        let rows = predicted.iter().zip(spreads);
        let (lower, upper): (Vec<f64>, Vec<f64>) = rows
            .map(|(&centre, &spread)| self.limits(centre, spread))
            .unzip();
        PredictionIntervals::new(lower, upper)
    }

    /// The limits of the answers whose residual, divided by the spread, is at most the threshold.
    fn limits(&self, centre: f64, spread: f64) -> (f64, f64) {
        let half_width = self.threshold * spread;
        let is_inside = |answer: f64| (answer - centre).abs() / spread <= self.threshold;
        let error = rounding(centre.abs() + half_width);
        let lower = -outward(half_width - centre, error, |mirrored| is_inside(-mirrored));
        (lower, outward(centre + half_width, error, is_inside))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_rows_for_the_level_give_the_whole_line() {
        let conformal =
            ConformalNormalisedResidual::calibrate(&[0.0], &[1.0], &[1.0], 0.9).unwrap();
        let intervals = conformal.intervals(&[3.0], &[1.0]).unwrap();
        assert_eq!(intervals.lower()[0], f64::NEG_INFINITY);
        assert_eq!(intervals.coverage(&[1e300]).unwrap(), 1.0);
    }

    #[test]
    fn the_unit_of_equal_spreads_changes_nothing() {
        let (predicted, targets) = ([0.0, 1.0, 2.0, 5.0], [0.25, 0.0, 2.5, 7.0]);
        let of = |spread: f64| {
            let spreads = [spread; 4];
            let conformal =
                ConformalNormalisedResidual::calibrate(&predicted, &spreads, &targets, 0.6);
            let conformal = conformal.unwrap();
            let intervals = conformal.intervals(&predicted, &spreads).unwrap();
            (conformal.threshold(), intervals)
        };
        let (plain, scaled) = (of(1.0), of(2.0));
        assert_eq!(scaled.0, 0.5 * plain.0);
        assert_eq!(scaled.1, plain.1);
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
            }
        }
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
        let one = [1.0];
        assert!(calibrate(&[0.0], &one, &[], 0.5).unwrap_err().is_data());
        let error = calibrate(&[f64::NAN], &one, &[0.0], 0.5).unwrap_err();
        assert_eq!(error.row(), Some(0));
        let error = calibrate(&[0.0], &one, &[0.0], 1.0).unwrap_err();
        assert!(error.is_config());
        let conformal = calibrate(&[0.0], &one, &[0.0], 0.5).unwrap();
        let error = conformal.intervals(&[f64::INFINITY], &one).unwrap_err();
        assert!(error.is_data());
        assert!(conformal.intervals(&[], &[]).unwrap_err().is_data());
    }
}
