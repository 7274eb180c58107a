//! Bayesian training of Burn models with Burn's own Learner.
//!
//! The `init` of a method's configuration, such as
//! [`VifaConfig::init`](crate::methods::VifaConfig::init), wraps a model into a [`Bayesian`], which trains
//! wherever the model did.
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
mod parts;
mod self_check;
mod staging;
mod supply;
mod training_layers;

pub use bayesian::{Bayesian, DEFAULT_PREDICTION_DRAWS};
pub use examples::ExampleLoss;
pub use parts::VifaPart;
pub use staging::{PowerDecay, PowerDecayConfig, StagedLearningRate};
pub use supply::Supply;
