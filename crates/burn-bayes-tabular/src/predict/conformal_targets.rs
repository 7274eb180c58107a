//! The conformal sets or intervals of every target of a run.

use burn_bayes_data::CsvOptions;

use super::conformal::Conformal;
use crate::error::Result;
use crate::groups::CellGroups;

/// The prediction sets or intervals of every target, at least one, with the name of the target if there are several.
///
/// The held-out rows are the same, so all targets have the same groups.
#[derive(Clone, Debug)]
pub struct ConformalTargets(Vec<(Option<String>, Conformal)>);

impl ConformalTargets {
    /// Those of these targets.
    pub(crate) fn new(targets: Vec<(Option<String>, Conformal)>) -> Self {
        debug_assert!(!targets.is_empty());
        Self(targets)
    }

    /// The name of each target, if there are several, and its sets or intervals.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Option<&str>, &Conformal)> {
        self.0.iter().map(|(name, one)| (name.as_deref(), one))
    }

    /// What holds, in words. It holds for each target alone.
    pub fn guarantee(&self) -> String {
        let mut guarantees = self.iter().map(|(name, one)| (name, one.guarantee()));
        let (Some((Some(name), first)), rest) = (guarantees.next(), guarantees) else {
            return self.0[0].1.guarantee();
        };
        let rest: Vec<_> = rest.collect();
        if rest.iter().all(|(_, other)| *other == first) {
            return format!("for each target alone, not for all of a row together, {first}");
        }
        let all = [(Some(name), first)].into_iter().chain(rest);
        let all = all.map(|(name, one)| format!("for `{}` alone, {one}", name.unwrap_or_default()));
        all.collect::<Vec<_>>().join("; ")
    }

    /// The groups with a threshold each, if they are those of a column.
    pub(crate) fn groups(&self) -> Option<&CellGroups> {
        self.0[0].1.groups()
    }

    /// The group of each row, from the cells of its column, as [`Conformal::groups_of`].
    ///
    /// # Errors
    /// If no held-out row was in the group of a row.
    pub(crate) fn groups_of<'a>(
        &self,
        cells: impl IntoIterator<Item = (usize, &'a str)>,
        options: &CsvOptions,
    ) -> Result<Option<Vec<usize>>> {
        self.0[0].1.groups_of(cells, options)
    }

    /// Why there is no guarantee for a row with this cell in the column of the groups; `None` if there is one.
    pub(crate) fn problem_of(&self, cell: &str, options: &CsvOptions) -> Option<String> {
        self.0[0].1.problem_of(cell, options)
    }
}
