//! The inputs of rows as in their file, for people who look at single rows.

use burn_bayes_data::{Column, Preprocessor, Table};

use super::Units;
use crate::distinct::distinct;
use crate::error::Result;
use crate::settings::DataSettings;

/// The columns of some rows that a fit uses as features, with the values of the file.
#[derive(Clone, Debug)]
pub struct RowInputs {
    /// The index of each row in its file, from 0.
    pub(crate) places: Vec<usize>,
    /// Which of the rows are independent.
    pub(crate) units: Units,
    /// One for each input, with the cells of these rows.
    pub(crate) columns: Vec<Column>,
    /// That of the first target.
    pub(crate) target: Column,
    /// Columns that are copied into the predictions, with their unchanged cells.
    pub(crate) kept: Vec<(String, Vec<String>)>,
}

impl RowInputs {
    /// The inputs of these rows of a table.
    ///
    /// # Errors
    /// If a column is missing, or an input has another type than in training.
    pub(crate) fn of(
        preprocessor: &Preprocessor,
        table: &Table,
        settings: &DataSettings,
        places: Vec<usize>,
    ) -> Result<Self> {
        let columns = preprocessor.feature_columns(table)?.into_iter();
        Ok(Self {
            columns: columns.map(|column| column.select(&places)).collect(),
            target: table
                .column(preprocessor.targets()[0].name())?
                .select(&places),
            units: Units::of_table(table, settings, &places)?,
            places,
            kept: Vec::new(),
        })
    }

    /// With columns of the table to copy, whose text it has.
    #[must_use]
    pub(crate) fn with_kept<'a>(
        self,
        table: &Table,
        names: impl Iterator<Item = &'a String>,
    ) -> Self {
        let cell = |name: &str, row| table.text(name, row).unwrap_or_default().trim().to_string();
        let kept = distinct(names.cloned(), String::clone).into_iter();
        let kept = kept.map(|name| {
            let cells = self.places.iter().map(|&row| cell(&name, row));
            (name.clone(), cells.collect())
        });
        Self {
            kept: kept.collect(),
            ..self
        }
    }

    #[cfg(test)]
    pub(crate) fn of_columns(columns: Vec<Column>) -> Self {
        let rows = columns[0].len();
        let kept = Vec::new();
        Self {
            places: (0..rows).collect(),
            units: Units::rows(rows),
            target: columns[0].clone(),
            columns,
            kept,
        }
    }
}
