#![cfg_attr(any(doc, doctest), doc = include_str!("../README.md"))]
// Only where it is read, so that a change of the README compiles nothing again.
#![cfg_attr(not(any(doc, doctest)), doc = "Bayesian training for any Burn model.")]

#[doc(hidden)]
pub mod algebra;
#[cfg(feature = "train")]
pub mod diagnostics;
mod error;
#[cfg(feature = "gpu")]
mod gpu;
#[doc(hidden)]
pub mod kernels;
#[cfg(feature = "train")]
pub mod laplace;
#[cfg(feature = "train")]
pub mod likelihood;
pub mod memory;
pub mod methods;
#[cfg(feature = "train")]
pub mod metric;
pub mod noise;
pub mod optimizer;
pub mod posterior;
#[cfg(feature = "train")]
pub mod predict;
pub mod prior;
mod recorded;
#[cfg(feature = "train")]
pub mod sampling;
#[cfg(feature = "train")]
mod supervised;
#[cfg(feature = "train")]
pub mod train;
#[cfg(feature = "train")]
mod verdict;

/// Scores of probabilistic predictions on plain slices.
pub use burn_bayes_eval as eval;
/// Models as functions of a flat vector of weights: recorded losses, per-example gradients, many draws at
/// once.
pub use burn_bayes_graph as graph;

pub use error::{Error, Result};
// What most programs need, at hand; everything else has one path, that of its module.
#[doc(no_inline)]
pub use burn_bayes_graph::ExampleBatch;
#[cfg(feature = "train")]
#[doc(no_inline)]
pub use likelihood::GaussianNll;
#[doc(no_inline)]
pub use methods::{BayesianConfig, SlangConfig, SwagConfig, VifaConfig};
#[doc(no_inline)]
pub use noise::Noise;
#[doc(no_inline)]
pub use optimizer::FusedAdamConfig;
#[doc(no_inline)]
pub use posterior::{FactorPosterior, Posterior};
#[cfg(feature = "train")]
#[doc(no_inline)]
pub use predict::Predictor;
#[doc(no_inline)]
pub use prior::Prior;
#[cfg(feature = "train")]
pub use supervised::{Auto, Fit, Fitted, Inputs, Supervised};
#[cfg(feature = "train")]
#[doc(no_inline)]
pub use train::{Bayesian, ExampleLoss};

/// What most programs need.
pub mod prelude {
    #[cfg(feature = "train")]
    pub use crate::likelihood::Likelihood;
    #[cfg(feature = "train")]
    pub use crate::train::PostHoc;
    #[cfg(feature = "train")]
    pub use crate::{Auto, Bayesian, Fit, Fitted, Predictor, Supervised};
    pub use crate::{BayesianConfig, SlangConfig, SwagConfig, VifaConfig};
    pub use crate::{FactorPosterior, Posterior, Prior};
}
