//! The predictions of the held-out rows of a run, read from its `validation.csv`.

use std::path::{Path, PathBuf};

use burn_bayes_data::{ColumnKind, CsvOptions, Header, Table, read_csv};

use crate::error::{Result, TabularError};

/// Columns of the file.
#[derive(Debug)]
pub(crate) struct HeldOutTable {
    path: PathBuf,
    table: Table,
}

impl HeldOutTable {
    /// Reads these columns of numbers and of words.
    ///
    /// # Errors
    /// If the file is damaged.
    pub(crate) fn read(path: &Path, numbers: &[String], words: &[String]) -> Result<Self> {
        let numbers = || numbers.iter().map(String::as_str);
        let columns = || numbers().chain(words.iter().map(String::as_str));
        let mut options = CsvOptions::default()
            .with_delimiter(b',')
            .with_header(Header::Present)
            .with_only(columns())
            // If a column is missing, the file is damaged: that is a data error, not a usage error.
            .with_optional(columns())
            .with_missing(Vec::<String>::new());
        for name in numbers() {
            options = options.with_kind(name, ColumnKind::Number);
        }
        for name in words {
            options = options.with_kind(name.as_str(), ColumnKind::Category);
        }
        Ok(Self {
            path: path.into(),
            table: read_csv(path, &options)?,
        })
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.table.rows()
    }

    /// A column of numbers.
    pub(crate) fn numbers(&self, name: &str) -> Result<Vec<f64>> {
        let column = self.table.column(name)?;
        let values = (0..self.rows()).map(|row| column.number(row));
        self.complete(name, values)
    }

    /// A column of words.
    pub(crate) fn words(&self, name: &str) -> Result<Vec<&str>> {
        let column = self.table.column(name)?;
        let values = (0..self.rows()).map(|row| column.category(row));
        self.complete(name, values)
    }

    fn complete<T>(&self, name: &str, values: impl Iterator<Item = Option<T>>) -> Result<Vec<T>> {
        let values: Option<Vec<T>> = values.collect();
        values.ok_or_else(|| self.damaged(format_args!("the column `{name}` has an empty cell")))
    }

    /// An error about the file.
    pub(crate) fn damaged(&self, problem: impl std::fmt::Display) -> TabularError {
        TabularError::Data(format!("{}: {problem}", self.path.display()))
    }
}
