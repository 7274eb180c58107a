//! The groups of rows by the values of a column.
//!
//! A category is a group. A number with at most four values has a group for each of them, any other number is split
//! at its quartiles. Missing values are a group of their own.

use std::collections::BTreeSet;

use burn_bayes_data::{Column, ColumnKind, Table};

use crate::error::Result;
use crate::quartiles::ValueGroups;
use crate::settings::refused;

/// More groups would each have few rows, and would not fit on a screen.
const MOST_GROUPS: usize = 50;

/// The group of each row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowGroups {
    /// The column.
    pub(crate) column: String,
    /// The name of each group, in order; `None` for missing values.
    pub(crate) names: Vec<Option<String>>,
    /// The group of each row, an index of the names.
    pub(crate) groups: Vec<usize>,
}

impl RowGroups {
    /// The groups of these rows of a table by a column.
    ///
    /// # Errors
    /// If there is no such column, or it has too many categories.
    pub(crate) fn of(table: &Table, column: &str, rows: &[usize]) -> Result<Self> {
        let column = table.column(column)?;
        match column.kind() {
            ColumnKind::Number => Self::of_numbers(column, rows),
            ColumnKind::Category => Self::of_categories(column, rows),
        }
    }

    fn of_numbers(column: &Column, rows: &[usize]) -> Result<Self> {
        let cells: Vec<Option<f64>> = rows.iter().map(|&row| column.number(row)).collect();
        let values: Vec<f64> = cells.iter().flatten().copied().collect();
        let groups = ValueGroups::of(&values)?;
        let names = groups.names().map(Some);
        Ok(Self::with_missing(
            column,
            names.collect(),
            groups.of_cells(&cells),
        ))
    }

    fn of_categories(column: &Column, rows: &[usize]) -> Result<Self> {
        let cells: Vec<Option<&str>> = rows.iter().map(|&row| column.category(row)).collect();
        let names: BTreeSet<&str> = cells.iter().flatten().copied().collect();
        if names.len() > MOST_GROUPS {
            let problem = format!(
                "names `{}`, which has {} categories, but at most {MOST_GROUPS} groups are scored; merge categories in \
                 the file, or name another column",
                column.name(),
                names.len()
            );
            return Err(refused("by", problem));
        }
        let names: Vec<&str> = names.into_iter().collect();
        let group = |cell: &Option<&str>| {
            cell.map_or(names.len(), |cell| {
                names.partition_point(|name| *name < cell)
            })
        };
        let groups = cells.iter().map(group).collect();
        let names = names
            .into_iter()
            .map(|name| Some(name.to_string()))
            .collect();
        Ok(Self::with_missing(column, names, groups))
    }

    /// Adds the group of missing values if a row is in it.
    fn with_missing(column: &Column, mut names: Vec<Option<String>>, groups: Vec<usize>) -> Self {
        if groups.contains(&names.len()) {
            names.push(None);
        }
        Self {
            column: column.name().into(),
            names,
            groups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(column: Column) -> Result<(Vec<String>, Vec<usize>)> {
        let rows: Vec<usize> = (0..column.len()).collect();
        let table = Table::new(vec![column]).unwrap();
        let name = table.columns()[0].name().to_string();
        let RowGroups { names, groups, .. } = RowGroups::of(&table, &name, &rows)?;
        let names = names
            .into_iter()
            .map(|name| name.unwrap_or_else(|| "-".into()));
        Ok((names.collect(), groups))
    }

    #[test]
    fn numbers_are_split_at_their_quartiles_and_few_values_are_kept() {
        let values = [8.0, 1.0, 2.0, 3.5, f64::NAN, 4.0, 5.0, 6.0, 7.0];
        let (names, found) = groups(Column::numbers("age", values.to_vec())).unwrap();
        assert_eq!(names, ["1 to 2", "3.5 to 4", "5 to 6", "7 to 8", "-"]);
        assert_eq!(found, [3, 0, 0, 1, 4, 1, 2, 2, 3]);
        let (names, found) = groups(Column::numbers("sex", vec![1.0, 0.0, 1.0])).unwrap();
        assert_eq!(
            (names, found),
            (vec!["0".into(), "1".into()], vec![1, 0, 1])
        );
        // Half of the rows have the value 0, so two quartiles are one group.
        let values = [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0];
        let (names, found) = groups(Column::numbers("dose", values.to_vec())).unwrap();
        assert_eq!(names, ["0", "1 to 2", "3 to 4"]);
        assert_eq!(found, [0, 0, 0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn categories_are_groups_in_alphabetical_order() {
        let cells = [Some("b"), None, Some("a"), Some("b")];
        let (names, found) = groups(Column::categories("ward", cells)).unwrap();
        assert_eq!(
            (names, found),
            (["a", "b", "-"].map(String::from).to_vec(), vec![1, 2, 0, 1])
        );
        let many: Vec<String> = (0..51).map(|place| format!("street {place}")).collect();
        let many = many.iter().map(|name| Some(name.as_str()));
        let error = groups(Column::categories("street", many))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`street`, which has 51 categories"),
            "{error}"
        );
    }
}
