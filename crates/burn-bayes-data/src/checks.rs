//! Checks of columns and cells that become features and targets.

use crate::error::{DataError, Place, shown};
use crate::table::{Column, ColumnKind, Table, number_label};

/// Checks that a column has the same type as in training.
pub(crate) fn check_kind(
    table: &Table,
    column: &Column,
    expected: ColumnKind,
) -> Result<(), DataError> {
    let name = |kind| match kind {
        ColumnKind::Number => "numbers",
        ColumnKind::Category => "categories",
    };
    if column.kind() == expected {
        return Ok(());
    }
    Err(DataError::data(
        table.whole().column(column.name()),
        name(column.kind()),
        format_args!("{}, as in training", name(expected)),
        "declare the type of the column when the file is read",
    ))
}

/// The target of a row, as a number.
pub(crate) fn real_target(table: &Table, column: &Column, row: usize) -> Result<f64, DataError> {
    let place = || table.place(row).column(column.name());
    match (column.number(row), column.category(row)) {
        (Some(value), _) => check_finite(value, place),
        (None, Some(text)) => Err(DataError::data(
            place(),
            shown(text),
            "a number, because the task is regression or counts",
            "choose classification, or another target",
        )),
        (None, None) => Err(DataError::missing(place())),
    }
}

/// Checks that a target has a logarithm.
pub(crate) fn check_positive(value: f64, place: impl Fn() -> Place) -> Result<f64, DataError> {
    match value > 0.0 {
        true => Ok(value),
        false => Err(DataError::data(
            place(),
            value,
            "a number above 0, because its logarithm is predicted",
            "correct the value, or predict the number itself",
        )),
    }
}

/// The exposure of a row, which is never imputed: a count is proportional to it.
pub(crate) fn exposure(
    column: &Column,
    row: usize,
    place: impl Fn() -> Place,
) -> Result<f64, DataError> {
    let value = column.number(row);
    let known = value.filter(|&value| value > 0.0 && value.is_finite());
    known.ok_or_else(|| {
        DataError::data(
            place(),
            value.map_or("no value".into(), |value| value.to_string()),
            "the exposure of the row, a number above 0",
            "give the row its exposure, or leave the row out",
        )
    })
}

/// The target of a row, as a count.
pub(crate) fn count_target(table: &Table, column: &Column, row: usize) -> Result<f64, DataError> {
    let value = real_target(table, column, row)?;
    if (0.0..=MOST_COUNTED).contains(&value) && value.fract() == 0.0 {
        // Negative zero is zero.
        return Ok(value.abs());
    }
    Err(DataError::data(
        table.place(row).column(column.name()),
        value,
        format_args!("a whole number from 0 to {MOST_COUNTED}, because the task is counts"),
        "choose regression, or correct the value",
    ))
}

/// 2²⁴, up to which whole numbers are exact in single precision.
const MOST_COUNTED: f64 = 16_777_216.0;

/// 2⁵³.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The target of a row, as the name of a class. If `labels` are numbers, the name of 1.0 is 1.
pub(crate) fn class_label(
    table: &Table,
    column: &Column,
    labels: ColumnKind,
    row: usize,
) -> Result<String, DataError> {
    let Some(label) = column.label(row) else {
        return Err(DataError::missing(table.place(row).column(column.name())));
    };
    Ok(match (labels, label.parse::<f64>()) {
        (ColumnKind::Number, Ok(number)) if number.abs() >= MOST_EXACT => {
            return Err(DataError::data(
                table.place(row).column(column.name()),
                shown(&label),
                "a class below 2⁵³, because larger whole numbers are rounded",
                "declare the column as categories",
            ));
        }
        (ColumnKind::Number, Ok(number)) => number_label(number),
        _ => label,
    })
}

/// Refuses infinities, which tables in memory may contain.
pub(crate) fn check_finite(value: f64, place: impl Fn() -> Place) -> Result<f64, DataError> {
    if value.is_finite() {
        return Ok(value);
    }
    let cure = "correct the value";
    Err(DataError::data(place(), value, "a finite number", cure))
}
