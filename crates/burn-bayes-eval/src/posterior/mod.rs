//! Diagnostics of approximate posteriors and of chains.

mod chains;
mod pareto_smoothing;
mod simulation_based_calibration;

pub use chains::Chains;
pub use pareto_smoothing::ParetoSmoothing;
pub use simulation_based_calibration::{
    RankBin, RankDeviation, RankEcdf, RankEcdfPoint, SimulationBasedCalibration, posterior_rank,
};
