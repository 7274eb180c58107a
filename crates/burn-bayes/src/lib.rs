#![doc = include_str!("../../../README.md")]

pub use burn_bayes_core::{
    AlgebraError, BayesianRidge, CovarianceForm, DENSE_LIMIT, DenseGaussian, Entry, FORMAT_VERSION,
    FactorPosterior, FormKind, FusedAdam, FusedAdamConfig, FusedAdamState, FusedSgd,
    FusedSgdConfig, FusedSgdState, GaussianDistance, Layout, MemoryPlan, Mixture, Noise,
    NoiseSource, OptimizerMemory, PrecisionForm, Prior, PriorPrecisions, SquareMatrix,
    SymmetricEigen, kernels, linear_regression_posterior,
};
pub use burn_bayes_infer::{
    Curvature, Draw, FromExamples, FromGradients, FromIterates, FullMatrixStep, FullMatrixVon,
    GradientPieces, Inference, InitialDeviation, InitialMean, Iterates, MAX_REJECTIONS,
    MeanGradients, Proposal, Rate, Slang, SlangConfig, Swag, SwagConfig, Tick, Vadam, VadamConfig,
    Vifa, VifaConfig, Von, VonConfig, empirical_fisher,
};
#[cfg(feature = "train")]
pub use burn_bayes_train::{
    Bayesian, BayesianConfig, ClassificationMixture, DEFAULT_PREDICTION_DRAWS, ExampleLoss,
    GaussianNll, MixDraws, MixStacked, PowerDecay, PowerDecayConfig, RegressionMixture,
    StagedLearningRate, Supply, metric, refresh_running_statistics,
};

/// Scores of probabilistic predictions on plain slices.
pub mod eval {
    pub use burn_bayes_eval::*;
}

/// Captured graphs of models, and the per-example gradients that come of them.
pub mod graph {
    pub use burn_bayes_graph::*;
}

/// What most programs need.
pub mod prelude {
    pub use burn_bayes_core::{FactorPosterior, FusedAdamConfig, Noise, Prior};
    pub use burn_bayes_infer::{SlangConfig, SwagConfig, VifaConfig};
    #[cfg(feature = "train")]
    pub use burn_bayes_train::{Bayesian, BayesianConfig, GaussianNll};
}

/// The errors of the crates.
pub mod error {
    pub use burn_bayes_core::Error as CoreError;
    pub use burn_bayes_infer::Error as InferError;
    #[cfg(feature = "train")]
    pub use burn_bayes_train::Error as TrainError;
}
