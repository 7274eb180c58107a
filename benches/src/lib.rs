//! Shared models, mini-batches, gradients and training steps of the benchmarks.

mod batches;
mod cases;
mod gradients;
mod models;
pub mod ratios;
mod training;

pub use batches::{classification_batch, image_batch, regression_batch};
pub use cases::{Case, Optimizer, Stepper, Variant};
pub use gradients::{convolution_gradients, embedding_gradients, perceptron_gradients};
pub use models::{
    Images, Labelled, LeNet, Measured, MlpClassifier, MlpRegressor, Network, ResNet18,
};
pub use training::{Holder, Training, wait};
