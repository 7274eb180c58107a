//! Expected entropy: the aleatoric uncertainty, the mean entropy of the single draws.
//!
//! Ē = (1/S) Σ_s H[p_s]; more training data would not reduce it.

use burn::tensor::TensorReadError;
use burn_bayes_eval::expected_entropy;

use super::row_mean::RowMeanMetric;
use super::score::{Caption, RowScore};
use crate::likelihood::ClassificationDraws;

/// The mean expected entropy of an epoch's rows.
pub type ExpectedEntropyMetric = RowMeanMetric<ExpectedEntropy>;

/// The mean over draws of the entropy of each row's probabilities.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpectedEntropy;

impl RowScore for ExpectedEntropy {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        Caption {
            name: "Expected Entropy".into(),
            description: "Mean over draws of the entropy of the class probabilities.".into(),
            unit: Some("nats"),
            higher_is_better: false,
        }
    }

    fn scores(&self, batch: &ClassificationDraws) -> Result<Vec<f64>, TensorReadError> {
        Ok(expected_entropy(batch.read()?.draws()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{assert_close, classification, epoch};

    #[test]
    fn hand_worked_batches_average_by_rows() {
        // Rows of ln 2 and 0, then of (ln 2 + 0)/2.
        let first = classification([[[0.5, 0.5], [1.0, 0.0]]], [0, 0]);
        let second = classification([[[0.5, 0.5]], [[0.0, 1.0]]], [0]);
        let value = epoch(ExpectedEntropyMetric::new(), &[first, second]);
        assert_close(value, 0.5 * 2f64.ln(), 4);
    }
}
