//! Which rows are independent of each other: those of one group are alike, and so are those that follow each other in time.

use burn_bayes_data::{KFold, Split, Table};

use super::split_table::Order;
use crate::error::Result;
use crate::groups;
use crate::order::selected;
use crate::settings::DataSettings;

/// Of fewer independent rows a standard error is a guess.
const FEWEST_ROWS: usize = 5;
/// Of groups, which may be of different sizes, or periods, which may be alike.
const FEWEST_GROUPS: usize = 10;

/// The unit of each row: units are independent, the rows of one are not.
#[derive(Clone, Debug, PartialEq)]
pub struct Units {
    /// Numbers from 0.
    of_rows: Vec<usize>,
    count: usize,
}

impl Units {
    /// Every row for itself.
    pub fn rows(count: usize) -> Self {
        Self {
            of_rows: (0..count).collect(),
            count,
        }
    }

    /// Rows with equal labels are one unit.
    pub fn of(labels: &[usize]) -> Self {
        let mut known = labels.to_vec();
        known.sort_unstable();
        known.dedup();
        let place = |label: &usize| known.partition_point(|other| other < label);
        Self {
            of_rows: labels.iter().map(place).collect(),
            count: known.len(),
        }
    }

    /// The units of these rows of a table: groups, if rows are held out by groups; of T times, √T periods of as many times, but
    /// at least ten, if the latest rows are held out; and otherwise every row for itself, as without the column.
    ///
    /// # Errors
    /// If the column of times has other values.
    pub(crate) fn of_table(table: &Table, settings: &DataSettings, rows: &[usize]) -> Result<Self> {
        let column = settings.group_by.as_ref().or(settings.time.as_ref());
        if column.is_some_and(|name| table.column(name).is_err()) {
            return Ok(Self::rows(rows.len()));
        }
        Ok(match Order::of(table, settings)? {
            Order::Random => Self::rows(rows.len()),
            Order::Groups(groups) => Self::of(&selected(&groups, rows)),
            Order::Times(times) => Self::periods(&selected(&times, rows)),
        })
    }

    fn periods(times: &[f64]) -> Self {
        let mut known = times.to_vec();
        known.sort_by(f64::total_cmp);
        known.dedup();
        let count = known.len().isqrt().max(FEWEST_GROUPS).min(known.len());
        let period = |time: &f64| known.partition_point(|other| other < time) * count / known.len();
        Self {
            of_rows: times.iter().map(period).collect(),
            count,
        }
    }

    /// The unit of each row.
    pub fn of_rows(&self) -> &[usize] {
        &self.of_rows
    }

    /// The number of units.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether every row is for itself.
    pub fn are_rows(&self) -> bool {
        self.count == self.of_rows.len()
    }

    /// The unit of each row, if not every row is for itself.
    pub(crate) fn clusters(&self) -> Option<&[usize]> {
        (!self.are_rows()).then_some(&self.of_rows[..])
    }

    /// Whether there are enough for a standard error: five rows, or ten groups or periods.
    pub(crate) fn are_enough(&self) -> bool {
        let fewest = match self.are_rows() {
            true => FEWEST_ROWS,
            false => FEWEST_GROUPS,
        };
        self.count >= fewest
    }

    /// The units of these rows.
    #[must_use]
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        Self::of(&selected(&self.of_rows, rows))
    }

    /// The same with those of further rows, which are others.
    #[must_use]
    pub(crate) fn with(&self, further: &Self) -> Self {
        let of_further = further.of_rows.iter().map(|unit| self.count + unit);
        Self {
            of_rows: self.of_rows.iter().copied().chain(of_further).collect(),
            count: self.count + further.count,
        }
    }

    /// Folds of whole units, at most so many, the one with the largest unit last; `None` if every row is for itself, and of a
    /// single unit.
    pub(crate) fn folds(&self, folds: usize, seed: u64) -> Option<Vec<Split>> {
        let folds = KFold::new(folds.min(self.count)).with_seed(seed);
        let splits = folds.grouped_splits(self.clusters()?).ok()?;
        Some(splits.into_iter().rev().collect())
    }

    /// The rows of each unit.
    pub(crate) fn members(&self) -> Vec<Vec<usize>> {
        groups::members(&self.of_rows, self.count)
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::Column;

    use super::*;

    #[test]
    fn rows_of_a_group_and_of_a_period_are_one_unit() {
        let wards = ["b", "a", "b", "c", "a", "a"].map(Some);
        let table = vec![
            Column::categories("ward", wards),
            Column::numbers("day", vec![3.0, 1.0, 2.0, 6.0, 4.0, 5.0]),
        ];
        let table = Table::new(table).unwrap();
        let found = |settings: &DataSettings, rows: &[usize]| {
            Units::of_table(&table, settings, rows).unwrap()
        };
        let mut settings = DataSettings::default();
        assert!(found(&settings, &[0, 1, 2]).are_rows());
        settings.group_by = Some("ward".into());
        let units = found(&settings, &[0, 1, 2, 4]);
        assert_eq!((units.of_rows(), units.count()), (&[0, 1, 0, 1][..], 2));
        assert_eq!(units.members(), [vec![0, 2], vec![1, 3]]);
        assert_eq!(units.select(&[2, 0]).count(), 1);
        settings.group_by = Some("elsewhere".into());
        assert!(found(&settings, &[0, 1]).are_rows());
        settings = DataSettings {
            time: Some("day".into()),
            ..DataSettings::default()
        };
        // A period for each day, or for ten of a hundred.
        assert_eq!(
            found(&settings, &[0, 1, 2, 3, 4, 5]).of_rows(),
            [2, 0, 1, 5, 3, 4]
        );
        let all = units.with(&Units::rows(2));
        assert_eq!((all.of_rows(), all.count()), (&[0, 1, 0, 1, 2, 3][..], 4));
        let folds = all.folds(5, 1).unwrap();
        let tested = folds.iter().map(|fold| fold.test.len());
        assert_eq!(tested.collect::<Vec<_>>(), [1, 1, 2, 2]);
        assert_eq!(Units::rows(4).folds(2, 1), None);
        assert_eq!(units.select(&[2, 0]).folds(2, 1), None);
        let many = Units::periods(&(0..100).map(f64::from).collect::<Vec<_>>());
        assert_eq!((many.count(), many.members()[9].len()), (10, 10));
    }
}
