//! The Winkler score of intervals:
//!
//!   (u − l) + (2/α)·max(0, l − y) + (2/α)·max(0, y − u)    of the interval [l, u] at ℓ = 1 − α
//!
//! It has the unit of the target, and lower is better. It is proper: the interval between the true quantiles has
//! the lowest expectation. Better than coverage, which an interval may reach by being wide
//! where the target is certain and narrow elsewhere, and than the width, which ignores the targets.
//!
//! Reference: R. L. Winkler, "A decision-theoretic approach to interval estimation" (1972).

use crate::Bounded;
use crate::check;
use crate::error::EvalError;
use crate::regression::PredictionIntervals;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinite_intervals_and_bad_input() {
        let open = PredictionIntervals::new(&[0.0], &[f64::INFINITY]).unwrap();
        let scores = |target: f64, level: f64| winkler_scores(&open, &[target], level);
        assert_eq!(scores(1.0, 0.5), Ok(vec![f64::INFINITY]));
        assert!(scores(f64::NAN, 0.5).unwrap_err().is_data());
        assert!(scores(1.0, 1.0).unwrap_err().is_config());
    }
}
