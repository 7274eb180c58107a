//! Algorithms that estimate a posterior over the weights of a Burn model, one per file.
//!
//! * [`Vifa`]: variational inference with a factor-analysis covariance; rank 0 is mean-field.
//! * [`Swag`]: moments of the weights an ordinary training passes through.
//!
//! An algorithm implements [`Inference`] and the trait of the evidence it consumes. It never calls
//! backward and never sees a dataset or a training loop; those are the business of
//! `burn-bayes-train`.

mod average;
mod error;
mod inference;
mod initial;
mod swag;
mod vifa;

pub use error::{Error, Result};
pub use inference::{
    Draw, FromGradients, FromIterates, GradientPieces, Inference, Iterates, MeanGradients,
    Proposal, Tick,
};
pub use initial::{InitialDeviation, InitialMean};
pub use swag::{Swag, SwagConfig, VARIANCE_FLOOR};
pub use vifa::{Vifa, VifaConfig};
