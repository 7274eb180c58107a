//! The error type of this crate.
//!
//! It is opaque: code uses its methods ([`DataError::is_data`], [`DataError::line`], …), and people read
//! its message, with file, line and column, what was found, what was expected, and the likely cure.

use std::fmt;
use std::io;
use std::path::Path;

use thiserror::Error;

/// An error in reading, preparing or generating data.
///
/// ```
/// use burn_bayes_data::{CsvOptions, CsvReader};
///
/// let text = "age,income\n31,100\nold,200\n32,300\n";
/// let reader = CsvReader::new(text.as_bytes(), "people.csv", CsvOptions::default())?;
/// let error = reader.read_all().unwrap_err();
/// assert!(error.is_data());
/// assert_eq!((error.line(), error.column()), (Some(3), Some("age")));
/// assert!(error.to_string().starts_with("people.csv, line 3, column `age`: found `old`"));
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
#[derive(Debug, Clone, Error)]
#[error("{}{message}", .place.as_ref().map_or(String::new(), |place| format!("{place}: ")))]
pub struct DataError {
    message: Box<str>,
    kind: Kind,
    /// `None` for an invalid setting.
    place: Option<Box<Place>>,
}

impl DataError {
    /// Whether the content is invalid, such as a cell, a header or a label.
    pub fn is_data(&self) -> bool {
        self.kind == Kind::Data
    }

    /// Whether a setting is invalid, alone or for the data, such as an unknown target or more folds than
    /// rows.
    pub fn is_config(&self) -> bool {
        self.kind == Kind::Config
    }

    /// The name of an invalid setting, and what is wrong with it.
    pub fn setting(&self) -> Option<(&str, &str)> {
        let of_setting = self.message.strip_prefix("setting `")?;
        of_setting.split_once("`: ").filter(|_| self.is_config())
    }

    /// Whether a file could not be read or written.
    pub fn is_io(&self) -> bool {
        self.kind == Kind::Io
    }

    /// The line of a text file, from 1.
    pub fn line(&self) -> Option<u64> {
        self.place.as_ref()?.line
    }

    /// The row of the data, from 0, if there is no line.
    pub fn row(&self) -> Option<usize> {
        self.place.as_ref()?.row
    }

    /// The column; unnamed columns are `column_0`, `column_1`, ….
    pub fn column(&self) -> Option<&str> {
        self.place.as_ref()?.column_name()
    }

    /// Adds the file as source, unless the error has one.
    #[must_use]
    pub fn in_file(mut self, path: impl AsRef<Path>) -> Self {
        if let Some(place) = &mut self.place {
            let name = || path.as_ref().display().to_string().into();
            place.source.get_or_insert_with(name);
        }
        self
    }

    /// Invalid content at `place`.
    pub(crate) fn data(
        place: Place,
        found: impl fmt::Display,
        expected: impl fmt::Display,
        cure: &str,
    ) -> Self {
        Self {
            message: format!("found {found}, expected {expected}; {cure}").into(),
            kind: Kind::Data,
            place: Some(Box::new(place)),
        }
    }

    /// A missing value.
    pub(crate) fn missing(place: Place) -> Self {
        Self::data(
            place,
            "a missing value",
            "a value",
            "fill it in, leave the row out, or, for a feature, set `missing` to impute",
        )
    }

    /// A source without rows.
    pub(crate) fn no_rows(source: &str) -> Self {
        let cure = "check that the file is the right one and is complete";
        Self::data(
            Place::of(source),
            "no rows",
            "at least one row of data",
            cure,
        )
    }

    /// Bytes that are not UTF-8.
    pub(crate) fn not_text(place: Place) -> Self {
        let found = "bytes that are not UTF-8";
        Self::data(place, found, "text", "save the file as UTF-8")
    }

    /// An invalid setting.
    pub(crate) fn config(
        name: &str,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Self {
        Self {
            message: format!("setting `{name}`: found {found}, expected {expected}").into(),
            kind: Kind::Config,
            place: None,
        }
    }

    /// An I/O error of the operating system or a decoder.
    pub(crate) fn io(source: &str, error: &io::Error) -> Self {
        let place = Place::of(source);
        match error.kind() {
            // Errors of decoders are of these kinds.
            io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::Unsupported => Self::data(
                place,
                format_args!("damaged bytes ({error})"),
                "a complete file",
                "copy the file again",
            ),
            io::ErrorKind::NotFound => Self {
                message: "there is no such file; check the path".into(),
                kind: Kind::Io,
                place: Some(Box::new(place)),
            },
            kind => {
                let cure = match kind {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
                    _ => "check the path and its permissions",
                };
                Self {
                    message: format!("{error}; {cure}").into(),
                    kind: Kind::Io,
                    place: Some(Box::new(place)),
                }
            }
        }
    }
}

/// Converts I/O errors about `path`.
pub(crate) fn at_path(path: &Path) -> impl Fn(io::Error) -> DataError {
    let name = path.display().to_string();
    move |error| DataError::io(&name, &error)
}

/// What the numbers of rows count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The lines of a text file, from 1.
    #[default]
    Lines,
    /// The rows of a file without lines, from 0.
    Rows,
}

/// A position in the data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    source: Option<Box<str>>,
    line: Option<u64>,
    row: Option<usize>,
    column: Option<Box<str>>,
}

impl Place {
    pub(crate) fn of(source: &str) -> Self {
        Self {
            source: Some(source.into()),
            ..Self::default()
        }
    }

    /// The row with this number.
    pub(crate) fn at(self, counted: Counted, number: u64) -> Self {
        match counted {
            Counted::Lines => self.line(number),
            Counted::Rows => self.row(usize::try_from(number).unwrap_or(usize::MAX)),
        }
    }

    pub(crate) fn line(self, line: u64) -> Self {
        Self {
            line: Some(line),
            ..self
        }
    }

    pub(crate) fn row(self, row: usize) -> Self {
        Self {
            row: Some(row),
            ..self
        }
    }

    pub(crate) fn column(self, column: &str) -> Self {
        Self {
            column: Some(column.into()),
            ..self
        }
    }

    pub(crate) fn column_name(&self) -> Option<&str> {
        self.column.as_deref()
    }

    /// The row, such as `line 5`; empty without one.
    pub(crate) fn row_alone(&self) -> String {
        let line = self.line.map(|line| format!("line {line}"));
        let row = self.row.map(|row| format!("row {row}, counted from 0"));
        line.or(row).unwrap_or_default()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.source.as_deref().unwrap_or("the table"))?;
        if let Some(line) = self.line {
            write!(formatter, ", line {line}")?;
        }
        if let Some(row) = self.row {
            write!(formatter, ", row {row} (counted from 0)")?;
        }
        if let Some(column) = &self.column {
            write!(formatter, ", column `{column}`")?;
        }
        Ok(())
    }
}

/// Text of a file for a message: shortened, escaped and in backquotes.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 40;
    let escaped: String = text
        .chars()
        .flat_map(char::escape_debug)
        .take(LONGEST + 1)
        .collect();
    match escaped.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("`{}…`", &escaped[..end]),
        None => format!("`{escaped}`"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Config,
    Io,
}

/// The error of a setting that names a missing column.
pub(crate) fn no_column(setting: &str, name: &str, source: &str, names: &[String]) -> DataError {
    let expected = format_args!("a column of {source}: {}", listed(names));
    DataError::config(setting, shown(name), expected)
}

/// `names` for a message, shortened if there are many.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    const MOST: usize = 12;
    let mut text: Vec<String> = names
        .iter()
        .take(MOST)
        .map(|name| shown(name.as_ref()))
        .collect();
    if names.len() > MOST {
        text.push(format!("… ({} in total)", names.len()));
    }
    text.join(", ")
}

/// Checks that all rows exist.
pub(crate) fn check_rows(rows: &[usize], count: usize) -> Result<(), DataError> {
    match rows.iter().find(|&&row| row >= count) {
        Some(row) => Err(DataError::config(
            "rows",
            format_args!("row {row}"),
            format_args!("rows below {count}, the number of rows"),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_where_and_the_cure() {
        let place = Place::of("a.csv").line(7).column("age");
        let error = DataError::data(place, shown("x"), "a number", "correct the cell");
        assert_eq!(
            error.to_string(),
            "a.csv, line 7, column `age`: found `x`, expected a number; correct the cell"
        );
        assert_eq!(
            (error.line(), error.row(), error.column()),
            (Some(7), None, Some("age"))
        );
        assert!(error.is_data() && !error.is_config() && !error.is_io());
    }

    #[test]
    fn a_file_is_named_where_none_was() {
        let error = |place| DataError::data(place, 2, "1", "correct it").in_file("b.csv");
        assert!(
            error(Place::of("a.csv"))
                .to_string()
                .starts_with("a.csv: found 2")
        );
        let named = error(Place::default().row(7));
        assert_eq!(
            named.to_string(),
            "b.csv, row 7 (counted from 0): found 2, expected 1; correct it"
        );
        assert_eq!(named.row(), Some(7));
        let setting = DataError::config("rows", 2, 1).in_file("b.csv");
        assert_eq!(setting.to_string(), "setting `rows`: found 2, expected 1");
        assert_eq!(setting.setting(), Some(("rows", "found 2, expected 1")));
    }

    #[test]
    fn a_damaged_file_is_data_and_a_missing_one_is_not() {
        let damaged = DataError::io("a", &io::ErrorKind::UnexpectedEof.into());
        let missing = DataError::io("a", &io::ErrorKind::NotFound.into());
        assert!(damaged.is_data() && missing.is_io());
        assert_eq!(
            missing.to_string(),
            "a: there is no such file; check the path"
        );
    }

    #[test]
    fn long_or_strange_text_stays_on_one_short_line() {
        assert_eq!(shown("a\nb"), "`a\\nb`");
        assert_eq!(shown(&"ä".repeat(1000)).chars().count(), 43);
    }

    #[test]
    fn is_a_thread_safe_standard_error() {
        fn assert_error<E: std::error::Error + Send + Sync + 'static>() {}
        assert_error::<DataError>();
    }
}
