//! The root mean squared error of the average of the draws.
//!
//! RMSE = √((1/N) Σ_r ((1/S) Σ_s f_sr − y_r)²). The root is taken over all rows of the epoch.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{TargetScale, TargetedMixture};

use super::observation::Observation;
use super::score::{Caption, SetScore};
use super::whole_set::WholeSetMetric;
use crate::likelihood::RegressionDraws;

/// The root mean squared error of the average of the draws, in the unit of the target.
///
/// ```
/// use burn_bayes_eval::TargetScale;
/// use burn_bayes::metric::RmseOfMeanMetric;
///
/// // The model learned (y − 22.5)/9.2.
/// let scale = TargetScale { mean: 22.5, deviation: 9.2 };
/// let metric = RmseOfMeanMetric::new().with_target_scale(scale);
/// ```
pub type RmseOfMeanMetric = WholeSetMetric<RmseOfMean>;

/// The root of the mean squared error.
#[derive(Clone, Copy, Debug)]
pub struct RmseOfMean {
    observation: Observation,
}

/// The sum of squared errors and the number of values.
#[derive(Clone, Copy, Debug, Default)]
pub struct SquaredErrors {
    sum: f64,
    count: usize,
}

impl Default for RmseOfMean {
    fn default() -> Self {
        // The mean of a mixture does not depend on the noise.
        let observation = Observation::new(1.0);
        Self { observation }
    }
}

impl RmseOfMeanMetric {
    /// Reports values on the original scale of standardised targets.
    ///
    /// # Panics
    ///
    /// If the mean is not finite, or the standard deviation is not finite and above zero.
    #[must_use]
    pub fn with_target_scale(self, scale: TargetScale) -> Self {
        let observation = self.score().observation.with_target_scale(scale);
        Self::of(RmseOfMean { observation })
    }
}

impl SetScore for RmseOfMean {
    type Input = RegressionDraws;
    type Gathered = SquaredErrors;

    fn caption(&self) -> Caption {
        Caption {
            name: "RMSE".into(),
            description: "Root mean squared error of the average prediction.".into(),
            unit: None,
            higher_is_better: false,
        }
    }

    fn gather(
        &self,
        errors: &mut SquaredErrors,
        batch: &RegressionDraws,
    ) -> Result<(), TensorReadError> {
        let sum = |targeted: &TargetedMixture<'_>| {
            let means = targeted.mixture().mean();
            let errors = means.iter().zip(targeted.targets());
            errors
                .map(|(mean, target)| (mean - target).powi(2))
                .sum::<f64>()
        };
        let read = batch.read()?;
        errors.sum += self.observation.score(read, sum)?;
        errors.count += read.targets().len();
        Ok(())
    }

    fn score(&self, errors: &SquaredErrors) -> f64 {
        (errors.sum / errors.count as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{epoch, regression};

    fn batches() -> [RegressionDraws; 2] {
        // Errors of the mean: 1 and 2, then 4.
        let first = regression([[1.0, 2.0], [3.0, 4.0]], [1.0, 5.0]);
        let second = regression([[0.0]], [4.0]);
        [first, second]
    }

    #[test]
    fn the_root_is_taken_over_the_whole_epoch() {
        assert_eq!(epoch(RmseOfMeanMetric::new(), &batches()), 7f64.sqrt());
    }

    #[test]
    fn errors_are_in_the_unit_of_the_original_target() {
        let scale = TargetScale {
            mean: 10.0,
            deviation: 2.0,
        };
        let metric = RmseOfMeanMetric::new().with_target_scale(scale);
        assert_eq!(epoch(metric, &batches()), 28f64.sqrt());
    }
}
