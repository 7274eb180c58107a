//! Conformal prediction: sets and intervals with a guaranteed coverage.

mod adaptive;
mod cross;
mod limits;
mod mondrian;
mod raps;
mod residuals;
mod sets;
mod threshold;

pub use adaptive::AdaptiveLevel;
pub use cross::ConformalCross;
pub use mondrian::{GroupCoverage, Mondrian, coverage_by_group, equal_mass_groups};
pub use raps::{ConformalByClass, ConformalRaps, RankPenalty, SetScore};
pub use residuals::ConformalNormalisedResidual;
pub use sets::{ConformalAps, ConformalLac, PredictionSets};
pub use threshold::{conformal_threshold, weighted_conformal_threshold};
