//! Checked class probabilities of several draws, and their average.
//!
//! The Bayesian model average of S draws is
//!
//!   p̄_rc = (1/S) Σ_s p_src.

use std::borrow::Cow;

use crate::check;
use crate::error::{EvalError, Place};
use crate::views::ClassProbabilities;
use crate::views::distribution::{
    WHAT, check_binary, check_logits, check_row, softmax, two_classes,
};

/// Class probabilities of several rows under several draws: `[draws × rows × classes]`, row-major.
///
/// ```
/// use burn_bayes_eval::DrawProbabilities;
///
/// let draws = DrawProbabilities::new(&[1.0, 0.0, 0.5, 0.5], 2, 1, 2)?;
/// assert_eq!(draws.average().row(0), [0.75, 0.25]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DrawProbabilities<'a> {
    values: Cow<'a, [f64]>,
    draws: usize,
    rows: usize,
    classes: usize,
}

impl<'a> DrawProbabilities<'a> {
    /// Checks `values` (borrowed or owned) as `draws` tables of `rows` rows and `classes` classes.
    ///
    /// # Errors
    /// Those of [`ClassProbabilities::new`]; the error also names the draw.
    pub fn new(
        values: impl Into<Cow<'a, [f64]>>,
        draws: usize,
        rows: usize,
        classes: usize,
    ) -> Result<Self, EvalError> {
        let values = values.into();
        let extents = [("draws", draws), ("rows", rows), ("classes", classes)];
        check::shape(WHAT, values.len(), &extents)?;
        for (index, probabilities) in values.chunks_exact(classes).enumerate() {
            check_row(
                Place::draw(index / rows).at_row(index % rows),
                probabilities,
            )?;
        }
        Ok(Self {
            values,
            draws,
            rows,
            classes,
        })
    }

    /// The number of draws.
    pub fn draws(&self) -> usize {
        self.draws
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// All values, row-major.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The values, in the same order, without a copy if they are owned.
    pub fn into_values(self) -> Vec<f64> {
        self.values.into_owned()
    }

    /// The class probabilities of one row under one draw.
    ///
    /// # Panics
    /// If `draw` or `row` is out of range, as indexing a slice does.
    pub fn row(&self, draw: usize, row: usize) -> &[f64] {
        assert!(
            row < self.rows,
            "row {row} of a table of {} rows",
            self.rows
        );
        &self.values[(draw * self.rows + row) * self.classes..][..self.classes]
    }

    /// The Bayesian model average: the mean of the draws' tables.
    pub fn average(&self) -> ClassProbabilities<'static> {
        let mut sums = vec![0.0; self.rows * self.classes];
        for table in self.values.chunks_exact(self.rows * self.classes) {
            for (sum, value) in sums.iter_mut().zip(table) {
                *sum += value;
            }
        }
        let draws = self.draws as f64;
        let values: Vec<f64> = sums.into_iter().map(|sum| sum / draws).collect();
        ClassProbabilities::of_checked(values, self.rows, self.classes)
    }

    /// The table with every row of every draw replaced by other probabilities.
    pub(crate) fn map_rows(
        &self,
        other: impl Fn(&[f64]) -> Vec<f64>,
    ) -> DrawProbabilities<'static> {
        let rows = self.values.chunks_exact(self.classes);
        DrawProbabilities {
            values: rows.flat_map(other).collect(),
            ..*self
        }
    }

    /// The class probabilities of one row under every draw, in draw order.
    pub(crate) fn of_row(&self, row: usize) -> impl Iterator<Item = &[f64]> {
        (0..self.draws).map(move |draw| self.row(draw, row))
    }
}

impl DrawProbabilities<'static> {
    /// Two-class tables from the probability of class 1: `[draws × rows]`, row-major.
    ///
    /// # Errors
    /// A data error if the length does not fit or a value is not in [0, 1].
    pub fn binary(positive: &[f64], draws: usize, rows: usize) -> Result<Self, EvalError> {
        check::shape(WHAT, positive.len(), &[("draws", draws), ("rows", rows)])?;
        for (index, &probability) in positive.iter().enumerate() {
            check_binary(Place::draw(index / rows).at_row(index % rows), probability)?;
        }
        Ok(Self {
            values: two_classes(positive).into(),
            draws,
            rows,
            classes: 2,
        })
    }

    /// The softmax of logits, `[draws × rows × classes]`, row-major: one softmax per draw and row,
    /// so that [`average`](DrawProbabilities::average) is the mean of probabilities, not of logits.
    ///
    /// # Errors
    /// A data error if the length does not fit or a logit is not finite.
    pub fn from_logits(
        logits: &[f64],
        draws: usize,
        rows: usize,
        classes: usize,
    ) -> Result<Self, EvalError> {
        let extents = [("draws", draws), ("rows", rows), ("classes", classes)];
        check::shape("logits", logits.len(), &extents)?;
        for (index, logits) in logits.chunks_exact(classes).enumerate() {
            check_logits(Place::draw(index / rows).at_row(index % rows), logits)?;
        }
        Ok(Self {
            values: softmax(logits, classes).into(),
            draws,
            rows,
            classes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_what_is_no_distribution_and_says_where() {
        let cases: [(&[f64], Option<usize>); 3] = [
            (&[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, f64::NAN], Some(1)),
            (&[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, -0.5, 1.5], Some(0)),
            (&[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.6], None),
        ];
        for (values, column) in cases {
            let error = DrawProbabilities::new(values, 2, 2, 2).unwrap_err();
            let place = (error.draw(), error.row(), error.column());
            assert_eq!(place, (Some(1), Some(1), column), "{error}");
        }
        let error = DrawProbabilities::binary(&[0.5, f64::NAN], 2, 1).unwrap_err();
        assert_eq!((error.draw(), error.row()), (Some(1), Some(0)));
        let logits = [0.0, 0.0, f64::NAN, 0.0];
        let error = DrawProbabilities::from_logits(&logits, 2, 1, 2).unwrap_err();
        let place = (error.draw(), error.row(), error.column());
        assert_eq!(place, (Some(1), Some(0), Some(0)));
    }

    #[test]
    fn rejects_empty_draws_and_wrong_lengths() {
        let none: &[f64] = &[];
        assert!(DrawProbabilities::new(none, 0, 1, 1).unwrap_err().is_data());
        let error = DrawProbabilities::binary(&[0.5], 2, 1).unwrap_err();
        assert!(error.is_data());
        let error = DrawProbabilities::from_logits(&[0.5], 1, 1, 2).unwrap_err();
        assert!(error.is_data());
    }

    #[test]
    fn the_average_of_one_draw_is_that_draw() {
        let draws = DrawProbabilities::new(&[0.3, 0.7], 1, 1, 2).unwrap();
        assert_eq!(draws.average().values(), draws.values());
    }

    #[test]
    fn binary_draws_complement() {
        let draws = DrawProbabilities::binary(&[0.25, 1.0], 2, 1).unwrap();
        assert_eq!(draws.row(0, 0), [0.75, 0.25]);
        assert_eq!(draws.row(1, 0), [0.0, 1.0]);
    }

    #[test]
    fn probabilities_are_averaged_and_not_logits() {
        let draws = DrawProbabilities::from_logits(&[0.0, 0.0, 0.0, 3f64.ln()], 2, 1, 2).unwrap();
        assert!((draws.average().row(0)[1] - 0.625).abs() < 4.0 * f64::EPSILON);
    }
}
