//! Conformal prediction: sets and intervals with a guaranteed coverage.

mod adaptive;
mod by_class;
mod cross;
mod limits;
mod mondrian;
mod residuals;
mod sets;
mod threshold;

pub use adaptive::AdaptiveLevel;
pub use by_class::ConformalByClass;
pub use cross::ConformalCross;
pub use mondrian::{
    GroupCoverage, Mondrian, conformal_coverage_by_group, coverage_by_group, equal_mass_groups,
};
pub use residuals::ConformalNormalisedResidual;
pub use sets::{ConformalSets, PredictionSets, RankPenalty, SetScore};
pub use threshold::{conformal_threshold, weighted_conformal_threshold};
