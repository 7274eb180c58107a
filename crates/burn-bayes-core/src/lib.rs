//! Posteriors over the weights of Burn models.
//!
//! * [`Layout`]: which parameters of a module lie where in the flat vector of weights.
//! * [`FactorPosterior`]: a low-rank-plus-diagonal Gaussian over them, in covariance or precision
//!   form; [`Mixture`] of several.
//! * [`Prior`] and [`Noise`]: explicit arguments wherever they are needed.
//! * [`kernels`]: all arithmetic as long as the model has weights.
//! * [`FusedAdam`] and [`FusedSgd`]: Burn optimisers that read and write each number once.
//! * [`DenseGaussian`] and [`GaussianDistance`]: dense double-precision references for small models;
//!   [`BayesianRidge`], linear regression with the precisions that explain the data best.
//!
//! This crate knows no data, no loss and no training loop.

mod algebra;
mod bayesian_ridge;
mod dense;
mod divergence;
mod error;
pub mod kernels;
mod layout;
mod memory;
mod module_path;
mod noise;
mod optimizer;
mod posterior;
mod prior;

pub use algebra::{
    AlgebraError, Cholesky, EigenPair, GRAM_ROUNDING, IdentityPlus, PIVOT_FLOOR, SquareMatrix,
    SymmetricEigen,
};
pub use bayesian_ridge::BayesianRidge;
pub use dense::{DenseGaussian, SYMMETRY_TOLERANCE, linear_regression_posterior};
pub use divergence::GaussianDistance;
pub use error::{Error, Result};
pub use layout::{Entry, Layout};
pub use memory::{MemoryPlan, OptimizerMemory};
pub use module_path::ModulePath;
pub use noise::{Noise, NoiseSource};
pub use optimizer::{
    FusedAdam, FusedAdamConfig, FusedAdamState, FusedSgd, FusedSgdConfig, FusedSgdState,
};
pub use posterior::{
    CovarianceForm, DENSE_LIMIT, FORMAT_VERSION, FactorPosterior, FormKind, Mixture,
    PrecisionDraws, PrecisionForm, precision_draws,
};
pub use prior::{Prior, PriorPrecisions};
