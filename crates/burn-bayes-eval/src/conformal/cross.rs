//! Jackknife+ and CV+: conformal intervals from the predictions of refits, without calibration
//! rows.
//!
//! K models are each fitted without one fold of the n training rows. With μ₋ₖ the model without
//! fold k and R_i = |y_i − μ₋ₖ₍ᵢ₎(x_i)| the error of a training row under the model that has not
//! seen it,
//!
//!   lower   the ⌊(n + 1)(1 − ℓ)⌋-th smallest of μ₋ₖ₍ᵢ₎(x) − R_i over i, and −∞ if this is 0
//!   upper   the ⌈(n + 1)ℓ⌉-th smallest of μ₋ₖ₍ᵢ₎(x) + R_i, and +∞ if this is above n
//!
//! Jackknife+ is the case of one row per fold. If rows are exchangeable, a new target is inside
//! with probability at least 2ℓ − 1 (jackknife+) or 2ℓ − 1 − √(2/n) (CV+), and about ℓ for stable
//! methods.
//!
//! Better than split conformal intervals for few rows, since every row is used for training; costs
//! K fits and K predictions per new row.
//!
//! Reference: R. F. Barber, E. J. Candès, A. Ramdas and R. J. Tibshirani, "Predictive inference
//! with the jackknife+" (2021).

use crate::Bounded;
use crate::check;
use crate::conformal::limits::{outward, rounding};
use crate::error::{EvalError, Place};
use crate::order::{compare, rank};
use crate::regression::PredictionIntervals;

/// Intervals from fold predictions.
///
/// ```
/// use burn_bayes_eval::ConformalCross;
///
/// // Four rows in two folds, each predicted by the model that was fitted to the other fold.
/// let cross = ConformalCross::new(&[1.0, 2.0, 3.0, 4.0], &[1.5, 2.0, 2.5, 5.0], &[0, 0, 1, 1])?;
/// // A new row, as predicted by the model without fold 0 and the one without fold 1.
/// let intervals = cross.intervals(&[10.0, 11.0], 0.75)?;
/// assert_eq!((intervals.lower()[0], intervals.upper()[0]), (9.5, 12.0));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ConformalCross {
    residuals: Vec<f64>,
    fold_of_row: Vec<usize>,
    folds: usize,
}

impl ConformalCross {
    /// From the prediction of each training row by the model that was fitted without its fold.
    /// Folds are numbered from 0; for jackknife+ they are the numbers of the rows.
    ///
    /// # Errors
    /// A data error if the lengths differ, there are no rows, a value is not finite, or there are
    /// fewer than two folds or one without rows.
    pub fn new(
        out_of_fold: &[f64],
        targets: &[f64],
        fold_of_row: &[usize],
    ) -> Result<Self, EvalError> {
        check::not_empty("targets", targets.len())?;
        check::same_length("out-of-fold predictions", out_of_fold.len(), targets.len())?;
        check::same_length("folds", fold_of_row.len(), targets.len())?;
        check::finite("out-of-fold predictions", out_of_fold)?;
        check::finite("targets", targets)?;
        let folds = fold_of_row
            .iter()
            .max()
            .map_or(0, |most| most.saturating_add(1));
        let mut found = fold_of_row.to_vec();
        found.sort_unstable();
        found.dedup();
        if folds < 2 || found.len() < folds {
            return Err(EvalError::data(
                "folds",
                Place::WHOLE,
                format!(
                    "{} folds with rows, numbered up to {}",
                    found.len(),
                    folds - 1
                ),
                "at least 2, numbered from 0 without gaps",
                "predictions of one model, which has seen the rows, or folds counted from 1",
            ));
        }
        let rows = out_of_fold.iter().zip(targets);
        Ok(Self {
            residuals: rows
                .map(|(predicted, target)| (target - predicted).abs())
                .collect(),
            fold_of_row: fold_of_row.to_vec(),
            folds,
        })
    }

    /// The intervals of new rows, from the predictions of all models: `[folds × rows]`, row-major.
    ///
    /// # Errors
    /// A data error if the number of predictions is not a multiple of the number of folds or one is
    /// not finite; a config error if the level is not strictly between 0 and 1.
    pub fn intervals(
        &self,
        predictions: &[f64],
        level: f64,
    ) -> Result<PredictionIntervals<'static>, EvalError> {
        check::open_unit("level", level)?;
        let rows = predictions.len() / self.folds;
        check::shape(
            "predictions",
            predictions.len(),
            &[("folds", self.folds), ("rows", rows)],
        )?;
        check::finite("predictions", predictions)?;
        let known = self.residuals.len();
        // ⌊(n + 1)(1 − ℓ)⌋ = n + 1 − ⌈(n + 1)ℓ⌉
        let place = rank(level, known + 1);
        let limits = (0..rows).map(|row| {
            let mut ends = [Vec::with_capacity(known), Vec::with_capacity(known)];
            for (residual, fold) in self.residuals.iter().zip(&self.fold_of_row) {
                let centre = predictions[fold * rows + row];
                let is_inside = |answer: f64| (answer - centre).abs() <= *residual;
                let error = rounding(centre.abs() + residual);
                // Mirrored, so that both limits have the same rank from below.
                ends[0].push(outward(residual - centre, error, |mirrored| {
                    is_inside(-mirrored)
                }));
                ends[1].push(outward(centre + residual, error, is_inside));
            }
            let [lower, upper] = ends.map(|mut values| {
                if place > known {
                    return f64::INFINITY;
                }
                *values
                    .select_nth_unstable_by(place - 1, |a, b| compare(*a, *b))
                    .1
            });
            (-lower, upper)
        });
        let (lower, upper): (Vec<f64>, Vec<f64>) = limits.unzip();
        // For low levels and models that differ much, the limits may cross.
        let crossed = lower
            .iter()
            .zip(&upper)
            .map(|(a, b)| (a.at_most(*b), a.at_least(*b)));
        let (lower, upper): (Vec<f64>, Vec<f64>) = crossed.unzip();
        PredictionIntervals::new(lower, upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_models_give_residual_intervals() {
        let targets = [0.5, -1.0, 1.5, 2.0];
        let cross = ConformalCross::new(&[0.0; 4], &targets, &[0, 1, 2, 3]).unwrap();
        let found = cross.intervals(&[7.0; 4], 0.6).unwrap();
        // ⌈5 · 0.6⌉ = 3: the third of 0.5, 1, 1.5, 2.
        assert_eq!((found.lower()[0], found.upper()[0]), (5.5, 8.5));
        let all = cross.intervals(&[7.0; 4], 0.9).unwrap();
        assert_eq!(
            (all.lower()[0], all.upper()[0]),
            (f64::NEG_INFINITY, f64::INFINITY)
        );
    }

    #[test]
    fn folds_must_be_numbered_and_predictions_fit() {
        for folds in [[0, 0], [1, 2], [0, 2]] {
            let error = ConformalCross::new(&[0.0; 2], &[1.0; 2], &folds).unwrap_err();
            assert!(error.is_data(), "{error}");
        }
        let cross = ConformalCross::new(&[0.0; 2], &[1.0; 2], &[0, 1]).unwrap();
        for predictions in [&[][..], &[1.0], &[1.0, f64::NAN]] {
            assert!(cross.intervals(predictions, 0.5).unwrap_err().is_data());
        }
        assert!(cross.intervals(&[1.0, 1.0], 1.0).unwrap_err().is_config());
    }
}
