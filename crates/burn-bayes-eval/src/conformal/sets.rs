//! Conformal prediction sets of classes, for any class probabilities.
//!
//! With π_c the cumulative probability of class c and all more probable classes:
//!
//! | Method | Score of class c | Its sets |
//! |---|---|---|
//! | [`ConformalLac`] | 1 − p_c | smallest on average; may be empty for uncertain rows |
//! | [`ConformalAps`] | π_c | larger for uncertain rows |
//! | [`ConformalRaps`](crate::ConformalRaps) | π_c + λ·max(0, rank of c − k) | as APS, without the long tails of a noisy model |
//!
//! The threshold q̂ is the [`conformal_threshold`](crate::conformal_threshold) of the scores of the true classes of the
//! calibration rows. A set contains the classes whose score is at most q̂. Empty sets are not
//! filled, which would only increase the coverage.
//!
//! **Ties.** Equally probable classes are ordered by index, as for predictions.
//!
//! References: M. Sadinle, J. Lei and L. Wasserman, "Least ambiguous set-valued classifiers with
//! bounded error levels" (2019), for LAC; Y. Romano, M. Sesia and E. J. Candès, "Classification with
//! valid and adaptive coverage" (2020), for APS.

use crate::check;
use crate::conformal::weighted_conformal_threshold;
use crate::error::{EvalError, Place};
use crate::order::{compare, mean};
use crate::views::ClassProbabilities;
use crate::views::{LabelledProbabilities, check_labels};

/// Least ambiguous set-valued classifier (LAC): sets of the classes whose probability is at least a
/// threshold.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, ConformalLac, LabelledProbabilities};
///
/// let calibration = ClassProbabilities::binary(&[0.9, 0.2, 0.6, 0.3])?;
/// let labelled = LabelledProbabilities::new(&calibration, &[1, 0, 1, 1])?;
/// let conformal = ConformalLac::calibrate(&labelled, 0.6)?;
/// assert!((conformal.threshold() - 0.4).abs() < 1e-15); // classes of at least 0.6
///
/// let sets = conformal.sets(&ClassProbabilities::binary(&[0.95, 0.5])?)?;
/// assert_eq!((sets.classes_of(0), sets.classes_of(1)), (vec![1], vec![]));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConformalLac(Calibrated);

/// Adaptive prediction sets (APS): sets of the most probable classes up to a cumulative
/// probability.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, ConformalAps, LabelledProbabilities};
///
/// let calibration = ClassProbabilities::new(&[0.7, 0.2, 0.1, 0.5, 0.3, 0.2], 2, 3)?;
/// let labelled = LabelledProbabilities::new(&calibration, &[0, 1])?;
/// let conformal = ConformalAps::calibrate(&labelled, 0.6)?;
/// assert_eq!(conformal.threshold(), 0.8);
///
/// let sets = conformal.sets(&ClassProbabilities::new(&[0.4, 0.25, 0.35], 1, 3)?)?;
/// assert_eq!(sets.classes_of(0), [0, 2]); // 0.4, then 0.75, then too much
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConformalAps(Calibrated);

impl ConformalLac {
    /// Computes the threshold at which sets contain the true class with probability `level`.
    ///
    /// # Errors
    /// A config error if the level is not strictly between 0 and 1.
    pub fn calibrate(
        calibration: &LabelledProbabilities<'_>,
        level: f64,
    ) -> Result<Self, EvalError> {
        Self::calibrate_weighted(calibration, &ones(calibration), level)
    }

    /// The same with a weight for each calibration row, as in
    /// [`weighted_conformal_threshold`](crate::weighted_conformal_threshold).
    ///
    /// # Errors
    /// As [`calibrate`](Self::calibrate), and a data error if there is not one weight in [0, 1] per row.
    pub fn calibrate_weighted(
        calibration: &LabelledProbabilities<'_>,
        weights: &[f64],
        level: f64,
    ) -> Result<Self, EvalError> {
        Calibrated::new(calibration, weights, level, ambiguity).map(Self)
    }

    /// The largest 1 − p_c of a class in a set.
    pub fn threshold(&self) -> f64 {
        self.0.threshold()
    }

    /// The prediction sets of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the calibration rows.
    pub fn sets(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<PredictionSets, EvalError> {
        self.0.sets(probabilities, ambiguity)
    }
}

impl ConformalAps {
    /// Computes the threshold at which sets contain the true class with probability `level`.
    ///
    /// # Errors
    /// A config error if the level is not strictly between 0 and 1.
    pub fn calibrate(
        calibration: &LabelledProbabilities<'_>,
        level: f64,
    ) -> Result<Self, EvalError> {
        Self::calibrate_weighted(calibration, &ones(calibration), level)
    }

    /// The same with a weight for each calibration row, as in
    /// [`weighted_conformal_threshold`](crate::weighted_conformal_threshold).
    ///
    /// # Errors
    /// As [`calibrate`](Self::calibrate), and a data error if there is not one weight in [0, 1] per row.
    pub fn calibrate_weighted(
        calibration: &LabelledProbabilities<'_>,
        weights: &[f64],
        level: f64,
    ) -> Result<Self, EvalError> {
        Calibrated::new(calibration, weights, level, mass).map(Self)
    }

    /// The largest π_c of a class in a set.
    pub fn threshold(&self) -> f64 {
        self.0.threshold()
    }

    /// The prediction sets of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the calibration rows.
    pub fn sets(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<PredictionSets, EvalError> {
        self.0.sets(probabilities, mass)
    }
}

/// The common part of the methods; scores are a function of the row's probabilities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Calibrated {
    threshold: f64,
    classes: usize,
}

impl Calibrated {
    pub(super) fn new(
        calibration: &LabelledProbabilities<'_>,
        weights: &[f64],
        level: f64,
        scores: impl Fn(&[f64]) -> Vec<f64>,
    ) -> Result<Self, EvalError> {
        let rows = calibration.iter();
        let of_truth: Vec<f64> = rows.map(|(row, label)| scores(row)[label]).collect();
        Ok(Self {
            threshold: weighted_conformal_threshold(&of_truth, weights, level)?,
            classes: calibration.probabilities().classes(),
        })
    }

    pub(super) fn threshold(&self) -> f64 {
        self.threshold
    }

    pub(super) fn sets(
        &self,
        probabilities: &ClassProbabilities<'_>,
        scores: impl Fn(&[f64]) -> Vec<f64>,
    ) -> Result<PredictionSets, EvalError> {
        if probabilities.classes() != self.classes {
            return Err(EvalError::data(
                "class probabilities",
                Place::WHOLE,
                format!("{} classes", probabilities.classes()),
                format!("the {} classes of the calibration rows", self.classes),
                "calibrated with another model or data set",
            ));
        }
        let held = probabilities
            .iter()
            .flat_map(scores)
            .map(|score| score <= self.threshold)
            .collect();
        Ok(PredictionSets {
            held,
            classes: self.classes,
        })
    }
}

/// A weight of 1 for each row.
pub(super) fn ones(calibration: &LabelledProbabilities<'_>) -> Vec<f64> {
    vec![1.0; calibration.probabilities().rows()]
}

/// 1 − p_c of every class.
pub(super) fn ambiguity(probabilities: &[f64]) -> Vec<f64> {
    probabilities
        .iter()
        .map(|probability| 1.0 - probability)
        .collect()
}

/// π_c of every class.
pub(super) fn mass(probabilities: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| compare(probabilities[b], probabilities[a]));
    let mut scores = vec![0.0; probabilities.len()];
    let mut cumulated = 0.0;
    for class in order {
        cumulated += probabilities[class];
        scores[class] = cumulated;
    }
    scores
}

/// One set of classes per row.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, ConformalLac, LabelledProbabilities};
///
/// let table = ClassProbabilities::binary(&[0.9, 0.2, 0.6])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 0, 1])?;
/// let sets = ConformalLac::calibrate(&labelled, 0.75)?.sets(&table)?;
/// assert_eq!((sets.coverage(&[1, 0, 1])?, sets.mean_size()), (1.0, 1.0));
/// assert!(sets.contains(2, 1) && !sets.contains(2, 0));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictionSets {
    held: Vec<bool>,
    classes: usize,
}

impl PredictionSets {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.held.len() / self.classes
    }

    /// Whether the class is in the set of the row; false for an unknown class or row.
    pub fn contains(&self, row: usize, class: usize) -> bool {
        let index = row.checked_mul(self.classes);
        class < self.classes
            && index.is_some_and(|index| self.held.get(index + class) == Some(&true))
    }

    /// The classes in the set of the row, ascending.
    pub fn classes_of(&self, row: usize) -> Vec<usize> {
        let is_held = |class: &usize| self.contains(row, *class);
        (0..self.classes).filter(is_held).collect()
    }

    /// The number of classes in each set.
    pub fn sizes(&self) -> Vec<usize> {
        self.held
            .chunks_exact(self.classes)
            .map(|row| row.iter().filter(|&&held| held).count())
            .collect()
    }

    /// Whether each set contains the true class.
    ///
    /// # Errors
    /// A data error if there is not one label per row or a label is not a class.
    pub fn covered(&self, labels: &[usize]) -> Result<Vec<bool>, EvalError> {
        check::same_length("labels", labels.len(), self.rows())?;
        check_labels("labels", labels, self.classes)?;
        let rows = labels.iter().enumerate();
        Ok(rows
            .map(|(row, &label)| self.contains(row, label))
            .collect())
    }

    /// The sets with all classes between the first and the last class of each, so that sets of ordered classes are ranges.
    /// They contain these sets, and cover at least as much.
    #[must_use]
    pub fn as_ranges(mut self) -> Self {
        for set in self.held.chunks_exact_mut(self.classes) {
            let ends = [
                set.iter().position(|&held| held),
                set.iter().rposition(|&held| held),
            ];
            if let [Some(first), Some(last)] = ends {
                set[first..=last].fill(true);
            }
        }
        self
    }

    /// Sets from one flag per row and class.
    pub(super) fn of_flags(held: Vec<bool>, classes: usize) -> Self {
        Self { held, classes }
    }

    /// The number of classes that may be in a set.
    pub(super) fn classes(&self) -> usize {
        self.classes
    }

    /// Mean number of classes in a set.
    pub fn mean_size(&self) -> f64 {
        let sizes: Vec<f64> = self.sizes().iter().map(|&size| size as f64).collect();
        mean(&sizes)
    }

    /// Fraction of rows whose set contains the true class.
    ///
    /// # Errors
    /// A data error if there is not one label per row or a label is not a class.
    pub fn coverage(&self, labels: &[usize]) -> Result<f64, EvalError> {
        let covered = self.covered(labels)?;
        let count = covered.iter().filter(|&&covered| covered).count();
        Ok(count as f64 / labels.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equally_probable_classes_stand_by_index() {
        assert_eq!(mass(&[0.25, 0.5, 0.25]), [0.75, 0.5, 1.0]);
        assert_eq!(mass(&[1.0]), [1.0]);
    }

    #[test]
    fn all_right_and_certain_makes_single_classes_all_wrong_makes_full_sets() {
        let table = ClassProbabilities::binary(&[1.0, 0.0, 1.0]).unwrap();
        let right = LabelledProbabilities::new(&table, &[1, 0, 1]).unwrap();
        let wrong = LabelledProbabilities::new(&table, &[0, 1, 0]).unwrap();
        for (labelled, size) in [(right, 1.0), (wrong, 2.0)] {
            let lac = ConformalLac::calibrate(&labelled, 0.5).unwrap();
            assert_eq!(lac.sets(&table).unwrap().mean_size(), size);
        }
        // The second class of a row with probability 1 adds no mass, so it is always included.
        let aps = ConformalAps::calibrate(&right, 0.5).unwrap();
        assert_eq!(aps.sets(&table).unwrap().mean_size(), 2.0);
    }

    #[test]
    fn too_few_rows_for_the_level_keep_every_class() {
        let table = ClassProbabilities::new(&[0.9, 0.1, 0.0], 1, 3).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0]).unwrap();
        let lac = ConformalLac::calibrate(&labelled, 0.9).unwrap();
        assert_eq!(lac.threshold(), f64::INFINITY);
        assert_eq!(lac.sets(&table).unwrap().classes_of(0), [0, 1, 2]);
    }

    #[test]
    fn one_class_is_always_held() {
        let table = ClassProbabilities::new(&[1.0, 1.0], 2, 1).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 0]).unwrap();
        let sets = ConformalAps::calibrate(&labelled, 0.5).unwrap();
        let sets = sets.sets(&table).unwrap();
        assert_eq!(
            (sets.coverage(&[0, 0]).unwrap(), sets.mean_size()),
            (1.0, 1.0)
        );
    }

    #[test]
    fn ranges_fill_the_gaps_of_sets_alone() {
        let held = [1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0].map(|flag| flag == 1);
        let ranges = PredictionSets::of_flags(held.to_vec(), 4).as_ranges();
        let found = [0, 1, 2].map(|row| ranges.classes_of(row));
        assert_eq!(found, [vec![0, 1, 2], vec![], vec![1, 2]]);
    }

    #[test]
    fn rejects_other_classes_and_labels() {
        let table = ClassProbabilities::binary(&[0.4, 0.8]).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 1]).unwrap();
        let three = ClassProbabilities::new(&[0.2, 0.3, 0.5], 1, 3).unwrap();
        let lac = ConformalLac::calibrate(&labelled, 0.5).unwrap();
        assert!(lac.sets(&three).unwrap_err().is_data());
        let sets = lac.sets(&table).unwrap();
        assert!(sets.coverage(&[0]).unwrap_err().is_data());
        assert_eq!(sets.coverage(&[0, 2]).unwrap_err().row(), Some(1));
        assert!(!sets.contains(0, 2) && !sets.contains(2, 0) && !sets.contains(usize::MAX, 1));

        for level in [0.0, 1.0] {
            assert!(
                ConformalLac::calibrate(&labelled, level)
                    .unwrap_err()
                    .is_config()
            );
        }
    }
}
