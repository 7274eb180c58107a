//! The two numbers by which fits are compared on held-out rows.

use std::collections::BTreeMap;

use burn_bayes::eval::{LabelledProbabilities, accuracy, rmse};
use burn_bayes_data::{Features, Targets};

use super::divergence::divergence_of;
use super::score::mean;
use super::{NLL, row_costs};
use crate::error::{Result, TabularError};
use crate::predict::{Predictions, TargetPredictions, mismatched};
use crate::rows::{TrainingSet, Units};

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
        Self::of_costs(&row_costs(predictions, targets)?, predictions, targets)
    }

    /// The same with the NLL of every row.
    pub(super) fn of_costs(
        costs: &[f64],
        predictions: &Predictions,
        targets: &Targets,
    ) -> Result<Self> {
        Ok(Self {
            cost: mean(costs),
            error: error(predictions, targets)?,
            diverged: false,
        })
    }

    /// Scores predictions of the held-out rows of a fit to these rows, also with the NLL of every row; `None` if they have
    /// no scores.
    pub(crate) fn judged(
        train: &TrainingSet,
        rows: &Features,
        predictions: &Predictions,
        targets: &Targets,
        units: &Units,
    ) -> Result<Option<(Self, Vec<f64>)>> {
        let costs = row_costs(predictions, targets)?;
        let divergence = divergence_of(&costs, train, rows, predictions, targets, units)?;
        if divergence.is_some_and(|divergence| !divergence.has_scores()) {
            return Ok(None);
        }
        let score = Self {
            diverged: divergence.is_some(),
            ..Self::of_costs(&costs, predictions, targets)?
        };
        Ok(Some((score, costs)))
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

pub(super) fn error(predictions: &Predictions, targets: &Targets) -> Result<f64> {
    if let (Some(mixture), Targets::Real(values)) = (predictions.mixture()?, targets) {
        return Ok(rmse(&mixture.mean(), values)?);
    }
    match (predictions, targets) {
        (Predictions::Classes(predictions), Targets::Classes(labels)) => {
            let average = predictions.checked()?.average();
            Ok(1.0 - accuracy(&LabelledProbabilities::new(&average, labels)?))
        }
        (Predictions::Several(found), Targets::Several(columns)) => {
            let of_numbers =
                |one: &TargetPredictions| matches!(one.predictions, Predictions::Reals(_));
            let mut errors = Vec::new();
            for (one, column) in found.iter().zip(columns) {
                let error = error(&one.predictions, column)? / one.unit;
                errors.push(if of_numbers(one) {
                    error.powi(2)
                } else {
                    error
                });
            }
            let error = mean(&errors);
            let is_root = found.first().is_some_and(of_numbers);
            Ok(if is_root { error.sqrt() } else { error })
        }
        _ => Err(mismatched(predictions)),
    }
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
