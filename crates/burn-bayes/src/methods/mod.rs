//! Algorithms that estimate a posterior over the weights of a Burn model, one per file.
//!
//! * [`Vifa`]: variational inference with a factor-analysis covariance; rank 0 is mean-field.
//! * [`Slang`]: natural gradients with a low-rank-plus-diagonal precision; rank 0 is VOGN.
//! * [`Von`]: natural gradients with a diagonal precision and a choice of curvature estimates.
//! * [`FullMatrixVon`]: VON with the full precision matrix, as a reference for small models.
//! * [`Vadam`]: Adam with perturbed weights.
//! * [`Swag`]: mean and covariance of the iterates of ordinary training.
//! * [`BayesianRidge`]: linear regression with the precisions that maximise the evidence.
//!
//! An algorithm implements [`Algorithm`] and the trait of the signal that it learns from. It never
//! calls backward and is independent of data sets and training loops.

mod algorithm;
mod average;
mod bayesian_ridge;
pub(crate) mod checks;
mod full_matrix;
mod mean_stage;
mod mean_training;
mod natural;
mod rate;
mod slang;
mod start;
mod swag;
mod truncation;
mod vadam;
mod vifa;
mod von;

pub use crate::kernels::FactorUnits;
pub use algorithm::{
    Algorithm, Draw, FromExamples, FromGradients, FromIterates, GradientPieces, Iterates,
    MeanGradients, Proposal, Setup, StepId, Update,
};
pub use average::Averaging;
pub use bayesian_ridge::BayesianRidge;
pub use full_matrix::{FullMatrixStep, FullMatrixVon, empirical_fisher};
pub use mean_stage::MeanStage;
pub use natural::NaturalUpdate;
pub use rate::Rate;
pub use slang::{Slang, SlangConfig};
pub use start::{InitialDeviation, InitialMean};
pub use swag::{Swag, SwagConfig};
pub use vadam::{Vadam, VadamConfig, VadamStep};
pub use vifa::{Vifa, VifaConfig};
pub use von::{Curvature, Von, VonConfig};
