//! Calibration errors over bins of equally many rows, by class or by predicted class.
//!
//!   ACE        (1/C) Σ_c (1/B) Σ_b |frequency of class c − mean p_c| over B bins of equally many rows
//!   top label  Σ_c (N_c/N) ECE of the rows that are predicted as class c, with B bins each
//!
//! If there are not B equal bins, each bin has the weight of its rows. Tied probabilities at the
//! edge of a bin share their frequency, so the result does not depend on the order of rows.
//!
//! Better than the equal-width errors: ACE has no nearly empty bins. The top-label error conditions on the
//! predicted class, which a user sees: a model may be calibrated on average over predicted classes
//! and for none of them. Both are in [0, 1], and biased upwards for few rows per bin.
//!
//! References: J. Nixon et al., "Measuring calibration in deep learning" (2019), for ACE;
//! C. Gupta and A. Ramdas, "Top-label calibration and multiclass-to-binary reductions" (2022).

use crate::calibration::reliability::{Outcome, outcomes, sorted_with_common_accuracy};
use crate::check;
use crate::error::EvalError;
use crate::views::LabelledProbabilities;

/// ACE: the mean over classes of the error of each class's probability, in bins of equally many
/// rows.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, adaptive_calibration_error};
///
/// let table = ClassProbabilities::binary(&[0.75, 0.75, 0.75, 0.75])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 1, 0, 0])?;
/// assert_eq!(adaptive_calibration_error(&labelled, 2)?, 0.25);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A config error if `bins` is zero; a data error if there are fewer rows than bins.
pub fn adaptive_calibration_error(
    labelled: &LabelledProbabilities<'_>,
    bins: usize,
) -> Result<f64, EvalError> {
    check::rows_for_bins(labelled.labels().len(), bins)?;
    let classes = labelled.probabilities().classes();
    let of_class = |class: usize| {
        let outcomes = labelled.iter().map(|(row, label)| Outcome {
            confidence: row[class],
            hit: if label == class { 1.0 } else { 0.0 },
        });
        let outcomes: Vec<Outcome> = outcomes.collect();
        sum_of_gaps(&outcomes, bins) / outcomes.len() as f64
    };
    Ok((0..classes).map(of_class).sum::<f64>() / classes as f64)
}

/// The error of the confidence among the rows with the same predicted class, averaged over rows.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, top_label_calibration_error};
///
/// // Both classes are predicted with 0.75: one is always right, the other right in half of its rows.
/// let table = ClassProbabilities::binary(&[0.75, 0.75, 0.25, 0.25])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 1, 0, 1])?;
/// assert_eq!(top_label_calibration_error(&labelled, 1)?, 0.25);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A config error if `bins` is zero; a data error if there are fewer rows than bins.
pub fn top_label_calibration_error(
    labelled: &LabelledProbabilities<'_>,
    bins: usize,
) -> Result<f64, EvalError> {
    let rows = labelled.labels().len();
    check::rows_for_bins(rows, bins)?;
    let mut by_class: Vec<Vec<Outcome>> = vec![Vec::new(); labelled.probabilities().classes()];
    let predicted = labelled.probabilities().predicted_classes();
    for (class, outcome) in predicted.into_iter().zip(outcomes(labelled)) {
        by_class[class].push(outcome);
    }
    let total: f64 = by_class
        .iter()
        .map(|outcomes| sum_of_gaps(outcomes, bins))
        .sum();
    Ok(total / rows as f64)
}

/// Σ_b n_b |acc_b − conf_b| over bins of equally many rows.
fn sum_of_gaps(outcomes: &[Outcome], bins: usize) -> f64 {
    let sorted = sorted_with_common_accuracy(outcomes);
    let (rows, bins) = (sorted.len(), bins.min(sorted.len()));
    let gap = |index: usize| {
        let bin = &sorted[index * rows / bins..(index + 1) * rows / bins];
        bin.iter().map(|o| o.hit - o.confidence).sum::<f64>().abs()
    };
    (0..bins).map(gap).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassProbabilities;

    #[test]
    fn hand_worked_errors() {
        let values = [0.7, 0.3, 0.0, 0.6, 0.4, 0.0, 0.2, 0.8, 0.0, 0.1, 0.9, 0.0];
        let table = ClassProbabilities::new(&values, 4, 3).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 1, 1, 1]).unwrap();
        // Class 0 in two bins: (.1, .2) with none, gap .15; (.6, .7) with half, gap .15. Class 1
        // the same mirrored, class 2 nothing.
        let found = adaptive_calibration_error(&labelled, 2).unwrap();
        assert!((found - 0.1).abs() < 1e-15, "{found}");
        // Predicted as 0: .65 against 1/2; predicted as 1: .85 against 1.
        let found = top_label_calibration_error(&labelled, 1).unwrap();
        assert!((found - 0.15).abs() < 1e-15, "{found}");
    }

    #[test]
    fn a_class_without_rows_counts_zero_and_too_many_bins_are_an_error() {
        let table = ClassProbabilities::new(&[1.0, 0.0, 1.0, 0.0], 2, 2).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 0]).unwrap();
        assert_eq!(top_label_calibration_error(&labelled, 2).unwrap(), 0.0);
        let error = adaptive_calibration_error(&labelled, 3).unwrap_err();
        assert!(
            error.is_data() && error.to_string().contains("fewer bins"),
            "{error}"
        );
        assert!(
            adaptive_calibration_error(&labelled, 0)
                .unwrap_err()
                .is_config()
        );
    }
}
