//! How a delimited file is to be read.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::csv_file::no_column;
use crate::decimal::DecimalMark;
use crate::error::DataError;
use crate::table::ColumnKind;

/// Whether the first row of a file names the columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Header {
    /// It does if none of its cells is a number.
    #[default]
    Detect,
    /// It does.
    Present,
    /// It does not; columns are called `column_0`, `column_1`, ….
    Absent,
}

/// What becomes of a row that cannot be read: one with too few or too many cells, with bytes that are
/// not UTF-8, or with text in a column of numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadRows {
    /// It is an error, which ends the reading.
    #[default]
    Refuse,
    /// It is in the table; [`Table::fault`](crate::Table::fault) says what is wrong with it, and whoever uses the row gets
    /// that error.
    Mark,
}

/// How a delimited file is to be read.
///
/// ```
/// use burn_bayes_data::{ColumnKind, CsvOptions};
///
/// let options = CsvOptions::default()
///     .with_delimiter(b';')
///     .with_kind("postcode", ColumnKind::Category)
///     .with_missing(["", "unknown"]);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsvOptions {
    /// The byte between cells; found from the first rows if `None`.
    pub delimiter: Option<u8>,
    /// The character before the decimal fraction of a number.
    pub decimal: DecimalMark,
    /// Whether the first row names the columns.
    pub header: Header,
    /// Kinds that are known; the other columns' are found from the first rows.
    pub kinds: BTreeMap<String, ColumnKind>,
    /// The columns to keep; all of them if `None`.
    pub only: Option<BTreeSet<String>>,
    /// Columns that the file may lack although `kinds` or `only` name them.
    pub optional: BTreeSet<String>,
    /// Columns whose cells are also kept as they are written, for [`Table::text`](crate::Table::text).
    pub keep: BTreeSet<String>,
    /// What a missing cell says, after spaces around it are taken away.
    pub missing: Vec<String>,
    /// What becomes of a row that cannot be read.
    pub bad_rows: BadRows,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: None,
            decimal: DecimalMark::Point,
            header: Header::Detect,
            kinds: BTreeMap::new(),
            only: None,
            optional: BTreeSet::new(),
            keep: BTreeSet::new(),
            bad_rows: BadRows::Refuse,
            missing: ["", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null"]
                .map(String::from)
                .into(),
        }
    }
}

impl CsvOptions {
    /// The same with a delimiter.
    #[must_use]
    pub fn with_delimiter(self, delimiter: u8) -> Self {
        Self {
            delimiter: Some(delimiter),
            ..self
        }
    }

    /// The same with another decimal mark.
    #[must_use]
    pub fn with_decimal(self, decimal: DecimalMark) -> Self {
        Self { decimal, ..self }
    }

    /// The same with another header.
    #[must_use]
    pub fn with_header(self, header: Header) -> Self {
        Self { header, ..self }
    }

    /// The same with a column whose kind is known.
    #[must_use]
    pub fn with_kind(mut self, column: impl Into<String>, kind: ColumnKind) -> Self {
        self.kinds.insert(column.into(), kind);
        self
    }

    /// The same, keeping these columns alone.
    #[must_use]
    pub fn with_only<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            only: Some(columns.into_iter().map(Into::into).collect()),
            ..self
        }
    }

    /// The same, reading files without these columns too.
    #[must_use]
    pub fn with_optional<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            optional: columns.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// The same with other words for a missing cell.
    #[must_use]
    pub fn with_missing<S: Into<String>>(self, words: impl IntoIterator<Item = S>) -> Self {
        Self {
            missing: words.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// The same, also keeping the cells of these columns as they are written.
    #[must_use]
    pub fn with_kept<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            keep: columns.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// The same with another treatment of rows that cannot be read.
    #[must_use]
    pub fn with_bad_rows(self, bad_rows: BadRows) -> Self {
        Self { bad_rows, ..self }
    }

    /// Refuses the name of a column that `source` must have and has not.
    pub(crate) fn check_names(&self, source: &str, names: &[String]) -> Result<(), DataError> {
        let known: HashSet<&String> = names.iter().chain(&self.optional).collect();
        let kinds = self.kinds.keys().map(|name| ("kinds", name));
        let only = self.only.iter().flatten().map(|name| ("only", name));
        let kept = self.keep.iter().map(|name| ("keep", name));
        let mut named = kinds.chain(only).chain(kept);
        match named.find(|(_, name)| !known.contains(name)) {
            None => Ok(()),
            Some((setting, name)) => Err(no_column(setting, name, source, names)),
        }
    }

    /// Whether `cell` is a number with either decimal mark.
    pub(crate) fn reads_as_number(&self, cell: &str) -> bool {
        self.decimal.number(cell).is_some() || self.decimal.is_number_with_other(cell)
    }

    /// Whether `cell` says that there is nothing.
    pub(crate) fn is_missing(&self, cell: &str) -> bool {
        self.missing.iter().any(|word| word == cell)
    }
}
