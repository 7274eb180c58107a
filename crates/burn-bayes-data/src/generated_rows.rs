//! Tables from rows that are drawn one after the other.

use crate::error::DataError;
use crate::random::Generator;
use crate::table::{Column, Table};

/// A cell, before it is known what its column has.
pub(crate) enum Cell {
    Number(f64),
    Text(String),
    Missing,
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::Missing, T::into)
    }
}

/// A table of rows, from the number of each.
pub(crate) fn generated<const N: usize>(
    names: [&str; N],
    rows: usize,
    mut generator: Generator,
    mut row: impl FnMut(usize, &mut Generator) -> [Cell; N],
) -> Result<Table, DataError> {
    if rows == 0 {
        return Err(DataError::config("rows", 0, "at least 1"));
    }
    let rows: Vec<[Cell; N]> = (0..rows).map(|place| row(place, &mut generator)).collect();
    let columns = names.iter().enumerate().map(|(place, name)| {
        let cells = rows.iter().map(|row| &row[place]);
        match cells.clone().any(|cell| matches!(cell, Cell::Text(_))) {
            true => Column::categories(
                *name,
                cells.map(|cell| match cell {
                    Cell::Text(text) => Some(text.as_str()),
                    _ => None,
                }),
            ),
            false => Column::numbers(
                *name,
                cells
                    .map(|cell| match cell {
                        Cell::Number(value) => *value,
                        _ => f64::NAN,
                    })
                    .collect(),
            ),
        }
    });
    Table::new(columns.collect())
}

/// A number with so many decimals.
pub(crate) fn rounded(value: f64, decimals: i32) -> f64 {
    let unit = 10.0_f64.powi(decimals);
    (unit * value).round() / unit
}
