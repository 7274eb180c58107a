//! Scores of unusual inputs from predictions. **Every score is higher for more unusual rows.**
//!
//! | Score | Of a row | Better when |
//! |---|---|---|
//! | [`LogitScore::MaximumLogit`] | −max_c z̄_c | many classes, where the maximum probability is shared |
//! | [`LogitScore::Energy`] | −ln Σ_c exp z̄_c | the sum of logits tells how much evidence there is |
//! | [`DrawScore`] | see its variants | a Bayesian model: mutual information and disagreement leave out the noise of the labels |
//!
//! [`UnusualScore`](crate::UnusualScore) is the common interface of these and of the distances of features.
//!
//! z̄ are the logits of one network, or their mean over draws. Energy and maximum logit depend on
//! the level of the logits, which the softmax ignores and no likelihood determines; compare them
//! within one model only. Temperatures are left out: a positive factor on all logits keeps the
//! order of the maximum logit, and 1 is usual for the energy.
//!
//! References: D. Hendrycks and K. Gimpel (2017), for the maximum probability; D. Hendrycks et al.,
//! "Scaling out-of-distribution detection for real-world settings" (2022), for the maximum logit;
//! W. Liu et al., "Energy-based out-of-distribution detection" (2020).

use crate::check;
use crate::error::{EvalError, Place};
use crate::uncertainty::{
    least_confidence, model_disagreement, mutual_information, predictive_entropy,
};
use crate::views::DrawProbabilities;
use crate::views::distribution::check_logits;

/// A score of the class probabilities of several draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawScore {
    /// One minus the largest average probability.
    LeastConfidence,
    /// The entropy of the average.
    PredictiveEntropy,
    /// The information of the label about the draws.
    MutualInformation,
    /// The variance over draws, summed over classes.
    ModelDisagreement,
}

impl DrawScore {
    /// All scores.
    pub const ALL: [Self; 4] = [
        Self::LeastConfidence,
        Self::PredictiveEntropy,
        Self::MutualInformation,
        Self::ModelDisagreement,
    ];

    /// The score of each row.
    ///
    /// ```
    /// use burn_bayes_eval::{DrawProbabilities, DrawScore};
    ///
    /// let draws = DrawProbabilities::binary(&[0.9, 0.1, 0.9, 0.9], 2, 2)?;
    /// for score in DrawScore::ALL {
    ///     let of_rows = score.of(&draws);
    ///     assert!(of_rows[0] <= of_rows[1]);
    /// }
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    pub fn of(self, draws: &DrawProbabilities<'_>) -> Vec<f64> {
        match self {
            Self::LeastConfidence => least_confidence(&draws.average()),
            Self::PredictiveEntropy => predictive_entropy(&draws.average()),
            Self::MutualInformation => mutual_information(draws),
            Self::ModelDisagreement => model_disagreement(draws),
        }
    }
}

/// A score of the logits of one network, or of their mean over draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogitScore {
    /// Minus the largest logit.
    MaximumLogit,
    /// The free energy −ln Σ_c exp z_c.
    Energy,
}

impl LogitScore {
    /// All scores.
    pub const ALL: [Self; 2] = [Self::MaximumLogit, Self::Energy];

    /// The score of each row; `logits` are `[rows × classes]`, row-major.
    ///
    /// ```
    /// use burn_bayes_eval::LogitScore;
    ///
    /// let logits = [1.0, 5.0, 2.0, 0.0];
    /// assert_eq!(LogitScore::MaximumLogit.of(&logits, 2, 2)?, [-5.0, -2.0]);
    /// let large = LogitScore::Energy.of(&[1000.0, 1000.0], 1, 2)?;
    /// assert!((large[0] + 1000.0 + 2f64.ln()).abs() < 1e-12);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if the length does not fit or a logit is not finite.
    pub fn of(self, logits: &[f64], rows: usize, classes: usize) -> Result<Vec<f64>, EvalError> {
        check::shape(
            "logits",
            logits.len(),
            &[("rows", rows), ("classes", classes)],
        )?;
        let of_row = |(index, row): (usize, &[f64])| {
            check_logits(Place::row(index), row)?;
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Ok(match self {
                Self::MaximumLogit => -largest,
                Self::Energy => {
                    -largest - row.iter().map(|z| (z - largest).exp()).sum::<f64>().ln()
                }
            })
        };
        logits
            .chunks_exact(classes)
            .enumerate()
            .map(of_row)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_checked() {
        for score in LogitScore::ALL {
            let error = score.of(&[0.0, 1.0, 2.0, f64::NAN], 2, 2).unwrap_err();
            assert_eq!((error.row(), error.column()), (Some(1), Some(1)));
            assert!(score.of(&[0.0], 1, 2).unwrap_err().is_data());
            assert!(score.of(&[], 0, 2).unwrap_err().is_data());
        }
    }
}
