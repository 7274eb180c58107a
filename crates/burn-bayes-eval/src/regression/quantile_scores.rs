//! Scores of quantiles and of intervals.
//!
//!   pinball        (y − q)·τ if y ≥ q, else (q − y)·(1 − τ)               of the quantile q at τ
//!   Winkler        (u − l) + (2/α)·max(0, l − y) + (2/α)·max(0, y − u)    of the interval [l, u] at ℓ = 1 − α
//!
//! Both have the unit of the target, and lower is better. They are proper: the true quantiles have
//! the lowest expectation. The Winkler score of a central interval is 2/α times the sum of the
//! pinball losses of its limits. Better than coverage, which an interval may reach by being wide
//! where the target is certain and narrow elsewhere, and than the width, which ignores the targets.
//!
//! References: R. L. Winkler, "A decision-theoretic approach to interval estimation" (1972); R.
//! Koenker and G. Bassett, "Regression quantiles" (1978).

use crate::Bounded;
use crate::check;
use crate::error::EvalError;
use crate::order::mean;
use crate::regression::PredictionIntervals;

/// Pinball loss of each predicted quantile at one probability.
///
/// ```
/// use burn_bayes_eval::pinball_losses;
///
/// assert_eq!(pinball_losses(&[1.0, 1.0], &[3.0, 0.0], 0.75)?, [1.5, 0.25]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if the lengths differ, there are no rows or a value is not finite; a config error
/// if the probability is not strictly between 0 and 1.
pub fn pinball_losses(
    predicted: &[f64],
    targets: &[f64],
    probability: f64,
) -> Result<Vec<f64>, EvalError> {
    check::open_unit("probability", probability)?;
    check::not_empty("targets", targets.len())?;
    check::same_length("predicted quantiles", predicted.len(), targets.len())?;
    check::finite("predicted quantiles", predicted)?;
    check::finite("targets", targets)?;
    let loss = |(q, y): (&f64, &f64)| {
        if y >= q {
            (y - q) * probability
        } else {
            (q - y) * (1.0 - probability)
        }
    };
    Ok(predicted.iter().zip(targets).map(loss).collect())
}

/// Winkler score of each central interval at a level; infinite for an infinite interval.
///
/// ```
/// use burn_bayes_eval::{PredictionIntervals, winkler_scores};
///
/// let intervals = PredictionIntervals::new(&[0.0, 0.0], &[1.0, 1.0])?;
/// assert_eq!(winkler_scores(&intervals, &[0.5, 2.0], 0.5)?, [1.0, 5.0]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if there is not one finite target per interval; a config error if the level is not
/// strictly between 0 and 1.
pub fn winkler_scores(
    intervals: &PredictionIntervals<'_>,
    targets: &[f64],
    level: f64,
) -> Result<Vec<f64>, EvalError> {
    check::open_unit("level", level)?;
    check::same_length("targets", targets.len(), intervals.lower().len())?;
    check::finite("targets", targets)?;
    let factor = 2.0 / (1.0 - level);
    let limits = intervals.lower().iter().zip(intervals.upper());
    let score = |((width, (lower, upper)), target): ((f64, (&f64, &f64)), &f64)| {
        width + factor * (lower - target).at_least(target - upper).at_least(0.0)
    };
    Ok(intervals
        .widths()
        .into_iter()
        .zip(limits)
        .zip(targets)
        .map(score)
        .collect())
}

/// Mean of the [`winkler_scores`].
///
/// # Errors
/// Those of [`winkler_scores`].
pub fn winkler_score(
    intervals: &PredictionIntervals<'_>,
    targets: &[f64],
    level: f64,
) -> Result<f64, EvalError> {
    Ok(mean(&winkler_scores(intervals, targets, level)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_winkler_score_is_two_pinball_losses() {
        let (lower, upper, targets) = ([0.0, -1.0, 2.0], [1.0, 4.0, 2.0], [0.5, -3.0, 2.5]);
        let level = 0.8;
        let intervals = PredictionIntervals::new(&lower, &upper).unwrap();
        let scores = winkler_scores(&intervals, &targets, level).unwrap();
        let low = pinball_losses(&lower, &targets, 0.1).unwrap();
        let high = pinball_losses(&upper, &targets, 0.9).unwrap();
        for row in 0..3 {
            let expected = 2.0 / (1.0 - level) * (low[row] + high[row]);
            assert!(
                (scores[row] - expected).abs() < 1e-13,
                "{} {expected}",
                scores[row]
            );
        }
    }

    #[test]
    fn infinite_intervals_and_bad_input() {
        let open = PredictionIntervals::new(&[0.0], &[f64::INFINITY]).unwrap();
        assert_eq!(winkler_score(&open, &[1.0], 0.5).unwrap(), f64::INFINITY);
        assert!(
            winkler_score(&open, &[f64::NAN], 0.5)
                .unwrap_err()
                .is_data()
        );
        assert!(winkler_score(&open, &[1.0], 1.0).unwrap_err().is_config());
        assert!(pinball_losses(&[], &[], 0.5).unwrap_err().is_data());
        assert!(pinball_losses(&[1.0], &[1.0], 0.0).unwrap_err().is_config());
    }
}
