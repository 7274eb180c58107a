//! Bayesian training of Burn models with Burn's own Learner.
//!
//! [`BayesianConfig::init`] wraps a model into a [`Bayesian`], which trains wherever the model did.
//! Validation averages draws of the weights: [`ClassificationMixture`] and [`RegressionMixture`]
//! feed Burn's own metrics with the average, and the metrics of this crate with the spread.

mod bayesian;
mod clock;
mod error;
mod guard;
mod init;
mod mixture;
mod supply;

pub use bayesian::{Bayesian, DEFAULT_PREDICTION_DRAWS};
pub use error::{Error, Result};
pub use init::BayesianConfig;
pub use mixture::{ClassificationMixture, MixDraws, RegressionMixture};
pub use supply::Supply;
