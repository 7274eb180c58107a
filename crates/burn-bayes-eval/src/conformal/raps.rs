//! Regularised adaptive prediction sets (RAPS), and sets with a threshold per class.
//!
//!   RAPS score of class c   π_c + λ·max(0, r_c − k)
//!
//! with π_c the probability of class c and all more probable classes, and r_c its rank from 1. The
//! penalty λ of every class beyond the k most probable ones keeps noise in the tail of a large
//! softmax out of the sets. λ = 0 is APS. Choose λ and k on other rows than the calibration rows;
//! the authors use 0.01 to 0.1 and 5 for a thousand classes.
//!
//! **Sets with a threshold per class** contain class c if its score is at most the conformal
//! threshold of the calibration rows *of class c*. They cover every class at the level, where a
//! common threshold may cover a rare class much less. A class needs about 1/(1 − ℓ) calibration
//! rows, or it is in every set.
//!
//! References: A. N. Angelopoulos et al., "Uncertainty sets for image classifiers using conformal
//! prediction" (2021); V. Vovk et al., "Mondrian confidence machine" (2003), for classes.

use crate::conformal::sets::{Calibrated, PredictionSets, ambiguity, mass, ones};
use crate::conformal::threshold::conformal_threshold;
use crate::error::{EvalError, Place};
use crate::order::compare;
use crate::views::{ClassProbabilities, LabelledProbabilities};

/// Adaptive prediction sets with a penalty on many classes.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, ConformalRaps, LabelledProbabilities, RankPenalty};
///
/// let penalty = RankPenalty { weight: 0.5, free_classes: 1 };
/// let calibration = ClassProbabilities::new(&[0.7, 0.2, 0.1, 0.5, 0.3, 0.2], 2, 3)?;
/// let labelled = LabelledProbabilities::new(&calibration, &[0, 1])?;
/// let conformal = ConformalRaps::calibrate(&labelled, 0.6, penalty)?;
/// assert_eq!(conformal.threshold(), 1.3); // 0.8 and one penalty
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConformalRaps {
    calibrated: Calibrated,
    penalty: RankPenalty,
}

/// The penalty of [`ConformalRaps`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankPenalty {
    /// λ, added per class beyond the free ones; finite and at least zero.
    pub weight: f64,
    /// k, the number of classes without a penalty.
    pub free_classes: usize,
}

impl ConformalRaps {
    /// Computes the threshold at which sets contain the true class with probability `level`.
    ///
    /// # Errors
    /// A config error if the level is not strictly between 0 and 1, or the weight is not finite and
    /// at least zero.
    pub fn calibrate(
        calibration: &LabelledProbabilities<'_>,
        level: f64,
        penalty: RankPenalty,
    ) -> Result<Self, EvalError> {
        Self::calibrate_weighted(calibration, &ones(calibration), level, penalty)
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
        penalty: RankPenalty,
    ) -> Result<Self, EvalError> {
        penalty.check()?;
        let calibrated = Calibrated::new(calibration, weights, level, |row| penalty.scores(row))?;
        Ok(Self {
            calibrated,
            penalty,
        })
    }

    /// The largest score of a class in a set.
    pub fn threshold(&self) -> f64 {
        self.calibrated.threshold()
    }

    /// The prediction sets of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the calibration rows.
    pub fn sets(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<PredictionSets, EvalError> {
        self.calibrated
            .sets(probabilities, |row| self.penalty.scores(row))
    }
}

impl RankPenalty {
    fn check(self) -> Result<(), EvalError> {
        if self.weight.is_finite() && self.weight >= 0.0 {
            return Ok(());
        }
        let expected = "a finite number of at least 0";
        Err(EvalError::config(
            "RankPenalty::weight",
            self.weight,
            expected,
        ))
    }

    fn scores(self, probabilities: &[f64]) -> Vec<f64> {
        let mut order: Vec<usize> = (0..probabilities.len()).collect();
        order.sort_by(|&a, &b| compare(probabilities[b], probabilities[a]));
        let mut scores = mass(probabilities);
        for (rank, class) in order.into_iter().enumerate().skip(self.free_classes) {
            scores[class] += self.weight * (rank + 1 - self.free_classes) as f64;
        }
        scores
    }
}

/// The score of a class in sets with a threshold per class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SetScore {
    /// 1 − p_c, as in [`ConformalLac`](crate::ConformalLac).
    Lac,
    /// π_c, as in [`ConformalAps`](crate::ConformalAps).
    Aps,
    /// π_c with a penalty, as in [`ConformalRaps`].
    Raps(RankPenalty),
}

/// Prediction sets with one threshold per class.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, ConformalByClass, LabelledProbabilities, SetScore};
///
/// let table = ClassProbabilities::binary(&[0.1, 0.2, 0.3, 0.4, 0.6, 0.9])?;
/// let labelled = LabelledProbabilities::new(&table, &[0, 0, 0, 1, 1, 1])?;
/// let conformal = ConformalByClass::calibrate(&labelled, 0.5, SetScore::Lac)?;
/// // Class 0 is in a set from a probability of 0.8 on, class 1 from 0.6 on.
/// assert!((conformal.thresholds()[0] - 0.2).abs() < 1e-15);
/// assert!((conformal.thresholds()[1] - 0.4).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ConformalByClass {
    score: SetScore,
    thresholds: Vec<f64>,
}

impl ConformalByClass {
    /// Computes the thresholds at which the sets of rows of each class contain it with probability
    /// `level`.
    ///
    /// # Errors
    /// A data error if a class has no calibration row; a config error if the level is not strictly
    /// between 0 and 1, or the weight of a penalty is not finite and at least zero.
    pub fn calibrate(
        calibration: &LabelledProbabilities<'_>,
        level: f64,
        score: SetScore,
    ) -> Result<Self, EvalError> {
        if let SetScore::Raps(penalty) = score {
            penalty.check()?;
        }
        let mut by_class = vec![Vec::new(); calibration.probabilities().classes()];
        for (row, label) in calibration.iter() {
            by_class[label].push(score.of(row)[label]);
        }
        if let Some(class) = by_class.iter().position(Vec::is_empty) {
            return Err(EvalError::data(
                "labels of the calibration rows",
                Place::WHOLE,
                format!("no row of class {class}"),
                "at least one row of every class",
                "a rare class: use more calibration rows, or a common threshold",
            ));
        }
        let thresholds = by_class
            .iter()
            .map(|scores| conformal_threshold(scores, level));
        Ok(Self {
            score,
            thresholds: thresholds.collect::<Result<_, _>>()?,
        })
    }

    /// The largest score of each class in a set; +∞ for too few calibration rows.
    pub fn thresholds(&self) -> &[f64] {
        &self.thresholds
    }

    /// The prediction sets of new rows.
    ///
    /// # Errors
    /// A data error if the number of classes is not that of the calibration rows.
    pub fn sets(
        &self,
        probabilities: &ClassProbabilities<'_>,
    ) -> Result<PredictionSets, EvalError> {
        let classes = self.thresholds.len();
        if probabilities.classes() != classes {
            return Err(EvalError::data(
                "class probabilities",
                Place::WHOLE,
                format!("{} classes", probabilities.classes()),
                format!("the {classes} classes of the calibration rows"),
                "calibrated with another model or data set",
            ));
        }
        let of_row = |row| self.score.of(row).into_iter().zip(&self.thresholds);
        let held = probabilities
            .iter()
            .flat_map(of_row)
            .map(|(score, most)| score <= *most);
        Ok(PredictionSets::of_flags(held.collect(), classes))
    }
}

impl SetScore {
    fn of(self, probabilities: &[f64]) -> Vec<f64> {
        match self {
            Self::Lac => ambiguity(probabilities),
            Self::Aps => mass(probabilities),
            Self::Raps(penalty) => penalty.scores(probabilities),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConformalAps, uniforms};

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
        let raps = ConformalRaps::calibrate(&labelled, 0.8, none).unwrap();
        let aps = ConformalAps::calibrate(&labelled, 0.8).unwrap();
        assert_eq!(raps.sets(&table).unwrap(), aps.sets(&table).unwrap());
    }

    #[test]
    fn every_class_is_covered_and_missing_classes_are_errors() {
        let table = ClassProbabilities::binary(&uniforms(60, 3)).unwrap();
        let labels: Vec<usize> = (0..60).map(|row| usize::from(row % 6 == 0)).collect();
        let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
        for score in [SetScore::Lac, SetScore::Aps] {
            let conformal = ConformalByClass::calibrate(&labelled, 0.75, score).unwrap();
            let covered = conformal.sets(&table).unwrap().covered(&labels).unwrap();
            for class in 0..2 {
                let rows: Vec<bool> = (0..60)
                    .filter(|&row| labels[row] == class)
                    .map(|row| covered[row])
                    .collect();
                let share = rows.iter().filter(|c| **c).count() as f64 / rows.len() as f64;
                assert!(share >= 0.75, "{share}");
            }
        }
        let labelled = LabelledProbabilities::new(&table, &[0; 60]).unwrap();
        let error = ConformalByClass::calibrate(&labelled, 0.75, SetScore::Lac).unwrap_err();
        assert!(error.to_string().contains("no row of class 1"), "{error}");
        let bad = RankPenalty {
            weight: f64::NAN,
            free_classes: 0,
        };
        let found = ConformalByClass::calibrate(&labelled, 0.75, SetScore::Raps(bad));
        assert!(found.unwrap_err().is_config());
        assert!(
            ConformalRaps::calibrate(&labelled, 0.75, bad)
                .unwrap_err()
                .is_config()
        );
    }
}
