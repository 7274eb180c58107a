//! Scores of real-valued predictions.

mod crps;
mod intervals;
mod likelihood;
mod several_targets;
mod winkler;

pub use crps::{crps, crps_losses};
pub use intervals::{PredictionIntervals, quantiles};
pub use likelihood::{joint_log_densities, log_densities, mixture_nll, rmse};
pub use several_targets::JointDraws;
pub use winkler::winkler_scores;
