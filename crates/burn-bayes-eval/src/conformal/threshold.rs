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
//! **Weights** w₁ … w_n in [0, 1], of which the new row has 1, trust some calibration rows less, such as those from long
//! ago. The threshold is then
//!
//!   q̂ = the smallest sᵢ with Σ_{sⱼ ≤ sᵢ} wⱼ ≥ ℓ (1 + Σⱼ wⱼ), and +∞ if there is none.
//!
//! With weights of 1 it is the one above. If the weights do not depend on the data, then for any rows Z = (Z₁ … Z_{n+1}),
//! the last of which is the new one,
//!
//!   P(the true answer is in the set) ≥ ℓ − Σᵢ w̃ᵢ d_TV(Z, Zⁱ),    w̃ᵢ = wᵢ/(1 + Σⱼ wⱼ),
//!
//! with Zⁱ the rows with Zᵢ and Z_{n+1} exchanged, and the distance d_TV in total variation, which is 0 if the rows are
//! exchangeable.
//!
//! References: V. Vovk, A. Gammerman and G. Shafer, "Algorithmic learning in a random world" (2005);
//! J. Lei et al., "Distribution-free predictive inference for regression" (2018), for the bounds; R. F. Barber,
//! E. J. Candès, A. Ramdas and R. J. Tibshirani, "Conformal prediction beyond exchangeability" (2023), for weights.

use crate::check;
use crate::error::EvalError;
use crate::order::weighted_quantile;

/// The threshold q̂ that new rows' scores must not exceed.
///
/// [`ConformalSets`](crate::ConformalSets), [`ConformalCross`](crate::ConformalCross) and their relatives compute their own
/// scores; this function is for custom scores.
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
    weighted_conformal_threshold(scores, &vec![1.0; scores.len()], level)
}

/// The threshold q̂ of calibration rows with weights, which must not depend on their data.
///
/// ```
/// use burn_bayes_eval::weighted_conformal_threshold;
///
/// // The last row is the newest, and each row has half the weight of the next one.
/// let (scores, weights) = ([0.1, 0.4, 0.3, 0.2], [0.125, 0.25, 0.5, 1.0]);
/// // With the new row, which has a weight of 1, all weigh 2.875, and the three smallest scores 1.625.
/// assert_eq!(weighted_conformal_threshold(&scores, &weights, 0.5)?, 0.3);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// As [`conformal_threshold`], and a data error if there is not one weight per score, or a weight is not in [0, 1].
pub fn weighted_conformal_threshold(
    scores: &[f64],
    weights: &[f64],
    level: f64,
) -> Result<f64, EvalError> {
    check::open_unit("level", level)?;
    check::not_empty("conformal scores", scores.len())?;
    check::comparable("conformal scores", scores)?;
    check::same_length("weights", weights.len(), scores.len())?;
    check::unit(
        "weights",
        weights,
        "weights that were not divided by the largest",
    )?;
    let found = weighted_quantile(scores, weights, 1.0, level);
    Ok(found.unwrap_or(f64::INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{compare, rank};
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

    #[test]
    fn weights_of_one_change_no_bit_and_others_give_the_quantile_by_definition() {
        let numbers = uniforms(3000, 9);
        for (rows, numbers) in (1..60).zip(numbers.chunks(50)) {
            // A third of the scores have ties.
            let scores: Vec<f64> = (0..rows)
                .map(|row| match row % 3 {
                    0 => (4.0 * numbers[row % 50]).floor(),
                    _ => 4.0 * numbers[row % 50] + row as f64 * 1e-3,
                })
                .collect();
            let weights: Vec<f64> = (0..rows).map(|row| numbers[(7 * row + 3) % 50]).collect();
            for percent in 1..100 {
                let level = f64::from(percent) / 100.0;
                let mut sorted = scores.clone();
                sorted.sort_by(|a, b| compare(*a, *b));
                let place = rank(level, rows + 1);
                let expected = sorted.get(place - 1).copied().unwrap_or(f64::INFINITY);
                let found = conformal_threshold(&scores, level).unwrap();
                assert_eq!(found.to_bits(), expected.to_bits(), "{rows} at {level}");

                let weight_up_to = |most: f64| -> f64 {
                    let pairs = scores.iter().zip(&weights);
                    pairs
                        .filter(|(score, _)| **score <= most)
                        .map(|(_, weight)| weight)
                        .sum()
                };
                let needed = level * (1.0 + weights.iter().sum::<f64>());
                let expected = sorted.iter().find(|score| weight_up_to(**score) >= needed);
                let found = weighted_conformal_threshold(&scores, &weights, level).unwrap();
                assert_eq!(found, expected.copied().unwrap_or(f64::INFINITY));
            }
        }
    }

    #[test]
    fn rows_without_weight_have_no_part() {
        let weights = [0.0, 1.0, 0.0, 1.0, 1.0];
        let found = weighted_conformal_threshold(&[9.0, 1.0, -9.0, 3.0, 2.0], &weights, 0.7);
        let alone = conformal_threshold(&[1.0, 3.0, 2.0], 0.7);
        assert_eq!(found.unwrap(), alone.unwrap());
        let none = weighted_conformal_threshold(&[1.0, 2.0], &[0.0; 2], 0.1).unwrap();
        assert_eq!(none, f64::INFINITY);
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
        for weights in [&[][..], &[1.0], &[1.0, -0.1], &[2.0, 1.0], &[1.0, f64::NAN]] {
            let found = weighted_conformal_threshold(&[0.0, 1.0], weights, 0.5);
            assert!(found.unwrap_err().is_data(), "{weights:?}");
        }
    }
}
