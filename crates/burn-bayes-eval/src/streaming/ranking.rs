//! AUROC and FPR at a TPR from histograms, without keeping the scores.
//!
//! Scores are counted in M cells of equal width. Two rows in one cell cannot be told apart and
//! count as a tie, so with P_k positive and N_k negative rows in cell k
//!
//!   AUROC of the histogram − ½ Σ_k P_k N_k/(PN) ≤ AUROC ≤ AUROC of the histogram + ½ Σ_k P_k N_k/(PN).
//!
//! These limits are returned with the value: choose more cells, or a closer range, if they are too
//! wide. Scores outside the range are counted in the outermost cells.

use crate::check;
use crate::classification::{BinaryScores, auroc, false_positive_rate_at};
use crate::comparison::ScoreInterval;
use crate::error::{EvalError, Place};

/// Histograms of the scores of positive and negative rows.
///
/// ```
/// use burn_bayes_eval::RankingTotals;
///
/// let mut totals = RankingTotals::new(0.0, 1.0, 1000)?;
/// totals.add(&[0.1, 0.4, 0.35, 0.8], &[false, false, true, true])?;
/// assert_eq!(totals.auroc()?.estimate, 0.75);
/// assert_eq!(totals.false_positive_rate_at(0.95)?, 0.5);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct RankingTotals {
    low: f64,
    high: f64,
    /// Positive and negative rows of each cell.
    cells: Vec<[u64; 2]>,
}

/// An AUROC and the range in which that of the unrounded scores lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedAuroc {
    /// The value, with rows of one cell as ties.
    pub estimate: f64,
    /// The smallest and the largest value for any order within cells.
    pub range: ScoreInterval,
}

impl RankingTotals {
    /// No rows yet; scores are expected between `low` and `high`.
    ///
    /// # Errors
    /// A config error if the limits are not finite and increasing, or `cells` is zero or above a
    /// million.
    pub fn new(low: f64, high: f64, cells: usize) -> Result<Self, EvalError> {
        check::finite_setting("low", low)?;
        check::finite_setting("high", high)?;
        check::count("cells", cells, 1..=check::MOST_BINS)?;
        if low >= high {
            return Err(EvalError::config(
                "high",
                high,
                format!("a number above {low}"),
            ));
        }
        Ok(Self {
            low,
            high,
            cells: vec![[0; 2]; cells],
        })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// A data error if the lengths differ or a score is NaN.
    pub fn add(&mut self, scores: &[f64], positive: &[bool]) -> Result<(), EvalError> {
        check::same_length("scores", scores.len(), positive.len())?;
        check::comparable("scores", scores)?;
        let last = self.cells.len() - 1;
        let scale = self.cells.len() as f64 / (self.high - self.low);
        for (score, positive) in scores.iter().zip(positive) {
            // A negative or infinite number is cast to the nearest index.
            let cell = ((score - self.low) * scale) as usize;
            self.cells[cell.min(last)][usize::from(!positive)] += 1;
        }
        Ok(())
    }

    /// Adds the rows of other histograms.
    ///
    /// # Errors
    /// A data error if the ranges or the numbers of cells differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), EvalError> {
        check::same_length("cells", other.cells.len(), self.cells.len())?;
        if (other.low, other.high) != (self.low, self.high) {
            return Err(EvalError::data(
                "range of the scores",
                Place::WHOLE,
                format!("{} to {}", other.low, other.high),
                format!("{} to {}", self.low, self.high),
                "histograms of different scores",
            ));
        }
        for (sum, more) in self.cells.iter_mut().zip(&other.cells) {
            sum[0] += more[0];
            sum[1] += more[1];
        }
        Ok(())
    }

    /// The area under the receiver operating characteristic, with its range.
    ///
    /// # Errors
    /// A data error if there are only positive or only negative rows.
    pub fn auroc(&self) -> Result<BoundedAuroc, EvalError> {
        let estimate = auroc(&self.as_scores()?);
        let count = |kind: usize| self.cells.iter().map(|cell| cell[kind] as f64).sum::<f64>();
        let tied: f64 = self
            .cells
            .iter()
            .map(|cell| cell[0] as f64 * cell[1] as f64)
            .sum();
        let half = 0.5 * tied / (count(0) * count(1));
        let range = ScoreInterval {
            lower: estimate - half,
            upper: estimate + half,
        };
        Ok(BoundedAuroc { estimate, range })
    }

    /// The smallest false positive rate at a true positive rate, for thresholds between cells.
    ///
    /// # Errors
    /// A data error if there are only positive or only negative rows; a config error if the rate is
    /// not above 0 and at most 1.
    pub fn false_positive_rate_at(&self, true_positive_rate: f64) -> Result<f64, EvalError> {
        false_positive_rate_at(&self.as_scores()?, true_positive_rate)
    }

    fn as_scores(&self) -> Result<BinaryScores, EvalError> {
        BinaryScores::of_counts(self.cells.iter().map(|cell| cell.map(|count| count as f64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uniforms;

    #[test]
    fn the_exact_value_is_in_the_range_and_chunks_add_up() {
        let (scores, coins) = (uniforms(500, 1), uniforms(500, 2));
        let positive: Vec<bool> = scores.iter().zip(coins).map(|(s, u)| u < s * s).collect();
        let exact = auroc(&BinaryScores::new(&scores, &positive).unwrap());
        let fine = BinaryScores::new(&scores, &positive).unwrap();
        for cells in [3, 20, 1_000_000] {
            let mut parts = [(); 2].map(|()| RankingTotals::new(0.0, 1.0, cells).unwrap());
            parts[0].add(&scores[..200], &positive[..200]).unwrap();
            parts[1].add(&scores[200..], &positive[200..]).unwrap();
            let [mut sum, other] = parts;
            sum.merge(&other).unwrap();
            let found = sum.auroc().unwrap();
            assert!(found.range.lower <= exact + 1e-12 && exact <= found.range.upper + 1e-12);
            let rate = sum.false_positive_rate_at(0.9).unwrap();
            let exact = false_positive_rate_at(&fine, 0.9).unwrap();
            assert!(rate >= exact && (cells < 1_000 || rate == exact));
        }
    }

    #[test]
    fn outer_scores_count_and_bad_input_is_refused() {
        let mut totals = RankingTotals::new(0.0, 1.0, 4).unwrap();
        assert!(totals.auroc().unwrap_err().is_data());
        totals
            .add(&[f64::NEG_INFINITY, 1e300, -3.0], &[false, true, false])
            .unwrap();
        assert_eq!(totals.auroc().unwrap().estimate, 1.0);
        assert_eq!(
            totals
                .add(&[0.0, f64::NAN], &[true, true])
                .unwrap_err()
                .row(),
            Some(1)
        );
        assert!(totals.add(&[0.0], &[]).unwrap_err().is_data());
        let other = RankingTotals::new(0.0, 2.0, 4).unwrap();
        assert!(totals.merge(&other).unwrap_err().is_data());
        assert!(RankingTotals::new(1.0, 1.0, 4).unwrap_err().is_config());
        assert!(
            RankingTotals::new(0.0, f64::NAN, 4)
                .unwrap_err()
                .is_config()
        );
    }
}
