//! Numbers separated by spaces, one row per line.

use std::io::Read;
use std::path::Path;

use crate::csv_file::column_name;
use crate::dataset::Features;
use crate::error::{DataError, Place, shown};
use crate::source::{self, Lines, Plain};

/// Reads a matrix of numbers separated by spaces or tabs, one row per line, optionally compressed with
/// gzip. Blank lines are skipped. If only `path` with `.gz` appended exists, it is read.
///
/// ```no_run
/// // A file of rows `digit pixel pixel …`, the format of USPS.
/// let numbers = burn_bayes_data::read_numbers("data/usps/usps_train.txt")?;
/// let pixels: Vec<usize> = (1..numbers.columns()).collect();
/// let data = numbers.into_dataset(&pixels, 0)?;
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
///
/// # Errors
/// If the file cannot be read or has no rows, a row has a different number of columns than the first
/// one, or a value is not a finite number.
pub fn read_numbers(path: impl AsRef<Path>) -> Result<Features, DataError> {
    let (reader, name) = source::open(path.as_ref())?;
    read_plain(reader, &name)
}

/// Reads from any reader; `name` is used in messages.
///
/// # Errors
/// As for [`read_numbers`].
pub fn read_numbers_from(reader: impl Read, name: &str) -> Result<Features, DataError> {
    read_plain(source::plain(reader, name)?, name)
}

fn read_plain(reader: Plain<'_>, name: &str) -> Result<Features, DataError> {
    let mut lines = Lines::new(reader, name);
    let (mut rows, mut columns, mut values) = (0, 0, Vec::new());
    while let Some((line, text)) = lines.next()? {
        let before = values.len();
        for (column, word) in text.split_ascii_whitespace().enumerate() {
            let place = || Place::of(name).line(line).column(&column_name(column));
            values.push(finite(word, place)?);
        }
        let width = values.len() - before;
        if width == 0 {
            continue;
        }
        if rows == 0 {
            columns = width;
        }
        if width != columns {
            return Err(DataError::data(
                Place::of(name).line(line),
                format_args!("{width} numbers"),
                format_args!("{columns}, as in the first row"),
                "check for a missing or additional space",
            ));
        }
        rows += 1;
    }
    if rows == 0 {
        return Err(DataError::no_rows(name));
    }
    Features::new(rows, columns, values)
}

/// Parses a finite number.
pub(crate) fn finite(word: &str, place: impl FnOnce() -> Place) -> Result<f64, DataError> {
    match word.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => {
            let cure = "correct the file, or check that it is of this format";
            Err(DataError::data(
                place(),
                shown(word),
                "a finite number",
                cure,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Features, DataError> {
        read_numbers_from(text.as_bytes(), "test")
    }

    #[test]
    fn spaces_tabs_and_blank_lines_are_nothing() {
        let numbers = read(" 1\t2e1  -3 \n\n\r\n4 5 6").unwrap();
        assert_eq!((numbers.rows(), numbers.columns()), (2, 3));
        assert_eq!(numbers.values(), [1.0, 20.0, -3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn a_bad_file_is_named_by_line_and_column() {
        let error = read("1 2\n3 x\n").unwrap_err();
        assert_eq!((error.line(), error.column()), (Some(2), Some("column_1")));
        assert_eq!(read("1 2\n\n3\n").unwrap_err().line(), Some(3));
        for text in ["", "\n \n", "1 inf", "NaN", "1,2"] {
            assert!(read(text).unwrap_err().is_data(), "{text:?}");
        }
    }
}
