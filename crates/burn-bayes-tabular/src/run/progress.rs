//! Scores of the held-out rows during training.
//!
//! Which epochs are scored depends only on sizes, not on time, so equal settings give equal files.

use burn_bayes_data::{Dataset, Features, Targets};
use serde::{Deserialize, Serialize};

use crate::engine::{EpochRecord, TrainedModel};
use crate::error::{Result, TabularError};
use crate::rows::true_targets;
use crate::rows::{Target, TrainingSet};
use crate::scores::HoldoutScore;
use crate::settings::{FitSettings, Method};

/// Number of weight draws of a score, with the same random numbers at every epoch.
const DRAWS: usize = 10;
/// Fraction of the time of an epoch that scoring may take.
const SHARE: f64 = 0.1;
/// The overhead of a draw in a training step, in units of a multiplication.
const STEP: f64 = 1e6;
/// The overhead of a draw in a prediction.
const PASS: f64 = 5e4;
/// The cost of a multiplication in a prediction relative to a training step, which has other work for
/// every weight and smaller batches.
const PREDICTED: f64 = 0.2;

/// The scores at the end of an epoch; lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct ValidationScore {
    /// Mean negative log-likelihood per row of the average over draws, in nats, on the standardised scale
    /// of the network.
    #[serde(rename = "validation_nll")]
    pub nll: f64,
    /// Root mean squared error in the unit of the target, or the misclassification rate; of several targets in their
    /// standard deviations, or the Hamming loss.
    #[serde(rename = "validation_error")]
    pub error: f64,
    /// Whether the training had not begun to learn the posterior; absent if it had.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before_posterior: bool,
}

/// Held-out rows that are scored during training.
#[derive(Debug)]
pub(crate) struct WatchedRows {
    features: Features,
    /// In their own unit.
    targets: Targets,
    target: Target,
    /// Number of epochs between scores.
    every: usize,
}

impl WatchedRows {
    /// Watches the held-out rows of a fit.
    pub(crate) fn new(
        rows: &Dataset,
        training_set: &TrainingSet,
        settings: &FitSettings,
        weights: usize,
    ) -> Self {
        let target = training_set.target().clone();
        Self {
            features: rows.features().clone(),
            targets: true_targets(rows, &target),
            every: interval(settings, weights, training_set.rows(), rows.rows()),
            target,
        }
    }

    /// The score after an epoch; `None` if the epoch is not scored, or the score is not finite.
    pub(crate) fn score(
        &self,
        record: &EpochRecord,
        snapshot: &dyn Fn() -> Result<TrainedModel>,
    ) -> Result<Option<ValidationScore>> {
        let EpochRecord { epoch, epochs, .. } = *record;
        let is_due = epoch == 1 || epoch == epochs || epoch.is_multiple_of(self.every);
        if !is_due {
            return Ok(None);
        }
        let scored = snapshot().and_then(|model| {
            let predictions = model.predict(&self.features, DRAWS)?;
            Ok((predictions, model.is_before_posterior))
        });
        match scored {
            Ok((predictions, before_posterior)) => {
                let judgement = HoldoutScore::of(&predictions, &self.targets)?;
                let score = self.on_learning_scale(judgement);
                Ok(score.map(|score| ValidationScore {
                    before_posterior,
                    ..score
                }))
            }
            // The fit may recover; if not, its own checks report the error.
            Err(TabularError::Numerical(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// y = a + s z has the density p(z)/s, so its negative logarithm is larger by ln s.
    fn on_learning_scale(&self, judgement: HoldoutScore) -> Option<ValidationScore> {
        let scales = self.target.scales().unwrap_or_default();
        let shift: f64 = scales.iter().map(|scale| scale.spread.ln()).sum();
        let score = ValidationScore {
            nll: judgement.cost - shift,
            error: judgement.error,
            before_posterior: false,
        };
        (score.nll.is_finite() && score.error.is_finite()).then_some(score)
    }
}

/// The number of epochs between scores, such that scoring stays within its fraction of the time.
///
/// A step has three multiplications per weight, row and draw: one forward and two backward.
fn interval(settings: &FitSettings, weights: usize, rows: usize, held_out: usize) -> usize {
    let (weights, rows, held_out) = (weights as f64, rows as f64, held_out as f64);
    let steps = (rows / settings.batch_size as f64).ceil();
    let epoch = settings.tuned().draws as f64 * (steps * STEP + 3.0 * rows * weights);
    if settings.method.is_sampled() {
        // Few of its epochs are shown.
        return 1;
    }
    let draws = match settings.method {
        Method::Map => 1,
        _ => DRAWS,
    };
    let score = draws as f64 * (PASS + PREDICTED * held_out * weights);
    ((score / (SHARE * epoch)).ceil() as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_rarer_where_they_cost_more_than_their_share() {
        let settings = |method| FitSettings {
            method,
            ..FitSettings::default()
        };
        let vifa = settings(Method::Vifa);
        assert_eq!(interval(&vifa, 751, 400, 100), 1);
        let wide = interval(&vifa, 500_000, 8_000, 2_000);
        // Ten draws of a quarter of the rows: 5/12 of the multiplications of an epoch of two draws.
        assert_eq!(wide, 1);
        assert!(interval(&vifa, 500_000, 5_000, 5_000) > wide);
        assert_eq!(interval(&settings(Method::Map), 500_000, 8_000, 2_000), 1);
        let many_draws = FitSettings {
            train_draws: Some(8),
            ..vifa
        };
        assert_eq!(interval(&many_draws, 500_000, 8_000, 2_000), 1);
    }
}
