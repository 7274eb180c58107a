//! Detects the type of a column from its first cells.
//!
//! One rule for numbers and dates: a column has them if at least half of its cells are, unless few different texts come
//! often. Any other text is then an error that names its line, as is a decimal separator that is not that of the file. Where many
//! cells of a column of categories look like numbers or dates, a warning names a cell that is none.

use std::collections::HashSet;

use crate::csv_options::CsvOptions;
use crate::dates::DateOrder;
use crate::decimal::unit_of;
use crate::error::{Place, shown};
use crate::records::text_of;
use crate::row::Row;
use crate::shell::quoted_name;
use crate::suspicion::Suspicion;
use crate::table::ColumnKind;

/// Rows of each value, on average, from which on texts among numbers or dates are categories.
const ROWS_OF_CATEGORY: usize = 10;
/// Categories may be numbers if a fifth of the cells look like numbers, with this many different ones.
const LEAST_ALIKE: usize = 5;
const DIFFERENT_ALIKE: usize = 20;
/// Numbers of one column have few different units.
const MOST_UNITS: usize = 5;

/// The type of a column, and what it follows from.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnType {
    /// The type; `None` without any value so far to say it.
    pub(crate) kind: Option<ColumnKind>,
    /// A date of the column, if all cells have to be dates.
    pub(crate) date: Option<String>,
    /// The row's number and the text of the first cell with the other decimal separator, if the column is categorical
    /// only for that reason.
    pub(crate) other_mark: Option<(u64, String)>,
    /// Why the categories may be numbers or dates.
    pub(crate) doubt: Option<Suspicion>,
}

impl ColumnType {
    /// A type that was declared.
    pub(crate) fn declared(kind: ColumnKind) -> Self {
        Self {
            kind: Some(kind),
            ..Self::default()
        }
    }

    /// The type of the column with this index, whose `place` is that of a row.
    pub(crate) fn of(
        sample: &[Row],
        index: usize,
        options: &CsvOptions,
        place: impl Fn(u64) -> Place,
    ) -> Self {
        let cell = |row: &Row| Some((row.number(), text_of(row.cell(index)?).map(String::from)));
        let cells = sample.iter().filter_map(cell);
        // Other bytes than text are an error later.
        let cells = cells.map(|(row, cell)| (row, cell.unwrap_or("\u{fffd}".into())));
        let cells: Vec<(u64, String)> = cells
            .filter(|(_, cell)| !options.is_missing(cell))
            .collect();
        let is_number = |cell: &str| options.number(cell).is_some();
        let count = |is: &dyn Fn(&str) -> bool| cells.iter().filter(|(_, cell)| is(cell)).count();
        let (all, numbers) = (cells.len(), count(&is_number));
        if all == 0 {
            return Self::default();
        }
        let different: HashSet<&str> = cells.iter().map(|(_, cell)| cell.as_str()).collect();
        // Texts among a few numbers that come often are categories too, and among many different ones mistakes.
        let are_few = different.len() * ROWS_OF_CATEGORY <= all;
        let are_most = |count: usize| count == all || 2 * count >= all && !are_few;
        if are_most(numbers) {
            return Self::declared(ColumnKind::Number);
        }
        let categories = Self::declared(ColumnKind::Category);
        let has_other_mark =
            |cell: &str| !is_number(cell) && options.decimal.is_number_with_other(cell);
        let like_numbers = numbers + count(&has_other_mark);
        // Where there is nothing but numbers, those that come often are none the less numbers.
        if like_numbers == all || 2 * like_numbers >= all && !are_few {
            let mut marked = cells.iter().filter(|(_, cell)| has_other_mark(cell));
            return Self {
                other_mark: marked.next().cloned(),
                ..categories
            };
        }
        let texts: Vec<&str> = cells.iter().map(|(_, cell)| cell.as_str()).collect();
        let order = DateOrder::of_most(&texts);
        let is_in_order = |cell: &str| order.is_some_and(|order| order.moment(cell).is_some());
        let are_dates = 2 * count(&DateOrder::is_date) >= all;
        if count(&is_in_order) == all || are_dates && !are_few {
            let date = texts.into_iter().find(|cell| is_in_order(cell));
            return Self {
                date: date.map(String::from),
                ..categories
            };
        }
        let is_like_number = |cell: &str| is_number(cell) || has_other_mark(cell);
        let (numeric, others): (Vec<&str>, Vec<&str>) =
            texts.iter().partition(|cell| is_like_number(cell));
        let doubt = match are_dates {
            true => Doubt {
                what: "dates",
                alike: texts
                    .iter()
                    .copied()
                    .filter(|cell| DateOrder::is_date(cell))
                    .collect(),
                first_other: cells.iter().find(|(_, cell)| !is_in_order(cell)),
                cure: "write all dates in one format",
            },
            false => Doubt {
                what: "numbers",
                alike: match 2 * like_numbers >= all && are_odd(&others) {
                    true => numeric,
                    false => numbers_with_units(&texts, is_number),
                },
                first_other: cells.iter().find(|(_, cell)| !is_like_number(cell)),
                cure: "write numbers without anything else",
            },
        };
        Self {
            doubt: doubt.suspicion(all, place),
            ..categories
        }
    }
}

/// Cells that look like numbers or dates in a column of categories.
struct Doubt<'a> {
    what: &'static str,
    alike: Vec<&'a str>,
    /// The first cell that is none, with the number of its row.
    first_other: Option<&'a (u64, String)>,
    cure: &'static str,
}

impl Doubt<'_> {
    /// A warning, if there are enough of these cells among `all`.
    fn suspicion(self, all: usize, place: impl Fn(u64) -> Place) -> Option<Suspicion> {
        let (row, other) = self.first_other?;
        let place = place(*row);
        let name = place.column_name().unwrap_or_default();
        let cure = format!(
            "{}, list texts that stand for no value (`--na-values`), or, if they are categories, declare them \
             (`--categories {}`)",
            self.cure,
            quoted_name(name)
        );
        let example = match *self.alike.first()? {
            first if first == other => String::new(),
            first => format!(", such as {}", shown(first)),
        };
        let finding = format!(
            "cells such as {} make it a column of categories, but {} of the first {all} cells look like {}{example}",
            shown(other),
            self.alike.len(),
            self.what,
        );
        Some(Suspicion::of_reading(place, finding, cure))
    }
}

/// Whether texts among numbers are probably mistakes, or stand for no value: they do not come often, or some have no digit, as
/// "4 or more" has.
fn are_odd(others: &[&str]) -> bool {
    let different: HashSet<&str> = others.iter().copied().collect();
    let has_digit = |cell: &str| cell.bytes().any(|byte| byte.is_ascii_digit());
    others.len() < ROWS_OF_CATEGORY * different.len() || !others.iter().all(|cell| has_digit(cell))
}

/// The cells that are numbers, or numbers with one of a few units; none if there are too few, or they differ too little.
fn numbers_with_units<'a>(cells: &[&'a str], is_number: impl Fn(&str) -> bool) -> Vec<&'a str> {
    let unit = |cell: &&'a str| match is_number(cell) {
        true => Some(""),
        false => unit_of(cell),
    };
    let alike = cells.iter().filter_map(|cell| Some((*cell, unit(cell)?)));
    let (alike, units): (Vec<&str>, HashSet<&str>) = alike.unzip();
    let different: HashSet<&str> = alike.iter().copied().collect();
    let are_enough = LEAST_ALIKE * alike.len() >= cells.len() && different.len() >= DIFFERENT_ALIKE;
    match are_enough && units.len() <= MOST_UNITS {
        true => alike,
        false => Vec::new(),
    }
}
