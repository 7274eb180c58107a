//! Bayesian training of Burn models with Burn's own Learner.
//!
//! [`BayesianConfig::init`] wraps a model into a [`Bayesian`], which trains wherever the model did.
//! [`StagedLearningRate`] and [`PowerDecay`] are schedules.

mod bayesian;
mod cache;
mod clock;
mod examples;
mod finite;
mod guard;
mod init;
mod one_pass;
mod own_loss;
mod own_optimize;
mod self_check;
mod staging;
mod supply;
mod training_layers;

pub use bayesian::{Bayesian, DEFAULT_PREDICTION_DRAWS};
pub use examples::ExampleLoss;
pub use init::BayesianConfig;
pub use staging::{PowerDecay, PowerDecayConfig, StagedLearningRate};
pub use supply::Supply;
