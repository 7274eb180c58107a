//! Rows that are alike in some columns.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use burn_bayes_data::{Column, Table};

/// Fewer rows may all be equal to others by chance.
const FEWEST_COPIES: usize = 10;

/// Whether the rows of a table are those of `known`, in any order, or some of them. Where half of the known rows have copies
/// among themselves, some may be equal by chance.
pub(crate) fn are_rows_of(known: &Table, table: &Table) -> bool {
    let [of_known, of_table] = counts(known, table);
    let by_chance = table.rows() < FEWEST_COPIES || 2 * copied(&of_known) > known.rows();
    match by_chance {
        true => of_known == of_table,
        false => of_table.keys().all(|row| of_known.contains_key(row)),
    }
}

/// The number of rows of a table that are equal to rows of `known`; 0 if their share is at most twice that of the known rows
/// that have copies among themselves, as it may be by chance.
pub(super) fn equal_rows(known: &Table, table: &Table) -> usize {
    let [of_known, of_table] = counts(known, table);
    let equal = of_table
        .iter()
        .filter(|(row, _)| of_known.contains_key(row));
    let equal = equal.map(|(_, count)| count).sum::<usize>();
    match equal * known.rows() > 2 * copied(&of_known) * table.rows() {
        true => equal,
        false => 0,
    }
}

/// How often each row of two tables comes, by the columns that both have.
fn counts(known: &Table, table: &Table) -> [HashMap<u64, usize>; 2] {
    let columns = table.columns().iter().map(Column::name);
    let names: Vec<&str> = columns.filter(|name| known.column(name).is_ok()).collect();
    [known, table].map(|table| row_counts(table, &names))
}

/// The number of rows that have copies.
fn copied(counts: &HashMap<u64, usize>) -> usize {
    counts.values().filter(|count| **count > 1).sum()
}

/// How often each row of a table comes, by the hash of its cells in these columns.
pub(super) fn row_counts(table: &Table, names: &[&str]) -> HashMap<u64, usize> {
    let mut counts = HashMap::new();
    for row in 0..table.rows() {
        *counts.entry(row_hash(table, names, row)).or_insert(0) += 1;
    }
    counts
}

/// A hash of the cells of a row in these columns.
pub(super) fn row_hash(table: &Table, names: &[&str], row: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    for column in names.iter().flat_map(|name| table.column(name)) {
        column.label(row).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_another_table_are_found_in_any_order() {
        let table = |rows: &[usize]| {
            let column = |name: &str, value: &dyn Fn(usize) -> f64| {
                Column::numbers(name, rows.iter().map(|&row| value(row)).collect())
            };
            Table::new(vec![
                column("x", &|row| row as f64),
                column("y", &|row| (row % 3) as f64),
            ])
            .unwrap()
        };
        let known = table(&(0..40).collect::<Vec<_>>());
        for (rows, expected) in [
            ((0..40).rev().collect::<Vec<_>>(), true),
            ((5..20).collect(), true),
            ((5..9).collect(), false),
            ((30..60).collect(), false),
        ] {
            assert_eq!(are_rows_of(&known, &table(&rows)), expected, "{rows:?}");
        }
        let overlapping = table(&(30..60).collect::<Vec<_>>());
        assert_eq!(equal_rows(&known, &overlapping), 10);
        let new = table(&(40..60).collect::<Vec<_>>());
        assert_eq!(equal_rows(&known, &new), 0);
        let some_copies = table(&[0, 0, 1, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(equal_rows(&some_copies, &table(&[0, 20, 21, 22])), 0);
        // Where rows have copies, others may be the same by chance.
        let few = table(&[0, 1, 2].repeat(10));
        assert!(!are_rows_of(&few, &table(&[0, 1, 2].repeat(5))));
        assert!(are_rows_of(&few, &table(&[2, 1, 0].repeat(10))));
    }
}
