//! Predictions with a posterior over the weights.

mod batched_prediction;
mod predictor;
mod recording;
mod statistics;
mod weighted_draws;

pub(crate) use batched_prediction::BatchedPrediction;
pub use predictor::Predictor;
pub(crate) use recording::RecordingCache;
pub(crate) use statistics::moves_statistics;
pub use statistics::refresh_running_statistics;
