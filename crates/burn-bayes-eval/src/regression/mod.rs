//! Scores of real-valued predictions.

mod crps;
mod intervals;
mod likelihood;
mod quantile_scores;
mod several_targets;

pub use crps::{crps, crps_gaussian, crps_losses};
pub use intervals::{PredictionIntervals, quantiles};
pub use likelihood::{joint_log_densities, log_densities, mixture_nll, rmse};
pub use quantile_scores::{pinball_losses, winkler_score, winkler_scores};
pub use several_targets::JointDraws;
