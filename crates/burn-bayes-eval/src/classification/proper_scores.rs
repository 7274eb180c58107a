//! Proper scoring rules for class probabilities, and accuracy.
//!
//!   NLL      = −(1/N) Σ_r ln p_{r,y_r}
//!   Brier    = (1/N) Σ_r Σ_c (p_rc − [c = y_r])²
//!   accuracy = (1/N) Σ_r [argmax_c p_rc = y_r]
//!
//! | Symbol | Here |
//! |---|---|
//! | p | the table of probabilities, for a Bayesian model the average over draws |
//! | y | the labels |
//!
//! The NLL is exact: it is +∞ if the true class of a row has probability 0. There is no floor,
//! because a floor would arbitrarily limit the penalty.
//!
//! References: I. J. Good, "Rational decisions" (1952); G. W. Brier, "Verification of forecasts
//! expressed in terms of probability" (1950), equation 2.

use crate::order::mean;
use crate::views::LabelledProbabilities;
use crate::views::distribution::most_probable;

/// Mean negative log-probability of the true class, in nats; +∞ if one of them is zero.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, nll};
///
/// let table = ClassProbabilities::binary(&[0.5, 0.5])?;
/// let score = nll(&LabelledProbabilities::new(&table, &[0, 1])?);
/// assert!((score - 2f64.ln()).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn nll(labelled: &LabelledProbabilities<'_>) -> f64 {
    mean(&log_losses(labelled))
}

/// Multi-class Brier score, in [0, 2]: the squared distance to the one-hot label, summed over
/// classes as in the original definition.
///
/// For two classes this is twice the common binary score (p₁ − y)², which scikit-learn's
/// `brier_score_loss` returns for two classes unless `scale_by_half=False`.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, brier};
///
/// let table = ClassProbabilities::binary(&[1.0, 1.0])?;
/// assert_eq!(brier(&LabelledProbabilities::new(&table, &[1, 0])?), 1.0);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn brier(labelled: &LabelledProbabilities<'_>) -> f64 {
    mean(&brier_losses(labelled))
}

/// Fraction of rows whose most probable class is the label; the first of equally probable classes
/// is the prediction.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, accuracy};
///
/// let table = ClassProbabilities::new(&[0.2, 0.5, 0.3, 0.6, 0.1, 0.3], 2, 3)?;
/// assert_eq!(accuracy(&LabelledProbabilities::new(&table, &[1, 2])?), 0.5);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn accuracy(labelled: &LabelledProbabilities<'_>) -> f64 {
    1.0 - mean(&zero_one_losses(labelled))
}

/// The terms of [`nll`], one per row.
pub fn log_losses(labelled: &LabelledProbabilities<'_>) -> Vec<f64> {
    // `0 −` instead of unary minus, so that a correct row with probability 1 gives 0, not −0.
    labelled
        .iter()
        .map(|(probabilities, label)| 0.0 - probabilities[label].ln())
        .collect()
}

/// The terms of [`brier`], one per row.
pub fn brier_losses(labelled: &LabelledProbabilities<'_>) -> Vec<f64> {
    let loss = |(probabilities, label): (&[f64], usize)| {
        let square = |(class, &probability): (usize, &f64)| {
            let hit = if class == label { 1.0 } else { 0.0 };
            (probability - hit) * (probability - hit)
        };
        probabilities.iter().enumerate().map(square).sum()
    };
    labelled.iter().map(loss).collect()
}

/// 0 for a correctly predicted row and 1 for a wrong one; the usual loss of
/// [`RiskCoverage`](crate::RiskCoverage).
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, zero_one_losses};
///
/// let table = ClassProbabilities::binary(&[0.2, 0.7])?;
/// assert_eq!(zero_one_losses(&LabelledProbabilities::new(&table, &[1, 1])?), [1.0, 0.0]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn zero_one_losses(labelled: &LabelledProbabilities<'_>) -> Vec<f64> {
    let loss = |(probabilities, label): (&[f64], usize)| {
        if most_probable(probabilities) == label {
            0.0
        } else {
            1.0
        }
    };
    labelled.iter().map(loss).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassProbabilities;

    #[test]
    fn hand_worked_values() {
        let table = ClassProbabilities::new(&[0.5, 0.25, 0.25, 0.25, 0.25, 0.5], 2, 3).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 1]).unwrap();
        assert!((nll(&labelled) - 1.5 * 2f64.ln()).abs() < 4.0 * f64::EPSILON);
        // (.25 + 2/16) and (1/16 + 9/16 + 1/4): mean of .375 and .875.
        assert_eq!(brier(&labelled), 0.625);
        assert_eq!(accuracy(&labelled), 0.5);
        assert_eq!(zero_one_losses(&labelled), [0.0, 1.0]);
    }

    #[test]
    fn certain_and_right_costs_nothing_certain_and_wrong_costs_everything() {
        let table = ClassProbabilities::binary(&[1.0]).unwrap();
        let right = LabelledProbabilities::new(&table, &[1]).unwrap();
        assert_eq!(
            (nll(&right), brier(&right), accuracy(&right)),
            (0.0, 0.0, 1.0)
        );
        assert!(nll(&right).is_sign_positive());
        let wrong = LabelledProbabilities::new(&table, &[0]).unwrap();
        assert_eq!(
            (nll(&wrong), brier(&wrong), accuracy(&wrong)),
            (f64::INFINITY, 2.0, 0.0)
        );
    }

    #[test]
    fn one_class_is_always_right() {
        let table = ClassProbabilities::new(&[1.0, 1.0], 2, 1).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 0]).unwrap();
        assert_eq!(
            (nll(&labelled), brier(&labelled), accuracy(&labelled)),
            (0.0, 0.0, 1.0)
        );
    }
}
