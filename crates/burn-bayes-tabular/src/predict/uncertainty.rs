//! Uncertainty scores of a classification.

use burn_bayes::eval::{
    DrawProbabilities, least_confidence, model_disagreement, mutual_information,
    predictive_entropy, variation_ratio,
};

/// An uncertainty score of a row; all scores increase with uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncertainty {
    /// Entropy of the averaged probabilities, in nats: the total uncertainty.
    Entropy,
    /// Mutual information between label and weights, in nats.
    MutualInformation,
    /// Variance over draws of the probabilities, summed over classes.
    Disagreement,
    /// One minus the largest averaged probability.
    LeastConfidence,
    /// Fraction of draws that do not predict the majority class.
    VariationRatio,
}

impl Uncertainty {
    /// All scores, the most useful for referral first.
    pub const ALL: [Self; 5] = [
        Self::Entropy,
        Self::LeastConfidence,
        Self::MutualInformation,
        Self::Disagreement,
        Self::VariationRatio,
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entropy => "entropy",
            Self::MutualInformation => "mutual_information",
            Self::Disagreement => "disagreement",
            Self::LeastConfidence => "least_confidence",
            Self::VariationRatio => "variation_ratio",
        }
    }

    /// Whether the score compares draws, so that it needs at least two.
    pub fn needs_draws(self) -> bool {
        matches!(
            self,
            Self::MutualInformation | Self::Disagreement | Self::VariationRatio
        )
    }

    /// The score of each row.
    pub fn of(self, draws: &DrawProbabilities<'_>) -> Vec<f64> {
        match self {
            Self::Entropy => predictive_entropy(&draws.average()),
            Self::MutualInformation => mutual_information(draws),
            Self::Disagreement => model_disagreement(draws),
            Self::LeastConfidence => least_confidence(&draws.average()),
            Self::VariationRatio => variation_ratio(draws),
        }
    }
}
