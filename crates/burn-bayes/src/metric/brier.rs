//! The Brier score of the averaged probabilities.
//!
//! Σ_c (p̄_c − \[c = y\])², between 0 and 2.

use burn::tensor::TensorReadError;
use burn_bayes_eval::brier_losses;

use super::row_mean::RowMeanMetric;
use super::score::{Caption, RowScore};
use crate::likelihood::ClassificationDraws;

/// The mean Brier score of an epoch's rows.
pub type BrierMetric = RowMeanMetric<Brier>;

/// The squared distance of each row's averaged probabilities from the true class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brier;

impl RowScore for Brier {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        Caption {
            name: "Brier Score".into(),
            description: "Squared distance of the averaged probabilities from the true class."
                .into(),
            unit: None,
            higher_is_better: false,
        }
    }

    fn scores(&self, batch: &ClassificationDraws) -> Result<Vec<f64>, TensorReadError> {
        Ok(brier_losses(&batch.read()?.labelled()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{classification, epoch};

    #[test]
    fn hand_worked_batches_average_by_rows() {
        // Averages (1/2, 1/2), (1, 0) and (1/4, 3/4) cost 1/2, 2 and 1/8.
        let first = classification([[[0.5, 0.5], [1.0, 0.0]]], [0, 1]);
        let second = classification([[[0.5, 0.5]], [[0.0, 1.0]]], [1]);
        let value = epoch(BrierMetric::new(), &[first, second]);
        assert_eq!(value, (0.5 + 2.0 + 0.125) / 3.0);
    }
}
