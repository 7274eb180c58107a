//! Options for reading delimited files.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use crate::decimal::DecimalMark;
use crate::error::{DataError, no_column};
use crate::table::ColumnKind;

/// Whether the first row of a file is a header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Header {
    /// The first row is a header if none of its cells is a number.
    #[default]
    Detect,
    /// The first row is a header.
    Present,
    /// There is no header; columns are named `column_0`, `column_1`, ….
    Absent,
}

/// Treatment of rows that cannot be read: rows with too few or too many cells, bytes that are not UTF-8,
/// or text in a numeric column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadRows {
    /// Return an error.
    #[default]
    Refuse,
    /// Keep the row in the table. [`Table::fault`](crate::Table::fault) returns its error, as does every use of
    /// the row.
    Mark,
}

/// Options for reading a delimited file.
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
    /// The column separator; `None` detects it from the first rows. For delimited text, as `header`.
    pub delimiter: Option<u8>,
    /// The decimal separator.
    pub decimal: DecimalMark,
    /// Whether the first row names the columns.
    pub header: Header,
    /// Known column types; the others are detected from the first rows.
    pub kinds: BTreeMap<String, ColumnKind>,
    /// The columns to read; all if `None`.
    pub only: Option<BTreeSet<String>>,
    /// Columns named by `kinds` or `only` that may be missing in the file.
    pub optional: BTreeSet<String>,
    /// Columns whose text is also kept unchanged, for [`Table::text`](crate::Table::text).
    pub keep: BTreeSet<String>,
    /// Values that count as missing, without surrounding spaces; in columns of numbers, also other spellings of their numbers.
    pub missing: Vec<String>,
    /// Treatment of rows that cannot be read.
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
    /// Sets the delimiter.
    #[must_use]
    pub fn with_delimiter(self, delimiter: u8) -> Self {
        Self {
            delimiter: Some(delimiter),
            ..self
        }
    }

    /// Sets the header.
    #[must_use]
    pub fn with_header(self, header: Header) -> Self {
        Self { header, ..self }
    }

    /// Sets the type of a column.
    #[must_use]
    pub fn with_kind(mut self, column: impl Into<String>, kind: ColumnKind) -> Self {
        self.kinds.insert(column.into(), kind);
        self
    }

    /// Reads only these columns.
    #[must_use]
    pub fn with_only<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            only: Some(columns.into_iter().map(Into::into).collect()),
            ..self
        }
    }

    /// Allows these columns to be missing.
    #[must_use]
    pub fn with_optional<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            optional: columns.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Sets the values that count as missing, in place of the default ones.
    #[must_use]
    pub fn with_missing<S: Into<String>>(self, words: impl IntoIterator<Item = S>) -> Self {
        Self {
            missing: words.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Adds values that count as missing.
    #[must_use]
    pub fn with_further_missing<S: Into<String>>(
        mut self,
        words: impl IntoIterator<Item = S>,
    ) -> Self {
        for word in words.into_iter().map(Into::into) {
            if !self.is_missing(&word) {
                self.missing.push(word);
            }
        }
        self
    }

    /// Also keeps the text of these columns unchanged.
    #[must_use]
    pub fn with_kept<S: Into<String>>(self, columns: impl IntoIterator<Item = S>) -> Self {
        Self {
            keep: columns.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Sets the treatment of rows that cannot be read.
    #[must_use]
    pub fn with_bad_rows(self, bad_rows: BadRows) -> Self {
        Self { bad_rows, ..self }
    }

    /// Checks that the columns named by the options exist in `source`.
    pub(crate) fn check_names(&self, source: &str, names: &[String]) -> Result<(), DataError> {
        let known: HashSet<&String> = names.iter().chain(&self.optional).collect();
        let kinds = self.kinds.keys().map(|name| ("columns", name));
        let only = self.only.iter().flatten().map(|name| ("only", name));
        let kept = self.keep.iter().map(|name| ("keep", name));
        let mut named = kinds.chain(only).chain(kept);
        match named.find(|(_, name)| !known.contains(name)) {
            None => Ok(()),
            Some((setting, name)) => Err(no_column(setting, name, source, names)),
        }
    }

    /// Whether anything of a column is read.
    pub(crate) fn reads(&self, column: &str) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only.contains(column)) || self.keep.contains(column)
    }

    /// Whether the text of a column's cells matters, besides the numbers that it may stand for.
    pub fn needs_text(&self, column: &str) -> bool {
        self.kinds.get(column) == Some(&ColumnKind::Category) || self.keep.contains(column)
    }

    /// A cell as a number; the delimiter is that of the text, by default a comma.
    pub fn number(&self, cell: &str) -> Option<f64> {
        self.decimal.number(cell, self.delimiter.unwrap_or(b','))
    }

    /// Whether `cell` is a number with either decimal separator.
    pub(crate) fn reads_as_number(&self, cell: &str) -> bool {
        self.number(cell).is_some() || self.decimal.is_number_with_other(cell)
    }

    /// Whether `cell` is a missing value, as text.
    pub fn is_missing(&self, cell: &str) -> bool {
        self.missing.iter().any(|word| word == cell)
    }

    /// Whether a cell of numbers with this value is missing, such as −999.0 if `-999` is.
    pub fn is_missing_number(&self, value: f64) -> bool {
        // Words without a digit at their end are not parsed for every cell.
        let is_number = |word: &&String| word.ends_with(|last: char| last.is_ascii_digit());
        let mut numbers = self.missing.iter().filter(is_number);
        numbers.any(|word| self.number(word) == Some(value))
    }
}
