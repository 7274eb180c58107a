//! The sampling uncertainty of a score, and tests of the difference between two methods.

mod bootstrap;
mod clusters;
mod multiple;
mod paired;

pub use bootstrap::{Bootstrap, ScoreInterval};
pub use clusters::ClusteredMean;
pub(crate) use clusters::effective_rows;
pub use multiple::holm;
pub use paired::{PairedLosses, PairedTest, resampled_t_test};
