//! Scores of class probabilities and of predicted classes.

mod confusion;
mod proper_scores;
mod ranking;

pub use confusion::ConfusionMatrix;
pub use proper_scores::{accuracy, brier, brier_losses, log_losses, nll, zero_one_losses};
pub(crate) use ranking::weighted_one_vs_rest_auroc;
pub use ranking::{
    BinaryScores, PrecisionRecall, auroc, average_precision, false_positive_rate_at,
    one_vs_rest_auroc, precision_recall,
};
