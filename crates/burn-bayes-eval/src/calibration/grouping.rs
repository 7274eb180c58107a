//! The grouping loss: rows with the same confidence but different true probabilities.
//!
//! A calibrated model may be 90 % right for one group and 50 % for another while it reports 70 %
//! for both. For bins b of the confidence and groups g of rows (for example leaves of a tree over
//! the inputs, or hospitals), with n_bg rows and accuracy c_bg in bin b of group g, and n_b and c_b
//! over groups:
//!
//!   explained   Σ_b (n_b/N) Σ_g (n_bg/n_b) (c_bg − c_b)²
//!   bias        Σ_b (n_b/N) [ Σ_g (n_bg/n_b) c_bg(1 − c_bg)/(n_bg − 1) − c_b(1 − c_b)/(n_b − 1) ]
//!
//! Their difference estimates a lower bound of the expected Brier loss of the confidence (on [0,
//! 1]) that better probabilities within the bins would remove; finer groups find more of it. Cells
//! with a single row, whose variance is unknown, are left out.
//!
//! Choose the groups on other rows than these. Better than a calibration error to see whether a
//! model treats groups alike. Departure: the term for the width of the bins is not subtracted, so
//! use at least ten bins.
//!
//! Reference: A. Perez-Lebel, M. Le Morvan and G. Varoquaux, "Beyond calibration: estimating the
//! grouping loss of modern neural networks" (2023).

use std::collections::BTreeMap;

use crate::calibration::reliability::outcomes;
use crate::check;
use crate::error::EvalError;
use crate::order::{ascending, tie_groups};
use crate::views::LabelledProbabilities;

/// A lower bound of the grouping loss of the confidence.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, GroupingLoss, LabelledProbabilities};
///
/// // Confidence 0.75 in two groups: one always right, one right in half of its rows.
/// let table = ClassProbabilities::binary(&[0.75; 8])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 1, 1, 1, 0, 1, 0, 1])?;
/// let loss = GroupingLoss::new(&labelled, &[0, 0, 0, 0, 1, 1, 1, 1], 1)?;
/// assert_eq!(loss.explained, 0.0625); // the accuracies are 0.25 from their mean of 0.75
/// assert!(loss.lower_bound() < loss.explained);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupingLoss {
    /// The variance of the accuracy between groups with the same confidence.
    pub explained: f64,
    /// Its expected value for groups that do not differ, from the same counts.
    pub bias: f64,
}

impl GroupingLoss {
    /// Compares groups, one number per row, in `bins` bins of equally many rows. Rows with equal
    /// confidence are in one bin.
    ///
    /// # Errors
    /// A data error if there is not one group per row or fewer rows than bins; a config error if
    /// `bins` is zero.
    pub fn new(
        labelled: &LabelledProbabilities<'_>,
        groups: &[usize],
        bins: usize,
    ) -> Result<Self, EvalError> {
        let outcomes = outcomes(labelled);
        let rows = outcomes.len();
        check::same_length("groups", groups.len(), rows)?;
        check::rows_for_bins(rows, bins)?;
        let confidences: Vec<f64> = outcomes.iter().map(|outcome| outcome.confidence).collect();
        let order = ascending(&confidences);
        let mut by_bin: BTreeMap<usize, BTreeMap<usize, Cell>> = BTreeMap::new();
        let mut before = 0;
        for tied in tie_groups(&order, &confidences) {
            let cells = by_bin.entry(before * bins / rows).or_default();
            before += tied.len();
            for &row in tied {
                let cell = cells.entry(groups[row]).or_default();
                cell.rows += 1.0;
                cell.hits += outcomes[row].hit;
            }
        }
        let (mut explained, mut bias, mut used) = (0.0, 0.0, 0.0);
        for cells in by_bin.values() {
            let cells: Vec<&Cell> = cells.values().filter(|cell| cell.rows > 1.0).collect();
            let whole = Cell {
                rows: cells.iter().map(|cell| cell.rows).sum(),
                hits: cells.iter().map(|cell| cell.hits).sum(),
            };
            if cells.is_empty() {
                continue;
            }
            used += whole.rows;
            for cell in cells {
                explained += cell.rows * (cell.accuracy() - whole.accuracy()).powi(2);
                bias += cell.rows * cell.variance();
            }
            bias -= whole.rows * whole.variance();
        }
        let share = |sum: f64| if used > 0.0 { sum / used } else { 0.0 };
        Ok(Self {
            explained: share(explained),
            bias: share(bias),
        })
    }

    /// The explained variance without its bias; below zero if the groups differ less than by
    /// chance.
    pub fn lower_bound(&self) -> f64 {
        self.explained - self.bias
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    rows: f64,
    hits: f64,
}

impl Cell {
    fn accuracy(self) -> f64 {
        self.hits / self.rows
    }

    /// Of the accuracy.
    fn variance(self) -> f64 {
        self.accuracy() * (1.0 - self.accuracy()) / (self.rows - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClassProbabilities, uniforms};

    #[test]
    fn groups_by_chance_have_no_loss_on_average() {
        let rows = 4000;
        let table = ClassProbabilities::binary(&vec![0.7; rows]).unwrap();
        let mut sum = 0.0;
        for seed in 0..20 {
            let label = |u: &f64| usize::from(*u < 0.7);
            let labels: Vec<usize> = uniforms(rows, seed).iter().map(label).collect();
            let groups: Vec<usize> = (0..rows).map(|row| row % 40).collect();
            let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
            sum += GroupingLoss::new(&labelled, &groups, 1)
                .unwrap()
                .lower_bound()
                / 20.0;
        }
        // 39 groups' degrees of freedom: the standard error of the mean is about
        // .21·√(2·39)/4000/√20 = 1.0e-4.
        assert!(sum.abs() < 5e-4, "{sum}");
    }

    #[test]
    fn single_rows_and_wrong_lengths() {
        let table = ClassProbabilities::binary(&[0.7, 0.8]).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[1, 0]).unwrap();
        let loss = GroupingLoss::new(&labelled, &[0, 1], 1).unwrap();
        assert_eq!((loss.explained, loss.bias), (0.0, 0.0));
        assert!(GroupingLoss::new(&labelled, &[0], 1).unwrap_err().is_data());
        assert!(
            GroupingLoss::new(&labelled, &[0, 1], 3)
                .unwrap_err()
                .is_data()
        );
    }
}
