//! Numbers separated by spaces, one row per line.

use std::path::Path;

use burn_bayes_data::Features;
use burn_bayes_tabular::Result;

use super::source::{read_text, wrong};

/// Reads a matrix of numbers separated by spaces or tabs, one row per line, optionally compressed with
/// gzip. Blank lines are skipped. If only `path` with `.gz` appended exists, it is read.
pub(crate) fn read_numbers(path: impl AsRef<Path>) -> Result<Features> {
    let (text, name) = read_text(path.as_ref())?;
    numbers(&text, &name)
}

fn numbers(text: &str, name: &str) -> Result<Features> {
    let (mut rows, mut columns, mut values) = (0, 0, Vec::new());
    for (line, text) in text.lines().enumerate() {
        let place = format_args!("{name}, line {}", line + 1);
        let before = values.len();
        for word in text.split_ascii_whitespace() {
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
            let expected = format_args!("{columns}, as in the first row");
            return Err(wrong(place, format_args!("{width} numbers"), expected));
        }
        rows += 1;
    }
    if rows == 0 {
        return Err(wrong(name, "no rows", "at least one row of data"));
    }
    Ok(Features::new(rows, columns, values)?)
}

/// Parses a finite number.
pub(super) fn finite(word: &str, place: std::fmt::Arguments<'_>) -> Result<f64> {
    match word.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(wrong(place, format_args!("`{word}`"), "a finite number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_tabs_and_blank_lines_are_nothing() {
        let numbers = numbers(" 1\t2e1  -3 \n\n\r\n4 5 6", "test").unwrap();
        assert_eq!((numbers.rows(), numbers.columns()), (2, 3));
        assert_eq!(numbers.values(), [1.0, 20.0, -3.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn a_bad_file_is_named_by_its_line() {
        for (text, place) in [
            ("1 2\n3 x\n", "test, line 2: found `x`"),
            ("1 2\n\n3\n", "test, line 3: found 1 numbers"),
            ("", "test: found no rows"),
            ("\n \n", "test: found no rows"),
            ("1 inf", "test, line 1: found `inf`"),
            ("NaN", "test, line 1: found `NaN`"),
            ("1,2", "test, line 1: found `1,2`"),
        ] {
            let error = numbers(text, "test").unwrap_err().to_string();
            assert!(error.starts_with(place), "{error}");
        }
    }
}
