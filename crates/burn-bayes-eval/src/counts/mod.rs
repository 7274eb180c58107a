//! Predictive distributions of counts, and their scores.

mod mixture;
mod scores;

pub use mixture::{CountMixture, TargetedCounts};
pub use scores::{log_probabilities, poisson_deviances, randomised_pit_values};
