//! Selective prediction with guarantees: for thresholds on the uncertainty, upper bounds of the
//! risk of kept rows and lower bounds of the coverage, on new rows.
//!
//! For candidate thresholds t₁ … t_m, chosen **without** these rows, n_j of N rows have an
//! uncertainty of at most t_j, with mean loss r_j of losses 0 and 1. At confidence 1 − δ, with δ′ = δ/(2m):
//!
//!   risk of a kept row      ≤ Clopper–Pearson's upper limit of n_j·r_j in n_j, at tail δ′
//!   probability to be kept  ≥ Clopper–Pearson's lower limit of n_j in N, at tail δ′
//!
//! Given n_j, the losses of the kept rows are independent draws of the loss of a kept row, so each
//! bound fails with probability at most δ′. **All 2m bounds hold simultaneously** with probability
//! at least 1 − δ (Bonferroni), so a threshold may be chosen by comparing them. The only assumption
//! is that these rows and new rows are independent draws from the same distribution. Ties need no
//! special treatment: a threshold keeps or refers all rows with the same uncertainty.
//!
//! Fewer candidates give tighter bounds. Good candidates are values of the uncertainty on other
//! rows, labelled or not; values on these rows must not be used.
//!
//! Reference: Y. Geifman and R. El-Yaniv, "Selective classification for deep neural networks" (2017),
//! for a guaranteed selective risk. They bisect over thresholds from the rows themselves and divide
//! δ by the number of steps; predefined candidates need no such argument and allow ties.

use crate::check;
use crate::error::{EvalError, Place};
use crate::order::{ascending, compare};
use crate::special::binomial::{lower_limit, upper_limit};

/// Simultaneous bounds of risk and coverage at candidate thresholds.
///
/// ```
/// use burn_bayes_eval::SelectiveBounds;
///
/// // The more certain half of 400 rows is correct, one in four of the others is wrong.
/// let uncertainty: Vec<f64> = (0..400).map(|row| f64::from(row) / 400.0).collect();
/// let losses: Vec<f64> =
///     (0..400).map(|row| if row >= 200 && row % 4 == 0 { 1.0 } else { 0.0 }).collect();
/// let bounds = SelectiveBounds::exact(&uncertainty, &losses, &[0.25, 0.5, 0.75, 1.0], 0.95)?;
/// let point = bounds.coverage_at_risk(0.05)?.expect("200 rows without an error are enough");
/// assert_eq!((point.threshold, point.kept), (0.5, 201));
/// assert!(point.coverage_lower > 0.43);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SelectiveBounds {
    points: Vec<BoundedPoint>,
}

/// One candidate threshold of [`SelectiveBounds`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedPoint {
    /// Rows with an uncertainty of at most this are kept.
    pub threshold: f64,
    /// Number of kept rows.
    pub kept: usize,
    /// Fraction of kept rows.
    pub coverage: f64,
    /// Lower bound of the probability that a new row is kept.
    pub coverage_lower: f64,
    /// Mean loss of the kept rows; `None` if there are none.
    pub risk: Option<f64>,
    /// Upper bound of the expected loss of a new kept row.
    pub risk_upper: f64,
}

impl SelectiveBounds {
    /// Bounds for losses of 0 and 1, such as [`zero_one_losses`](crate::zero_one_losses): the risk
    /// is a probability of being wrong, with the bound of Clopper and Pearson.
    ///
    /// # Errors
    /// A data error if the lengths differ, there are no rows, an uncertainty is NaN or a loss is
    /// neither 0 nor 1; a config error if there are no thresholds, one of them is NaN, or the
    /// confidence is not strictly between 0 and 1.
    pub fn exact(
        uncertainty: &[f64],
        losses: &[f64],
        thresholds: &[f64],
        confidence: f64,
    ) -> Result<Self, EvalError> {
        if let Some(row) = losses.iter().position(|&loss| loss != 0.0 && loss != 1.0) {
            let cause = "losses other than 0 and 1";
            let place = Place::row(row);
            return Err(EvalError::data(
                "losses",
                place,
                losses[row],
                "0 or 1",
                cause,
            ));
        }
        check::not_empty("uncertainty", uncertainty.len())?;
        check::same_length("losses", losses.len(), uncertainty.len())?;
        check::comparable("uncertainty", uncertainty)?;
        check::at_least_one("thresholds", thresholds.len())?;
        if thresholds.iter().any(|threshold| threshold.is_nan()) {
            return Err(EvalError::config("thresholds", f64::NAN, "numbers"));
        }
        check::open_unit("confidence", confidence)?;

        let mut thresholds = thresholds.to_vec();
        thresholds.sort_by(|a, b| compare(*a, *b));
        thresholds.dedup();
        let tail = (1.0 - confidence) / (2.0 * thresholds.len() as f64);
        let order = ascending(uncertainty);
        let rows = uncertainty.len();
        let (mut kept, mut total) = (0, 0.0);
        let mut points = Vec::with_capacity(thresholds.len());
        for threshold in thresholds {
            while kept < rows && uncertainty[order[kept]] <= threshold {
                total += losses[order[kept]];
                kept += 1;
            }
            points.push(BoundedPoint {
                threshold,
                kept,
                coverage: kept as f64 / rows as f64,
                coverage_lower: lower_limit(kept, rows, tail),
                risk: (kept > 0).then(|| total / kept as f64),
                risk_upper: if kept > 0 {
                    upper_limit(total as usize, kept, tail)
                } else {
                    1.0
                },
            });
        }
        Ok(Self { points })
    }

    /// The candidates, by increasing threshold.
    pub fn points(&self) -> &[BoundedPoint] {
        &self.points
    }

    /// The candidate that keeps the most rows with a risk bound of at most `target`; `None` if no
    /// such candidate keeps a row.
    ///
    /// # Errors
    /// A config error if `target` is not finite.
    pub fn coverage_at_risk(&self, target: f64) -> Result<Option<BoundedPoint>, EvalError> {
        check::finite_setting("target", target)?;
        let is_met = |point: &&BoundedPoint| point.kept > 0 && point.risk_upper <= target;
        Ok(self.points.iter().rev().find(is_met).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    #[test]
    fn candidates_are_sorted_and_counted_once() {
        let bounds =
            SelectiveBounds::exact(&[0.1, 0.2, 0.2, 0.9], &[0.0; 4], &[0.2, 0.1, 0.2, 0.0], 0.9);
        let bounds = bounds.unwrap();
        let kept: Vec<usize> = bounds.points().iter().map(|point| point.kept).collect();
        assert_eq!(kept, [0, 1, 3]);
        let empty = bounds.points()[0];
        assert_eq!(
            (empty.risk, empty.risk_upper, empty.coverage_lower),
            (None, 1.0, 0.0)
        );
    }

    #[test]
    fn all_right_and_all_wrong() {
        let uncertainty: Vec<f64> = (0..100).map(f64::from).collect();
        let thresholds = [49.0, f64::INFINITY];
        let right = SelectiveBounds::exact(&uncertainty, &[0.0; 100], &thresholds, 0.95).unwrap();
        // 1 − (δ/4)^{1/100}; all rows are kept.
        let point = right.coverage_at_risk(0.05).unwrap().unwrap();
        assert_eq!((point.kept, point.risk), (100, Some(0.0)));
        assert!((point.risk_upper - (1.0 - 0.0125_f64.powf(0.01))).abs() < 1e-14);
        let wrong = SelectiveBounds::exact(&uncertainty, &[1.0; 100], &thresholds, 0.95).unwrap();
        assert_eq!(wrong.coverage_at_risk(0.99).unwrap(), None);
        assert_eq!(wrong.points()[0].risk_upper, 1.0);
    }

    /// The bound of the chosen threshold fails in at most a fraction δ of repeated experiments.
    #[test]
    fn the_guarantee_holds_after_choosing() {
        // Wrong with probability u²: the risk below t is t²/3. All bounds at confidence 0.8.
        let (rows, repetitions, target) = (200, 2000, 0.1);
        let thresholds: Vec<f64> = (1..=10).map(|step| f64::from(step) / 10.0).collect();
        let numbers = uniforms(2 * rows * repetitions, 3);
        let mut broken = 0;
        for experiment in numbers.chunks(2 * rows) {
            let (uncertainty, coins) = experiment.split_at(rows);
            let loss = |(u, coin): (&f64, &f64)| if *coin < u * u { 1.0 } else { 0.0 };
            let losses: Vec<f64> = uncertainty.iter().zip(coins).map(loss).collect();
            let bounds = SelectiveBounds::exact(uncertainty, &losses, &thresholds, 0.8).unwrap();
            if let Some(point) = bounds.coverage_at_risk(target).unwrap() {
                let risk = point.threshold * point.threshold / 3.0;
                broken += usize::from(risk > target || point.threshold < point.coverage_lower);
            }
        }
        // Five standard errors above δ.
        let limit = 0.2 + 5.0 * (0.2 * 0.8 / repetitions as f64).sqrt();
        assert!(
            (broken as f64) < limit * repetitions as f64,
            "{broken} of {repetitions}"
        );
    }

    #[test]
    fn rejects_bad_losses_thresholds_and_settings() {
        let exact = SelectiveBounds::exact;
        assert_eq!(
            exact(&[0.0, 0.0], &[1.0, 0.5], &[0.0], 0.9)
                .unwrap_err()
                .row(),
            Some(1)
        );
        assert!(
            exact(&[0.0], &[f64::NAN], &[0.0], 0.9)
                .unwrap_err()
                .is_data()
        );
        assert!(
            exact(&[f64::NAN], &[0.0], &[0.0], 0.9)
                .unwrap_err()
                .is_data()
        );
        assert!(exact(&[], &[], &[0.0], 0.9).unwrap_err().is_data());
        assert!(exact(&[0.0], &[], &[0.0], 0.9).unwrap_err().is_data());
        assert!(exact(&[0.0], &[0.0], &[], 0.9).unwrap_err().is_config());
        assert!(
            exact(&[0.0], &[0.0], &[f64::NAN], 0.9)
                .unwrap_err()
                .is_config()
        );
        assert!(exact(&[0.0], &[0.0], &[0.0], 1.0).unwrap_err().is_config());
        let bounds = exact(&[0.0], &[1.0], &[0.0], 0.9).unwrap();
        assert!(bounds.coverage_at_risk(f64::NAN).unwrap_err().is_config());
    }
}
