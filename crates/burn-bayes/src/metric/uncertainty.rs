//! Uncertainty of class predictions.
//!
//! p_s are the probabilities of a row under draw s of S, p̄ their average, and
//! H\[p\] = −Σ_c p_c ln p_c.

use burn_bayes_eval as eval;

use super::score::class_row_metrics;

class_row_metrics! {
    /// The mean predictive entropy of an epoch's rows, H\[p̄\]: the total uncertainty, between 0 and ln C nats for C
    /// classes.
    PredictiveEntropyMetric of PredictiveEntropy: "Predictive Entropy",
        "Entropy of the averaged class probabilities.", Some("nats"),
        |rows| eval::predictive_entropy(rows.average());

    /// The mean expected entropy of an epoch's rows, (1/S) Σ_s H\[p_s\]: the aleatoric uncertainty, which more training
    /// data would not reduce.
    ExpectedEntropyMetric of ExpectedEntropy: "Expected Entropy",
        "Mean over draws of the entropy of the class probabilities.", Some("nats"),
        |rows| eval::expected_entropy(rows.draws());

    /// The mean mutual information of an epoch's rows, H\[p̄\] − (1/S) Σ_s H\[p_s\]: the epistemic uncertainty, due to the
    /// disagreement of the draws. It is the information of a label about the weights; 0 for a single draw.
    MutualInformationMetric of MutualInformation: "Mutual Information",
        "Predictive entropy minus expected entropy: the disagreement of the draws.", Some("nats"),
        |rows| eval::mutual_information(rows.draws());

    /// The mean model disagreement of an epoch's rows (the VIFA paper, eq. 60), the variance of the draws'
    /// probabilities: MD² = Σ_c (1/S) Σ_s (p_sc − p̄_c)²; 0 if all draws agree, and for a single draw.
    ModelDisagreementMetric of ModelDisagreement: "Model Disagreement",
        "Variance over draws of the class probabilities, summed over classes.", None,
        |rows| eval::model_disagreement(rows.draws());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::testing::{assert_epoch, classification};

    #[test]
    fn hand_worked_batches_average_by_rows() {
        let ln_2 = 2f64.ln();
        // Averages (1/2, 1/2), (1, 0) and then (1/2, 1/2): ln 2, 0, ln 2.
        let batches = [
            classification([[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]]], [0, 0]),
            classification([[[1.0, 0.0]], [[0.0, 1.0]]], [0]),
        ];
        assert_epoch(
            PredictiveEntropyMetric::new(),
            &batches,
            2.0 / 3.0 * ln_2,
            4,
        );
        // Rows of ln 2 and 0, then of (ln 2 + 0)/2.
        let batches = [
            classification([[[0.5, 0.5], [1.0, 0.0]]], [0, 0]),
            classification([[[0.5, 0.5]], [[0.0, 1.0]]], [0]),
        ];
        assert_epoch(ExpectedEntropyMetric::new(), &batches, 0.5 * ln_2, 4);
        // Opposite certain draws give ln 2, equal draws give 0.
        let batches = [
            classification([[[1.0, 0.0]], [[0.0, 1.0]]], [0]),
            classification([[[0.5, 0.5], [0.25, 0.75]]], [0, 0]),
        ];
        assert_epoch(MutualInformationMetric::new(), &batches, ln_2 / 3.0, 4);
        // Two classes, each 1/4 from its mean: 2/16. Agreement: 0. Certain opposites: 2/4.
        let (one, other) = ([[0.25, 0.75], [0.5, 0.5]], [[0.75, 0.25], [0.5, 0.5]]);
        let batches = [
            classification([one, other], [0, 1]),
            classification([[[1.0, 0.0]], [[0.0, 1.0]]], [1]),
        ];
        let expected = (0.125 + 0.0 + 0.5) / 3.0;
        assert_epoch(ModelDisagreementMetric::new(), &batches, expected, 0);
        // One draw disagrees with nobody.
        let batch = classification([[[0.25, 0.75]]], [0]);
        assert_epoch(ModelDisagreementMetric::new(), &[batch], 0.0, 0);
    }
}
