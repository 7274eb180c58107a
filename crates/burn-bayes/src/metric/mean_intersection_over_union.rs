//! Mean intersection over union of the averaged probabilities, the usual score of segmentations.
//!
//! With n_yc the number of rows of class y predicted as class c = argmax p̄:
//!
//!   IoU_c = n_cc/(Σ_k n_ck + Σ_k n_kc − n_cc)
//!
//! and the mean runs over the classes that occur as a label or as a prediction. A row is a pixel.
//! The counts are accumulated over the mini-batches of an epoch; the pixels are not kept.

use burn::tensor::TensorReadError;
use burn_bayes_eval::ConfusionMatrix;

use super::score::{Caption, SetScore};
use super::whole_set::WholeSetMetric;
use crate::likelihood::ClassificationDraws;
use crate::likelihood::refused;

/// The mean intersection over union of an epoch's rows.
///
/// ```
/// use burn_bayes::metric::MeanIntersectionOverUnionMetric;
///
/// let metric = MeanIntersectionOverUnionMetric::new();
/// ```
pub type MeanIntersectionOverUnionMetric = WholeSetMetric<MeanIntersectionOverUnion>;

/// The overlap of predicted and true regions, averaged over classes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeanIntersectionOverUnion;

impl SetScore for MeanIntersectionOverUnion {
    type Input = ClassificationDraws;
    type Gathered = Option<ConfusionMatrix>;

    fn caption(&self) -> Caption {
        Caption {
            name: "Mean IoU".into(),
            description: "Overlap of predicted and true regions, averaged over classes.".into(),
            unit: None,
            higher_is_better: true,
        }
    }

    fn gather(
        &self,
        counts: &mut Option<ConfusionMatrix>,
        batch: &ClassificationDraws,
    ) -> Result<(), TensorReadError> {
        let more = ConfusionMatrix::from_probabilities(&batch.read()?.labelled());
        match counts {
            Some(sum) => sum.merge(&more).map_err(refused)?,
            None => *counts = Some(more),
        }
        Ok(())
    }

    fn score(&self, counts: &Option<ConfusionMatrix>) -> f64 {
        counts
            .as_ref()
            .map_or(f64::NAN, ConfusionMatrix::mean_intersection_over_union)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{assert_close, classification, epoch};

    #[test]
    fn counts_add_up_before_classes_are_averaged() {
        let (zero, one) = ([0.75, 0.25], [0.25, 0.75]);
        // Labels 0 0 1 predicted as 0 1 1, then 1 1 1 predicted as 1 1 0.
        let first = classification([[zero, one, one]], [0, 0, 1]);
        let second = classification([[one, one, zero]], [1, 1, 1]);
        let value = epoch(MeanIntersectionOverUnionMetric::new(), &[first, second]);
        // Class 0: 1 of 3; class 1: 3 of 5. The mean of the batches would be another number.
        assert_close(value, (1.0 / 3.0 + 3.0 / 5.0) / 2.0, 2);
    }

    #[test]
    fn the_draws_are_averaged_before_a_class_is_chosen() {
        // p̄ = (0.55, 0.45), although the second draw prefers class 1.
        let batch = classification([[[0.7, 0.3]], [[0.4, 0.6]]], [0]);
        let value = epoch(MeanIntersectionOverUnionMetric::new(), &[batch]);
        assert_close(value, 1.0, 0);
    }
}
