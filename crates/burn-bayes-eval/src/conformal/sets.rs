//! Conformal prediction sets of classes, for any class probabilities.
//!
//! With π_c the cumulative probability of class c and all more probable classes, and r_c its rank from 1:
//!
//! | [`SetScore`] | Score of class c | Its sets |
//! |---|---|---|
//! | `Lac` | 1 − p_c | smallest on average; may be empty for uncertain rows |
//! | `Aps` | π_c | larger for uncertain rows |
//! | `Raps` | π_c + λ·max(0, r_c − k) | as APS, without the long tails of a noisy model |
//!
//! The threshold q̂ is the [`conformal_threshold`](crate::conformal_threshold) of the scores of the true classes of the
//! calibration rows. A set contains the classes whose score is at most q̂. Empty sets are not
//! filled, which would only increase the coverage.
//!
//! The penalty λ of every class beyond the k most probable ones keeps noise in the tail of a large
//! softmax out of the sets. λ = 0 is APS. Choose λ and k on other rows than the calibration rows;
//! the authors use 0.01 to 0.1 and 5 for a thousand classes.
//!
//! **Ties.** Equally probable classes are ordered by index, as for predictions.
//!
//! References: M. Sadinle, J. Lei and L. Wasserman, "Least ambiguous set-valued classifiers with
//! bounded error levels" (2019), for LAC; Y. Romano, M. Sesia and E. J. Candès, "Classification with
//! valid and adaptive coverage" (2020), for APS; A. N. Angelopoulos et al., "Uncertainty sets for image classifiers
//! using conformal prediction" (2021), for RAPS.

use crate::check;
use crate::conformal::weighted_conformal_threshold;
use crate::error::{EvalError, Place};
use crate::order::{compare, mean};
use crate::views::ClassProbabilities;
use crate::views::{LabelledProbabilities, check_labels};

/// The score of a class, which decides whether it is in a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SetScore {
    /// 1 − p_c: the least ambiguous set-valued classifier (LAC), whose sets have the classes whose probability is at least a
    /// threshold.
    Lac,
    /// π_c: adaptive prediction sets (APS), of the most probable classes up to a cumulative probability.
    Aps,
    /// π_c with a penalty on many classes: regularised adaptive prediction sets (RAPS).
    Raps(RankPenalty),
}

/// The penalty of [`SetScore::Raps`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankPenalty {
    /// λ, added per class beyond the free ones; finite and at least zero.
    pub weight: f64,
    /// k, the number of classes without a penalty.
    pub free_classes: usize,
}

/// Prediction sets with one threshold for all classes.
///
/// ```
/// use burn_bayes_eval::{
///     ClassProbabilities, ConformalSets, LabelledProbabilities, RankPenalty, SetScore,
/// };
///
/// let calibration = ClassProbabilities::binary(&[0.9, 0.2, 0.6, 0.3])?;
/// let labelled = LabelledProbabilities::new(&calibration, &[1, 0, 1, 1])?;
/// let conformal = ConformalSets::calibrate(&labelled, 0.6, SetScore::Lac)?;
/// assert!((conformal.threshold() - 0.4).abs() < 1e-15); // classes of at least 0.6
///
/// let sets = conformal.sets(&ClassProbabilities::binary(&[0.95, 0.5])?)?;
/// assert_eq!((sets.classes_of(0), sets.classes_of(1)), (vec![1], vec![]));
///
/// let calibration = ClassProbabilities::new(&[0.7, 0.2, 0.1, 0.5, 0.3, 0.2], 2, 3)?;
/// let labelled = LabelledProbabilities::new(&calibration, &[0, 1])?;
/// let conformal = ConformalSets::calibrate(&labelled, 0.6, SetScore::Aps)?;
/// assert_eq!(conformal.threshold(), 0.8);
///
/// let sets = conformal.sets(&ClassProbabilities::new(&[0.4, 0.25, 0.35], 1, 3)?)?;
/// assert_eq!(sets.classes_of(0), [0, 2]); // 0.4, then 0.75, then too much
///
/// let penalty = RankPenalty { weight: 0.5, free_classes: 1 };
/// let conformal = ConformalSets::calibrate(&labelled, 0.6, SetScore::Raps(penalty))?;
/// assert_eq!(conformal.threshold(), 1.3); // 0.8 and one penalty
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConformalSets {
    score: SetScore,
    threshold: f64,
    classes: usize,
}

impl ConformalSets {
    /// Computes the threshold at which sets contain the true class with probability `level`.
    ///
    /// # Errors
    /// A config error if the level is not strictly between 0 and 1, or the weight of a penalty is not finite and at least
    /// zero.
    pub fn calibrate(
        calibration: &LabelledProbabilities<'_>,
        level: f64,
        score: SetScore,
    ) -> Result<Self, EvalError> {
        let weights = vec![1.0; calibration.probabilities().rows()];
        Self::calibrate_weighted(calibration, &weights, level, score)
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
        score: SetScore,
    ) -> Result<Self, EvalError> {
        score.check()?;
        let rows = calibration.iter();
        let of_truth: Vec<f64> = rows.map(|(row, label)| score.of(row)[label]).collect();
        Ok(Self {
            score,
            threshold: weighted_conformal_threshold(&of_truth, weights, level)?,
            classes: calibration.probabilities().classes(),
        })
    }

    /// The largest score of a class in a set.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// The prediction sets of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the calibration rows.
    pub fn sets(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<PredictionSets, EvalError> {
        let thresholds = vec![self.threshold; self.classes];
        self.score.sets(probabilities, &thresholds)
    }
}

impl SetScore {
    pub(super) fn check(self) -> Result<(), EvalError> {
        match self {
            Self::Raps(RankPenalty { weight, .. }) if !(weight.is_finite() && weight >= 0.0) => {
                let expected = "a finite number of at least 0";
                Err(EvalError::config("RankPenalty::weight", weight, expected))
            }
            _ => Ok(()),
        }
    }

    /// The score of every class.
    pub(super) fn of(self, probabilities: &[f64]) -> Vec<f64> {
        match self {
            Self::Lac => probabilities.iter().map(|one| 1.0 - one).collect(),
            Self::Aps => mass(probabilities),
            Self::Raps(penalty) => penalty.scores(probabilities),
        }
    }

    /// The sets of the classes whose score is at most the threshold of the class.
    pub(super) fn sets(
        self,
        probabilities: &ClassProbabilities<'_>,
        thresholds: &[f64],
    ) -> Result<PredictionSets, EvalError> {
        let classes = thresholds.len();
        if probabilities.classes() != classes {
            return Err(EvalError::data(
                "class probabilities",
                Place::WHOLE,
                format!("{} classes", probabilities.classes()),
                format!("the {classes} classes of the calibration rows"),
                "calibrated with another model or data set",
            ));
        }
        let of_row = |row| self.of(row).into_iter().zip(thresholds);
        let scores = probabilities.iter().flat_map(of_row);
        let held = scores.map(|(score, most)| score <= *most).collect();
        Ok(PredictionSets { held, classes })
    }
}

impl RankPenalty {
    fn scores(self, probabilities: &[f64]) -> Vec<f64> {
        let mut scores = mass(probabilities);
        let ranked = by_rank(probabilities).into_iter().enumerate();
        for (rank, class) in ranked.skip(self.free_classes) {
            scores[class] += self.weight * (rank + 1 - self.free_classes) as f64;
        }
        scores
    }
}

/// The classes, the most probable one first.
fn by_rank(probabilities: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| compare(probabilities[b], probabilities[a]));
    order
}

/// π_c of every class.
fn mass(probabilities: &[f64]) -> Vec<f64> {
    let mut scores = vec![0.0; probabilities.len()];
    let mut cumulated = 0.0;
    for class in by_rank(probabilities) {
        cumulated += probabilities[class];
        scores[class] = cumulated;
    }
    scores
}

/// One set of classes per row.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, ConformalSets, LabelledProbabilities, SetScore};
///
/// let table = ClassProbabilities::binary(&[0.9, 0.2, 0.6])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 0, 1])?;
/// let sets = ConformalSets::calibrate(&labelled, 0.75, SetScore::Lac)?.sets(&table)?;
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
    use crate::uniforms;

    #[test]
    fn equally_probable_classes_stand_by_index() {
        assert_eq!(mass(&[0.25, 0.5, 0.25]), [0.75, 0.5, 1.0]);
        assert_eq!(mass(&[1.0]), [1.0]);
    }

    #[test]
    fn the_penalty_counts_ranks_and_ties_stand_by_index() {
        let penalty = RankPenalty {
            weight: 0.5,
            free_classes: 1,
        };
        assert_eq!(penalty.scores(&[0.25, 0.5, 0.25]), [1.25, 0.5, 2.0]);
        let none = RankPenalty {
            weight: 0.0,
            free_classes: 0,
        };
        assert_eq!(none.scores(&[0.25, 0.5, 0.25]), mass(&[0.25, 0.5, 0.25]));
    }

    #[test]
    fn without_a_penalty_it_is_aps() {
        let table = ClassProbabilities::binary(&uniforms(30, 1)).unwrap();
        let labels: Vec<usize> = uniforms(30, 2)
            .iter()
            .map(|u| usize::from(*u < 0.5))
            .collect();
        let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
        let none = RankPenalty {
            weight: 0.0,
            free_classes: 0,
        };
        let raps = ConformalSets::calibrate(&labelled, 0.8, SetScore::Raps(none)).unwrap();
        let aps = ConformalSets::calibrate(&labelled, 0.8, SetScore::Aps).unwrap();
        assert_eq!(raps.sets(&table).unwrap(), aps.sets(&table).unwrap());
    }

    #[test]
    fn all_right_and_certain_makes_single_classes_all_wrong_makes_full_sets() {
        let table = ClassProbabilities::binary(&[1.0, 0.0, 1.0]).unwrap();
        let right = LabelledProbabilities::new(&table, &[1, 0, 1]).unwrap();
        let wrong = LabelledProbabilities::new(&table, &[0, 1, 0]).unwrap();
        for (labelled, size) in [(right, 1.0), (wrong, 2.0)] {
            let lac = ConformalSets::calibrate(&labelled, 0.5, SetScore::Lac).unwrap();
            assert_eq!(lac.sets(&table).unwrap().mean_size(), size);
        }
        // The second class of a row with probability 1 adds no mass, so it is always included.
        let aps = ConformalSets::calibrate(&right, 0.5, SetScore::Aps).unwrap();
        assert_eq!(aps.sets(&table).unwrap().mean_size(), 2.0);
    }

    #[test]
    fn too_few_rows_for_the_level_keep_every_class() {
        let table = ClassProbabilities::new(&[0.9, 0.1, 0.0], 1, 3).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0]).unwrap();
        let lac = ConformalSets::calibrate(&labelled, 0.9, SetScore::Lac).unwrap();
        assert_eq!(lac.threshold(), f64::INFINITY);
        assert_eq!(lac.sets(&table).unwrap().classes_of(0), [0, 1, 2]);
    }

    #[test]
    fn one_class_is_always_held() {
        let table = ClassProbabilities::new(&[1.0, 1.0], 2, 1).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 0]).unwrap();
        let sets = ConformalSets::calibrate(&labelled, 0.5, SetScore::Aps).unwrap();
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
        let lac = ConformalSets::calibrate(&labelled, 0.5, SetScore::Lac).unwrap();
        assert!(lac.sets(&three).unwrap_err().is_data());
        let sets = lac.sets(&table).unwrap();
        assert!(sets.coverage(&[0]).unwrap_err().is_data());
        assert_eq!(sets.coverage(&[0, 2]).unwrap_err().row(), Some(1));
        assert!(!sets.contains(0, 2) && !sets.contains(2, 0) && !sets.contains(usize::MAX, 1));

        for level in [0.0, 1.0] {
            assert!(
                ConformalSets::calibrate(&labelled, level, SetScore::Lac)
                    .unwrap_err()
                    .is_config()
            );
        }
    }
}
