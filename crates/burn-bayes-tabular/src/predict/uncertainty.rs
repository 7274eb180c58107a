//! The scores by which the rows of a classification are sorted from certain to unsure.

use burn_bayes::eval::{
    DrawProbabilities, least_confidence, model_disagreement, mutual_information,
    predictive_entropy, variation_ratio,
};

/// How unsure the model is of a row; every score grows with uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncertainty {
    /// Entropy of the averaged probabilities, in nats: all uncertainty.
    Entropy,
    /// What the row's label would tell of the weights, in nats.
    MutualInformation,
    /// Variance over draws of the probabilities, summed over classes.
    Disagreement,
    /// One minus the largest averaged probability.
    LeastConfidence,
    /// Share of draws that vote against the majority.
    VariationRatio,
}

impl Uncertainty {
    /// Every score, the most useful for referral first.
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

    /// Whether it compares draws, and so says nothing where there is only one.
    pub fn needs_draws(self) -> bool {
        matches!(
            self,
            Self::MutualInformation | Self::Disagreement | Self::VariationRatio
        )
    }

    /// One value for each row.
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
