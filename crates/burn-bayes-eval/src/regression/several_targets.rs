//! Proper scores of the joint distribution of several targets, from draws of it.
//!
//!   energy score      mean_s ‖x_s − y‖ − (1/2S²) Σ_s Σ_t ‖x_s − x_t‖
//!   variogram score   Σ_{i < j} ( |y_i − y_j|^p − mean_s |x_si − x_sj|^p )²
//!
//! The draws x_s of a row are samples of the **targets**: predictions with their noise, not their
//! means. With one column the energy score is the CRPS of the draws. It has the unit of the
//! targets, so standardise targets with different units. The variogram score with p = ½ is more
//! sensitive to wrong correlations, and blind to a common shift: report both. Lower is better. The
//! energy score costs S² distances per row; the second sum is taken over all pairs of draws, so
//! scores for different S are comparable to O(1/S).
//!
//! References: T. Gneiting and A. E. Raftery, "Strictly proper scoring rules, prediction, and
//! estimation" (2007); M. Scheuerer and T. M. Hamill, "Variogram-based proper scoring
//! rules for probabilistic forecasts of multivariate quantities" (2015).

use crate::Bounded;
use crate::check;
use crate::error::{EvalError, Place};
use crate::order::magnitude;

/// Draws of several targets per row, with the true values.
///
/// ```
/// use burn_bayes_eval::JointDraws;
///
/// // Two draws of two targets of one row: (0, 0) and (3, 4).
/// let draws = JointDraws::new(&[0.0, 0.0, 3.0, 4.0], &[0.0, 0.0], 2, 1, 2)?;
/// assert_eq!(draws.energy_scores(), [1.25]); // 5/2 − 5/4
/// assert_eq!(draws.variogram_scores(1.0)?, [0.25]); // differences of 0 and 1 against 0
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JointDraws<'a> {
    draws: &'a [f64],
    targets: &'a [f64],
    rows: usize,
    columns: usize,
}

impl<'a> JointDraws<'a> {
    /// Checks `draws`, `[draws × rows × columns]`, and `targets`, `[rows × columns]`, both
    /// row-major.
    ///
    /// # Errors
    /// A data error if a length does not fit or a value is not finite.
    pub fn new(
        draws: &'a [f64],
        targets: &'a [f64],
        count: usize,
        rows: usize,
        columns: usize,
    ) -> Result<Self, EvalError> {
        let extents = [("draws", count), ("rows", rows), ("columns", columns)];
        check::shape("draws", draws.len(), &extents)?;
        check::shape("targets", targets.len(), &extents[1..])?;
        let place = |index: usize| {
            Place::WHOLE
                .at_row(index / columns % rows)
                .at_column(index % columns)
        };
        if let Some(index) = draws.iter().position(|value| !value.is_finite()) {
            let draw = Place::draw(index / (rows * columns));
            let place = draw
                .at_row(index / columns % rows)
                .at_column(index % columns);
            return Err(check::not_finite("draws", place, draws[index]));
        }
        if let Some(index) = targets.iter().position(|value| !value.is_finite()) {
            return Err(check::not_finite("targets", place(index), targets[index]));
        }
        Ok(Self {
            draws,
            targets,
            rows,
            columns,
        })
    }

    /// The energy score of each row.
    pub fn energy_scores(&self) -> Vec<f64> {
        self.map(|draws, target| {
            let count = draws.len() as f64;
            let unit = magnitude(draws.iter().copied().flatten().chain(target));
            let distance = |a: &[f64], b: &[f64]| distance(a, b, unit);
            let near: f64 = draws.iter().map(|draw| distance(draw, target)).sum();
            let pairs = draws.iter().enumerate();
            let apart: f64 = pairs
                .map(|(s, a)| draws[..s].iter().map(|b| distance(a, b)).sum::<f64>())
                .sum();
            unit * (near / count - apart / (count * count)).at_least(0.0)
        })
    }

    /// The variogram score of each row for an order p, usually 0.5; zero for one column.
    ///
    /// # Errors
    /// A config error if the order is not a finite number above zero.
    pub fn variogram_scores(&self, order: f64) -> Result<Vec<f64>, EvalError> {
        if !(order.is_finite() && order > 0.0) {
            return Err(EvalError::config("order", order, "a finite number above 0"));
        }
        let variation = |row: &[f64], i: usize, j: usize| (row[i] - row[j]).abs().powf(order);
        Ok(self.map(|draws, target| {
            let mut score = 0.0;
            for i in 0..self.columns {
                for j in 0..i {
                    let drawn: f64 = draws.iter().map(|draw| variation(draw, i, j)).sum();
                    score += (variation(target, i, j) - drawn / draws.len() as f64).powi(2);
                }
            }
            score
        }))
    }

    /// A score of each row from its draws and its targets.
    fn map(&self, score: impl Fn(&[&[f64]], &[f64]) -> f64) -> Vec<f64> {
        let of_row = |row: usize| {
            let tables = self.draws.chunks_exact(self.rows * self.columns);
            let draws: Vec<&[f64]> = tables
                .map(|table| &table[row * self.columns..][..self.columns])
                .collect();
            score(&draws, &self.targets[row * self.columns..][..self.columns])
        };
        (0..self.rows).map(of_row).collect()
    }
}

/// The distance in this unit, in which no square overflows.
fn distance(a: &[f64], b: &[f64], unit: f64) -> f64 {
    let differences = a.iter().zip(b).map(|(a, b)| a / unit - b / unit);
    differences.map(|d| d * d).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_draw_has_its_distance_and_one_column_no_variogram() {
        let draws = JointDraws::new(&[3.0, 4.0], &[0.0, 0.0], 1, 1, 2).unwrap();
        assert_eq!(draws.energy_scores(), [5.0]);
        let column = JointDraws::new(&[3.0, 4.0], &[1.0, 2.0], 1, 2, 1).unwrap();
        assert_eq!(column.energy_scores(), [2.0, 2.0]);
        assert_eq!(column.variogram_scores(0.5).unwrap(), [0.0, 0.0]);
    }

    #[test]
    fn squares_of_large_and_small_numbers_do_no_harm() {
        for unit in [1e-200, 1.0, 1e200, 1e307] {
            let draws = [0.0, 0.0, 3.0 * unit, 4.0 * unit];
            let draws = JointDraws::new(&draws, &[0.0, 0.0], 2, 1, 2).unwrap();
            let score = draws.energy_scores()[0];
            assert!((score / unit - 1.25).abs() < 1e-14, "{unit}: {score}");
        }
    }

    #[test]
    fn errors_name_draw_row_and_column() {
        let error = JointDraws::new(&[0.0, 0.0, 0.0, f64::NAN], &[0.0, 0.0], 2, 1, 2).unwrap_err();
        assert_eq!(
            (error.draw(), error.row(), error.column()),
            (Some(1), Some(0), Some(1))
        );
        let error = JointDraws::new(&[0.0; 4], &[0.0, f64::NAN], 2, 2, 1).unwrap_err();
        assert_eq!((error.row(), error.column()), (Some(1), Some(0)));
        assert!(JointDraws::new(&[], &[], 0, 1, 1).unwrap_err().is_data());
        let draws = JointDraws::new(&[0.0], &[0.0], 1, 1, 1).unwrap();
        assert!(draws.variogram_scores(0.0).unwrap_err().is_config());
    }
}
