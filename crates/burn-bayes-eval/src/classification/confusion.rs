//! The confusion matrix and the scores computed from its counts.
//!
//! With n_yc the number of rows of class y predicted as class c:
//!
//!   recall_c = n_cc / Σ_k n_ck,   precision_c = n_cc / Σ_k n_kc,
//!   F1_c = 2 n_cc / (Σ_k n_ck + Σ_k n_kc),
//!   macro F1 = mean of F1_c,   balanced accuracy = mean of recall_c.
//!
//! Means run over the classes for which the term is not 0/0: F1_c over classes that occur as a label
//! or as a prediction, recall_c over classes that occur as a label. scikit-learn does the same.
//!
//! Reference: C. J. van Rijsbergen, "Information Retrieval" (1979), chapter 7.

use std::collections::{BTreeMap, BTreeSet};

use crate::check;
use crate::error::EvalError;
use crate::order::mean;
use crate::views::distribution::most_probable;
use crate::views::{LabelledProbabilities, check_labels};

/// The confusion matrix: the number of rows of each class that were predicted as each class.
///
/// ```
/// use burn_bayes_eval::ConfusionMatrix;
///
/// let matrix = ConfusionMatrix::new(&[1, 1, 0, 1], &[1, 0, 0, 1], 2)?;
/// assert_eq!(matrix.count(0, 1), 1.0); // one row of class 0 was taken for class 1
/// assert_eq!(matrix.f1(1), Some(0.8));
/// assert_eq!(matrix.balanced_accuracy(), 0.75);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ConfusionMatrix {
    /// Non-zero counts by (label, predicted), so that classes without rows need no memory.
    counts: BTreeMap<(usize, usize), f64>,
    /// The total count of every label.
    labelled: BTreeMap<usize, f64>,
    /// The total count of every predicted class.
    predicted: BTreeMap<usize, f64>,
    classes: usize,
}

impl ConfusionMatrix {
    /// Counts predicted against true classes, both below `classes`.
    ///
    /// # Errors
    /// A data error if the lengths differ, there are no rows, or a class is out of range.
    pub fn new(predicted: &[usize], labels: &[usize], classes: usize) -> Result<Self, EvalError> {
        check::not_empty("labels", labels.len())?;
        check::same_length("predicted classes", predicted.len(), labels.len())?;
        check_labels("labels", labels, classes)?;
        check_labels("predicted classes", predicted, classes)?;
        let pairs = predicted.iter().copied().zip(labels.iter().copied());
        Ok(Self::weighted(
            classes,
            pairs.map(|(predicted, label)| (label, predicted, 1.0)),
        ))
    }

    /// Counts the most probable class of each row against its label.
    pub fn from_probabilities(labelled: &LabelledProbabilities<'_>) -> Self {
        let classes = labelled.probabilities().classes();
        Self::weighted(
            classes,
            labelled
                .iter()
                .map(|(row, label)| (label, most_probable(row), 1.0)),
        )
    }

    /// Sums weights of (label, predicted, weight). Requires at least one row, positive weights, and
    /// classes in range.
    pub(crate) fn weighted(
        classes: usize,
        rows: impl Iterator<Item = (usize, usize, f64)>,
    ) -> Self {
        let mut counts = BTreeMap::new();
        for (label, predicted, weight) in rows {
            *counts.entry((label, predicted)).or_insert(0.0) += weight;
        }
        let (mut labelled, mut predicted) = (BTreeMap::new(), BTreeMap::new());
        for (&(label, prediction), &count) in &counts {
            *labelled.entry(label).or_insert(0.0) += count;
            *predicted.entry(prediction).or_insert(0.0) += count;
        }
        Self {
            counts,
            labelled,
            predicted,
            classes,
        }
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The number of rows of class `label` predicted as `predicted`; zero for unknown classes.
    pub fn count(&self, label: usize, predicted: usize) -> f64 {
        self.counts.get(&(label, predicted)).copied().unwrap_or(0.0)
    }

    /// Fraction of rows on the diagonal.
    pub fn accuracy(&self) -> f64 {
        let hits: f64 = self
            .labelled
            .keys()
            .map(|&class| self.count(class, class))
            .sum();
        hits / self.counts.values().sum::<f64>()
    }

    /// The number of rows of a class.
    pub fn support(&self, class: usize) -> f64 {
        self.labelled.get(&class).copied().unwrap_or(0.0)
    }

    /// The number of rows predicted as a class.
    pub fn predicted(&self, class: usize) -> f64 {
        self.predicted.get(&class).copied().unwrap_or(0.0)
    }

    /// Fraction of the rows predicted as a class that are of it; `None` if no row is.
    ///
    /// ```
    /// # use burn_bayes_eval::ConfusionMatrix;
    /// let matrix = ConfusionMatrix::new(&[1, 1, 0, 1], &[1, 0, 0, 1], 3)?;
    /// assert_eq!((matrix.precision(1), matrix.recall(1)), (Some(2.0 / 3.0), Some(1.0)));
    /// assert_eq!((matrix.precision(2), matrix.recall(2)), (None, None));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    pub fn precision(&self, class: usize) -> Option<f64> {
        self.hits_among(class, self.predicted(class))
    }

    /// Fraction of the rows of a class that are predicted as it; `None` without rows of the class.
    pub fn recall(&self, class: usize) -> Option<f64> {
        self.hits_among(class, self.support(class))
    }

    fn hits_among(&self, class: usize, rows: f64) -> Option<f64> {
        (rows > 0.0).then(|| self.count(class, class) / rows)
    }

    /// Harmonic mean of precision and recall of one class; `None` if the class is neither a label
    /// nor a prediction of any row. For two classes `f1(1)` is the binary F1.
    pub fn f1(&self, class: usize) -> Option<f64> {
        let total = self.support(class) + self.predicted(class);
        (total > 0.0).then(|| 2.0 * self.count(class, class) / total)
    }

    /// Mean of [`f1`](Self::f1) over the classes for which it is defined.
    pub fn macro_f1(&self) -> f64 {
        let occurring: BTreeSet<usize> = self.counts.keys().flat_map(|&(a, b)| [a, b]).collect();
        let scores: Vec<f64> = occurring
            .into_iter()
            .filter_map(|class| self.f1(class))
            .collect();
        mean(&scores)
    }

    /// Intersection over union of one class, n_cc/(Σ_k n_ck + Σ_k n_kc − n_cc); `None` if the class
    /// is neither a label nor a prediction of any row. It is F1/(2 − F1).
    ///
    /// ```
    /// # use burn_bayes_eval::ConfusionMatrix;
    /// let matrix = ConfusionMatrix::new(&[1, 1, 0, 1], &[1, 0, 0, 1], 2)?;
    /// let found = matrix.intersection_over_union(1).expect("class 1 occurs");
    /// assert!((found - 2.0 / 3.0).abs() < 1e-15);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    pub fn intersection_over_union(&self, class: usize) -> Option<f64> {
        self.f1(class).map(|f1| f1 / (2.0 - f1))
    }

    /// Mean IoU: the mean over the classes for which it is defined, as for segmentations.
    pub fn mean_intersection_over_union(&self) -> f64 {
        let found: Vec<f64> = (0..self.classes)
            .filter_map(|class| self.intersection_over_union(class))
            .collect();
        mean(&found)
    }

    /// Adds the counts of other rows.
    ///
    /// # Errors
    /// A data error if the numbers of classes differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), EvalError> {
        check::same_length("classes", other.classes, self.classes)?;
        for (into, from) in [
            (&mut self.labelled, &other.labelled),
            (&mut self.predicted, &other.predicted),
        ] {
            for (&class, count) in from {
                *into.entry(class).or_insert(0.0) += count;
            }
        }
        for (&pair, count) in &other.counts {
            *self.counts.entry(pair).or_insert(0.0) += count;
        }
        Ok(())
    }

    /// Mean recall over the classes that occur as a label.
    pub fn balanced_accuracy(&self) -> f64 {
        let classes = self.labelled.keys();
        let recalls: Vec<f64> = classes.filter_map(|&class| self.recall(class)).collect();
        mean(&recalls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_worked_three_classes() {
        // Labels 0 0 1 1 2 2, predictions 0 1 1 1 0 2.
        let matrix = ConfusionMatrix::new(&[0, 1, 1, 1, 0, 2], &[0, 0, 1, 1, 2, 2], 3).unwrap();
        assert_eq!(matrix.f1(0), Some(0.5));
        assert_eq!(matrix.f1(1), Some(0.8));
        assert_eq!(matrix.f1(2), Some(2.0 / 3.0));
        assert!((matrix.macro_f1() - (0.5 + 0.8 + 2.0 / 3.0) / 3.0).abs() < 4.0 * f64::EPSILON);
        assert!((matrix.balanced_accuracy() - 2.0 / 3.0).abs() < 4.0 * f64::EPSILON);
        assert_eq!(matrix.accuracy(), 4.0 / 6.0);
    }

    #[test]
    fn absent_classes_take_no_part_in_means() {
        let matrix = ConfusionMatrix::new(&[0, 2], &[0, 0], 4).unwrap();
        assert_eq!(
            (matrix.f1(1), matrix.f1(2), matrix.f1(9)),
            (None, Some(0.0), None)
        );
        assert_eq!(matrix.macro_f1(), (2.0 / 3.0) / 2.0);
        assert_eq!(matrix.balanced_accuracy(), 0.5);
    }

    #[test]
    fn all_right_and_all_wrong() {
        let right = ConfusionMatrix::new(&[0, 1], &[0, 1], 2).unwrap();
        assert_eq!(
            (
                right.macro_f1(),
                right.balanced_accuracy(),
                right.accuracy()
            ),
            (1.0, 1.0, 1.0)
        );
        let wrong = ConfusionMatrix::new(&[1, 0], &[0, 1], 2).unwrap();
        assert_eq!(
            (
                wrong.macro_f1(),
                wrong.balanced_accuracy(),
                wrong.accuracy()
            ),
            (0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn any_number_of_classes_costs_what_occurs() {
        let (last, many) = (usize::MAX - 1, usize::MAX);
        let matrix = ConfusionMatrix::new(&[last, 0, last], &[last, 0, 0], many).unwrap();
        assert_eq!(matrix.count(0, last), 1.0);
        assert_eq!(matrix.f1(last), Some(2.0 / 3.0));
        assert_eq!(matrix.balanced_accuracy(), 0.75);
        assert_eq!(matrix.macro_f1(), 2.0 / 3.0);
    }

    #[test]
    fn rejects_bad_classes_and_lengths() {
        assert!(ConfusionMatrix::new(&[], &[], 2).unwrap_err().is_data());
        assert!(
            ConfusionMatrix::new(&[0], &[0, 1], 2)
                .unwrap_err()
                .is_data()
        );
        assert_eq!(
            ConfusionMatrix::new(&[0, 2], &[0, 1], 2).unwrap_err().row(),
            Some(1)
        );
        assert_eq!(
            ConfusionMatrix::new(&[0, 1], &[5, 1], 2).unwrap_err().row(),
            Some(0)
        );
    }
}
