//! What a column and its cells must be to become features and targets.

use crate::error::{DataError, Place, shown};
use crate::table::{Column, ColumnKind, Table, number_label};

/// Whether a column holds what it held before.
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
        "declare the kind of the column when the file is read",
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
            "a number, since the task is regression",
            "choose classification, or another target",
        )),
        (None, None) => Err(DataError::missing(place())),
    }
}

/// 2⁵³.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The target of a row, as the name of a class. Where `labels` are numbers, 1.0 is called 1.
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
                "a class below 2⁵³, from which on whole numbers are rounded to each other",
                "declare the column to hold categories",
            ));
        }
        (ColumnKind::Number, Ok(number)) => number_label(number),
        _ => label,
    })
}

/// Tables made in memory may hold infinities.
pub(crate) fn check_finite(value: f64, place: impl Fn() -> Place) -> Result<f64, DataError> {
    if value.is_finite() {
        return Ok(value);
    }
    let cure = "correct the value";
    Err(DataError::data(place(), value, "a finite number", cure))
}
