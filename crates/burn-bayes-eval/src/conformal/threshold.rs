//! Split conformal prediction: a threshold on any nonconformity score, with a coverage guarantee
//! for new rows.
//!
//! Let s₁ … s_n be the nonconformity scores of n held-out **calibration** rows with known answers.
//! At level ℓ (the nominal coverage, 1 − α) the threshold is
//!
//!   q̂ = the ⌈(n + 1)ℓ⌉-th smallest of s₁ … s_n, and +∞ if ⌈(n + 1)ℓ⌉ > n.
//!
//! A new row's prediction is the set of all answers whose score would be at most q̂. If the
//! calibration rows and the new row are exchangeable, then for every model
//!
//!   ℓ ≤ P(the true answer is in the set) ≤ ℓ + 1/(n + 1),
//!
//! the upper bound if scores have no ties. The probability is marginal, over the calibration rows
//! and the new row: it does not hold for single inputs, classes or calibration sets.
//!
//! **Ties** among the scores make sets larger and never violate the guarantee.
//!
//! References: V. Vovk, A. Gammerman and G. Shafer, "Algorithmic learning in a random world" (2005);
//! J. Lei et al., "Distribution-free predictive inference for regression" (2018), for the bounds.

use crate::check;
use crate::error::EvalError;
use crate::order::{compare, rank};

/// The threshold q̂ that new rows' scores must not exceed.
///
/// [`ConformalLac`](crate::ConformalLac), [`ConformalAps`](crate::ConformalAps),
/// [`ConformalCross`](crate::ConformalCross) and their relatives compute their own scores;
/// this function is for custom scores.
///
/// ```
/// use burn_bayes_eval::conformal_threshold;
///
/// let scores = [0.4, 0.1, 0.3, 0.2];
/// assert_eq!(conformal_threshold(&scores, 0.6)?, 0.3); // the third of five places
/// assert_eq!(conformal_threshold(&scores, 0.9)?, f64::INFINITY); // would take nine rows
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if there are no scores or one is NaN; a config error if the level is not strictly
/// between 0 and 1.
pub fn conformal_threshold(scores: &[f64], level: f64) -> Result<f64, EvalError> {
    check::open_unit("level", level)?;
    check::not_empty("conformal scores", scores.len())?;
    check::comparable("conformal scores", scores)?;
    let rank = rank(level, scores.len() + 1);
    if rank > scores.len() {
        return Ok(f64::INFINITY);
    }
    let mut scores = scores.to_vec();
    let (_, threshold, _) = scores.select_nth_unstable_by(rank - 1, |a, b| compare(*a, *b));
    Ok(*threshold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    #[test]
    fn the_rank_counts_the_new_row_and_suffers_no_rounding() {
        // 10 · 0.7 and 20 · 0.95 are integers, though not in floating point.
        let scores = |count: u8| (1..=count).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(conformal_threshold(&scores(9), 0.7).unwrap(), 7.0);
        assert_eq!(conformal_threshold(&scores(19), 0.95).unwrap(), 19.0);
        let beyond = conformal_threshold(&scores(18), 0.95).unwrap();
        assert_eq!(beyond, f64::INFINITY);
        assert_eq!(conformal_threshold(&[5.0], 0.5).unwrap(), 5.0);
    }

    /// A new score is within the threshold with probability ⌈(n + 1)ℓ⌉/(n + 1), for every
    /// distribution.
    #[test]
    fn new_rows_are_covered_as_promised() {
        let (rows, repetitions) = (12, 20_000);
        let numbers = uniforms((rows + 1) * repetitions, 4);
        for level in [0.3, 0.75, 0.9] {
            let is_covered = |scores: &[f64]| {
                let (new, known) = scores.split_last().unwrap();
                *new <= conformal_threshold(known, level).unwrap()
            };
            let covered = numbers.chunks(rows + 1).filter(|scores| is_covered(scores));
            let found = covered.count() as f64 / repetitions as f64;
            let expected = ((rows + 1) as f64 * level).ceil() / (rows + 1) as f64;
            // Five standard errors.
            let tolerance = 5.0 * (expected * (1.0 - expected) / repetitions as f64).sqrt();
            assert!(
                (found - expected).abs() < tolerance,
                "{found} for {expected}"
            );
        }
    }

    #[test]
    fn rejects_nan_nothing_and_bad_levels() {
        assert!(conformal_threshold(&[], 0.5).unwrap_err().is_data());
        let error = conformal_threshold(&[0.0, f64::NAN], 0.5).unwrap_err();
        assert_eq!(error.row(), Some(1));
        for level in [0.0, 1.0, f64::NAN] {
            assert!(conformal_threshold(&[0.0], level).unwrap_err().is_config());
        }
    }
}
