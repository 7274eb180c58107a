//! Groups of values, with their limits: quartiles, or one for each of few values.

use burn_bayes::eval::equal_mass_groups;

use crate::error::Result;
use crate::text::tick;

/// Number of groups of many different values.
pub(crate) const QUARTILES: usize = 4;

/// Values in groups, each of which has a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ValueGroups {
    /// The group of each value.
    of_values: Vec<usize>,
    /// The least and the greatest value of each group.
    pub(crate) limits: Vec<(f64, f64)>,
}

impl ValueGroups {
    /// A group for each of at most four different values; quartiles of more. No groups without values.
    ///
    /// # Errors
    /// If one of more than four different values is NaN.
    pub(crate) fn of(values: &[f64]) -> Result<Self> {
        let mut distinct = values.to_vec();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        if distinct.len() > QUARTILES {
            return Self::quartiles(values);
        }
        let of_value = |value: &f64| distinct.partition_point(|other| other < value);
        let groups: Vec<usize> = values.iter().map(of_value).collect();
        Ok(Self::numbered(values, &groups))
    }

    /// Quartiles. Equal values are in one group, so there may be fewer than four.
    ///
    /// # Errors
    /// If there are no values, or one is NaN.
    pub(crate) fn quartiles(values: &[f64]) -> Result<Self> {
        let groups = equal_mass_groups(values, QUARTILES.min(values.len()))?;
        Ok(Self::numbered(values, &groups))
    }

    /// These groups, numbered anew without those that have no value.
    pub(crate) fn numbered(values: &[f64], groups: &[usize]) -> Self {
        let mut found = groups.to_vec();
        found.sort_unstable();
        found.dedup();
        let mut limits = vec![(f64::INFINITY, f64::NEG_INFINITY); found.len()];
        let number = |(&group, &value)| {
            let number = found.partition_point(|&other| other < group);
            let (least, most) = &mut limits[number];
            (*least, *most) = (least.min(value), most.max(value));
            number
        };
        Self {
            of_values: groups.iter().zip(values).map(number).collect(),
            limits,
        }
    }

    /// The name of each group: its value, or the least and the greatest.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        Self::names_of(&self.limits)
    }

    /// The names of groups with these limits.
    pub(crate) fn names_of(limits: &[(f64, f64)]) -> impl Iterator<Item = String> {
        limits.iter().map(|&(least, most)| match least == most {
            true => tick(least),
            false => format!("{} to {}", tick(least), tick(most)),
        })
    }

    /// The group of each value.
    pub(crate) fn of_values(&self) -> &[usize] {
        &self.of_values
    }

    /// The group of each cell, whose present values these are; the number of groups for a missing one.
    pub(crate) fn of_cells(&self, cells: &[Option<f64>]) -> Vec<usize> {
        let mut groups = self.of_values.iter();
        let group = |cell: &Option<f64>| cell.and_then(|_| groups.next().copied());
        let cells = cells.iter().map(group);
        cells
            .map(|group| group.unwrap_or(self.limits.len()))
            .collect()
    }
}
