//! The inputs of rows as in their file, for people who look at single rows.

use burn_bayes_data::{Column, Preprocessor, Table};

use crate::error::Result;

/// The columns of some rows that a fit uses as features, with the values of the file.
#[derive(Clone, Debug)]
pub struct RowInputs {
    /// The index of each row in its file, from 0.
    places: Vec<usize>,
    columns: Vec<Column>,
}

impl RowInputs {
    /// The inputs of these rows of a table.
    ///
    /// # Errors
    /// If a column is missing or has another type than in training.
    pub(crate) fn of(
        preprocessor: &Preprocessor,
        table: &Table,
        places: Vec<usize>,
    ) -> Result<Self> {
        let columns = preprocessor.feature_columns(table)?.into_iter();
        Ok(Self {
            columns: columns.map(|column| column.select(&places)).collect(),
            places,
        })
    }

    #[cfg(test)]
    pub(crate) fn of_columns(columns: Vec<Column>) -> Self {
        let places = (0..columns[0].len()).collect();
        Self { places, columns }
    }

    /// The index of each row in its file, from 0.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }

    /// One column for each input, with the cells of these rows.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }
}
