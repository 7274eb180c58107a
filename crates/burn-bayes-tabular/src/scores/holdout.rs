//! The two numbers by which fits are compared on held-out rows.

use std::collections::BTreeMap;

use burn_bayes::eval::{
    LabelledProbabilities, TargetedCounts, TargetedMixture, accuracy, log_probabilities,
    mixture_nll, nll, rmse,
};
use burn_bayes_data::Targets;

use super::{NLL, divergence, row_costs};
use crate::error::{Result, TabularError};
use crate::predict::{Predictions, mismatched};
use crate::rows::TrainingSet;

/// Numbers by name, as a job stores them.
pub type Measures = BTreeMap<String, f64>;

/// The name of the measure that is 1 if the fit of a job diverged.
pub const DIVERGED: &str = "diverged";
/// The name of the measure of the error.
const ERROR: &str = "error";

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

    /// Scores predictions of the held-out rows of a fit to these rows; `None` if they have no scores.
    pub(crate) fn judged(
        train: &TrainingSet,
        predictions: &Predictions,
        targets: &Targets,
    ) -> Result<Option<Self>> {
        let divergence = divergence(train, predictions, targets)?;
        if divergence.is_some_and(|divergence| !divergence.has_scores()) {
            return Ok(None);
        }
        Ok(Some(Self {
            diverged: divergence.is_some(),
            ..Self::of(predictions, targets)?
        }))
    }

    /// The measures that a job stores.
    pub fn measures(judgement: Option<Self>) -> Measures {
        let mut measures = Measures::new();
        if judgement.is_none_or(|judgement| judgement.diverged) {
            measures.insert(DIVERGED.into(), 1.0);
        }
        if let Some(Self { cost, error, .. }) = judgement {
            measures.extend([(NLL.into(), cost), (ERROR.into(), error)]);
        }
        measures
    }

    /// The score from stored measures; `None` if the fit has no scores.
    ///
    /// # Errors
    /// If a measure is missing.
    pub(crate) fn of_measures(measures: &Measures) -> Result<Option<Self>> {
        let diverged = measures.contains_key(DIVERGED);
        if diverged && measures.len() == 1 {
            return Ok(None);
        }
        let measure = |name: &str| {
            let problem = format!("a finished fit lacks its `{name}`; search without --resume");
            let found = measures.get(name).copied();
            found.ok_or(TabularError::Data(problem))
        };
        Ok(Some(Self {
            cost: measure(NLL)?,
            error: measure(ERROR)?,
            diverged,
        }))
    }

    /// The means of cost and error, diverged if one of the scores is; `None` for an empty slice.
    pub(crate) fn mean(judgements: &[Self]) -> Option<Self> {
        let count = judgements.len() as f64;
        let mean = |of: fn(&Self) -> f64| judgements.iter().map(of).sum::<f64>() / count;
        (!judgements.is_empty()).then(|| Self {
            cost: mean(|one| one.cost),
            error: mean(|one| one.error),
            diverged: judgements.iter().any(|one| one.diverged),
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_survives_its_measures_and_a_missing_one_is_no_divergence() {
        let judgement = HoldoutScore {
            cost: 0.5,
            error: 0.25,
            diverged: false,
        };
        let worse = HoldoutScore {
            diverged: true,
            ..judgement
        };
        for judgement in [Some(judgement), Some(worse), None] {
            let measures = HoldoutScore::measures(judgement);
            assert_eq!(HoldoutScore::of_measures(&measures).unwrap(), judgement);
        }
        let other = Measures::from([(ERROR.into(), 0.25)]);
        let failure = HoldoutScore::of_measures(&other).unwrap_err();
        assert!(failure.to_string().contains("`nll`"), "{failure}");
    }
}
