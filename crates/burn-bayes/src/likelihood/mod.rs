//! Losses on the right scale, and predictions averaged over draws.

mod classification_draws;
mod loss;
mod mixture;
mod regression_draws;

use burn::tensor::{ExecutionError, TensorReadError};
use burn_bayes_eval::EvalError;

pub use classification_draws::{ClassificationDraws, LabelledDraws};
pub use loss::GaussianNll;
pub use mixture::{ClassificationMixture, MixDraws, MixStacked, RegressionMixture};
pub use regression_draws::{RegressionDraws, TargetedDraws};

/// The only error a metric may return is one of reading; its message says what was refused.
pub(crate) fn refused(error: EvalError) -> TensorReadError {
    ExecutionError::with_context(error.to_string()).into()
}
