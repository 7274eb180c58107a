//! The negative log-likelihood of the mixture of the draws (NLL).
//!
//! −ln (1/S) Σ_s Π_t N(y_t; f_st, 1/β) over the targets t of a row, by log-sum-exp; on the original
//! scale it grows by the logarithm of the standard deviation of each target.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{TargetScale, joint_log_densities};

use super::observation::Observation;
use super::row_mean::RowMeanMetric;
use super::score::{Caption, RowScore};
use crate::likelihood::RegressionDraws;
use crate::likelihood::refused;

/// The mean negative log-likelihood of an epoch's rows under the mixture of the draws, joint over
/// the targets of a row.
///
/// ```
/// use burn_bayes_eval::TargetScale;
/// use burn_bayes::metric::MixtureNllMetric;
///
/// // The model learned (y − 22.5)/9.2, with noise precision 10 on that scale.
/// let scale = TargetScale { mean: 22.5, deviation: 9.2 };
/// let metric = MixtureNllMetric::new(10.0).with_target_scale(scale);
/// ```
pub type MixtureNllMetric = RowMeanMetric<MixtureNll>;

/// The negative log-density of each row's targets under their mixture.
#[derive(Clone, Copy, Debug)]
pub struct MixtureNll {
    observation: Observation,
}

impl MixtureNllMetric {
    /// The metric for this noise precision, on the scale of the targets that the model sees.
    ///
    /// # Panics
    ///
    /// If the precision is not finite and above zero.
    pub fn new(noise_precision: f64) -> Self {
        let observation = Observation::new(noise_precision);
        Self::of(MixtureNll { observation })
    }

    /// Reports values on the original scale of standardised targets.
    ///
    /// # Panics
    ///
    /// If the mean is not finite, or the standard deviation is not finite and above zero.
    #[must_use]
    pub fn with_target_scale(self, scale: TargetScale) -> Self {
        let observation = self.score().observation.with_target_scale(scale);
        Self::of(MixtureNll { observation })
    }
}

impl RowScore for MixtureNll {
    type Input = RegressionDraws;

    fn caption(&self) -> Caption {
        Caption {
            name: "Mixture NLL".into(),
            description: "Negative log-likelihood of the mixture of the draws.".into(),
            unit: Some("nats"),
            higher_is_better: false,
        }
    }

    fn scores(&self, batch: &RegressionDraws) -> Result<Vec<f64>, TensorReadError> {
        let draws = batch.read()?;
        let densities = self.observation.score(draws, |targeted| {
            joint_log_densities(targeted, draws.columns())
        })?;
        let densities = densities.map_err(refused)?;
        Ok(densities.into_iter().map(|density| -density).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::metric::testing::{assert_close, epoch, regression};

    fn batches() -> [RegressionDraws; 2] {
        // Draws 1 away on either side (twice), then one draw 2 away.
        let first = regression([[-1.0, 4.0], [1.0, 6.0]], [0.0, 5.0]);
        let second = regression([[3.0]], [1.0]);
        [first, second]
    }

    #[test]
    fn hand_worked_batches_average_by_rows() {
        // ½ β e² + ½ ln(2π/β) with β = 4 and e² = 1, 1, 4.
        let expected = 2.0 * 6.0 / 3.0 + 0.5 * (PI / 2.0).ln();
        assert_close(epoch(MixtureNllMetric::new(4.0), &batches()), expected, 4);
    }

    #[test]
    fn the_targets_of_a_row_count_together() {
        // The draws are off by (1, 2) and (0, 1): squares of 5 and 1.
        let device = Device::default();
        let draws = RegressionDraws::new(
            Tensor::from_data([[[1.0, -2.0]], [[0.0, 1.0]]], &device),
            Tensor::from_data([[0.0, 0.0]], &device),
        );
        let density = |squares: f64| 4.0 / (2.0 * PI) * (-2.0 * squares).exp();
        let expected = -(0.5 * (density(5.0) + density(1.0))).ln();
        assert_close(epoch(MixtureNllMetric::new(4.0), &[draws]), expected, 4);
    }

    #[test]
    fn the_original_scale_adds_its_logarithm() {
        let scale = TargetScale {
            mean: -3.0,
            deviation: 10.0,
        };
        let original = MixtureNllMetric::new(4.0).with_target_scale(scale);
        let expected = epoch(MixtureNllMetric::new(4.0), &batches()) + 10f64.ln();
        assert_close(epoch(original, &batches()), expected, 4);
    }

    #[test]
    #[should_panic(expected = "noise_precision is 0")]
    fn a_precision_of_zero_is_refused() {
        MixtureNllMetric::new(0.0);
    }

    #[test]
    #[should_panic(expected = "the targets' scale")]
    fn a_deviation_of_zero_is_refused() {
        let scale = TargetScale {
            mean: 0.0,
            deviation: 0.0,
        };
        let _ = MixtureNllMetric::new(1.0).with_target_scale(scale);
    }
}
