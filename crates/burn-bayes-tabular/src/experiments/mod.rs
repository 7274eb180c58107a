//! Many fits: searches, comparisons and checks of methods, as lists of jobs.

pub mod comparison;
pub mod jobs;
pub mod search;
pub mod simulation_based_calibration;

mod members;
mod model_choice;

pub use model_choice::ModelChoice;
