//! The Winkler score of central prediction intervals.
//!
//! The interval [l, u] at level ℓ costs its width, and 2/(1−ℓ) times the distance of a target outside:
//! u − l + 2/(1−ℓ) (max(l − y, 0) + max(y − u, 0)). It is a proper score of the two quantiles, so unlike the coverage it
//! cannot be improved by intervals that are too wide.

use burn::tensor::TensorReadError;
use burn_bayes_eval::{PredictionIntervals, TargetScale, TargetedMixture, winkler_scores};

use super::observation::{Observation, check_level};
use super::row_mean::RowMeanMetric;
use super::score::{Caption, RowScore};
use crate::likelihood::RegressionDraws;
use crate::likelihood::refused;

/// The mean Winkler score of an epoch's targets.
///
/// ```
/// use burn_bayes::metric::IntervalScoreMetric;
///
/// let metric = IntervalScoreMetric::new(0.9, 10.0);
/// ```
pub type IntervalScoreMetric = RowMeanMetric<IntervalScore>;

/// The width of an interval, and a penalty for a target outside.
#[derive(Clone, Copy, Debug)]
pub struct IntervalScore {
    level: f64,
    observation: Observation,
}

impl IntervalScoreMetric {
    /// The metric for intervals of this level and this noise precision, on the scale of the targets that the model
    /// sees.
    ///
    /// # Panics
    ///
    /// If the level is not between 0 and 1, or the precision is not finite and above zero.
    pub fn new(level: f64, noise_precision: f64) -> Self {
        check_level(level);
        let observation = Observation::new(noise_precision);
        Self::of(IntervalScore { level, observation })
    }

    /// Reports the score in the unit of targets that were standardised with this scale.
    ///
    /// # Panics
    ///
    /// If the mean is not finite, or the standard deviation is not finite and above zero.
    #[must_use]
    pub fn with_target_scale(self, scale: TargetScale) -> Self {
        let IntervalScore { level, observation } = *self.score();
        let observation = observation.with_target_scale(scale);
        Self::of(IntervalScore { level, observation })
    }
}

impl RowScore for IntervalScore {
    type Input = RegressionDraws;

    fn caption(&self) -> Caption {
        Caption {
            name: format!("Interval Score @ {}", self.level),
            description: "Width of the central prediction interval, and a penalty outside.".into(),
            unit: None,
            higher_is_better: false,
        }
    }

    fn scores(&self, batch: &RegressionDraws) -> Result<Vec<f64>, TensorReadError> {
        let scores = |targeted: &TargetedMixture<'_>| {
            let intervals = PredictionIntervals::central(targeted.mixture(), self.level)?;
            winkler_scores(&intervals, targeted.targets(), self.level)
        };
        let scores = self.observation.score(batch.read()?, scores)?;
        scores.map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{epoch, regression};

    /// The quantile of the standard normal at 95 %.
    const QUANTILE: f64 = 1.644_853_626_951_472_7;

    fn expected(scale: f64) -> f64 {
        // σ = ½ and level 90 %: both targets at 0 and one at 1 above the mean.
        let half = 0.5 * QUANTILE;
        scale * (2.0 * half + 20.0 * (1.0 - half) / 3.0)
    }

    #[test]
    fn hand_worked_batches_average_by_rows() {
        let batches = [
            regression([[0.0, 0.0]], [0.0, 0.0]),
            regression([[5.0]], [6.0]),
        ];
        let value = epoch(IntervalScoreMetric::new(0.9, 4.0), &batches);
        // The quantiles of a mixture are found by bisection.
        assert!((value - expected(1.0)).abs() < 1e-6, "{value}");
        let scale = TargetScale {
            mean: -2.0,
            deviation: 3.0,
        };
        let metric = IntervalScoreMetric::new(0.9, 4.0).with_target_scale(scale);
        let value = epoch(metric, &batches);
        assert!((value - expected(3.0)).abs() < 1e-6, "{value}");
    }

    #[test]
    #[should_panic(expected = "level is 0")]
    fn a_level_of_nothing_is_refused() {
        IntervalScoreMetric::new(0.0, 1.0);
    }
}
