//! Conformal prediction: sets and intervals with a guaranteed coverage.

mod residuals;
mod sets;
mod threshold;

pub use residuals::{ConformalNormalisedResidual, ConformalResidual};
pub use sets::{ConformalAps, ConformalLac, ConformalRandomisedAps, PredictionSets};
pub use threshold::conformal_threshold;
