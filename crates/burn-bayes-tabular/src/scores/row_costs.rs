//! The negative log-likelihood of single rows.

use burn_bayes::eval::{
    LabelledProbabilities, TargetedCounts, TargetedMixture, log_densities, log_losses,
    log_probabilities,
};
use burn_bayes_data::Targets;

use super::mismatched;
use crate::error::Result;
use crate::predict::Predictions;

/// The NLL of every row in nats, in the unit of the target.
pub(crate) fn row_costs(predictions: &Predictions, targets: &Targets) -> Result<Vec<f64>> {
    match (predictions, targets) {
        (Predictions::Reals(predictions), Targets::Real(targets)) => {
            let mixture = predictions.checked()?;
            let densities = log_densities(&TargetedMixture::new(&mixture, targets)?);
            Ok(densities.into_iter().map(|log| -log).collect())
        }
        (Predictions::Counts(predictions), Targets::Real(counts)) => {
            let mixture = predictions.checked()?;
            let logarithms = log_probabilities(&TargetedCounts::new(&mixture, counts)?);
            Ok(logarithms.into_iter().map(|log| -log).collect())
        }
        (Predictions::Classes(predictions), Targets::Classes(labels)) => {
            let average = predictions.checked()?.average();
            Ok(log_losses(&LabelledProbabilities::new(&average, labels)?))
        }
        _ => Err(mismatched(predictions)),
    }
}
