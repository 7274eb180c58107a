//! The negative log-likelihood of the averaged probabilities.
//!
//! −ln p̄_y. Probabilities come in single precision, where a softmax underflows; a probability
//! below the smallest normal number is replaced by it (87.3 nats), because infinite values cannot
//! be plotted.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{Bounded, log_losses};

use super::row_mean::RowMeanMetric;
use super::score::{Caption, RowScore};
use crate::likelihood::ClassificationDraws;

/// The mean negative log-likelihood of an epoch's rows under the average of the draws.
pub type AverageNllMetric = RowMeanMetric<AverageNll>;

/// The negative log-probability of each row's class under the average of the draws.
#[derive(Clone, Copy, Debug, Default)]
pub struct AverageNll;

impl RowScore for AverageNll {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        Caption {
            name: "Average NLL".into(),
            description: "Negative log-likelihood of the averaged class probabilities.".into(),
            unit: Some("nats"),
            higher_is_better: false,
        }
    }

    fn scores(&self, batch: &ClassificationDraws) -> Result<Vec<f64>, TensorReadError> {
        let largest = -f64::from(f32::MIN_POSITIVE).ln();
        let losses = log_losses(&batch.read()?.labelled());
        Ok(losses
            .into_iter()
            .map(|loss| loss.at_most(largest))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{assert_close, classification, epoch};

    #[test]
    fn hand_worked_batches_average_by_rows() {
        // True classes have p̄ = 1/2, 1/4 and (1/4 + 3/4)/2: ln 2, 2 ln 2, ln 2.
        let first = classification([[[0.5, 0.5], [0.25, 0.75]]], [1, 0]);
        let second = classification([[[0.25, 0.75]], [[0.75, 0.25]]], [1]);
        let value = epoch(AverageNllMetric::new(), &[first, second]);
        assert_close(value, 4.0 / 3.0 * 2f64.ln(), 4);
    }

    #[test]
    fn certain_and_wrong_is_bad_and_finite() {
        let batch = classification([[[1.0, 0.0]]], [1]);
        let value = epoch(AverageNllMetric::new(), &[batch]);
        assert!((87.0..88.0).contains(&value));
    }
}
