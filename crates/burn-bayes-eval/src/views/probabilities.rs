//! A checked table of class probabilities.
//!
//! A view checks every value once; scores take the view and cannot fail on it.

use std::borrow::Cow;

use crate::check;
use crate::error::{EvalError, Place};
use crate::views::distribution::{
    WHAT, check_binary, check_logits, check_row, most_probable, softmax, two_classes,
};

/// Class probabilities of several rows: `[rows × classes]`, row-major.
///
/// ```
/// use burn_bayes_eval::ClassProbabilities;
///
/// let table = ClassProbabilities::new(&[0.7, 0.2, 0.1, 0.1, 0.1, 0.8], 2, 3)?;
/// assert_eq!(table.row(1), [0.1, 0.1, 0.8]);
/// assert_eq!(table.predicted_classes(), [0, 2]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ClassProbabilities<'a> {
    values: Cow<'a, [f64]>,
    rows: usize,
    classes: usize,
}

impl<'a> ClassProbabilities<'a> {
    /// Checks `values` (borrowed or owned) as a table of `rows` rows and `classes` classes.
    ///
    /// # Errors
    /// A data error if the length is not `rows × classes`, an extent is zero, or a row has a
    /// negative or non-finite value or does not sum to 1.
    pub fn new(
        values: impl Into<Cow<'a, [f64]>>,
        rows: usize,
        classes: usize,
    ) -> Result<Self, EvalError> {
        let values = values.into();
        check::shape(WHAT, values.len(), &[("rows", rows), ("classes", classes)])?;
        for (row, probabilities) in values.chunks_exact(classes).enumerate() {
            check_row(Place::row(row), probabilities)?;
        }
        Ok(Self {
            values,
            rows,
            classes,
        })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The whole table, row-major.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The class probabilities of one row.
    ///
    /// # Panics
    /// If `row` is not below [`rows`](Self::rows), as indexing a slice does.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.classes..][..self.classes]
    }

    /// The most probable class of each row; the first of equally probable classes.
    pub fn predicted_classes(&self) -> Vec<usize> {
        self.iter().map(most_probable).collect()
    }

    /// The given rows as a table of their own, in this order: the parts of a split.
    ///
    /// ```
    /// # use burn_bayes_eval::ClassProbabilities;
    /// let table = ClassProbabilities::binary(&[0.1, 0.2, 0.3])?;
    /// assert_eq!(table.select(&[2, 0])?.row(0), table.row(2));
    /// assert_eq!(table.select(&[2, 3]).unwrap_err().row(), Some(3));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if there are no rows or one is not in the table.
    pub fn select(&self, rows: &[usize]) -> Result<ClassProbabilities<'static>, EvalError> {
        check::not_empty("selected rows", rows.len())?;
        if let Some(&row) = rows.iter().find(|&&row| row >= self.rows) {
            return Err(EvalError::data(
                "selected rows",
                Place::row(row),
                row,
                format!("a row below {}", self.rows),
                "indices of another table, or counted from 1",
            ));
        }
        let values = rows
            .iter()
            .flat_map(|&row| self.row(row))
            .copied()
            .collect();
        Ok(ClassProbabilities::of_checked(
            values,
            rows.len(),
            self.classes,
        ))
    }

    /// A table whose values are known to be probabilities.
    pub(crate) fn of_checked(values: Vec<f64>, rows: usize, classes: usize) -> Self {
        let values = values.into();
        Self {
            values,
            rows,
            classes,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.classes)
    }
}

impl ClassProbabilities<'static> {
    /// A two-class table from the probability of class 1 of each row.
    ///
    /// ```
    /// # use burn_bayes_eval::ClassProbabilities;
    /// let table = ClassProbabilities::binary(&[0.25])?;
    /// assert_eq!(table.row(0), [0.75, 0.25]);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if a value is not in [0, 1], or the slice is empty.
    pub fn binary(positive: &[f64]) -> Result<Self, EvalError> {
        check::not_empty(WHAT, positive.len())?;
        for (row, &probability) in positive.iter().enumerate() {
            check_binary(Place::row(row), probability)?;
        }
        Ok(Self {
            values: two_classes(positive).into(),
            rows: positive.len(),
            classes: 2,
        })
    }

    /// The softmax of a table of logits, `[rows × classes]`, row-major.
    ///
    /// # Errors
    /// A data error if the length does not fit or a logit is not finite.
    pub fn from_logits(logits: &[f64], rows: usize, classes: usize) -> Result<Self, EvalError> {
        check::shape(
            "logits",
            logits.len(),
            &[("rows", rows), ("classes", classes)],
        )?;
        for (row, logits) in logits.chunks_exact(classes).enumerate() {
            check_logits(Place::row(row), logits)?;
        }
        Ok(Self {
            values: softmax(logits, classes).into(),
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
        let cases: [(&[f64], Option<usize>); 4] = [
            (&[0.5, 0.5, 0.5, -0.5], Some(1)),
            (&[0.5, 0.5, f64::INFINITY, 0.5], Some(0)),
            (&[0.5, 0.5, 0.5, f64::NAN], Some(1)),
            (&[0.5, 0.5, 0.5, 0.6], None),
        ];
        for (values, column) in cases {
            let error = ClassProbabilities::new(values, 2, 2).unwrap_err();
            assert!(error.is_data());
            assert_eq!((error.row(), error.column()), (Some(1), column), "{error}");
        }
        let error = ClassProbabilities::binary(&[0.5, 1.5]).unwrap_err();
        assert_eq!(error.row(), Some(1));
        let error = ClassProbabilities::from_logits(&[0.0, f64::INFINITY], 1, 2).unwrap_err();
        assert_eq!((error.row(), error.column()), (Some(0), Some(1)));
    }

    #[test]
    fn rejects_empty_tables_and_wrong_lengths() {
        let none: &[f64] = &[];
        assert!(ClassProbabilities::new(none, 0, 2).unwrap_err().is_data());
        assert!(ClassProbabilities::new(none, 2, 0).unwrap_err().is_data());
        assert!(ClassProbabilities::new(&[1.0], 1, 2).unwrap_err().is_data());
        assert!(ClassProbabilities::binary(none).unwrap_err().is_data());
        let error = ClassProbabilities::from_logits(&[0.5], 1, 2).unwrap_err();
        assert!(error.is_data());
    }

    #[test]
    fn one_class_is_a_table_too() {
        let table = ClassProbabilities::new(&[1.0, 1.0], 2, 1).unwrap();
        assert_eq!(table.predicted_classes(), [0, 0]);
    }

    #[test]
    fn logits_become_probabilities_row_by_row() {
        let table = ClassProbabilities::from_logits(&[0.0, 0.0, 0.0, 3f64.ln()], 2, 2).unwrap();
        assert_eq!(table.row(0), [0.5, 0.5]);
        assert!((table.row(1)[1] - 0.75).abs() < 4.0 * f64::EPSILON);
    }
}
