//! Likelihoods, their losses, and predictions averaged over draws.

/// Outputs whose fields are detached from autodiff, but for those after the semicolon, which are kept as they are.
macro_rules! synced {
    ($output:ty: $($detached:ident),+ $(; $($kept:ident),+)?) => {
        impl burn::train::ItemLazy for $output {
            fn sync(self) -> Result<Self, burn::tensor::ExecutionError> {
                self.loss.device().flush()?;
                Ok(Self {
                    $($detached: self.$detached.without_autodiff(),)+
                    $($($kept: self.$kept,)+)?
                })
            }
        }
    };
}

mod classification_draws;
mod family;
mod loss;
mod mixture;
mod output;
mod prediction;
mod regression_draws;
mod targets;

use burn::tensor::{ExecutionError, TensorReadError};
use burn_bayes_eval::EvalError;

pub use classification_draws::{ClassificationDraws, LabelledDraws};
pub use family::Likelihood;
pub use loss::GaussianNll;
pub use mixture::{ClassificationMixture, MixDraws, MixStacked, RegressionMixture};
pub(crate) use output::unit_precisions;
pub use output::{LikelihoodMixture, LikelihoodOutput};
pub use prediction::Prediction;
pub use regression_draws::{RegressionDraws, TargetedDraws};
pub use targets::Targets;

/// Converts a scoring error to the only error type that a metric may return.
pub(crate) fn refused(error: EvalError) -> TensorReadError {
    ExecutionError::with_context(error.to_string()).into()
}

/// The error of a metric of `what` for a model of another likelihood.
fn no_such_metric(what: &str, likelihood: &Likelihood) -> TensorReadError {
    let message =
        format!("a metric of {what} is registered for a model whose likelihood is {likelihood:?}");
    ExecutionError::with_context(message).into()
}
