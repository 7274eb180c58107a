#![doc = include_str!("../README.md")]

mod algebra;
mod error;
#[doc(hidden)]
pub mod kernels;
#[cfg(feature = "train")]
pub mod likelihood;
mod memory;
pub mod methods;
#[cfg(feature = "train")]
pub mod metric;
mod noise;
mod optimizer;
pub mod posterior;
#[cfg(feature = "train")]
pub mod predict;
mod prior;
#[cfg(feature = "train")]
pub mod train;

/// Scores of probabilistic predictions on plain slices.
pub use burn_bayes_eval as eval;
/// Models as functions of a flat vector of weights: recorded losses, per-example gradients, many draws at
/// once.
pub use burn_bayes_graph as graph;

pub use algebra::{
    AlgebraError, Cholesky, EigenPair, GRAM_ROUNDING, IdentityPlus, PIVOT_FLOOR, SquareMatrix,
    SymmetricEigen,
};
pub use burn_bayes_graph::{Entry, ExampleBatch, Layout, ModulePath};
pub use error::{Error, Result};
#[cfg(feature = "train")]
pub use likelihood::{ClassificationMixture, GaussianNll, MixDraws, MixStacked, RegressionMixture};
pub use memory::{MemoryPlan, OptimizerMemory};
pub use methods::{
    BayesianRidge, Curvature, Draw, FromExamples, FromGradients, FromIterates, FullMatrixStep,
    FullMatrixVon, GradientPieces, Inference, InitialDeviation, InitialMean, Iterates,
    MAX_REJECTIONS, MeanGradients, Proposal, Rate, Slang, SlangConfig, Swag, SwagConfig, Tick,
    Vadam, VadamConfig, Vifa, VifaConfig, Von, VonConfig, empirical_fisher,
};
pub use noise::{Noise, NoiseSource};
pub use optimizer::{
    FusedAdam, FusedAdamConfig, FusedAdamState, FusedSgd, FusedSgdConfig, FusedSgdState,
};
pub use posterior::{
    CovarianceForm, DENSE_LIMIT, DenseGaussian, FORMAT_VERSION, FactorPosterior, FormKind,
    GaussianDistance, Mixture, PointPosterior, Posterior, PrecisionForm, Sampler,
    linear_regression_posterior,
};
#[cfg(feature = "train")]
pub use predict::{Predictor, refresh_running_statistics};
pub use prior::{Prior, PriorPrecisions};
#[cfg(feature = "train")]
pub use train::{
    Bayesian, DEFAULT_PREDICTION_DRAWS, ExampleLoss, PowerDecay, PowerDecayConfig,
    StagedLearningRate, Supply, VifaPart,
};

/// What most programs need.
pub mod prelude {
    pub use crate::methods::{SlangConfig, SwagConfig, VifaConfig};
    #[cfg(feature = "train")]
    pub use crate::{Bayesian, GaussianNll};
    pub use crate::{FactorPosterior, FusedAdamConfig, Noise, Prior};
}
