//! Likelihoods, their losses, and predictions averaged over draws.

mod classification_draws;
mod family;
mod loss;
mod mixture;
mod output;
mod regression_draws;

use burn::tensor::{ExecutionError, TensorReadError};
use burn_bayes_eval::EvalError;

pub use classification_draws::{ClassificationDraws, LabelledDraws};
pub use family::Likelihood;
pub use loss::GaussianNll;
pub use mixture::{ClassificationMixture, MixDraws, MixStacked, RegressionMixture};
pub use output::{LikelihoodMixture, LikelihoodOutput};
pub use regression_draws::{RegressionDraws, TargetedDraws};

/// Converts a scoring error to the only error type that a metric may return.
pub(crate) fn refused(error: EvalError) -> TensorReadError {
    ExecutionError::with_context(error.to_string()).into()
}
