//! The coverage of central prediction intervals.
//!
//! The interval at level ℓ leaves (1 − ℓ)/2 of the mixture's mass on either side; a calibrated
//! model covers a fraction ℓ of the targets. Burn's metrics need a direction: higher coverage
//! counts as better, because too low a coverage is the usual failure; a coverage above ℓ means that
//! intervals are too wide.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{PredictionIntervals, TargetedMixture};

use super::observation::{Observation, check_level};
use super::row_mean::RowMeanMetric;
use super::score::{Caption, RowScore};
use crate::likelihood::RegressionDraws;
use crate::likelihood::refused;

/// The fraction of an epoch's targets inside their central prediction interval.
///
/// ```
/// use burn_bayes::metric::IntervalCoverageMetric;
///
/// let metric = IntervalCoverageMetric::new(0.95, 10.0); // near 0.95 is right
/// ```
pub type IntervalCoverageMetric = RowMeanMetric<IntervalCoverage>;

/// 1 for a target inside its interval, 0 for one outside.
#[derive(Clone, Copy, Debug)]
pub struct IntervalCoverage {
    level: f64,
    observation: Observation,
}

impl IntervalCoverageMetric {
    /// The metric for intervals of this level and this noise precision, on the scale of the targets
    /// that the model sees. Coverage does not depend on the scale.
    ///
    /// # Panics
    ///
    /// If the level is not between 0 and 1, or the precision is not finite and above zero.
    pub fn new(level: f64, noise_precision: f64) -> Self {
        check_level(level);
        let observation = Observation::new(noise_precision);
        Self::of(IntervalCoverage { level, observation })
    }
}

impl RowScore for IntervalCoverage {
    type Input = RegressionDraws;

    fn caption(&self) -> Caption {
        Caption {
            name: format!("Interval Coverage @ {}", self.level),
            description: "Fraction of targets inside the central prediction interval.".into(),
            unit: None,
            higher_is_better: true,
        }
    }

    fn scores(&self, batch: &RegressionDraws) -> Result<Vec<f64>, TensorReadError> {
        let covered = |targeted: &TargetedMixture<'_>| {
            let intervals = PredictionIntervals::central(targeted.mixture(), self.level)?;
            let limits = intervals.lower().iter().zip(intervals.upper());
            let covered = limits
                .zip(targeted.targets())
                .map(|((lower, upper), target)| {
                    if (lower..=upper).contains(&target) {
                        1.0
                    } else {
                        0.0
                    }
                });
            Ok(covered.collect())
        };
        let covered = self.observation.score(batch.read()?, covered)?;
        covered.map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{epoch, regression};

    #[test]
    fn hand_worked_batches_average_by_rows() {
        // σ = 1/2: 95 % lie within 0.98.
        let first = regression([[0.0, 0.0, 0.0]], [0.97, -0.99, 0.0]);
        let second = regression([[5.0]], [4.0]);
        let metric = IntervalCoverageMetric::new(0.95, 4.0);
        assert_eq!(epoch(metric, &[first, second]), 0.5);
    }

    #[test]
    fn draws_that_disagree_widen_the_interval() {
        let batch = regression([[-3.0], [3.0]], [2.9]);
        let metric = IntervalCoverageMetric::new(0.5, 4.0);
        assert_eq!(epoch(metric, &[batch]), 1.0);
    }

    #[test]
    #[should_panic(expected = "level is 1")]
    fn a_level_of_everything_is_refused() {
        IntervalCoverageMetric::new(1.0, 1.0);
    }
}
