//! The calibration error of the averaged probabilities without bins.
//!
//! smECE smooths the differences of correctness and confidence by a kernel, whose bandwidth is the error itself
//! (Błasiok and Nakkiran 2023). Needs the rows of a whole epoch.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, smooth_calibration_error};

use super::score::{Caption, SetScore};
use super::whole_set::WholeSetMetric;
use crate::likelihood::ClassificationDraws;

/// The smooth calibration error of an epoch's rows.
///
/// ```
/// use burn_bayes::metric::SmoothCalibrationErrorMetric;
///
/// let metric = SmoothCalibrationErrorMetric::new();
/// ```
pub type SmoothCalibrationErrorMetric = WholeSetMetric<SmoothCalibrationError>;

/// The distance between confidence and accuracy, smoothed by a kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct SmoothCalibrationError;

/// The averaged probabilities and the true classes of all rows.
#[derive(Clone, Debug, Default)]
pub struct LabelledRows {
    probabilities: Vec<f64>,
    labels: Vec<usize>,
}

impl SetScore for SmoothCalibrationError {
    type Input = ClassificationDraws;
    type Gathered = LabelledRows;

    fn caption(&self) -> Caption {
        Caption {
            name: "Smooth Calibration Error".into(),
            description: "Distance between confidence and accuracy, without bins.".into(),
            unit: None,
            higher_is_better: false,
        }
    }

    fn gather(
        &self,
        rows: &mut LabelledRows,
        batch: &ClassificationDraws,
    ) -> Result<(), TensorReadError> {
        let labelled = batch.read()?.labelled();
        let probabilities = labelled.probabilities().values();
        rows.probabilities.extend_from_slice(probabilities);
        rows.labels.extend_from_slice(labelled.labels());
        Ok(())
    }

    fn score(&self, rows: &LabelledRows) -> f64 {
        let (values, labels) = (&rows.probabilities[..], &rows.labels);
        let classes = values.len() / labels.len().max(1);
        let Ok(table) = ClassProbabilities::new(values, labels.len(), classes) else {
            return f64::NAN;
        };
        let labelled = LabelledProbabilities::new(&table, labels);
        labelled.map_or(f64::NAN, |labelled| smooth_calibration_error(&labelled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{assert_close, classification, epoch};

    #[test]
    fn the_rows_of_all_batches_are_scored_together() {
        let first = classification([[[0.25, 0.75, 0.0], [0.5, 0.125, 0.375]]], [1, 2]);
        let second = classification([[[0.0, 0.75, 0.25]]], [1]);
        let values = [0.25, 0.75, 0.0, 0.5, 0.125, 0.375, 0.0, 0.75, 0.25];
        let table = ClassProbabilities::new(&values[..], 3, 3).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[1, 2, 1]).unwrap();
        let expected = smooth_calibration_error(&labelled);
        let value = epoch(SmoothCalibrationErrorMetric::new(), &[first, second]);
        assert_close(value, expected, 2);
        assert!(expected > 0.0);
    }
}
