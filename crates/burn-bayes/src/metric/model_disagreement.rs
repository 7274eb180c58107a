//! Model disagreement: the variance of the draws' probabilities (the VIFA paper, eq. 60).
//!
//! MD² = Σ_c (1/S) Σ_s (p_sc − p̄_c)²; 0 if all draws agree, and for a single draw.

use burn::tensor::TensorReadError;
use burn_bayes_eval::model_disagreement;

use super::row_mean::RowMeanMetric;
use super::score::{Caption, RowScore};
use crate::likelihood::ClassificationDraws;

/// The mean model disagreement of an epoch's rows.
pub type ModelDisagreementMetric = RowMeanMetric<ModelDisagreement>;

/// The variance over draws of each row's probabilities, summed over classes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelDisagreement;

impl RowScore for ModelDisagreement {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        Caption {
            name: "Model Disagreement".into(),
            description: "Variance over draws of the class probabilities, summed over classes."
                .into(),
            unit: None,
            higher_is_better: false,
        }
    }

    fn scores(&self, batch: &ClassificationDraws) -> Result<Vec<f64>, TensorReadError> {
        Ok(model_disagreement(batch.read()?.draws()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{classification, epoch};

    #[test]
    fn hand_worked_batches_average_by_rows() {
        // Two classes, each 1/4 from its mean: 2/16. Agreement: 0. Certain opposites: 2/4.
        let first = classification(
            [[[0.25, 0.75], [0.5, 0.5]], [[0.75, 0.25], [0.5, 0.5]]],
            [0, 1],
        );
        let second = classification([[[1.0, 0.0]], [[0.0, 1.0]]], [1]);
        let value = epoch(ModelDisagreementMetric::new(), &[first, second]);
        assert_eq!(value, (0.125 + 0.0 + 0.5) / 3.0);
    }

    #[test]
    fn one_draw_disagrees_with_nobody() {
        let batch = classification([[[0.25, 0.75]]], [0]);
        assert_eq!(epoch(ModelDisagreementMetric::new(), &[batch]), 0.0);
    }
}
