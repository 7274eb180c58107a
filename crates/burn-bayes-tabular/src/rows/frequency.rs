//! Rows that stand for several.

use std::path::Path;

use burn_bayes_data::{Column, Table};

use crate::error::{Result, TabularError};
use crate::settings::{DataSettings, refused};

/// More would fill the memory.
const MOST_ROWS: f64 = 1e7;

/// Each of these rows of a table as often as its column of frequencies says, if it has one. Copies of a row are rows like
/// others, so that they may be in different parts of a split, as in a file with a line for each of them.
///
/// # Errors
/// If a frequency is no whole number of at least 0, or their sum is 0, or too large.
pub(crate) fn repeated(
    table: &Table,
    rows: Vec<usize>,
    settings: &DataSettings,
    path: &Path,
) -> Result<Vec<usize>> {
    let name = settings.frequency.as_ref();
    let Some(column) = name.and_then(|name| table.column(name).ok()) else {
        return Ok(rows);
    };
    let counts: Option<Vec<usize>> = rows.iter().map(|&row| frequency(column, row)).collect();
    let counts = counts.ok_or_else(|| wrong(column, &rows))?;
    let sum: f64 = counts.iter().map(|&count| count as f64).sum();
    if !(sum > 0.0 && sum <= MOST_ROWS) {
        return Err(TabularError::Data(format!(
            "{}, column `{}`: the rows stand for {sum} in all, which must be from 1 to {MOST_ROWS}; divide or correct the \
             frequencies",
            path.display(),
            column.name()
        )));
    }
    let copies = rows.iter().zip(counts);
    let copies = copies.flat_map(|(&row, count)| std::iter::repeat_n(row, count));
    Ok(copies.collect())
}

fn frequency(column: &Column, row: usize) -> Option<usize> {
    let number = column.number(row)?;
    let is_whole = number >= 0.0 && number.fract() == 0.0 && number <= MOST_ROWS;
    is_whole.then_some(number as usize)
}

fn wrong(column: &Column, rows: &[usize]) -> TabularError {
    let name = column.name();
    let row = rows.iter().find(|&&row| frequency(column, row).is_none());
    let row = row.map_or(String::new(), |row| {
        format!(" in row {} of the data", row + 1)
    });
    refused(
        "frequency",
        format!(
            "is `{name}`, which is no whole number of at least 0{row}; correct it, or leave the row out"
        ),
    )
}
