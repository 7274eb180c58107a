//! Referral (abstention): keep the most certain rows, refer the rest, and score the kept rows.
//!
//! For each kept fraction q, the first k = ⌈qN⌉ of N rows sorted by ascending uncertainty are kept.
//!
//! **Ties.** If j of m rows with equal uncertainty must be kept, each of the m rows is kept with
//! weight j/m. Scores are weighted, so they do not depend on the order of the rows; an accuracy is
//! the expectation over random choices among the tied rows.
//!
//! Reference: C. Leibig et al., "Leveraging uncertainty information from deep neural networks for
//! disease detection" (2017).

use crate::check;
use crate::classification::ConfusionMatrix;
use crate::classification::weighted_one_vs_rest_auroc;
use crate::error::{EvalError, Place};
use crate::order::{ascending, rank, tie_groups};
use crate::views::LabelledProbabilities;

/// One line of a [`referral_table`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReferralRow {
    /// The requested fraction q.
    pub kept_fraction: f64,
    /// The number ⌈qN⌉ of rows kept.
    pub kept: usize,
    /// Accuracy on the kept rows.
    pub accuracy: f64,
    /// Mean recall over the classes that are the label of a kept row.
    pub balanced_accuracy: f64,
    /// Macro F1 on the kept rows, over the classes that occur in them.
    pub macro_f1: f64,
    /// F1 of class 1, or of the one that [`referral_table_of_class`] was given, on the kept rows;
    /// `None` unless there are two classes and this class is the label or the prediction of a kept
    /// row.
    pub binary_f1: Option<f64>,
    /// [`one_vs_rest_auroc`](crate::one_vs_rest_auroc) on the kept rows; `None` if a class has none
    /// or all of the kept rows.
    pub auroc: Option<f64>,
}

/// Accuracy, balanced accuracy, F1 and AUROC on the most certain rows, for each fraction to keep.
///
/// `uncertainty` has one value per row, higher for more uncertain rows; it may be infinite but not
/// NaN.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, predictive_entropy, referral_table};
///
/// let table = ClassProbabilities::binary(&[0.05, 0.9, 0.45, 0.6])?;
/// let labelled = LabelledProbabilities::new(&table, &[0, 1, 0, 0])?;
/// let rows = referral_table(&labelled, &predictive_entropy(&table), &[1.0, 0.75, 0.5])?;
/// assert_eq!(rows[0].accuracy, 0.75);
/// assert_eq!(rows[1].accuracy, 2.0 / 3.0); // the least certain row, 0.45, was right
/// assert_eq!((rows[2].kept, rows[2].accuracy, rows[2].auroc), (2, 1.0, Some(1.0)));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if the lengths differ or an uncertainty is NaN; a config error if a fraction is not
/// above 0 and at most 1.
pub fn referral_table(
    labelled: &LabelledProbabilities<'_>,
    uncertainty: &[f64],
    kept_fractions: &[f64],
) -> Result<Vec<ReferralRow>, EvalError> {
    referral_table_of_class(labelled, uncertainty, kept_fractions, 1)
}

/// [`referral_table`] with the F1 of `positive` instead of class 1.
///
/// # Errors
/// As [`referral_table`].
pub fn referral_table_of_class(
    labelled: &LabelledProbabilities<'_>,
    uncertainty: &[f64],
    kept_fractions: &[f64],
    positive: usize,
) -> Result<Vec<ReferralRow>, EvalError> {
    let labels = labelled.labels();
    check::same_length("uncertainty", uncertainty.len(), labels.len())?;
    let classes = labelled.probabilities().classes();
    let predicted = labelled.probabilities().predicted_classes();
    let scores = referral_scores(uncertainty, kept_fractions, |selection| {
        let rows = selection.rows.iter().map(|kept| (kept.row, kept.weight));
        let decisions = rows
            .clone()
            .map(|(row, weight)| (labels[row], predicted[row], weight));
        let confusion = ConfusionMatrix::weighted(classes, decisions);
        ReferralRow {
            kept_fraction: selection.kept_fraction,
            kept: selection.kept,
            accuracy: confusion.accuracy(),
            balanced_accuracy: confusion.balanced_accuracy(),
            macro_f1: confusion.macro_f1(),
            binary_f1: if classes == 2 {
                confusion.f1(positive)
            } else {
                None
            },
            auroc: weighted_one_vs_rest_auroc(labelled, rows),
        }
    })?;
    Ok(scores.into_iter().map(|score| score.score).collect())
}

/// A custom score of the most certain rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReferralScore<T> {
    /// The requested fraction q.
    pub kept_fraction: f64,
    /// The number ⌈qN⌉ of rows kept.
    pub kept: usize,
    /// The result of the score function.
    pub score: T,
}

/// A custom score of the most certain rows, for each fraction to keep.
///
/// The function receives the [`Selection`]; [`Selection::mean`] computes scores that are means over
/// rows.
///
/// ```
/// use burn_bayes_eval::referral_scores;
///
/// let squared_errors = [0.5, 4.0, 1.5];
/// let scores = referral_scores(&[0.1, 0.9, 0.3], &[1.0, 0.5], |kept| kept.mean(&squared_errors))?;
/// assert_eq!(scores[0].score, Ok(2.0));
/// assert_eq!((scores[1].kept, &scores[1].score), (2, &Ok(1.0)));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if there is no row or an uncertainty is NaN; a config error if a fraction is not
/// above 0 and at most 1.
pub fn referral_scores<T>(
    uncertainty: &[f64],
    kept_fractions: &[f64],
    mut score: impl FnMut(&Selection) -> T,
) -> Result<Vec<ReferralScore<T>>, EvalError> {
    let order = checked_order(uncertainty)?;
    let mut scored = |&kept_fraction: &f64| {
        let selection = Selection::of_order(&order, uncertainty, kept_fraction)?;
        Ok(ReferralScore {
            kept_fraction,
            kept: selection.kept,
            score: score(&selection),
        })
    };
    kept_fractions.iter().map(&mut scored).collect()
}

/// The most certain rows, with weights for rows tied at the cut.
///
/// ```
/// use burn_bayes_eval::Selection;
///
/// // Two of four rows are kept: row 2, and one of rows 0 and 1.
/// let selection = Selection::most_certain(&[0.5, 0.5, 0.1, 0.9], 0.5)?;
/// let weights: Vec<_> = selection.rows().iter().map(|kept| (kept.row, kept.weight)).collect();
/// assert_eq!(weights, [(2, 1.0), (0, 0.5), (1, 0.5)]);
/// assert_eq!(selection.mean(&[1.0, 3.0, 4.0, 0.0]), Ok(3.0));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    kept_fraction: f64,
    kept: usize,
    total: usize,
    rows: Vec<SelectedRow>,
}

/// One row of a [`Selection`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SelectedRow {
    /// Index of the row.
    pub row: usize,
    /// 1, or less for a row that is tied at the cut.
    pub weight: f64,
}

impl Selection {
    /// The ⌈qN⌉ rows with the lowest uncertainty.
    ///
    /// # Errors
    /// As [`referral_scores`].
    pub fn most_certain(uncertainty: &[f64], kept_fraction: f64) -> Result<Self, EvalError> {
        Self::of_order(&checked_order(uncertainty)?, uncertainty, kept_fraction)
    }

    fn of_order(
        order: &[usize],
        uncertainty: &[f64],
        kept_fraction: f64,
    ) -> Result<Self, EvalError> {
        check::fraction("kept_fraction", kept_fraction)?;
        let kept = rank(kept_fraction, order.len());
        let mut rows = Vec::with_capacity(kept);
        let mut free = kept;
        for group in tie_groups(order, uncertainty) {
            if free == 0 {
                break;
            }
            let stay = free.min(group.len());
            let weight = stay as f64 / group.len() as f64;
            rows.extend(group.iter().map(|&row| SelectedRow { row, weight }));
            free -= stay;
        }
        Ok(Self {
            kept_fraction,
            kept,
            total: order.len(),
            rows,
        })
    }

    /// The requested fraction.
    pub fn kept_fraction(&self) -> f64 {
        self.kept_fraction
    }

    /// The number of rows kept, which is the sum of the weights.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// The rows with their weights, by ascending uncertainty.
    pub fn rows(&self) -> &[SelectedRow] {
        &self.rows
    }

    /// Weighted mean over the selection; `values` has one value for every row of the data.
    ///
    /// # Errors
    /// A data error if there is not one value per row, a value is NaN, or the selection contains
    /// both infinities.
    pub fn mean(&self, values: &[f64]) -> Result<f64, EvalError> {
        check::same_length("values", values.len(), self.total)?;
        check::comparable("values", values)?;
        let sum: f64 = self
            .rows
            .iter()
            .map(|kept| kept.weight * values[kept.row])
            .sum();
        if sum.is_nan() {
            let cause = "a loss of −∞ for some rows and +∞ for others";
            return Err(EvalError::data(
                "values",
                Place::WHOLE,
                "both infinities",
                "at most one of them",
                cause,
            ));
        }
        Ok(sum / self.kept as f64)
    }
}

/// The rows from the most to the least certain.
fn checked_order(uncertainty: &[f64]) -> Result<Vec<usize>, EvalError> {
    check::not_empty("uncertainty", uncertainty.len())?;
    check::comparable("uncertainty", uncertainty)?;
    Ok(ascending(uncertainty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassProbabilities;

    #[test]
    fn hand_worked_table() {
        // Certain to unsure: right, right, wrong, right.
        let table = ClassProbabilities::binary(&[0.1, 0.9, 0.8, 0.4]).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 1, 0, 0]).unwrap();
        let uncertainty = [0.0, 1.0, 2.0, 3.0];
        let rows = referral_table(&labelled, &uncertainty, &[0.25, 0.75, 1.0]).unwrap();
        assert_eq!(rows[0].kept, 1);
        assert_eq!((rows[0].accuracy, rows[0].macro_f1), (1.0, 1.0));
        assert_eq!((rows[0].binary_f1, rows[0].auroc), (None, None));
        // Rows 0, 1, 2: F1 of class 0 is 2/3, of class 1 is 2/3; 0.9 beats 0.1 and 0.8.
        assert_eq!(rows[1].accuracy, 2.0 / 3.0);
        assert_eq!(rows[1].balanced_accuracy, 0.75); // recalls of 1/2 and 1
        assert_eq!(
            (rows[1].macro_f1, rows[1].binary_f1),
            (2.0 / 3.0, Some(2.0 / 3.0))
        );
        assert_eq!(rows[1].auroc, Some(1.0));
        assert_eq!((rows[2].kept, rows[2].accuracy), (4, 0.75));
        assert_eq!(rows[2].binary_f1, Some(2.0 / 3.0));
        let of_first = referral_table_of_class(&labelled, &uncertainty, &[1.0], 0).unwrap();
        assert_eq!(of_first[0].binary_f1, Some(0.8));
        assert_eq!(of_first[0].macro_f1, rows[2].macro_f1);
    }

    #[test]
    fn all_tied_keeps_a_share_of_everything() {
        let table = ClassProbabilities::binary(&[0.1, 0.9, 0.8, 0.4]).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 1, 0, 0]).unwrap();
        let rows = referral_table(&labelled, &[7.0; 4], &[0.25, 0.5, 1.0]).unwrap();
        for row in &rows {
            assert_eq!(row.accuracy, 0.75);
            assert_eq!((row.macro_f1, row.auroc), (rows[2].macro_f1, rows[2].auroc));
        }
    }

    #[test]
    fn a_mean_may_be_infinite_but_is_always_a_number() {
        let selection = Selection::most_certain(&[1.0, 2.0, 3.0], 0.6).unwrap();
        let infinite = [f64::INFINITY, 0.0, 0.0];
        assert_eq!(selection.mean(&infinite), Ok(f64::INFINITY));
        let error = selection.mean(&[0.0, f64::NAN, 0.0]).unwrap_err();
        assert!(error.is_data());
        assert_eq!(error.row(), Some(1));
        let opposite = [f64::INFINITY, f64::NEG_INFINITY, 0.0];
        assert!(selection.mean(&opposite).unwrap_err().is_data());
        let values = [0.0, f64::NAN, 0.0];
        let scores = referral_scores(&[1.0, 2.0, 3.0], &[0.6], |kept| kept.mean(&values)).unwrap();
        assert_eq!(scores[0].score.as_ref().unwrap_err().row(), Some(1));
    }

    #[test]
    fn rejects_nan_lengths_and_fractions() {
        let table = ClassProbabilities::binary(&[0.1, 0.9]).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 1]).unwrap();
        assert!(
            referral_table(&labelled, &[0.1], &[0.5])
                .unwrap_err()
                .is_data()
        );
        let error = referral_table(&labelled, &[0.1, f64::NAN], &[0.5]).unwrap_err();
        assert_eq!(error.row(), Some(1));
        for fraction in [0.0, 1.1, f64::NAN] {
            let error = referral_table(&labelled, &[0.1, 0.2], &[fraction]).unwrap_err();
            assert!(error.is_config());
        }
        assert!(Selection::most_certain(&[], 0.5).unwrap_err().is_data());
        let selection = Selection::most_certain(&[1.0, 2.0], 0.5).unwrap();
        assert!(selection.mean(&[1.0]).unwrap_err().is_data());
    }
}
