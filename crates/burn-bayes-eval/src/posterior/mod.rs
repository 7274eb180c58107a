//! Diagnostics of approximate posteriors and of chains, and weights of the components of a mixture.

mod chains;
mod mixture_weights;
mod pareto_smoothing;
mod simulation_based_calibration;

pub use chains::Chains;
pub use mixture_weights::{likelihood_weights, stacking_weights};
pub use pareto_smoothing::ParetoSmoothing;
pub use simulation_based_calibration::{
    RankBin, RankDeviation, RankEcdf, RankEcdfPoint, SimulationBasedCalibration, posterior_rank,
};
