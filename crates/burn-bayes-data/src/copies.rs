//! A warning about rows that are copies of others.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::suspicion::{FEWEST_ROWS, Suspicion};
use crate::table::{Column, ColumnKind, Table};

/// Fewer copies may be measurements that came twice.
const LEAST_COPIES: usize = 10;

/// Finds a table in which more than a tenth of the rows are copies of others, although rows are rarely equal by chance: among the
/// rows that differ, most have their own value of a numeric target, and of a feature.
pub(crate) fn copies(
    table: &Table,
    targets: &[&Column],
    features: &[&Column],
) -> Option<Suspicion> {
    let rows = table.rows();
    let is_few = |copies: usize| LEAST_COPIES * copies <= rows;
    let target = targets
        .iter()
        .find(|target| target.kind() == ColumnKind::Number)?;
    let different = |column: &Column, rows: &[usize]| -> usize {
        let of_rows = rows.iter().map(|&row| hash(column, row));
        of_rows.collect::<HashSet<u64>>().len()
    };
    let all: Vec<usize> = (0..rows).collect();
    // Most tables end here, before all cells are hashed.
    if is_few(rows - different(target, &all)) {
        return None;
    }
    let mut known = HashSet::new();
    let columns: Vec<&&Column> = targets.iter().chain(features).collect();
    let is_new = |&row: &usize| {
        let cells: Vec<u64> = columns.iter().map(|column| hash(column, row)).collect();
        known.insert(cells)
    };
    let own: Vec<usize> = all.into_iter().filter(is_new).collect();
    let copies = rows - own.len();
    let differs_in_most = |column: &Column| 2 * different(column, &own) >= own.len();
    let varying = features.iter().filter(|column| !column.is_constant());
    let are_improbable = own.len() >= FEWEST_ROWS
        && varying.count() > 1
        && differs_in_most(target)
        && features.iter().any(|column| differs_in_most(column));
    (!is_few(copies) && are_improbable).then(|| {
        Suspicion::new(
            table.whole(),
            format!(
                "{copies} of {rows} rows are copies of others, so that held-out rows repeat training rows, and scores are too \
                 good"
            ),
            "remove the copies, or hold them out together (`--group-by`)".into(),
        )
    })
}

/// A hash of a cell.
fn hash(column: &Column, row: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Negative zero is zero.
    let number = column.number(row).map(|value| (value + 0.0).to_bits());
    (number, column.category(row)).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The warning about rows of two features and a target.
    fn found(row: impl Fn(usize) -> [f64; 3], rows: usize) -> Option<String> {
        let columns = [0, 1, 2].map(|place| {
            let name = ["x", "z", "y"][place];
            Column::numbers(name, (0..rows).map(|number| row(number)[place]).collect())
        });
        let table = Table::new(columns.into()).unwrap();
        let [x, z, y] = [0, 1, 2].map(|place| &table.columns()[place]);
        copies(&table, &[y], &[x, z]).map(|found| found.to_string())
    }

    fn measured(row: usize) -> [f64; 3] {
        let row = row as f64;
        [row.sin(), (3.0 * row).sin(), (7.0 * row).sin()]
    }

    #[test]
    fn copies_of_measured_rows_are_found() {
        let told = found(|row| measured(row / 4), 400).unwrap();
        assert!(
            told.contains("300 of 400 rows are copies") && told.contains("`--group-by`"),
            "{told}"
        );
        assert!(found(|row| measured(if row < 350 { row } else { row - 350 }), 400).is_some());
    }

    #[test]
    fn rows_that_are_equal_by_chance_or_design_are_none() {
        let coarse = |row: usize| measured(row).map(|value| (4.0 * value).round());
        for found in [
            found(measured, 400),
            found(|row| measured(if row < 390 { row } else { row - 390 }), 400),
            found(coarse, 400),
            // Every setting four times, with its own result.
            found(
                |row| [measured(row / 4)[0], (row % 2) as f64, measured(row)[2]],
                400,
            ),
            // One feature.
            found(|row| [measured(row / 4)[0], 1.0, measured(row / 4)[2]], 400),
            // Few settings, whose results are few too.
            found(
                |row| [(row % 5) as f64, (row % 3) as f64, (row % 30) as f64],
                400,
            ),
        ] {
            assert_eq!(found, None);
        }
    }
}
