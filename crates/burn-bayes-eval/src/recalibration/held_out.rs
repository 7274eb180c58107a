//! Rows that a recalibration may be fitted on, checked to be apart from the rows that are scored.
//!
//! A recalibration that is scored on the rows it was fitted on looks better than it is.
//! All recalibrations of this crate take [`HeldOut`] rows, and there is no other way to fit them. A [`HeldOut`] is made from
//! identifiers, none of which may be among those of the scored rows, or by
//! [`HeldOut::for_new_rows`], whose name says that the rows to score do not exist yet.
//!
//! Identifiers may be row numbers of a common table, or the names of the patients, users or devices
//! that rows come from, which may repeat. Use the latter if one of them has several rows.

use std::collections::BTreeMap;
use std::fmt::Display;

use crate::check;
use crate::error::{EvalError, Place};
use crate::views::{LabelledDraws, LabelledProbabilities, TargetedMixture};

/// Predictions with known answers that share no row with the rows to be scored.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, HeldOut, LabelledProbabilities, Temperature};
///
/// let table = ClassProbabilities::binary(&[0.9, 0.8, 0.3, 0.6])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 0, 0, 1])?;
/// let held_out = HeldOut::new(labelled, &["ann", "bob", "cas", "dee"], &["eve", "fay"])?;
/// let temperature = Temperature::fit(&held_out)?;
/// # assert!(temperature.value() > 0.0);
///
/// let error = HeldOut::new(labelled, &["ann", "bob", "cas", "dee"], &["eve", "bob"]).unwrap_err();
/// assert_eq!(error.row(), Some(1)); // bob's row of the held-out rows
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeldOut<T> {
    view: T,
}

/// A view with a number of rows: [`LabelledProbabilities`], [`LabelledDraws`] or [`TargetedMixture`].
pub trait RowView: sealed::Sealed {
    /// The number of rows.
    fn row_count(&self) -> usize;
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for LabelledProbabilities<'_> {}
impl RowView for LabelledProbabilities<'_> {
    fn row_count(&self) -> usize {
        self.labels().len()
    }
}

impl sealed::Sealed for LabelledDraws<'_> {}
impl RowView for LabelledDraws<'_> {
    fn row_count(&self) -> usize {
        self.labels().len()
    }
}

impl sealed::Sealed for TargetedMixture<'_> {}
impl RowView for TargetedMixture<'_> {
    fn row_count(&self) -> usize {
        self.targets().len()
    }
}

impl<T: RowView> HeldOut<T> {
    /// Pairs a view with one identifier per row. `scored` are the identifiers of all rows that will
    /// be scored with what is fitted on these.
    ///
    /// # Errors
    /// A data error if there is not one identifier per row, there are no scored rows, or an
    /// identifier is among the scored ones.
    pub fn new<I: Ord + Display>(view: T, ids: &[I], scored: &[I]) -> Result<Self, EvalError> {
        check::same_length("identifiers of held-out rows", ids.len(), view.row_count())?;
        check_disjoint_rows(ids, scored)?;
        Ok(Self { view })
    }

    /// For a recalibration of rows that do not exist yet, such as those of a deployed model. Rows that are known must
    /// be given to [`HeldOut::new`].
    pub fn for_new_rows(view: T) -> Self {
        Self { view }
    }

    /// The predictions and answers.
    pub fn view(&self) -> &T {
        &self.view
    }
}

/// Checks that no identifier of the rows to fit on is among those of the rows to score.
fn check_disjoint_rows<I: Ord + Display>(ids: &[I], scored: &[I]) -> Result<(), EvalError> {
    check::not_empty("identifiers of held-out rows", ids.len())?;
    check::not_empty("identifiers of scored rows", scored.len())?;
    let mut row_of = BTreeMap::new();
    for (row, id) in scored.iter().enumerate() {
        row_of.entry(id).or_insert(row);
    }
    let shared = |(row, id)| Some((row, id, *row_of.get(id)?));
    if let Some((row, id, other)) = ids.iter().enumerate().find_map(shared) {
        return Err(EvalError::data(
            "held-out rows",
            Place::row(row),
            format!("identifier {id}, which is also row {other} of the scored rows"),
            "an identifier that is not scored",
            "one table was used to fit and to score, or its parts overlap: split the rows \
             first",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassProbabilities;

    #[test]
    fn an_overlap_names_both_rows_and_the_identifier() {
        let table = ClassProbabilities::binary(&[0.5, 0.5, 0.5]).unwrap();
        let labelled = LabelledProbabilities::new(&table, &[0, 1, 0]).unwrap();
        assert!(HeldOut::new(labelled, &[7, 7, 8], &[1, 2]).is_ok());
        let error = HeldOut::new(labelled, &[7, 9, 2], &[1, 2]).unwrap_err();
        assert_eq!(error.row(), Some(2));
        let message = error.to_string();
        assert!(
            message.contains("identifier 2, which is also row 1"),
            "{message}"
        );
        assert!(message.contains("split the rows"), "{message}");
        assert!(HeldOut::new(labelled, &[7, 8], &[1]).unwrap_err().is_data());
        assert!(
            HeldOut::new(labelled, &[7, 8, 9], &[])
                .unwrap_err()
                .is_data()
        );
    }
}
