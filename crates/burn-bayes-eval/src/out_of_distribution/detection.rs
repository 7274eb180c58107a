//! How well a score separates in- from out-of-distribution rows, with intervals.
//!
//! AUROC, AUPR and FPR95 are those of [`BinaryScores::separating`], with out-of-distribution rows
//! as the positive ones. The intervals are percentiles of a bootstrap within both kinds of rows.

use crate::classification::{BinaryScores, auroc, average_precision, false_positive_rate_at};
use crate::comparison::{Bootstrap, ScoreInterval};
use crate::error::EvalError;
use crate::out_of_distribution::outputs::{RowOutputs, UnusualScore};

/// A score of a set of rows with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreWithInterval {
    /// The score of the rows.
    pub estimate: f64,
    /// Its percentile interval.
    pub interval: ScoreInterval,
}

/// The detection of out-of-distribution rows by one score.
///
/// ```
/// use burn_bayes_eval::OutOfDistribution;
///
/// let known: Vec<f64> = (0..50).map(|row| f64::from(row) / 50.0).collect();
/// let unusual: Vec<f64> = (0..50).map(|row| 0.5 + f64::from(row) / 50.0).collect();
/// let found = OutOfDistribution::new(&known, &unusual, 200, 7, 0.95)?;
/// assert!((found.auroc.estimate - 0.875).abs() < 0.01);
/// assert!(found.auroc.interval.lower < 0.875 && found.auroc.interval.upper > 0.875);
/// assert!(found.false_positive_rate_at_95.estimate > 0.4);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutOfDistribution {
    /// The probability that an out-of-distribution row has the higher score.
    pub auroc: ScoreWithInterval,
    /// Area under the precision–recall curve; depends on the share of out-of-distribution rows.
    pub average_precision: ScoreWithInterval,
    /// Fraction of in-distribution rows above the threshold that finds 95 % of the others.
    pub false_positive_rate_at_95: ScoreWithInterval,
}

impl OutOfDistribution {
    /// Compares the scores of both kinds of rows; higher means more unusual. `level` is that of the
    /// intervals.
    ///
    /// # Errors
    /// A data error if a slice is empty or contains NaN; a config error if there are fewer than two
    /// resamples or the level is not strictly between 0 and 1.
    pub fn new(
        in_distribution: &[f64],
        out_of_distribution: &[f64],
        resamples: usize,
        seed: u64,
        level: f64,
    ) -> Result<Self, EvalError> {
        BinaryScores::separating(in_distribution, out_of_distribution)?;
        let scores = [in_distribution, out_of_distribution].concat();
        let known = in_distribution.len();
        let strata: Vec<usize> = (0..scores.len())
            .map(|row| usize::from(row >= known))
            .collect();
        let of = |score: fn(&BinaryScores) -> f64| {
            let bootstrap = Bootstrap::of_score_within(&strata, resamples, seed, |rows| {
                let values: Vec<f64> = rows.iter().map(|&row| scores[row]).collect();
                let positive: Vec<bool> = rows.iter().map(|&row| row >= known).collect();
                BinaryScores::new(&values, &positive).map_or(f64::NAN, |scores| score(&scores))
            })?;
            let interval = bootstrap.percentile_interval(level)?;
            Ok(ScoreWithInterval {
                estimate: bootstrap.estimate(),
                interval,
            })
        };
        Ok(Self {
            auroc: of(auroc)?,
            average_precision: of(average_precision)?,
            false_positive_rate_at_95: of(|scores| {
                false_positive_rate_at(scores, 0.95).unwrap_or(f64::NAN)
            })?,
        })
    }

    /// The detection by each of several scores, from the outputs of a model for both kinds of rows. All scores are
    /// resampled alike, so their intervals can be compared.
    ///
    /// # Errors
    /// As [`Self::new`], and if a score needs an output that is missing.
    pub fn of_scores(
        scores: &[&dyn UnusualScore],
        in_distribution: &RowOutputs<'_>,
        out_of_distribution: &RowOutputs<'_>,
        resamples: usize,
        seed: u64,
        level: f64,
    ) -> Result<Vec<Self>, EvalError> {
        let of_score = |score: &&dyn UnusualScore| {
            let known = score.of_outputs(in_distribution)?;
            let unusual = score.of_outputs(out_of_distribution)?;
            Self::new(&known, &unusual, resamples, seed, level)
        };
        scores.iter().map(of_score).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfect_separation_has_no_uncertainty_and_bad_input_is_refused() {
        let found = OutOfDistribution::new(&[0.0, 0.1], &[0.8, 0.9], 50, 1, 0.9).unwrap();
        for (score, expected) in [
            (found.auroc, 1.0),
            (found.average_precision, 1.0),
            (found.false_positive_rate_at_95, 0.0),
        ] {
            assert_eq!(score.estimate, expected);
            assert_eq!(
                (score.interval.lower, score.interval.upper),
                (expected, expected)
            );
        }
        assert!(
            OutOfDistribution::new(&[], &[0.1], 50, 1, 0.9)
                .unwrap_err()
                .is_data()
        );
        assert!(
            OutOfDistribution::new(&[f64::NAN], &[0.1], 50, 1, 0.9)
                .unwrap_err()
                .is_data()
        );
        assert!(
            OutOfDistribution::new(&[0.1], &[0.1], 50, 1, 1.0)
                .unwrap_err()
                .is_config()
        );
    }
}
