//! Groups of rows by the cells of a column, which new rows can join.
//!
//! A category is a group. Numbers are split at the quartiles of the rows that define the groups, or have a group for
//! each of at most four values. Missing cells are a group of their own.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::quartiles::ValueGroups;

/// The name of the group of missing cells.
const MISSING: &str = "(missing)";

/// Groups by the cells of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CellGroups {
    column: String,
    rule: Rule,
    names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    /// Sorted categories.
    Categories(Vec<String>),
    /// The greatest value of each group but the last, which has all greater ones.
    Numbers(Vec<f64>),
}

impl CellGroups {
    /// The groups of cells, and the group of each.
    ///
    /// # Errors
    /// If there are no cells.
    pub(crate) fn of(column: &str, cells: &[String]) -> Result<(Self, Vec<usize>)> {
        let present: Vec<&str> = cells
            .iter()
            .map(String::as_str)
            .filter(|cell| !cell.is_empty())
            .collect();
        let numbers: Option<Vec<f64>> = present.iter().map(|cell| number(cell)).collect();
        let (rule, mut names) = match numbers.filter(|numbers| !numbers.is_empty()) {
            Some(values) => of_numbers(&values)?,
            None => {
                let names: BTreeSet<&str> = present.into_iter().collect();
                let names: Vec<String> = names.into_iter().map(String::from).collect();
                (Rule::Categories(names.clone()), names)
            }
        };
        if cells.iter().any(String::is_empty) {
            names.push(MISSING.into());
        }
        let column = column.into();
        let groups = Self {
            column,
            rule,
            names,
        };
        let of_cells = cells
            .iter()
            .map(|cell| groups.group(cell).unwrap_or_default())
            .collect();
        Ok((groups, of_cells))
    }

    /// The group of a cell; `None` for a category that no cell had, or if only this one is missing.
    pub(crate) fn group(&self, cell: &str) -> Option<usize> {
        if cell.is_empty() {
            return self.names.iter().position(|name| name == MISSING);
        }
        match &self.rule {
            Rule::Categories(names) => names.binary_search_by(|name| name.as_str().cmp(cell)).ok(),
            Rule::Numbers(limits) => {
                let value = number(cell)?;
                Some(limits.partition_point(|limit| *limit < value))
            }
        }
    }

    /// The column.
    pub(crate) fn column(&self) -> &str {
        &self.column
    }

    /// The names of the groups, in order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

fn of_numbers(values: &[f64]) -> Result<(Rule, Vec<String>)> {
    let groups = ValueGroups::of(values)?;
    let but_last = &groups.limits[..groups.limits.len() - 1];
    let limits = but_last.iter().map(|&(_, most)| most).collect();
    Ok((Rule::Numbers(limits), groups.names().collect()))
}

/// A finite number, with a decimal point or comma.
fn number(cell: &str) -> Option<f64> {
    let value: f64 = cell.replace(',', ".").parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cells: &[&str]) -> (CellGroups, Vec<usize>) {
        let cells: Vec<String> = cells.iter().map(|cell| (*cell).to_string()).collect();
        CellGroups::of("c", &cells).unwrap()
    }

    #[test]
    fn categories_and_missing_cells_are_groups() {
        let (groups, found) = of(&["b", "a", "", "b"]);
        assert_eq!(
            (groups.names(), found),
            (&["a", "b", MISSING].map(String::from)[..], vec![1, 0, 2, 1])
        );
        assert_eq!(
            (groups.group("a"), groups.group("c"), groups.group("")),
            (Some(0), None, Some(2))
        );
        assert_eq!(of(&["a"]).0.group(""), None);
    }

    #[test]
    fn new_numbers_join_the_quartiles_of_the_known_ones() {
        let (groups, found) = of(&["1", "2", "3,5", "4", "5", "6", "7", "8"]);
        assert_eq!(groups.names(), ["1 to 2", "3.5 to 4", "5 to 6", "7 to 8"]);
        assert_eq!(found, [0, 0, 1, 1, 2, 2, 3, 3]);
        let new = ["-9", "2.1", "4", "6.5", "99", "x"].map(|cell| groups.group(cell));
        assert_eq!(new, [Some(0), Some(1), Some(1), Some(3), Some(3), None]);
        let (groups, _) = of(&["0", "1", "0"]);
        assert_eq!((groups.names().len(), groups.group("1")), (2, Some(1)));
    }
}
