//! Predictions with a posterior over the weights.

mod predictor;
mod recording;
mod stacked;
mod statistics;

pub use predictor::Predictor;
pub(crate) use recording::RecordingCache;
pub(crate) use stacked::StackedPrediction;
pub(crate) use statistics::moves_statistics;
pub use statistics::refresh_running_statistics;
