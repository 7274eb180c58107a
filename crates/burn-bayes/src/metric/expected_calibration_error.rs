//! The expected calibration error of the averaged probabilities.
//!
//! ECE = Σ_b (n_b/N) |accuracy_b − confidence_b| over bins b of equal width of the confidence
//! max_c p̄_c. The sums of each bin are accumulated over the mini-batches of an epoch, so the
//! result is the error of all rows; the mean of the errors per mini-batch would be larger.

use burn::tensor::TensorReadError;
use burn_bayes_eval::ReliabilityDiagram;

use super::score::{Caption, SetScore};
use super::whole_set::WholeSetMetric;
use crate::likelihood::ClassificationDraws;
use crate::likelihood::refused;

/// The expected calibration error of an epoch's rows, with 15 bins by default.
///
/// ```
/// use burn_bayes::metric::ExpectedCalibrationErrorMetric;
///
/// let usual = ExpectedCalibrationErrorMetric::new();
/// let coarse = ExpectedCalibrationErrorMetric::with_bins(10);
/// ```
pub type ExpectedCalibrationErrorMetric = WholeSetMetric<ExpectedCalibrationError>;

/// The mean distance between confidence and accuracy.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedCalibrationError {
    bins: usize,
}

/// Per bin Σ (accuracy − confidence) over its rows, and the number of rows of all bins.
#[derive(Clone, Debug, Default)]
pub struct ConfidenceGaps {
    sums: Vec<f64>,
    rows: usize,
}

impl Default for ExpectedCalibrationError {
    fn default() -> Self {
        Self { bins: 15 }
    }
}

impl ExpectedCalibrationErrorMetric {
    /// The metric with this many bins.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn with_bins(bins: usize) -> Self {
        assert!(bins > 0, "bins is 0; it must be at least 1");
        Self::of(ExpectedCalibrationError { bins })
    }
}

impl SetScore for ExpectedCalibrationError {
    type Input = ClassificationDraws;
    type Gathered = ConfidenceGaps;

    fn caption(&self) -> Caption {
        Caption {
            name: format!("Expected Calibration Error @ {} bins", self.bins),
            description: "Mean distance between confidence and accuracy.".into(),
            unit: None,
            higher_is_better: false,
        }
    }

    fn gather(
        &self,
        gaps: &mut ConfidenceGaps,
        batch: &ClassificationDraws,
    ) -> Result<(), TensorReadError> {
        let labelled = batch.read()?.labelled();
        let diagram = ReliabilityDiagram::equal_width(&labelled, self.bins).map_err(refused)?;
        gaps.sums.resize(self.bins, 0.0);
        gaps.rows += labelled.labels().len();
        for (sum, bin) in gaps.sums.iter_mut().zip(diagram.bins()) {
            *sum += bin.count as f64 * bin.gap().unwrap_or(0.0);
        }
        Ok(())
    }

    fn score(&self, gaps: &ConfidenceGaps) -> f64 {
        gaps.sums.iter().map(|sum| sum.abs()).sum::<f64>() / gaps.rows as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{classification, epoch};

    #[test]
    fn batches_add_up_before_the_distance_is_taken() {
        // One bin holds all three rows of confidence 3/4: right, right, wrong.
        let first = classification([[[0.25, 0.75], [0.25, 0.75]]], [1, 1]);
        let second = classification([[[0.75, 0.25]]], [1]);
        let metric = ExpectedCalibrationErrorMetric::with_bins(10);
        // |0.25 + 0.25 − 0.75| / 3; the batches alone would have 0.25 and 0.75.
        assert_eq!(epoch(metric, &[first, second]), 0.25 / 3.0);
    }

    #[test]
    fn confidences_fall_into_their_bins() {
        // Bins (1/2, 3/4] and (3/4, 1]: one row wrong by 3/4 and one right at 1.
        let batch = classification([[[0.25, 0.75], [1.0, 0.0]]], [0, 0]);
        let metric = ExpectedCalibrationErrorMetric::with_bins(4);
        assert_eq!(epoch(metric, &[batch]), 0.375);
    }

    #[test]
    #[should_panic(expected = "bins is 0")]
    fn no_bins_are_refused() {
        ExpectedCalibrationErrorMetric::with_bins(0);
    }
}
