//! Predictions with a posterior over the weights.

mod batched_prediction;
mod dropout;
mod onnx;
mod predictor;
mod recording;
mod statistics;
mod training_layers;
mod weighted_draws;

pub(crate) use batched_prediction::BatchedPrediction;
pub use predictor::Predictor;
pub(crate) use recording::RecordingCache;
pub use statistics::refresh_running_statistics;
pub(crate) use statistics::{
    left_of_large_statistics, moves_statistics, replace_statistics, with_large_statistics,
};
pub(crate) use training_layers::{
    TrainingFlag, has_batch_norm, has_random_layers, training_flags, with_dropout,
    without_batch_norm,
};
