//! Scores of unusual inputs, and how well they are detected.

mod detection;
mod features;
mod outputs;
mod scores;

pub use detection::{OutOfDistribution, ScoreWithInterval};
pub use features::{MahalanobisDistance, NearestFeatures};
pub use outputs::{RowOutputs, UnusualScore};
pub use scores::{DrawScore, LogitScore};
