//! Whether predicted probabilities and quantiles agree with observed frequencies.

mod adaptive;
mod quantiles;
mod reliability;
mod smooth;
mod subgroups;
mod uniformity;

pub use adaptive::{adaptive_calibration_error, top_label_calibration_error};
pub use quantiles::{QuantileCalibration, QuantilePoint, pit_values};
pub(crate) use reliability::{BinSums, confidence_sums};
pub use reliability::{ReliabilityBin, ReliabilityDiagram, classwise_calibration_error};
pub use smooth::smooth_calibration_error;
pub use subgroups::{SubgroupCalibration, subgroup_calibration};
pub use uniformity::PitUniformity;
