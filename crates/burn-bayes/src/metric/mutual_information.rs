//! Mutual information: the epistemic uncertainty, due to the disagreement of the draws.
//!
//! I = H[p̄] − (1/S) Σ_s H[p_s]; the information of a label about the weights; 0 for a single draw.

use burn::tensor::TensorReadError;
use burn_bayes_eval::mutual_information;

use super::row_mean::RowMeanMetric;
use super::score::{Caption, RowScore};
use crate::likelihood::ClassificationDraws;

/// The mean mutual information of an epoch's rows.
pub type MutualInformationMetric = RowMeanMetric<MutualInformation>;

/// The information between each row's class and the draw that predicts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct MutualInformation;

impl RowScore for MutualInformation {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        Caption {
            name: "Mutual Information".into(),
            description:
                "Predictive entropy minus expected entropy: the disagreement of the draws.".into(),
            unit: Some("nats"),
            higher_is_better: false,
        }
    }

    fn scores(&self, batch: &ClassificationDraws) -> Result<Vec<f64>, TensorReadError> {
        Ok(mutual_information(batch.read()?.draws()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{assert_close, classification, epoch};

    #[test]
    fn hand_worked_batches_average_by_rows() {
        // Opposite certain draws give ln 2, equal draws give 0.
        let first = classification([[[1.0, 0.0]], [[0.0, 1.0]]], [0]);
        let second = classification([[[0.5, 0.5], [0.25, 0.75]]], [0, 0]);
        let value = epoch(MutualInformationMetric::new(), &[first, second]);
        assert_close(value, 2f64.ln() / 3.0, 4);
    }
}
