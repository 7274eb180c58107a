//! Whether predicted probabilities and quantiles agree with observed frequencies.

mod quantiles;
mod reliability;

pub use quantiles::{QuantileCalibration, QuantilePoint, pit_values};
pub use reliability::{ReliabilityBin, ReliabilityDiagram, classwise_calibration_error};
