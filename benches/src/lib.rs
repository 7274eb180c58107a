//! Models, batches and training holders that the benchmarks share.

mod batches;
mod models;
mod training;

pub use batches::{classification_batch, image_batch, regression_batch};
pub use models::{Images, Labelled, Measured, MlpClassifier, MlpRegressor, ResNet18};
pub use training::{Holder, LearnerLike, Owned};
