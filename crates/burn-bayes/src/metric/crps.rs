//! The continuous ranked probability score of the mixture of the draws.
//!
//! ∫ (F(x) − \[x ≥ y\])² dx: the absolute error of a whole distribution, in the unit of the target. The
//! closed form for a mixture costs S² per row.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{TargetScale, crps_losses};

use super::observation::Observation;
use super::row_mean::RowMeanMetric;
use super::score::{Caption, RowScore};
use crate::likelihood::RegressionDraws;

/// The mean continuous ranked probability score of an epoch's rows.
pub type CrpsMetric = RowMeanMetric<Crps>;

/// The continuous ranked probability score of each row.
#[derive(Clone, Copy, Debug)]
pub struct Crps {
    observation: Observation,
}

impl CrpsMetric {
    /// The metric for this noise precision, on the scale of the targets that the model sees.
    ///
    /// # Panics
    ///
    /// If the precision is not finite and above zero.
    pub fn new(noise_precision: f64) -> Self {
        let observation = Observation::new(noise_precision);
        Self::of(Crps { observation })
    }

    /// Reports values on the original scale of standardised targets.
    ///
    /// # Panics
    ///
    /// If the mean is not finite, or the standard deviation is not finite and above zero.
    #[must_use]
    pub fn with_target_scale(self, scale: TargetScale) -> Self {
        let observation = self.score().observation.with_target_scale(scale);
        Self::of(Crps { observation })
    }
}

impl RowScore for Crps {
    type Input = RegressionDraws;

    fn caption(&self) -> Caption {
        Caption {
            name: "CRPS".into(),
            description: "Continuous ranked probability score of the mixture of the draws.".into(),
            unit: None,
            higher_is_better: false,
        }
    }

    fn scores(&self, batch: &RegressionDraws) -> Result<Vec<f64>, TensorReadError> {
        self.observation.score(batch.read()?, crps_losses)
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::metric::testing::{assert_close, epoch, regression};

    #[test]
    fn hand_worked_batches_average_by_rows() {
        // A Gaussian scores σ(√2 − 1)/√π at its own mean; σ = 1/2 and, undone, 3/2.
        let first = regression([[1.0, 2.0]], [1.0, 2.0]);
        let second = regression([[0.0], [0.0]], [0.0]);
        let scale = TargetScale {
            mean: 7.0,
            deviation: 3.0,
        };
        let expected = (2f64.sqrt() - 1.0) / PI.sqrt();
        let batches = [first, second];
        assert_close(epoch(CrpsMetric::new(4.0), &batches), 0.5 * expected, 4);
        let original = CrpsMetric::new(4.0).with_target_scale(scale);
        assert_close(epoch(original, &batches), 1.5 * expected, 4);
    }

    #[test]
    fn far_apart_draws_are_two_points() {
        // Noise of 10⁻⁴ vanishes: (1 + 3)/2 − ½ · 2 for the points 0 and 4 and the target 1.
        let batch = regression([[0.0], [4.0]], [1.0]);
        let value = epoch(CrpsMetric::new(1e8), &[batch]);
        assert!((value - 1.0).abs() < 1e-4);
    }
}
