//! Algorithms that estimate a posterior over the weights of a Burn model, one per file.
//!
//! * [`Vifa`]: variational inference with a factor-analysis covariance; rank 0 is mean-field.
//! * [`Slang`]: natural gradients with a low-rank-plus-diagonal precision; rank 0 is VOGN.
//! * [`Von`]: natural gradients with a diagonal precision and a choice of curvature estimates.
//! * [`Vadam`]: Adam with perturbed weights.
//! * [`Ivon`]: VON with an average gradient, also for accumulated mini-batches and several devices.
//! * [`Nagvac`]: natural gradients of a Gaussian with one factor.
//! * [`Sghmc`]: samples by gradient steps with noise and a velocity; without velocity it is SGLD.
//! * [`BatchEnsemble`]: members that share their matrices up to factors of rank one.
//! * [`Swag`]: mean and covariance of the iterates of ordinary training.
//! * [`IterateAveraging`]: averages of windows of these iterates, as samples.
//! * [`FactorAnalysis`]: online factor analysis of these iterates; [`OnlineFactorAnalysis`] is that of any vectors.
//!
//! An algorithm implements [`Algorithm`] and the trait of the signal that it learns from. It never
//! calls backward and is independent of data sets and training loops.

mod algorithm;
mod average;
mod batch_ensemble;
pub(crate) mod checks;
mod factor_analysis;
mod function_terms;
mod iterate_averaging;
mod iterate_schedule;
mod ivon;
mod mean_stage;
mod method_state;
mod nagvac;
mod natural;
mod rate;
mod samples;
mod settings;
mod sghmc;
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
pub use algorithm::{
    Algorithm, Draw, FromCurvature, FromExamples, FromGradients, FromIterates, FunctionPriorUse,
    GradientPieces, Iterates, MeanGradients, Proposal, Setup, Stage, StepId, Update,
};
pub(crate) use algorithm::{DrawStatistics, hash_of_text};
pub use average::{Average, Averaging, Iterate};
pub use batch_ensemble::{BatchEnsemble, BatchEnsembleConfig, InitialRankOne};
pub use factor_analysis::{
    FactorAnalysis, FactorAnalysisConfig, FactorEstimate, FactorRule, OnlineFactorAnalysis,
};
pub(crate) use function_terms::{DivergenceGradient, FunctionTerms};
pub use iterate_averaging::{IterateAveraging, IterateAveragingConfig};
pub use ivon::{Ivon, IvonConfig, IvonState, IvonStep};
pub use mean_stage::MeanStage;
pub use method_state::{Context, Gradients, Learns, MethodState, StagedConfig, Start};
pub use nagvac::{Nagvac, NagvacConfig, NagvacState, NagvacStep};
pub use natural::{Natural, NaturalConfig, NaturalSettings, NaturalStep};
pub(crate) use rate::DECAY_POWER;
pub use rate::Rate;
pub use settings::{BayesianConfig, DefaultDraws, LearningRates, MethodConfig};
pub use sghmc::{SamplingSchedule, Sghmc, SghmcConfig, SghmcState, SghmcStep};
pub use slang::{Slang, SlangConfig};
pub use staged::{Staged, StagedUpdate};
pub use stages::{StageSignal, StageUpdate};
pub use start::{InitialDeviation, InitialMean};
pub use swag::{Swag, SwagConfig};
pub use vadam::{Vadam, VadamConfig, VadamState, VadamStep};
pub use vifa::{Vifa, VifaConfig, VifaState};
pub use von::{Curvature, Von, VonConfig};
