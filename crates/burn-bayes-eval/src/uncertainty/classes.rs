//! Uncertainty of a prediction, and its epistemic part, the disagreement of the draws.
//!
//! | Score | Of a row | Range and meaning |
//! |---|---|---|
//! | predictive entropy | H[p̄] = −Σ_c p̄_c ln p̄_c | 0 to ln C nats, total uncertainty |
//! | expected entropy | Ē = (1/S) Σ_s H[p_s] | 0 to ln C nats, aleatoric |
//! | mutual information | I = H[p̄] − Ē | 0 to ln C nats, epistemic |
//! | maximum probability, least confidence | max_c p̄_c, 1 − max_c p̄_c | 0 to 1, total |
//! | variation ratio | v = 1 − (1/S) max_c n_c | 0 to 1 − 1/C, epistemic |
//! | model disagreement | MD² = Σ_c (1/S) Σ_s (p_sc − p̄_c)² | 0 to 1 − 1/C, epistemic |
//!
//! p_s are the probabilities of one row under draw s, p̄ is their mean over the S draws, and n_c counts
//! the draws whose most probable class is c.
//!
//! 0 ln 0 = 0. All scores except [`max_probability`] increase with uncertainty and can be passed to
//! [`referral_table`](crate::referral_table) and [`RiskCoverage`](crate::RiskCoverage). Model
//! disagreement uses the population variance (1/S).
//!
//! References: N. Houlsby et al., "Bayesian active learning for classification and preference
//! learning" (2011), for I; L. C. Freeman, "Elementary Applied Statistics" (1965), for v; "Fast and
//! Scalable Factor Analysis Algorithm for Bayesian Deep Learning" (the VIFA paper), equation 60,
//! for MD².

use crate::Bounded;
use crate::views::ClassProbabilities;
use crate::views::DrawProbabilities;
use crate::views::distribution::most_probable;

/// Entropy of each row, in nats, between 0 and ln C.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, predictive_entropy};
///
/// let entropy = predictive_entropy(&ClassProbabilities::binary(&[0.5, 1.0])?);
/// assert!((entropy[0] - 2f64.ln()).abs() < 1e-15 && entropy[1] == 0.0);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn predictive_entropy(probabilities: &ClassProbabilities<'_>) -> Vec<f64> {
    probabilities.iter().map(entropy).collect()
}

/// Mean over draws of each draw's entropy, in nats.
///
/// ```
/// use burn_bayes_eval::{DrawProbabilities, expected_entropy};
///
/// // Each draw is certain, but the average is not.
/// let draws = DrawProbabilities::binary(&[0.0, 1.0], 2, 1)?;
/// assert_eq!(expected_entropy(&draws), [0.0]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn expected_entropy(draws: &DrawProbabilities<'_>) -> Vec<f64> {
    let count = draws.draws() as f64;
    (0..draws.rows())
        .map(|row| draws.of_row(row).map(entropy).sum::<f64>() / count)
        .collect()
}

/// The information of a row's label about the draws, in nats: predictive minus expected entropy.
/// Never negative; rounding errors below zero are clipped.
///
/// ```
/// use burn_bayes_eval::{DrawProbabilities, mutual_information};
///
/// let draws = DrawProbabilities::binary(&[0.0, 0.5, 1.0, 0.5], 2, 2)?;
/// let information = mutual_information(&draws);
/// assert!((information[0] - 2f64.ln()).abs() < 1e-15); // certain draws that contradict each other
/// assert_eq!(information[1], 0.0); // unsure draws that agree
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn mutual_information(draws: &DrawProbabilities<'_>) -> Vec<f64> {
    let total = predictive_entropy(&draws.average());
    let expected = expected_entropy(draws);
    total
        .iter()
        .zip(expected)
        .map(|(total, expected)| (total - expected).at_least(0.0))
        .collect()
}

/// Largest probability of each row: the confidence in the predicted class. Higher means more
/// certain.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, least_confidence, max_probability};
///
/// let table = ClassProbabilities::binary(&[0.25])?;
/// assert_eq!((max_probability(&table)[0], least_confidence(&table)[0]), (0.75, 0.25));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn max_probability(probabilities: &ClassProbabilities<'_>) -> Vec<f64> {
    probabilities
        .iter()
        .map(|row| row[most_probable(row)])
        .collect()
}

/// One minus [`max_probability`]; higher means more uncertain.
pub fn least_confidence(probabilities: &ClassProbabilities<'_>) -> Vec<f64> {
    max_probability(probabilities)
        .into_iter()
        .map(|largest| 1.0 - largest)
        .collect()
}

/// Fraction of draws that do not vote for the majority class, between 0 and 1 − 1/C.
///
/// A draw votes for its most probable class, or for the first of equally probable classes.
///
/// ```
/// use burn_bayes_eval::{DrawProbabilities, variation_ratio};
///
/// let draws = DrawProbabilities::binary(&[0.1, 0.2, 0.6, 0.3], 4, 1)?;
/// assert_eq!(variation_ratio(&draws), [0.25]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn variation_ratio(draws: &DrawProbabilities<'_>) -> Vec<f64> {
    let ratio = |row| {
        let most = votes(draws, row).into_iter().max().unwrap_or(0);
        (draws.draws() - most) as f64 / draws.draws() as f64
    };
    (0..draws.rows()).map(ratio).collect()
}

/// Number of draws that vote for each class.
fn votes(draws: &DrawProbabilities<'_>, row: usize) -> Vec<usize> {
    let mut votes = vec![0; draws.classes()];
    for probabilities in draws.of_row(row) {
        votes[most_probable(probabilities)] += 1;
    }
    votes
}

/// Model disagreement MD²: the variance over draws of each class's probability, summed over
/// classes.
///
/// ```
/// use burn_bayes_eval::{DrawProbabilities, model_disagreement};
///
/// let draws = DrawProbabilities::binary(&[0.25, 0.75], 2, 1)?;
/// assert_eq!(model_disagreement(&draws), [0.125]); // 1/16 for each of two classes
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn model_disagreement(draws: &DrawProbabilities<'_>) -> Vec<f64> {
    let average = draws.average();
    let count = draws.draws() as f64;
    let disagreement = |row| {
        let mean = average.row(row);
        let squared_distance = |probabilities: &[f64]| -> f64 {
            probabilities
                .iter()
                .zip(mean)
                .map(|(p, mean)| (p - mean) * (p - mean))
                .sum()
        };
        draws.of_row(row).map(squared_distance).sum::<f64>() / count
    };
    (0..draws.rows()).map(disagreement).collect()
}

pub(crate) fn entropy(probabilities: &[f64]) -> f64 {
    let terms = probabilities
        .iter()
        .filter(|&&p| p > 0.0)
        .map(|&p| p * p.ln());
    // A probability above 1 by a rounding error would give a negative entropy.
    (0.0 - terms.sum::<f64>()).at_least(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_worked_decomposition() {
        // Draws (1/2, 1/2) and (1, 0): average (3/4, 1/4).
        let draws = DrawProbabilities::new(&[0.5, 0.5, 1.0, 0.0], 2, 1, 2).unwrap();
        let total = 2.0 * 2f64.ln() - 0.75 * 3f64.ln();
        let expected = 0.5 * 2f64.ln();
        let tolerance = 8.0 * f64::EPSILON;
        assert!((predictive_entropy(&draws.average())[0] - total).abs() < tolerance);
        assert!((expected_entropy(&draws)[0] - expected).abs() < tolerance);
        assert!((mutual_information(&draws)[0] - (total - expected)).abs() < tolerance);
        assert_eq!(model_disagreement(&draws), [0.125]);
        assert_eq!(max_probability(&draws.average()), [0.75]);
        assert_eq!(least_confidence(&draws.average()), [0.25]);
    }

    #[test]
    fn one_draw_disagrees_with_nobody() {
        let draws = DrawProbabilities::new(&[0.2, 0.3, 0.5, 0.1, 0.1, 0.8], 1, 2, 3).unwrap();
        assert_eq!(mutual_information(&draws), [0.0, 0.0]);
        assert_eq!(model_disagreement(&draws), [0.0, 0.0]);
        assert_eq!(variation_ratio(&draws), [0.0, 0.0]);
        assert_eq!(
            expected_entropy(&draws),
            predictive_entropy(&draws.average())
        );
    }

    #[test]
    fn rounding_makes_no_negative_information() {
        // Equal draws; rounding of the average and of the mean entropy differs.
        for percent in 1..100 {
            let positive = vec![f64::from(percent) / 100.0; 7];
            let draws = DrawProbabilities::binary(&positive, 7, 1).unwrap();
            let information = mutual_information(&draws)[0];
            assert!(
                (0.0..=16.0 * f64::EPSILON).contains(&information),
                "{information:e}"
            );
        }
    }

    #[test]
    fn one_class_leaves_no_doubt() {
        let draws = DrawProbabilities::new(&[1.0, 1.0], 2, 1, 1).unwrap();
        assert_eq!(predictive_entropy(&draws.average()), [0.0]);
        assert_eq!(mutual_information(&draws), [0.0]);
        assert_eq!(variation_ratio(&draws), [0.0]);
        assert_eq!(least_confidence(&draws.average()), [0.0]);
    }

    #[test]
    fn votes_count_per_row() {
        // Three draws, two rows, three classes; the second row is three different votes.
        let values = [
            1.0, 0.0, 0.0, 1.0, 0.0, 0.0, //
            1.0, 0.0, 0.0, 0.0, 1.0, 0.0, //
            0.0, 1.0, 0.0, 0.0, 0.0, 1.0,
        ];
        let draws = DrawProbabilities::new(&values, 3, 2, 3).unwrap();
        assert_eq!(variation_ratio(&draws), [1.0 / 3.0, 2.0 / 3.0]);
    }
}
