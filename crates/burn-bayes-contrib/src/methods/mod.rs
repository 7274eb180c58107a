//! Algorithms that estimate a posterior over the weights of a Burn model, one per file.
//!
//! * [`Nagvac`]: natural gradients of a Gaussian with one factor.
//! * [`Sghmc`]: samples by gradient steps with noise and a velocity; without velocity it is SGLD.
//! * [`BatchEnsemble`]: members that share their matrices up to factors of rank one.
//! * [`IterateAveraging`]: averages of windows of the iterates of ordinary training, as samples.
//! * [`VariationalLastLayer`]: a Gaussian over the weights of a last layer, trained without draws (VBLL).
//! * [`FactorAnalysis`]: online factor analysis of these iterates; [`OnlineFactorAnalysis`] is that of any vectors.
//!
//! Dense references, in double precision on the host:
//!
//! * [`BayesianRidge`]: linear regression with the precisions that maximise the evidence.
//! * [`LogisticRegression`]: the best Gaussian of a logistic regression, by quadrature.

mod batch_ensemble;
mod bayesian_ridge;
mod factor_analysis;
mod iterate_averaging;
mod last_layer;
mod logistic_regression;
mod nagvac;
mod samples;
mod sghmc;

pub use batch_ensemble::{BatchEnsemble, BatchEnsembleConfig, InitialRankOne};
pub use bayesian_ridge::BayesianRidge;
pub use factor_analysis::{
    FactorAnalysis, FactorAnalysisConfig, FactorEstimate, FactorRule, OnlineFactorAnalysis,
};
pub use iterate_averaging::{IterateAveraging, IterateAveragingConfig};
pub use last_layer::{VariationalLastLayer, VariationalLastLayerConfig};
pub use logistic_regression::{LogisticPosterior, LogisticRegression};
pub use nagvac::{Nagvac, NagvacConfig, NagvacState, NagvacStep};
pub use sghmc::{SamplingSchedule, Sghmc, SghmcConfig, SghmcState, SghmcStep};
