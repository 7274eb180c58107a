//! Warnings about columns that are probably not features, and cells that are probably wrong.
//!
//! The rules are designed to avoid false alarms:
//!
//! - **Identifiers**: n unique whole numbers that increase or decrease from row to row, or that are so
//!   dense that random numbers from their range R would repeat: the expected number of equal pairs,
//!   n(n − 1)/2R, is at least 10. Fractions are naturally unique, and never suspicious.
//! - **Text**: the number of distinct texts is more than half of the number of rows, unless all are dates.
//! - **Leaks**: a correlation with a numeric target, of values or ranks, of at least .9999; or every value of a column has
//!   one value of the target, and at least ten rows on average.
//! - **Copies**: more than a tenth of the rows equal others in all columns, although the target and a feature differ in most of
//!   the others.
//! - **Far cells**: see `far_cells.rs`; those of targets too.

use std::collections::BTreeMap;

use crate::copies::copies;
use crate::dates::DateOrder;
use crate::error::shown;
use crate::far_cells::far_cells;
use crate::suspicion::{FEWEST_ROWS, Suspicion, leave_out};
use crate::table::{Column, ColumnKind, Table};

/// Expected number of equal pairs above which unique numbers are not random: the probability is e⁻¹⁰.
const EXPECTED_PAIRS: f64 = 10.0;
/// The correlation from which a column states the target.
const STATED: f64 = 0.9999;
/// Fewer rows of each value may have one class by chance.
const ROWS_OF_VALUE: usize = 10;

/// Suspicious findings in a table: features that are probably none, far cells of features and targets, doubts of the reader, and
/// copies of rows.
///
/// ```
/// use burn_bayes_data::{Column, Table, suspicions};
///
/// let table = Table::new(vec![
///     Column::numbers("id", (1..=100).map(f64::from).collect()),
///     Column::numbers("size", (1..=100).map(|row| f64::from(row).sin()).collect()),
///     Column::numbers("price", (1..=100).map(f64::from).collect()),
/// ])?;
/// let found = suspicions(&table, &["price"]);
/// assert_eq!(found.len(), 1);
/// assert!(found[0].to_string().contains("column `id`"));
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
pub fn suspicions(table: &Table, targets: &[impl AsRef<str>]) -> Vec<Suspicion> {
    let is_target = |name: &str| targets.iter().any(|target| target.as_ref() == name);
    let columns = table.columns().iter();
    let (known, features): (Vec<&Column>, Vec<&Column>) =
        columns.partition(|column| is_target(column.name()));
    // The only feature cannot be left out.
    let may_be_left_out = features.len() > 1;
    let of = |column: &Column| {
        let name = column.name();
        let doubt = table
            .doubts()
            .iter()
            .find(|doubt| doubt.column() == Some(name));
        let useless = || {
            let leak = || known.iter().find_map(|target| leak(table, column, target));
            let of_kind = || match column.kind() {
                ColumnKind::Number => identifier(table, column),
                ColumnKind::Category => text(table, column),
            };
            let is_judged = may_be_left_out && !is_target(name);
            is_judged.then(|| leak().or_else(of_kind)).flatten()
        };
        let found = doubt.cloned().or_else(useless).into_iter();
        found.chain(far_cells(table, column)).collect::<Vec<_>>()
    };
    let of_columns = table.columns().iter().flat_map(of);
    of_columns.chain(copies(table, &known, &features)).collect()
}

/// Finds a column that states the target: numbers that are nearly a linear function of it, or whose order is nearly that of
/// it, and values that come with a single class each.
fn leak(table: &Table, column: &Column, target: &Column) -> Option<Suspicion> {
    let how = correlated(column, target).or_else(|| {
        let is_stated = states(column, target);
        is_stated.then(|| "(each of its values comes with one value of it)".into())
    })?;
    Some(Suspicion::new(
        table.whole().column(column.name()),
        format!("it states the target `{}` {how}", target.name()),
        format!(
            "if it is not known before the target is, {}",
            leave_out(column.name())
        ),
    ))
}

/// How a column of numbers is correlated with a target of numbers, if it is nearly a function of it.
fn correlated(column: &Column, target: &Column) -> Option<String> {
    let rows = (0..column.len()).filter_map(|row| Some([column.number(row)?, target.number(row)?]));
    let pairs: Vec<[f64; 2]> = rows.collect();
    let [ranks, of_target] = [0, 1].map(|place| {
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by(|&one, &other| pairs[one][place].total_cmp(&pairs[other][place]));
        let mut ranks = vec![0.0; pairs.len()];
        for (rank, &row) in order.iter().enumerate() {
            ranks[row] = rank as f64;
        }
        ranks
    });
    let ranked = ranks.into_iter().zip(of_target).map(<[f64; 2]>::from);
    let found = correlation(&pairs).max(correlation(&ranked.collect::<Vec<_>>()));
    let is_leak = pairs.len() >= FEWEST_ROWS && found >= STATED;
    is_leak.then(|| format!("(correlation {found:.5})"))
}

/// Whether each value of a column comes with one value of the target.
fn states(column: &Column, target: &Column) -> bool {
    let rows = column.len();
    let mut of_value = BTreeMap::new();
    // Most columns have two classes of a value, or many values, in the first rows.
    let is_stated = (0..rows).all(|row| {
        let class = target.label(row);
        let known = of_value.entry(column.label(row));
        *known.or_insert_with(|| class.clone()) == class && ROWS_OF_VALUE * of_value.len() <= rows
    });
    rows >= FEWEST_ROWS && is_stated && !target.is_constant()
}

/// The absolute value of the correlation of pairs of numbers; 0 if one does not vary.
fn correlation(pairs: &[[f64; 2]]) -> f64 {
    let count = pairs.len() as f64;
    let mean = |place: usize| pairs.iter().map(|pair| pair[place]).sum::<f64>() / count;
    let means = [mean(0), mean(1)];
    let product = |one: usize, other: usize| -> f64 {
        let centred = |pair: &[f64; 2], place: usize| pair[place] - means[place];
        let products = pairs
            .iter()
            .map(|pair| centred(pair, one) * centred(pair, other));
        products.sum()
    };
    let scale = (product(0, 0) * product(1, 1)).sqrt();
    match scale > 0.0 {
        true => (product(0, 1) / scale).abs(),
        false => 0.0,
    }
}

/// Finds a column of row numbers or identifiers.
fn identifier(table: &Table, column: &Column) -> Option<Suspicion> {
    let values = column.present_numbers();
    if values.len() < FEWEST_ROWS || values.iter().any(|(_, value)| value.fract() != 0.0) {
        return None;
    }
    let mut sorted: Vec<f64> = values.iter().map(|&(_, value)| value).collect();
    let is_monotone = sorted.is_sorted() || sorted.iter().rev().is_sorted();
    sorted.sort_by(f64::total_cmp);
    let (least, greatest) = (*sorted.first()?, *sorted.last()?);
    let pairs = (values.len() * (values.len() - 1)) as f64 / 2.0;
    let is_dense = pairs / (greatest - least + 1.0) >= EXPECTED_PAIRS;
    let is_unique = sorted.windows(2).all(|pair| pair[0] < pair[1]);
    (is_unique && (is_monotone || is_dense)).then(|| {
        Suspicion::new(
            table.whole().column(column.name()),
            format!(
                "every row has a different whole number, from {least} to {greatest}, like row numbers or \
                 identifiers"
            ),
            format!("if it is an identifier, {}", leave_out(column.name())),
        )
    })
}

/// Finds a column of names or identifiers.
fn text(table: &Table, column: &Column) -> Option<Suspicion> {
    let (rows, levels) = (column.present_rows(), column.levels());
    if rows < FEWEST_ROWS || 2 * levels.len() <= rows || DateOrder::of(&levels).is_some() {
        return None;
    }
    let example = shown(levels.first()?);
    Some(Suspicion::new(
        table.whole().column(column.name()),
        format!(
            "{} different texts in {rows} rows, such as {example}, say little about other rows",
            levels.len()
        ),
        format!(
            "if they are names or identifiers, {}",
            leave_out(column.name())
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings in a column next to another feature.
    fn found(column: Column) -> Vec<String> {
        let rows = column.len();
        let other = Column::numbers("other", (0..rows).map(|row| (row % 2) as f64).collect());
        let table = Table::new(vec![column, other]).unwrap();
        let found = suspicions(&table, &["target"]);
        found.iter().map(ToString::to_string).collect()
    }

    fn numbers(value: impl Fn(usize) -> f64, rows: usize) -> Vec<String> {
        found(Column::numbers("x", (0..rows).map(value).collect()))
    }

    #[test]
    fn identifiers_are_found_in_any_order() {
        let shuffled = |row: usize| (row * 37 % 101) as f64;
        for found in [
            numbers(|row| row as f64, 50),
            numbers(|row| -(row as f64), 50),
            numbers(shuffled, 100),
            // Row numbers from a part of a larger file.
            numbers(|row| shuffled(row) * 3.0, 100),
            numbers(|row| (row * row) as f64 * 1e6, 30),
        ] {
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("`x`") && found[0].contains("`--ignore x`"));
        }
    }

    #[test]
    fn ordinary_numbers_are_none() {
        for found in [
            numbers(|row| (row as f64).sqrt(), 50),
            numbers(|row| (row / 2) as f64, 50),
            numbers(|row| (row % 7) as f64, 50),
            // Unique because of their range, like populations and prices.
            numbers(|row| (row * 7_919 % 100_003) as f64, 50),
            numbers(|row| row as f64, FEWEST_ROWS - 1),
            numbers(|_| f64::NAN, 50),
        ] {
            assert_eq!(found, Vec::<String>::new());
        }
    }

    #[test]
    fn the_only_feature_and_the_target_are_not_judged() {
        let column = |name| Column::numbers(name, (0..50).map(f64::from).collect());
        let table = Table::new(vec![column("x"), column("y")]).unwrap();
        assert!(suspicions(&table, &["y"]).is_empty());
        assert_eq!(suspicions(&table, &["z"]).len(), 2);
    }

    #[test]
    fn far_cells_of_targets_are_found_and_copies_of_rows() {
        let column =
            |name, value: &dyn Fn(u32) -> f64| Column::numbers(name, (0..200).map(value).collect());
        let wave = |row: u32| f64::from(row / 2).sin();
        let table = Table::new(vec![
            column("x", &wave),
            column("z", &|row| wave(3 * (row / 2 * 2))),
            column("y", &|row| {
                if row < 2 {
                    5e4
                } else {
                    wave(7 * (row / 2 * 2))
                }
            }),
        ]);
        let found = suspicions(&table.unwrap(), &["y"]);
        let columns: Vec<_> = found.iter().map(Suspicion::column).collect();
        assert_eq!(columns, [Some("y"), None], "{found:?}");
    }

    #[test]
    fn a_column_that_states_the_target_is_found() {
        let found = |feature: Column, target: Column| {
            let other = Column::numbers("other", (0..60).map(|row| f64::from(row % 7)).collect());
            let table = Table::new(vec![feature, other, target]).unwrap();
            let found = suspicions(&table, &["y"]);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let waves = |row: i32| (0.7 * f64::from(row)).sin() + 0.01 * f64::from(row);
        let numbers = |name: &str, value: &dyn Fn(i32) -> f64| {
            Column::numbers(name, (0..60).map(value).collect())
        };
        let texts = |name: &str, value: &dyn Fn(i32) -> &'static str| {
            Column::categories(name, (0..60).map(|row| Some(value(row))))
        };
        let side = |row: i32| if row % 5 < 2 { "yes" } else { "no" };
        for (feature, target) in [
            (
                numbers("x", &|row| 3.0 - 2.0 * waves(row)),
                numbers("y", &waves),
            ),
            (numbers("x", &|row| waves(row).exp()), numbers("y", &waves)),
            (numbers("x", &|row| f64::from(row % 5)), texts("y", &side)),
            (
                texts("x", &|row| ["a", "b", "c", "d", "e"][row as usize % 5]),
                texts("y", &side),
            ),
            (
                texts("x", &side),
                numbers("y", &|row| f64::from(u8::from(row % 5 < 2))),
            ),
            (
                numbers("x", &|row| f64::from(row % 5)),
                numbers("y", &|row| f64::from(u8::from(row % 5 == 2))),
            ),
        ] {
            let found = found(feature, target);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("states the target `y`"), "{found:?}");
            assert!(found[0].contains("`--ignore x`"), "{found:?}");
        }
        for (feature, target) in [
            (
                numbers("x", &|row| waves(row) + 0.05 * waves(3 * row)),
                numbers("y", &waves),
            ),
            (numbers("x", &|row| f64::from(row % 4)), texts("y", &side)),
            (numbers("x", &waves), texts("y", &side)),
            (numbers("x", &waves), texts("y", &|_| "yes")),
            (texts("x", &side), numbers("y", &waves)),
            (
                texts("x", &side),
                numbers("y", &|row| f64::from(u8::from(row % 5 < 3))),
            ),
        ] {
            assert_eq!(found(feature, target), Vec::<String>::new());
        }
    }

    #[test]
    fn texts_of_their_own_are_found() {
        let texts = |text: &dyn Fn(usize) -> String| {
            let cells: Vec<String> = (0..60).map(text).collect();
            found(Column::categories(
                "x",
                cells.iter().map(|cell| Some(cell.as_str())),
            ))
        };
        let names = texts(&|row| format!("name {row}"));
        assert!(
            names[0].contains("60 different texts in 60 rows"),
            "{names:?}"
        );
        assert!(names[0].contains("`--ignore x`"), "{names:?}");
        assert!(texts(&|row| format!("{}-03-01", 1900 + row)).is_empty());
        assert!(texts(&|row| format!("town {}", row % 30)).is_empty());
    }
}
