//! Rows that stand for several. The copies of a row are alike, so that they are on one side of a split.

use std::path::Path;

use burn_bayes_data::{Column, Table};

use crate::error::{Result, TabularError};
use crate::settings::{DataSettings, refused};

/// More would fill the memory.
const MOST_ROWS: f64 = 1e7;

/// Those of these rows of a table that stand for at least one, by its column of frequencies, if it has one.
///
/// # Errors
/// If a frequency is no whole number of at least 0, or their sum is 0, or too large.
pub(super) fn counted(
    table: &Table,
    rows: Vec<usize>,
    settings: &DataSettings,
    path: &Path,
) -> Result<Vec<usize>> {
    let Some(column) = column(table, settings) else {
        return Ok(rows);
    };
    let counts: Option<Vec<usize>> = rows.iter().map(|&row| frequency(column, row)).collect();
    let counts = counts.ok_or_else(|| wrong(table, column, &rows))?;
    let sum: f64 = counts.iter().map(|&count| count as f64).sum();
    if !(sum > 0.0 && sum <= MOST_ROWS) {
        return Err(TabularError::Data(format!(
            "{}, column `{}`: the rows stand for {sum} in all, which must be from 1 to {MOST_ROWS}; divide or correct the \
             frequencies",
            path.display(),
            column.name()
        )));
    }
    let pairs = rows.into_iter().zip(counts);
    let counted = pairs.filter(|(_, count)| *count > 0);
    Ok(counted.map(|(row, _)| row).collect())
}

/// Each of these rows of a table as often as its column of frequencies says, if it has one.
pub(super) fn copies(table: &Table, rows: Vec<usize>, settings: &DataSettings) -> Vec<usize> {
    let Some(column) = column(table, settings) else {
        return rows;
    };
    let count = |&row: &usize| frequency(column, row).unwrap_or(0);
    let copies = rows
        .iter()
        .flat_map(|row| std::iter::repeat_n(*row, count(row)));
    copies.collect()
}

/// Both of them: each row as often as it counts.
///
/// # Errors
/// If a frequency is no whole number of at least 0, or their sum is 0, or too large.
pub(crate) fn repeated(
    table: &Table,
    rows: Vec<usize>,
    settings: &DataSettings,
    path: &Path,
) -> Result<Vec<usize>> {
    Ok(copies(
        table,
        counted(table, rows, settings, path)?,
        settings,
    ))
}

fn column<'a>(table: &'a Table, settings: &DataSettings) -> Option<&'a Column> {
    let name = settings.frequency.as_ref()?;
    table.column(name).ok()
}

fn frequency(column: &Column, row: usize) -> Option<usize> {
    let number = column.number(row)?;
    let is_whole = number >= 0.0 && number.fract() == 0.0 && number <= MOST_ROWS;
    is_whole.then_some(number as usize)
}

fn wrong(table: &Table, column: &Column, rows: &[usize]) -> TabularError {
    let name = column.name();
    let row = rows.iter().find(|&&row| frequency(column, row).is_none());
    let place = row.map_or_else(String::new, |&row| format!(" in {}", table.row_name(row)));
    refused(
        "frequency",
        format!(
            "is `{name}`, which is no whole number of at least 0{place}; correct it, or leave the row out"
        ),
    )
}
