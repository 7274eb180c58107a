//! Losses on the right scale, and averages of predictions over draws.

mod loss;
mod mixture;

pub use loss::GaussianNll;
pub use mixture::{ClassificationMixture, MixDraws, MixStacked, RegressionMixture};
