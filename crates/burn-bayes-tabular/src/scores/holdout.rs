//! The two numbers by which fits are compared on held-out rows.

use burn_bayes::eval::{
    LabelledProbabilities, TargetedCounts, TargetedMixture, accuracy, log_probabilities,
    mixture_nll, nll, rmse,
};
use burn_bayes_data::Targets;

use super::{mismatched, row_costs};
use crate::error::Result;
use crate::predict::Predictions;

/// The score of a fit on held-out rows; lower is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HoldoutScore {
    /// Mean negative log-likelihood per row of the average over draws, in nats and in the unit of the
    /// target. A search minimises it.
    pub cost: f64,
    /// Root mean squared error, or the misclassification rate; of several targets in standard deviations of the training
    /// targets, or the Hamming loss.
    pub error: f64,
    /// Whether the fit has diverged although it has scores: it is worse than a constant.
    pub diverged: bool,
}

impl HoldoutScore {
    /// Scores predictions, without a comparison with the constant.
    pub(crate) fn of(predictions: &Predictions, targets: &Targets) -> Result<Self> {
        match (predictions, targets) {
            (Predictions::Reals(predictions), Targets::Real(targets)) => {
                let mixture = predictions.checked()?;
                Ok(Self {
                    cost: mixture_nll(&TargetedMixture::new(&mixture, targets)?),
                    error: rmse(&mixture.mean(), targets)?,
                    diverged: false,
                })
            }
            (Predictions::Counts(predictions), Targets::Real(counts)) => {
                let mixture = predictions.checked()?;
                let targeted = TargetedCounts::new(&mixture, counts)?;
                let total: f64 = log_probabilities(&targeted).iter().sum();
                Ok(Self {
                    cost: -total / counts.len() as f64,
                    error: rmse(&mixture.mean(), counts)?,
                    diverged: false,
                })
            }
            (Predictions::Classes(predictions), Targets::Classes(labels)) => {
                let average = predictions.checked()?.average();
                let labelled = LabelledProbabilities::new(&average, labels)?;
                Ok(Self {
                    cost: nll(&labelled),
                    error: 1.0 - accuracy(&labelled),
                    diverged: false,
                })
            }
            (Predictions::Several(found), Targets::Several(columns)) => {
                let costs = row_costs(predictions, targets)?;
                let mut errors = Vec::new();
                for (target, column) in found.iter().zip(columns) {
                    let error = Self::of(&target.predictions, column)?.error / target.unit;
                    errors.push(match target.predictions {
                        Predictions::Reals(_) => error.powi(2),
                        _ => error,
                    });
                }
                let error = mean(&errors);
                Ok(Self {
                    cost: mean(&costs),
                    error: match found.first().map(|target| &target.predictions) {
                        Some(Predictions::Reals(_)) => error.sqrt(),
                        _ => error,
                    },
                    diverged: false,
                })
            }
            _ => Err(mismatched(predictions)),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
