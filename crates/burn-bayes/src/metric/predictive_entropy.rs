//! Predictive entropy: the total uncertainty of a prediction.
//!
//! H[p̄] = −Σ_c p̄_c ln p̄_c with p̄ the average of the draws' probabilities; between 0 and ln C nats.

use burn::tensor::TensorReadError;
use burn_bayes_eval::predictive_entropy;

use super::row_mean::RowMeanMetric;
use super::score::{Caption, RowScore};
use crate::likelihood::ClassificationDraws;

/// The mean predictive entropy of an epoch's rows.
pub type PredictiveEntropyMetric = RowMeanMetric<PredictiveEntropy>;

/// The entropy of each row's averaged probabilities.
#[derive(Clone, Copy, Debug, Default)]
pub struct PredictiveEntropy;

impl RowScore for PredictiveEntropy {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        Caption {
            name: "Predictive Entropy".into(),
            description: "Entropy of the averaged class probabilities.".into(),
            unit: Some("nats"),
            higher_is_better: false,
        }
    }

    fn scores(&self, batch: &ClassificationDraws) -> Result<Vec<f64>, TensorReadError> {
        Ok(predictive_entropy(batch.read()?.average()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{assert_close, classification, epoch};

    #[test]
    fn hand_worked_batches_average_by_rows() {
        // Averages (1/2, 1/2), (1, 0) and then (1/2, 1/2): ln 2, 0, ln 2.
        let first = classification([[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]]], [0, 0]);
        let second = classification([[[1.0, 0.0]], [[0.0, 1.0]]], [0]);
        let value = epoch(PredictiveEntropyMetric::new(), &[first, second]);
        assert_close(value, 2.0 / 3.0 * 2f64.ln(), 4);
    }
}
