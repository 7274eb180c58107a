//! Prediction sets with a threshold per class.
//!
//! They contain class c if its score is at most the conformal threshold of the calibration rows *of class c*. They cover
//! every class at the level, where a common threshold may cover a rare class much less. A class needs about 1/(1 − ℓ)
//! calibration rows, or it is in every set.
//!
//! Reference: V. Vovk et al., "Mondrian confidence machine" (2003).

use crate::conformal::sets::{PredictionSets, SetScore};
use crate::conformal::threshold::conformal_threshold;
use crate::error::{EvalError, Place};
use crate::views::{ClassProbabilities, LabelledProbabilities};

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
        score.check()?;
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
        self.score.sets(probabilities, &self.thresholds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConformalSets, RankPenalty, uniforms};

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
            ConformalSets::calibrate(&labelled, 0.75, SetScore::Raps(bad))
                .unwrap_err()
                .is_config()
        );
    }
}
