//! Class probabilities, averaged or of every draw, paired with the true classes.

use crate::check;
use crate::error::{EvalError, Place};
use crate::views::{ClassProbabilities, DrawProbabilities};

/// Class probabilities together with the true class of each row.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities};
///
/// let table = ClassProbabilities::binary(&[0.2, 0.9])?;
/// assert!(LabelledProbabilities::new(&table, &[0, 1]).is_ok());
/// let error = LabelledProbabilities::new(&table, &[0, 2]).unwrap_err();
/// assert_eq!(error.row(), Some(1)); // there is no class 2
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelledProbabilities<'a> {
    probabilities: &'a ClassProbabilities<'a>,
    labels: &'a [usize],
}

impl<'a> LabelledProbabilities<'a> {
    /// Pairs a table with one label per row, each below the number of classes.
    ///
    /// # Errors
    /// A data error if the lengths differ or a label is not a class of the table.
    pub fn new(
        probabilities: &'a ClassProbabilities<'a>,
        labels: &'a [usize],
    ) -> Result<Self, EvalError> {
        check::same_length("labels", labels.len(), probabilities.rows())?;
        check_labels("labels", labels, probabilities.classes())?;
        Ok(Self {
            probabilities,
            labels,
        })
    }

    /// The table of probabilities.
    pub fn probabilities(&self) -> &'a ClassProbabilities<'a> {
        self.probabilities
    }

    /// The true classes.
    pub fn labels(&self) -> &'a [usize] {
        self.labels
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a [f64], usize)> {
        self.probabilities.iter().zip(self.labels.iter().copied())
    }
}

/// The class probabilities of every draw together with the true class of each row.
///
/// ```
/// use burn_bayes_eval::{DrawProbabilities, LabelledDraws};
///
/// let draws = DrawProbabilities::binary(&[0.2, 0.9, 0.4, 0.7], 2, 2)?;
/// assert!(LabelledDraws::new(&draws, &[0, 1]).is_ok());
/// assert_eq!(LabelledDraws::new(&draws, &[0, 2]).unwrap_err().row(), Some(1));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelledDraws<'a> {
    draws: &'a DrawProbabilities<'a>,
    labels: &'a [usize],
}

impl<'a> LabelledDraws<'a> {
    /// Pairs draws with one label per row, each below the number of classes.
    ///
    /// # Errors
    /// A data error if the lengths differ or a label is not a class.
    pub fn new(draws: &'a DrawProbabilities<'a>, labels: &'a [usize]) -> Result<Self, EvalError> {
        check::same_length("labels", labels.len(), draws.rows())?;
        check_labels("labels", labels, draws.classes())?;
        Ok(Self { draws, labels })
    }

    /// The probabilities of every draw.
    pub fn draws(&self) -> &'a DrawProbabilities<'a> {
        self.draws
    }

    /// The true classes.
    pub fn labels(&self) -> &'a [usize] {
        self.labels
    }
}

pub(crate) fn check_labels(what: &str, labels: &[usize], classes: usize) -> Result<(), EvalError> {
    match labels.iter().position(|&label| label >= classes) {
        Some(row) => {
            let expected = format!("a class below {classes}");
            let cause = "labels that start at one, or a table made for fewer classes";
            Err(EvalError::data(
                what,
                Place::row(row),
                labels[row],
                expected,
                cause,
            ))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_must_match_in_length_and_range() {
        let table = ClassProbabilities::binary(&[0.2, 0.9]).unwrap();
        assert!(
            LabelledProbabilities::new(&table, &[0])
                .unwrap_err()
                .is_data()
        );
        assert_eq!(
            LabelledProbabilities::new(&table, &[2, 0])
                .unwrap_err()
                .row(),
            Some(0)
        );
    }
}
