//! Scores of unusual inputs, and how well they are detected.

mod detection;
mod features;
mod scores;

pub use detection::{OutOfDistribution, ScoreWithInterval};
pub use features::{MahalanobisDistance, NearestFeatures};
pub use scores::{DrawScore, energy_scores, max_logit_scores};
