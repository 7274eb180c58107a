//! Algorithms that estimate a posterior over the weights of a Burn model, one per file.
//!
//! * [`Vifa`]: variational inference with a factor-analysis covariance; rank 0 is mean-field.
//! * [`Slang`]: natural gradients with a low-rank-plus-diagonal precision; rank 0 is VOGN.
//! * [`Von`]: natural gradients with a diagonal precision and a choice of curvatures.
//! * [`FullMatrixVon`]: the same with the whole matrix, as a reference for small models.
//! * [`Vadam`]: Adam with perturbed weights.
//! * [`Swag`]: moments of the weights an ordinary training passes through.
//! * [`BayesianRidge`]: linear regression with the precisions that explain the data best.
//!
//! An algorithm implements [`Inference`] and the trait of the evidence it consumes. It never calls
//! backward and never sees a dataset or a training loop.

mod average;
mod bayesian_ridge;
mod courier;
mod cut;
mod full_matrix;
mod inference;
mod initial;
mod natural;
mod rate;
mod slang;
mod swag;
mod vadam;
mod vifa;
mod von;

pub use bayesian_ridge::BayesianRidge;
pub use courier::MAX_REJECTIONS;
pub use full_matrix::{FullMatrixStep, FullMatrixVon, empirical_fisher};
pub use inference::{
    Draw, FromExamples, FromGradients, FromIterates, GradientPieces, Inference, Iterates,
    MeanGradients, Proposal, Tick,
};
pub use initial::{InitialDeviation, InitialMean};
pub use rate::Rate;
pub use slang::{Slang, SlangConfig};
pub use swag::{Swag, SwagConfig};
pub use vadam::{Vadam, VadamConfig};
pub use vifa::{Vifa, VifaConfig};
pub use von::{Curvature, Von, VonConfig};
