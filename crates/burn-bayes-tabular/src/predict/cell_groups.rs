//! Groups of rows by the cells of a column, which new rows can join.
//!
//! A category is a group. Numbers are split at the quartiles of the training rows, or have a group for each of at most
//! four values. Missing cells are a group of their own.
//!
//! The limits of the groups come from the training rows and not from the held-out ones that calibrate them. With limits
//! at values of the held-out rows, a new row between two groups joins one whose rows all lie on the same side of it: it
//! is not exchangeable with them, and the guarantee in the group fails.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::quartiles::ValueGroups;

/// The name of the group of missing cells.
const MISSING: &str = "(missing)";

/// How the cells of a column are divided into groups.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CellRule {
    /// Every category is a group.
    Categories,
    /// Groups of numbers, with the least and the greatest value of the training rows in each. A number between two
    /// groups is in the second, and one beyond all groups in the nearest.
    Numbers(Vec<(f64, f64)>),
}

/// Groups by the cells of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CellGroups {
    column: String,
    rule: CellRule,
    /// The cells that count as missing.
    missing: Vec<String>,
    names: Vec<String>,
}

impl CellRule {
    /// The rule for a column with these cells in the training rows. Only numbers are divided into quartiles, unless
    /// `is_category`.
    ///
    /// # Errors
    /// If there are no cells.
    pub(crate) fn of(cells: &[&str], is_category: bool, missing: &[String]) -> Result<Self> {
        let present = cells.iter().filter(|cell| !is_missing(cell, missing));
        let numbers: Option<Vec<f64>> = present.map(|cell| number(cell)).collect();
        let numbers = numbers.filter(|numbers| !numbers.is_empty() && !is_category);
        Ok(match numbers {
            Some(values) => Self::Numbers(ValueGroups::of(&values)?.limits),
            None => Self::Categories,
        })
    }
}

impl CellGroups {
    /// The groups by a rule, and the group of each of the cells, which are those of the held-out rows; `None` for a cell
    /// in no group.
    pub(crate) fn of(
        column: &str,
        rule: &CellRule,
        missing: &[String],
        cells: &[&str],
    ) -> (Self, Vec<Option<usize>>) {
        let (absent, present): (Vec<&str>, Vec<&str>) =
            cells.iter().partition(|cell| is_missing(cell, missing));
        let mut names: Vec<String> = match rule {
            CellRule::Categories => {
                let names: BTreeSet<&str> = present.into_iter().collect();
                names.into_iter().map(String::from).collect()
            }
            CellRule::Numbers(limits) => ValueGroups::names_of(limits).collect(),
        };
        if !absent.is_empty() {
            names.push(MISSING.into());
        }
        let groups = Self {
            column: column.into(),
            rule: rule.clone(),
            missing: missing.to_vec(),
            names,
        };
        let of_cells = cells.iter().map(|cell| groups.group(cell)).collect();
        (groups, of_cells)
    }

    /// The group of a cell; `None` for a category that no held-out cell had, a text among numbers, or if only this cell
    /// is missing.
    pub(crate) fn group(&self, cell: &str) -> Option<usize> {
        if is_missing(cell, &self.missing) {
            return self.names.iter().position(|name| name == MISSING);
        }
        match &self.rule {
            CellRule::Categories => self.names.iter().position(|name| name == cell),
            CellRule::Numbers(limits) => {
                let value = number(cell)?;
                let (_, but_last) = limits.split_last()?;
                Some(but_last.partition_point(|(_, most)| *most < value))
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

fn is_missing(cell: &str, missing: &[String]) -> bool {
    cell.is_empty() || missing.iter().any(|word| word == cell)
}

/// A finite number, with a decimal point or comma.
fn number(cell: &str) -> Option<f64> {
    let value: f64 = cell.replace(',', ".").parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [String; 0] = [];

    /// The groups of the same cells in the training and the held-out rows.
    fn of(cells: &[&str], is_category: bool) -> (CellGroups, Vec<usize>) {
        let missing = ["NA".to_string()];
        let rule = CellRule::of(cells, is_category, &missing).unwrap();
        let (groups, found) = CellGroups::of("c", &rule, &missing, cells);
        (groups, found.into_iter().flatten().collect())
    }

    #[test]
    fn categories_and_missing_cells_are_groups() {
        let (groups, found) = of(&["b", "a", "", "b", "NA"], false);
        assert_eq!(
            (groups.names(), found),
            (
                &["a", "b", MISSING].map(String::from)[..],
                vec![1, 0, 2, 1, 2]
            )
        );
        assert_eq!(
            (groups.group("a"), groups.group("c"), groups.group("")),
            (Some(0), None, Some(2))
        );
        assert_eq!(of(&["a"], false).0.group(""), None);
    }

    #[test]
    fn numbers_join_the_quartiles_of_the_training_rows() {
        let cells = ["1", "2", "3,5", "4", "5", "6", "7", "8", "NA"];
        let (groups, found) = of(&cells, false);
        assert_eq!(
            groups.names(),
            ["1 to 2", "3.5 to 4", "5 to 6", "7 to 8", MISSING]
        );
        assert_eq!(found, [0, 0, 1, 1, 2, 2, 3, 3, 4]);
        let new = ["-9", "2.1", "4", "6.5", "99", "x"].map(|cell| groups.group(cell));
        assert_eq!(new, [Some(0), Some(1), Some(1), Some(3), Some(3), None]);
        let (groups, _) = of(&["0", "1", "0"], false);
        assert_eq!((groups.names().len(), groups.group("1")), (2, Some(1)));
        // The held-out rows decide nothing.
        let rule = CellRule::of(&cells, false, &NONE).unwrap();
        assert_eq!(rule, CellRule::Categories, "NA is a word here");
        let rule = CellRule::of(&cells[..8], false, &NONE).unwrap();
        let (groups, found) = CellGroups::of("c", &rule, &NONE, &["9", "8", "x"]);
        assert_eq!(groups.names().len(), 4);
        assert_eq!(found, [Some(3), Some(3), None]);
    }

    #[test]
    fn numbers_that_are_categories_are_groups_of_their_own() {
        let wards: Vec<String> = (1..=30).map(|ward| ward.to_string()).collect();
        let wards: Vec<&str> = wards.iter().map(String::as_str).collect();
        assert_eq!(of(&wards, true).0.names().len(), 30);
        assert_eq!(of(&wards, false).0.names().len(), 4);
        assert_eq!(of(&wards, true).0.group("31"), None);
    }

    #[test]
    fn a_rule_survives_a_file() {
        let rules = [
            CellRule::Categories,
            CellRule::Numbers(vec![(0.1, 0.2), (0.3, 1e300)]),
        ];
        for rule in rules {
            let table = std::collections::BTreeMap::from([("c".to_string(), rule)]);
            let text = toml::to_string(&table).unwrap();
            let again: std::collections::BTreeMap<String, CellRule> =
                toml::from_str(&text).unwrap();
            assert_eq!(again, table, "{text}");
        }
    }
}
