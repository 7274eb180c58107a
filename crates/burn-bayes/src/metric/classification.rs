//! Quality and calibration of class probabilities.
//!
//! p̄ are the probabilities of a row averaged over draws, and y is its class.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{
    Bounded, ClassProbabilities, ConfusionMatrix, LabelledProbabilities, ReliabilityDiagram,
    brier_losses, log_losses, smooth_calibration_error,
};

use super::epoch::WholeSetMetric;
use super::score::{Caption, SetScore, class_row_metrics};
use crate::likelihood::{ClassificationDraws, refused};

class_row_metrics! {
    /// The mean negative log-likelihood of an epoch's rows under the average of the draws, −ln p̄_y.
    ///
    /// Probabilities come in single precision, where a softmax underflows; a probability below the smallest normal number
    /// is replaced by it (87.3 nats), because infinite values cannot be plotted.
    AverageNllMetric of AverageNll: "Average NLL",
        "Negative log-likelihood of the averaged class probabilities.", Some("nats"),
        |rows| {
            let largest = -f64::from(f32::MIN_POSITIVE).ln();
            let losses = log_losses(&rows.labelled()).into_iter();
            losses.map(|loss| loss.at_most(largest)).collect()
        };

    /// The mean Brier score of an epoch's rows, the squared distance of the averaged probabilities from the class:
    /// Σ_c (p̄_c − \[c = y\])², between 0 and 2.
    BrierMetric of Brier: "Brier Score",
        "Squared distance of the averaged probabilities from the true class.", None,
        |rows| brier_losses(&rows.labelled());
}

/// The expected calibration error of an epoch's rows, with 15 bins by default.
///
/// The mean distance between confidence and accuracy, ECE = Σ_b (n_b/N) |accuracy_b − confidence_b| over bins b of equal
/// width of the confidence max_c p̄_c. The sums of each bin are accumulated, so the result is the error of all rows; the
/// mean of the errors per mini-batch would be larger.
///
/// ```
/// use burn_bayes::metric::ExpectedCalibrationErrorMetric;
///
/// let usual = ExpectedCalibrationErrorMetric::new();
/// let coarse = ExpectedCalibrationErrorMetric::with_bins(10);
/// ```
pub type ExpectedCalibrationErrorMetric = WholeSetMetric<ExpectedCalibrationError>;

/// The score of [`ExpectedCalibrationErrorMetric`].
#[derive(Clone, Debug)]
pub struct ExpectedCalibrationError {
    /// Per bin Σ (accuracy − confidence) over its rows.
    gaps: Vec<f64>,
    rows: usize,
}

impl Default for ExpectedCalibrationError {
    fn default() -> Self {
        Self {
            gaps: vec![0.0; 15],
            rows: 0,
        }
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
        Self::of(ExpectedCalibrationError {
            gaps: vec![0.0; bins],
            rows: 0,
        })
    }
}

impl SetScore for ExpectedCalibrationError {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        let name = format!("Expected Calibration Error @ {} bins", self.gaps.len());
        Caption::new(name, "Mean distance between confidence and accuracy.")
    }

    fn add(&mut self, batch: &ClassificationDraws) -> Result<(), TensorReadError> {
        let labelled = batch.read()?.labelled();
        let bins = self.gaps.len();
        let diagram = ReliabilityDiagram::equal_width(&labelled, bins).map_err(refused)?;
        self.rows += labelled.labels().len();
        for (sum, bin) in self.gaps.iter_mut().zip(diagram.bins()) {
            *sum += bin.count as f64 * bin.gap().unwrap_or(0.0);
        }
        Ok(())
    }

    fn value(&self) -> f64 {
        self.gaps.iter().map(|sum| sum.abs()).sum::<f64>() / self.rows as f64
    }
}

/// The smooth calibration error of an epoch's rows.
///
/// The distance between confidence and accuracy without bins: the differences of correctness and confidence are smoothed
/// by a kernel, whose bandwidth is the error itself (Błasiok and Nakkiran 2023). Needs the rows of a whole epoch.
pub type SmoothCalibrationErrorMetric = WholeSetMetric<SmoothCalibrationError>;

/// The score of [`SmoothCalibrationErrorMetric`].
#[derive(Clone, Debug, Default)]
pub struct SmoothCalibrationError {
    probabilities: Vec<f64>,
    labels: Vec<usize>,
}

impl SetScore for SmoothCalibrationError {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        let description = "Distance between confidence and accuracy, without bins.";
        Caption::new("Smooth Calibration Error", description)
    }

    fn add(&mut self, batch: &ClassificationDraws) -> Result<(), TensorReadError> {
        let labelled = batch.read()?.labelled();
        let probabilities = labelled.probabilities().values();
        self.probabilities.extend_from_slice(probabilities);
        self.labels.extend_from_slice(labelled.labels());
        Ok(())
    }

    fn value(&self) -> f64 {
        let (values, labels) = (&self.probabilities[..], &self.labels);
        let classes = values.len() / labels.len().max(1);
        let Ok(table) = ClassProbabilities::new(values, labels.len(), classes) else {
            return f64::NAN;
        };
        let labelled = LabelledProbabilities::new(&table, labels);
        labelled.map_or(f64::NAN, |labelled| smooth_calibration_error(&labelled))
    }
}

/// The mean intersection over union of an epoch's rows, the usual score of segmentations.
///
/// The overlap of predicted and true regions, averaged over classes; a row is a pixel.
///
/// With n_yc the number of rows of class y predicted as class c = argmax p̄:
///
///   IoU_c = n_cc/(Σ_k n_ck + Σ_k n_kc − n_cc)
///
/// and the mean runs over the classes that occur as a label or as a prediction. The counts are
/// accumulated; the pixels are not kept.
pub type MeanIntersectionOverUnionMetric = WholeSetMetric<MeanIntersectionOverUnion>;

/// The score of [`MeanIntersectionOverUnionMetric`].
#[derive(Clone, Debug, Default)]
pub struct MeanIntersectionOverUnion {
    counts: Option<ConfusionMatrix>,
}

impl SetScore for MeanIntersectionOverUnion {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        let description = "Overlap of predicted and true regions, averaged over classes.";
        Caption {
            higher_is_better: true,
            ..Caption::new("Mean IoU", description)
        }
    }

    fn add(&mut self, batch: &ClassificationDraws) -> Result<(), TensorReadError> {
        let more = ConfusionMatrix::from_probabilities(&batch.read()?.labelled());
        match &mut self.counts {
            Some(sum) => sum.merge(&more).map_err(refused)?,
            None => self.counts = Some(more),
        }
        Ok(())
    }

    fn value(&self) -> f64 {
        let counts = self.counts.as_ref();
        counts.map_or(f64::NAN, ConfusionMatrix::mean_intersection_over_union)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{assert_epoch, classification, epoch};

    #[test]
    fn hand_worked_batches_average_by_rows() {
        // True classes have p̄ = 1/2, 1/4 and (1/4 + 3/4)/2: ln 2, 2 ln 2, ln 2.
        let batches = [
            classification([[[0.5, 0.5], [0.25, 0.75]]], [1, 0]),
            classification([[[0.25, 0.75]], [[0.75, 0.25]]], [1]),
        ];
        assert_epoch(AverageNllMetric::new(), &batches, 4.0 / 3.0 * 2f64.ln(), 4);
        // Averages (1/2, 1/2), (1, 0) and (1/4, 3/4) cost 1/2, 2 and 1/8.
        let batches = [
            classification([[[0.5, 0.5], [1.0, 0.0]]], [0, 1]),
            classification([[[0.5, 0.5]], [[0.0, 1.0]]], [1]),
        ];
        assert_epoch(BrierMetric::new(), &batches, (0.5 + 2.0 + 0.125) / 3.0, 0);
        // Certain and wrong is bad, and finite.
        let batch = classification([[[1.0, 0.0]]], [1]);
        let value = epoch(AverageNllMetric::new(), &[batch]);
        assert!((87.0..88.0).contains(&value));
    }

    #[test]
    fn batches_add_up_before_a_set_is_scored() {
        // One bin holds all three rows of confidence 3/4: right, right, wrong.
        let batches = [
            classification([[[0.25, 0.75], [0.25, 0.75]]], [1, 1]),
            classification([[[0.75, 0.25]]], [1]),
        ];
        let metric = ExpectedCalibrationErrorMetric::with_bins(10);
        // |0.25 + 0.25 − 0.75| / 3; the batches alone would have 0.25 and 0.75.
        assert_epoch(metric, &batches, 0.25 / 3.0, 0);
        // Bins (1/2, 3/4] and (3/4, 1]: one row wrong by 3/4 and one right at 1.
        let batch = classification([[[0.25, 0.75], [1.0, 0.0]]], [0, 0]);
        let metric = ExpectedCalibrationErrorMetric::with_bins(4);
        assert_epoch(metric, &[batch], 0.375, 0);

        let (zero, one) = ([0.75, 0.25], [0.25, 0.75]);
        // Labels 0 0 1 predicted as 0 1 1, then 1 1 1 predicted as 1 1 0.
        let batches = [
            classification([[zero, one, one]], [0, 0, 1]),
            classification([[one, one, zero]], [1, 1, 1]),
        ];
        // Class 0: 1 of 3; class 1: 3 of 5. The mean of the batches would be another number.
        let expected = (1.0 / 3.0 + 3.0 / 5.0) / 2.0;
        let metric = MeanIntersectionOverUnionMetric::new();
        assert_epoch(metric.clone(), &batches, expected, 2);
        // The draws are averaged before a class is chosen: p̄ = (0.55, 0.45), although the second prefers class 1.
        let batch = classification([[[0.7, 0.3]], [[0.4, 0.6]]], [0]);
        assert_epoch(metric, &[batch], 1.0, 0);
    }

    #[test]
    #[should_panic(expected = "bins is 0")]
    fn no_bins_are_refused() {
        ExpectedCalibrationErrorMetric::with_bins(0);
    }
}
