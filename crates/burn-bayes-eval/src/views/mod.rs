//! Checked views of predictions: they validate the data once, so that scores cannot fail.

pub(crate) mod distribution;
mod draw_probabilities;
mod labelled;
pub(crate) mod mixture;
mod probabilities;

pub use draw_probabilities::DrawProbabilities;
pub(crate) use labelled::check_labels;
pub use labelled::{LabelledDraws, LabelledProbabilities};
pub use mixture::{GaussianMixture, NoisePrecision, TargetScale, TargetedMixture};
pub use probabilities::ClassProbabilities;
