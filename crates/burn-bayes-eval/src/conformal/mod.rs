//! Conformal prediction: sets and intervals with a guaranteed coverage, and control of any risk.

mod cross;
mod limits;
mod mondrian;
mod quantiles;
mod raps;
mod residuals;
mod risk_control;
mod sets;
mod threshold;

pub use cross::ConformalCross;
pub use mondrian::{GroupCoverage, Mondrian, coverage_by_group, equal_mass_groups};
pub use quantiles::ConformalQuantiles;
pub use raps::{ConformalByClass, ConformalRaps, RankPenalty, SetScore};
pub use residuals::{ConformalNormalisedResidual, ConformalResidual};
pub use risk_control::{RiskControl, RiskTest};
pub use sets::{ConformalAps, ConformalLac, ConformalRandomisedAps, PredictionSets};
pub use threshold::conformal_threshold;
