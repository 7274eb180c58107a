//! Scores of unusual inputs.

mod features;
mod outputs;
mod scores;

pub use features::{MahalanobisDistance, NearestFeatures};
pub use outputs::{RowOutputs, UnusualScore};
pub use scores::{DrawScore, LogitScore};
