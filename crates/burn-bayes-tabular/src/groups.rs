//! Groups of rows by the cells of a column, or by the values of another quantity.
//!
//! A category is a group. A number with at most four values has a group for each of them, any other number is split
//! at its quartiles. Missing cells are a group of their own.
//!
//! New rows can join the groups of a [`GroupRule`], whose limits come from the training rows and not from the held-out
//! ones that calibrate the groups. With limits at values of the held-out rows, a new row between two groups joins one
//! whose rows all lie on the same side of it: it is not exchangeable with them, and a guarantee in the group fails.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use burn_bayes::eval::equal_mass_groups;
use burn_bayes_data::{Column, ColumnKind, CsvOptions};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::text::{exact, tick};

/// Number of groups of many different values.
pub(crate) const QUARTILES: usize = 4;

/// The end of the name of all small categories together.
pub(crate) const OTHERS: &str = "other categories";

/// Rows in groups.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Groups {
    /// The column, or what the groups are by.
    pub(crate) by: String,
    /// The name of each group, in order; `None` for missing values.
    pub(crate) names: Vec<Option<String>>,
    /// The group of each row, an index of the names.
    pub(crate) of_rows: Vec<usize>,
}

impl Groups {
    /// The groups of these rows of a column.
    ///
    /// # Errors
    /// If a number is NaN.
    pub(crate) fn of(column: &Column, rows: &[usize]) -> Result<Self> {
        match column.kind() {
            ColumnKind::Number => {
                let cells: Vec<_> = rows.iter().map(|&row| column.number(row)).collect();
                Self::of_numbers(column.name(), &cells)
            }
            ColumnKind::Category => {
                let cells = || rows.iter().map(|&row| column.category(row));
                let names: BTreeSet<&str> = cells().flatten().collect();
                let names: Vec<&str> = names.into_iter().collect();
                let group = |cell: &str| names.partition_point(|name| *name < cell);
                let of_rows = cells().map(|cell| cell.map(group)).collect();
                let names = names.iter().map(ToString::to_string).collect();
                Ok(Self::with_missing(column.name(), names, of_rows))
            }
        }
    }

    /// The groups of numbers; `None` is a missing one.
    ///
    /// # Errors
    /// If a number is NaN.
    pub(crate) fn of_numbers(by: &str, cells: &[Option<f64>]) -> Result<Self> {
        let values: Vec<f64> = cells.iter().flatten().copied().collect();
        let limits = limits(&values)?;
        let of_rows = cells.iter().map(|cell| place(&limits, (*cell)?)).collect();
        Ok(Self::with_missing(by, names(&limits), of_rows))
    }

    /// The groups of computed numbers, such as widths: of those that differ by less than a millionth, the difference is
    /// rounding.
    ///
    /// # Errors
    /// If a number is NaN.
    pub(crate) fn of_computed(by: &str, values: &[f64]) -> Result<Self> {
        let rounded = values
            .iter()
            .map(|value| format!("{value:.6e}").parse().ok());
        Self::of_numbers(by, &rounded.collect::<Vec<_>>())
    }

    /// Adds the group of missing values if a row is in it.
    fn with_missing(by: &str, names: Vec<String>, of_rows: Vec<Option<usize>>) -> Self {
        let (missing, has_missing) = (names.len(), of_rows.contains(&None));
        let names = names.into_iter().map(Some);
        Self {
            by: by.into(),
            names: names.chain(has_missing.then_some(None)).collect(),
            of_rows: of_rows
                .iter()
                .map(|group| group.unwrap_or(missing))
                .collect(),
        }
    }

    /// The rows of each group.
    pub(crate) fn members(&self) -> Vec<Vec<usize>> {
        members(&self.of_rows, self.names.len())
    }

    /// The groups from the largest to the smallest; those beyond `most` are one, unless it would have the rows of one.
    #[must_use]
    pub(crate) fn largest(self, most: usize) -> Self {
        let count = |group: usize| self.of_rows.iter().filter(|&&of| of == group).count();
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.sort_by_key(|&group| (Reverse(count(group)), self.names[group].clone()));
        let own = match order.len() > most + 1 {
            true => most,
            false => order.len(),
        };
        let others = (order.len() > own).then(|| Some(format!("{} {OTHERS}", order.len() - own)));
        let names = order[..own].iter().map(|&group| self.names[group].clone());
        let place = |group: &usize| {
            order
                .iter()
                .position(|of| of == group)
                .unwrap_or(own)
                .min(own)
        };
        Self {
            names: names.chain(others).collect(),
            of_rows: self.of_rows.iter().map(place).collect(),
            by: self.by,
        }
    }
}

/// The rows of each of this many groups.
pub(crate) fn members(of_rows: &[usize], count: usize) -> Vec<Vec<usize>> {
    let mut members = vec![Vec::new(); count];
    for (row, &group) in of_rows.iter().enumerate() {
        members[group].push(row);
    }
    members
}

/// The name of a group on the console and in a report.
pub(crate) fn shown(name: Option<&str>) -> &str {
    name.unwrap_or("(missing)")
}

/// How the cells of a column are divided into groups that new rows can join.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GroupRule {
    /// Every category is a group.
    Categories,
    /// Groups of numbers, with the least and the greatest value of the training rows in each. A number between two
    /// groups is in the second, and one beyond all groups in the nearest.
    Numbers(Vec<(f64, f64)>),
}

impl GroupRule {
    /// The rule for a column with these cells in the training rows, which are read with these options. Only numbers are
    /// divided into quartiles, unless `is_category`.
    pub(crate) fn of(cells: &[&str], is_category: bool, options: &CsvOptions) -> Result<Self> {
        let present = cells.iter().filter(|cell| !is_missing(cell, options));
        let numbers: Option<Vec<f64>> = present.map(|cell| number(cell, options)).collect();
        let mut numbers = numbers.unwrap_or_default();
        numbers.retain(|&value| !options.is_missing_number(value));
        let numbers = Some(numbers).filter(|numbers| !numbers.is_empty() && !is_category);
        Ok(match numbers {
            Some(values) => Self::Numbers(limits(&values)?),
            None => Self::Categories,
        })
    }

    /// Whether a cell has no value.
    fn is_missing(&self, cell: &str, options: &CsvOptions) -> bool {
        let is_number = matches!(self, Self::Numbers(_));
        let value = number(cell, options).filter(|_| is_number);
        is_missing(cell, options) || value.is_some_and(|value| options.is_missing_number(value))
    }
}

/// Groups by the cells of a column, which new cells can join.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CellGroups {
    /// The column.
    pub(crate) by: String,
    /// The name of each group, in order; `None` for missing cells.
    pub(crate) names: Vec<Option<String>>,
    rule: GroupRule,
}

impl CellGroups {
    /// The groups by a rule, and the group of each of the cells, which are those of the held-out rows and are read with
    /// these options; `None` for a cell in no group.
    pub(crate) fn of(
        by: &str,
        rule: &GroupRule,
        options: &CsvOptions,
        cells: &[&str],
    ) -> (Self, Vec<Option<usize>>) {
        let (absent, present): (Vec<&str>, Vec<&str>) = cells
            .iter()
            .partition(|cell| rule.is_missing(cell, options));
        let names = match rule {
            GroupRule::Categories => {
                let names: BTreeSet<&str> = present.into_iter().collect();
                names.into_iter().map(String::from).collect()
            }
            GroupRule::Numbers(limits) => names(limits),
        };
        let of_missing = (!absent.is_empty()).then_some(None);
        let groups = Self {
            by: by.into(),
            names: names.into_iter().map(Some).chain(of_missing).collect(),
            rule: rule.clone(),
        };
        let of_cells = cells.iter().map(|cell| groups.group(cell, options));
        let of_cells = of_cells.collect();
        (groups, of_cells)
    }

    /// The group of a cell that is read with these options; `None` for a category that no held-out cell had, a text among
    /// numbers, or if only this cell is missing.
    pub(crate) fn group(&self, cell: &str, options: &CsvOptions) -> Option<usize> {
        let is = |known: Option<&str>| self.names.iter().position(|name| name.as_deref() == known);
        match &self.rule {
            rule if rule.is_missing(cell, options) => is(None),
            GroupRule::Categories => is(Some(cell)),
            GroupRule::Numbers(limits) => place(limits, number(cell, options)?),
        }
    }
}

/// The least and the greatest value of each group of numbers. Equal values are in one group, so there may be fewer than
/// four quartiles.
fn limits(values: &[f64]) -> Result<Vec<(f64, f64)>> {
    let mut distinct = values.to_vec();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    if distinct.len() <= QUARTILES {
        return Ok(distinct.into_iter().map(|value| (value, value)).collect());
    }
    let mut limits = vec![(f64::INFINITY, f64::NEG_INFINITY); QUARTILES];
    for (group, &value) in equal_mass_groups(values, QUARTILES)?
        .into_iter()
        .zip(values)
    {
        let (least, most) = &mut limits[group];
        (*least, *most) = (least.min(value), most.max(value));
    }
    limits.retain(|(least, most)| least <= most);
    Ok(limits)
}

/// The names of groups with these limits.
fn names(limits: &[(f64, f64)]) -> Vec<String> {
    let name = |&(least, most): &(f64, f64)| match [least, most].map(tick) {
        _ if least == most => exact(least),
        [start, end] if start == end => format!("{} to {}", exact(least), exact(most)),
        [start, end] => format!("{start} to {end}"),
    };
    limits.iter().map(name).collect()
}

/// The group of a number.
fn place(limits: &[(f64, f64)], value: f64) -> Option<usize> {
    let (_, but_last) = limits.split_last()?;
    Some(but_last.partition_point(|(_, most)| *most < value))
}

fn is_missing(cell: &str, options: &CsvOptions) -> bool {
    cell.is_empty() || options.is_missing(cell)
}

/// A finite number.
fn number(cell: &str, options: &CsvOptions) -> Option<f64> {
    options.number(cell).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_bayes_data::DecimalMark;

    fn shown_names(names: &[Option<String>]) -> Vec<String> {
        names
            .iter()
            .map(|name| shown(name.as_deref()).to_string())
            .collect()
    }

    fn groups(column: &Column) -> (Vec<String>, Vec<usize>) {
        let rows: Vec<usize> = (0..column.len()).collect();
        let Groups { names, of_rows, .. } = Groups::of(column, &rows).unwrap();
        (shown_names(&names), of_rows)
    }

    #[test]
    fn numbers_are_split_at_their_quartiles_and_few_values_are_kept() {
        let values = [8.0, 1.0, 2.0, 3.5, f64::NAN, 4.0, 5.0, 6.0, 7.0];
        let (names, found) = groups(&Column::numbers("age", values.to_vec()));
        assert_eq!(
            names,
            ["1 to 2", "3.5 to 4", "5 to 6", "7 to 8", "(missing)"]
        );
        assert_eq!(found, [3, 0, 0, 1, 4, 1, 2, 2, 3]);
        let (names, found) = groups(&Column::numbers("sex", vec![1.0, 0.0, 1.0]));
        assert_eq!(
            (names, found),
            (vec!["0".into(), "1".into()], vec![1, 0, 1])
        );
        // Half of the rows have the value 0, so two quartiles are one group.
        let values = [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0];
        let (names, found) = groups(&Column::numbers("dose", values.to_vec()));
        assert_eq!(names, ["0", "1 to 2", "3 to 4"]);
        assert_eq!(found, [0, 0, 0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn computed_numbers_are_rounded_each_for_itself() {
        let equal = [3.0, 3.0 + 1e-12, 3.0 - 1e-12];
        let found = Groups::of_computed("width", &equal).unwrap();
        assert_eq!((found.names.len(), found.of_rows), (1, vec![0; 3]));
        let mut widths: Vec<f64> = (1..=100).map(|row| 1e-3 * f64::from(row)).collect();
        widths.push(1e6);
        let found = Groups::of_computed("width", &widths).unwrap();
        assert_eq!(found.names.len(), 4);
    }

    #[test]
    fn categories_are_groups_in_alphabetical_order() {
        let cells = [Some("b"), None, Some("a"), Some("b")];
        let (names, found) = groups(&Column::categories("ward", cells));
        assert_eq!(
            (names, found),
            (
                ["a", "b", "(missing)"].map(String::from).to_vec(),
                vec![1, 2, 0, 1]
            )
        );
    }

    #[test]
    fn small_groups_can_be_one() {
        let towns = "aabbbccdefg".chars().map(String::from).collect::<Vec<_>>();
        let towns = towns.iter().map(|town| Some(town.as_str()));
        let column = Column::categories("town", towns.chain([None]));
        let rows: Vec<usize> = (0..column.len()).collect();
        let groups = Groups::of(&column, &rows).unwrap().largest(5);
        let others = "3 other categories";
        let names = ["b", "a", "c", "(missing)", "d", others];
        assert_eq!(shown_names(&groups.names), names);
        assert_eq!(groups.of_rows, [1, 1, 0, 0, 0, 2, 2, 4, 5, 5, 5, 3]);
    }

    /// The groups of the same cells in the training and the held-out rows.
    fn of(cells: &[&str], is_category: bool) -> (CellGroups, Vec<usize>) {
        let options = CsvOptions::default();
        let rule = GroupRule::of(cells, is_category, &options).unwrap();
        let (groups, found) = CellGroups::of("c", &rule, &options, cells);
        (groups, found.into_iter().flatten().collect())
    }

    #[test]
    fn categories_and_missing_cells_are_groups() {
        let (groups, found) = of(&["b", "a", "", "b", "NA"], false);
        assert_eq!(shown_names(&groups.names), ["a", "b", "(missing)"]);
        assert_eq!(found, [1, 0, 2, 1, 2]);
        let group = |cell: &str| groups.group(cell, &CsvOptions::default());
        assert_eq!(
            (group("a"), group("c"), group("")),
            (Some(0), None, Some(2))
        );
        let (groups, _) = of(&["a"], false);
        assert_eq!(groups.group("", &CsvOptions::default()), None);
    }

    #[test]
    fn numbers_join_the_quartiles_of_the_training_rows() {
        let options = CsvOptions::default();
        let cells = ["1", "2", "3.5", "4", "5", "6", "7", "8", "NA"];
        let (groups, found) = of(&cells, false);
        let names = ["1 to 2", "3.5 to 4", "5 to 6", "7 to 8", "(missing)"];
        assert_eq!(shown_names(&groups.names), names);
        assert_eq!(found, [0, 0, 1, 1, 2, 2, 3, 3, 4]);
        let new = ["-9", "2.1", "4", "6.5", "99", "x"].map(|cell| groups.group(cell, &options));
        assert_eq!(new, [Some(0), Some(1), Some(1), Some(3), Some(3), None]);
        let (groups, _) = of(&["0", "1", "0"], false);
        assert_eq!(
            (groups.names.len(), groups.group("1", &options)),
            (2, Some(1))
        );
        // The held-out rows decide nothing.
        let none = CsvOptions::default().with_missing([""]);
        let rule = GroupRule::of(&cells, false, &none).unwrap();
        assert_eq!(rule, GroupRule::Categories, "NA is a word here");
        let rule = GroupRule::of(&cells[..8], false, &none).unwrap();
        let (groups, found) = CellGroups::of("c", &rule, &none, &["9", "8", "x"]);
        assert_eq!(groups.names.len(), 4);
        assert_eq!(found, [Some(3), Some(3), None]);
    }

    #[test]
    fn numbers_that_are_categories_are_groups_of_their_own() {
        let wards: Vec<String> = (1..=30).map(|ward| ward.to_string()).collect();
        let wards: Vec<&str> = wards.iter().map(String::as_str).collect();
        assert_eq!(of(&wards, true).0.names.len(), 30);
        assert_eq!(of(&wards, false).0.names.len(), 4);
        let (groups, _) = of(&wards, true);
        assert_eq!(groups.group("31", &CsvOptions::default()), None);
    }

    #[test]
    fn numbers_of_groups_are_read_as_those_of_features() {
        let options = CsvOptions::default().with_further_missing(["-999"]);
        let cells = ["1,200", "$3", "-999.0", "3"];
        let rule = GroupRule::of(&cells, false, &options).unwrap();
        assert_eq!(rule, GroupRule::Numbers(vec![(3.0, 3.0), (1200.0, 1200.0)]));
        let (groups, found) = CellGroups::of("c", &rule, &options, &cells);
        assert_eq!(shown_names(&groups.names), ["3", "1200", "(missing)"]);
        assert_eq!(found, [1, 0, 2, 0].map(Some));
        // A new file may have another decimal separator.
        let comma = CsvOptions {
            decimal: DecimalMark::Comma,
            ..options
        };
        assert_eq!(groups.group("1200,0", &comma), Some(1));
        assert_eq!(groups.group("2,5", &comma), Some(0));
    }

    #[test]
    fn groups_of_different_numbers_have_different_names() {
        let (found, _) = groups(&Column::numbers("code", vec![1e6, 1_000_001.0, 1.5e-7]));
        assert_eq!(found, ["1.5e−7", "1000000", "1000001"]);
        let years: Vec<f64> = (0..8).map(|year| 1.7e9 + f64::from(year)).collect();
        let (found, _) = groups(&Column::numbers("time", years));
        let first = "1700000000 to 1700000001";
        assert_eq!((found.len(), &*found[0]), (4, first));
        let (found, _) = groups(&Column::numbers(
            "income",
            (4..12).map(|k| 5e5 * f64::from(k)).collect(),
        ));
        assert_eq!(found[0], "2e6 to 2.5e6");
    }

    #[test]
    fn a_rule_survives_a_file() {
        let rules = [
            GroupRule::Categories,
            GroupRule::Numbers(vec![(0.1, 0.2), (0.3, 1e300)]),
        ];
        for rule in rules {
            let table = std::collections::BTreeMap::from([("c".to_string(), rule)]);
            let text = toml::to_string(&table).unwrap();
            let again: std::collections::BTreeMap<String, GroupRule> =
                toml::from_str(&text).unwrap();
            assert_eq!(again, table, "{text}");
        }
    }
}
