//! Algorithms that estimate a posterior over the weights of a Burn model, one per file.
//!
//! * [`Vifa`]: variational inference with a factor-analysis covariance; rank 0 is mean-field.
//! * [`Slang`]: natural gradients with a low-rank-plus-diagonal precision; rank 0 is VOGN.
//! * [`Von`]: natural gradients with a diagonal precision and a choice of curvature estimates.
//! * [`Vadam`]: Adam with perturbed weights.
//! * [`Ivon`]: VON with an average gradient, also for accumulated mini-batches and several devices.
//! * [`Swag`]: mean and covariance of the iterates of ordinary training.
//!
//! An algorithm implements [`Algorithm`] and the trait of the signal that it learns from. It never
//! calls backward and is independent of data sets and training loops.
//!
//! # Your own method
//!
//! A method can be written in any crate: `burn-bayes-contrib` has several. Its settings implement [`MethodConfig`], so that
//! [`BayesianConfig`] wraps a model with them, and its algorithm implements [`Algorithm`] and the trait of its signal.
//! [`Setup::of`] has what an algorithm is set up with. [`buffer`] and [`trained`] make its parameters.
//!
//! If the method learns a Gaussian or samples around a mean, implement [`StagedConfig`] and [`MethodState`] instead.
//! [`Staged`] then has the mean, the first stages, the average of iterates and the prior.

mod algorithm;
mod average;
#[doc(hidden)]
pub mod checks;
mod draw_statistics;
mod function_terms;
mod iterate_schedule;
mod ivon;
mod mean_stage;
mod method_config;
mod method_state;
mod natural;
mod proposal;
mod rate;
mod settings;
mod setup;
mod slang;
mod staged;
mod stages;
mod start;
mod swag;
pub(crate) mod truncation;
mod vadam;
mod vifa;
mod von;

pub use crate::kernels::FactorUnits;
pub use algorithm::{Algorithm, FromExamples, FromGradients, FromIterates, Iterates, Stage};
#[doc(hidden)]
pub use algorithm::{FromCurvature, FunctionPriorUse};
pub use average::{Averaging, Iterate};
pub(crate) use draw_statistics::DrawStatistics;
#[doc(hidden)]
pub use function_terms::{DivergenceGradient, FunctionTerms};
#[doc(hidden)]
pub use iterate_schedule::IterateSchedule;
pub use ivon::{Ivon, IvonConfig};
pub use mean_stage::MeanStage;
pub(crate) use mean_stage::share_of_prior;
pub use method_config::{LearningRates, MethodConfig};
#[doc(hidden)]
pub use method_state::take_sum;
pub use method_state::{Context, Learns, MethodState, StagedConfig, Start};
#[doc(hidden)]
pub use proposal::joined;
pub(crate) use proposal::whole;
pub use proposal::{Draw, GradientPieces, Proposal, Update};
pub(crate) use rate::DECAY_POWER;
pub use rate::Rate;
pub use settings::BayesianConfig;
pub(crate) use setup::hash_of_text;
#[doc(hidden)]
pub use setup::purpose;
pub use setup::{Setup, StepId};
pub use slang::{Slang, SlangConfig};
pub use staged::Staged;
pub use stages::StageSignal;
#[doc(hidden)]
pub use start::orthogonal_rows;
pub use start::{InitialDeviation, buffer, trained, updated};
pub use swag::{Swag, SwagConfig};
pub use vadam::{Vadam, VadamConfig};
pub use vifa::{Vifa, VifaConfig};
pub use von::{Curvature, Von, VonConfig};
