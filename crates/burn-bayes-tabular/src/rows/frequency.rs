//! Rows that stand for several.

use std::path::Path;

use burn_bayes_data::{Column, Table};

use super::same_rows::{row_counts, row_hash};
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
    let copies = rows.iter().zip(counts);
    let copies = copies.flat_map(|(&row, count)| std::iter::repeat_n(row, count));
    Ok(copies.collect())
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

/// What is wrong with the scores of rows that stand for several, if most of these have features that no other row has: in a
/// table of counts, the rows with equal features differ in their targets.
pub(super) fn warning(table: &Table, settings: &DataSettings, features: &[&str]) -> Option<String> {
    let column = table.column(settings.frequency.as_ref()?).ok()?;
    let counts = row_counts(table, features);
    let repeated = (0..table.rows()).filter(|&row| frequency(column, row) > Some(1));
    let repeated: Vec<usize> = repeated.collect();
    let is_alone = |&&row: &&usize| counts[&row_hash(table, features, row)] == 1;
    let alone = repeated.iter().filter(is_alone).count();
    (2 * alone > repeated.len()).then(|| {
        format!(
            "{alone} of {} rows that stand for several have features that no other row has, so that held-out copies of them are \
             known from the training: scores and the verdict are too good; if the copies are one measurement, hold them out \
             together (`--group-by` a column that numbers the rows)",
            repeated.len()
        )
    })
}
