//! Conformal prediction sets and intervals, calibrated on the held-out rows of a run.
//!
//! A set has every class whose nonconformity score is at most a threshold; an interval is the mean ± q̂ standard
//! deviations of the prediction. Threshold and q̂ are order statistics of the held-out rows, so that
//!
//!   P(a new row is inside) ≥ level,
//!
//! over the held-out rows and the new row, if these are exchangeable: drawn from one distribution, and none of them
//! used by the fit. With a threshold for each group of rows, or for each true class, this holds in every group or class
//! (Mondrian conformal prediction); a group needs as many held-out rows as all rows do otherwise. If whole groups were held
//! out, the new row is of a new group, and the groups are exchangeable in the place of rows. If new rows drift away
//! from the held-out ones, either the level follows the rows since the fit, or older rows weigh less than newer ones. The
//! tests in `guarantees.rs` simulate what is promised. Each of several targets has thresholds of its own, at the level for
//! this target alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use burn_bayes::eval::{
    Bounded, ConformalByClass, EvalError, Mondrian, PredictionIntervals, PredictionSets,
};
use burn_bayes_data::CsvOptions;

use super::known::{Known, Rule, equal, halved, rows_needed, shared, shortest_half_life, window};
use super::{ClassPredictions, Moments};
use crate::error::{Result, TabularError};
use crate::groups::{self, CellGroups, GroupRule, shown};
use crate::order::selected;
use crate::rows::{Target, Units};
use crate::settings::{choices, refused};
use crate::text::{number, percentage, tick};

choices! {
    /// How prediction sets are made.
    SetMethod {
        /// All classes that are probable enough: the smallest sets, possibly empty
        Lac = "lac",
        /// The most probable classes up to a cumulative probability: larger sets for uncertain rows
        Aps = "aps",
        /// As aps, with a penalty on each class beyond the first, which leaves out improbable classes
        Raps = "raps",
    }
}

/// The coverage that prediction sets or intervals must have.
#[derive(Clone, Debug, PartialEq)]
pub struct ConformalRequest {
    /// The level.
    pub level: f64,
    /// How sets are made; `None` for the default, `lac`.
    pub set_method: Option<SetMethod>,
    /// The column whose groups each have the level, or the target, whose classes have it; `None` for all rows together.
    pub by: Option<String>,
    /// A file of rows that came after those of the fit, whose targets are known: the level follows them, or with a
    /// half-life they have weights too.
    pub recent: Option<PathBuf>,
    /// The number of rows after which the weight of a known row is halved; `None` for equal weights.
    pub half_life: Option<f64>,
}

/// The columns of the predictions of the held-out rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldOutColumns<'a> {
    /// The name of the target, with which its columns begin, if there are several.
    pub(crate) target: Option<&'a str>,
    /// How each column that is copied is divided into groups, from the training rows.
    pub(crate) rules: &'a BTreeMap<String, GroupRule>,
    /// How the rows of the fit were read.
    pub(crate) options: &'a CsvOptions,
    /// The column of the groups that were held out as a whole, if they were.
    pub(crate) group_by: Option<&'a str>,
}

/// Prediction sets or intervals of a target, with a coverage guarantee.
#[derive(Clone, Debug)]
pub(crate) struct Conformal {
    level: f64,
    rows: usize,
    rules: Rules,
    drift: Option<Drift>,
    /// The number of groups that were held out as a whole, if they were.
    groups: Option<usize>,
    /// The number of held-out rows of each group or class that has a threshold.
    of_parts: Vec<usize>,
    /// Whether the classes are ordered, so that sets are ranges.
    is_ordered: bool,
}

/// What is done about new rows that drift away from the held-out ones.
#[derive(Clone, Copy, Debug)]
enum Drift {
    /// The level followed the recent rows.
    Followed(Followed),
    /// Older rows weigh less.
    Weighted(Weighted),
}

/// How a level followed rows in time.
#[derive(Clone, Copy, Debug)]
struct Followed {
    /// The level at the end.
    level: f64,
    /// The number of recent rows that it followed, and how many of them were inside.
    rows: usize,
    hits: usize,
}

/// The weights of known rows.
#[derive(Clone, Copy, Debug)]
struct Weighted {
    half_life: f64,
    /// The number of recent rows, which are the last ones.
    recent: usize,
    /// The sum of all weights.
    weight: f64,
}

#[derive(Clone, Debug)]
enum Rules {
    Together(Rule),
    ByGroup(CellGroups, Mondrian<Rule>),
    ByClass(ConformalByClass),
}

impl ConformalRequest {
    /// The request at this level without options.
    #[cfg(test)]
    pub(crate) fn at(level: f64) -> Self {
        Self {
            level,
            set_method: None,
            by: None,
            recent: None,
            half_life: None,
        }
    }

    /// Checks the request for a target in the column `name`.
    pub(crate) fn validate(&self, target: &Target, name: &str) -> Result<()> {
        let level = self.level;
        if !(level > 0.0 && level < 1.0) {
            let problem = format!("is {level}; it must be in (0, 1), such as 0.9");
            return Err(refused("conformal", problem));
        }
        let of_drift = [
            ("conformal-recent", self.recent.is_some()),
            (HALF_LIFE, self.half_life.is_some()),
        ];
        if let (Some((option, _)), Some(_)) = (of_drift.iter().find(|(_, given)| *given), &self.by)
        {
            let problem = "is for all rows together; leave it out, or `--conformal-by`";
            return Err(refused(option, problem));
        }
        if let Some(half_life) = self
            .half_life
            .filter(|rows| !(*rows > 0.0 && rows.is_finite()))
        {
            let problem = format!("is {half_life}; it must be a finite number of rows above 0");
            return Err(refused(HALF_LIFE, problem));
        }
        let is_number = matches!(target.first(), Target::Real(_) | Target::Counts { .. });
        let mut names = target.of_targets().into_iter();
        if let Some(by) = self
            .by
            .as_deref()
            .filter(|by| names.any(|(of, _)| of == Some(by)))
        {
            let problem = format!(
                "names `{by}`, one of several targets, whose sets and intervals have one threshold each; name another \
                 column, or fit `{by}` alone"
            );
            return Err(refused(BY, problem));
        }
        if is_number && self.set_method.is_some() {
            return Err(refused(
                "conformal-sets",
                "is for classification, and the run predicts numbers, which have intervals; leave it out",
            ));
        }
        if is_number && self.by.as_deref() == Some(name) {
            let problem = format!(
                "names the target `{name}`, a number that new rows do not have; name another column"
            );
            return Err(refused(BY, problem));
        }
        Ok(())
    }
}

/// The option that names the groups.
const BY: &str = "conformal-by";
/// The option of weights.
pub(crate) const HALF_LIFE: &str = "conformal-half-life";

impl Conformal {
    /// Calibrates on the file with the predictions of the held-out rows, and on `recent` ones; `name` is the column of the
    /// target.
    ///
    /// # Errors
    /// If the file is damaged, lacks the column of the groups, or has too few rows for the level.
    pub(crate) fn calibrate(
        path: &Path,
        target: &Target,
        name: &str,
        request: &ConformalRequest,
        columns: &HeldOutColumns<'_>,
        recent: Option<Known>,
    ) -> Result<Self> {
        if let Some(column) = columns.group_by {
            let (known, table) = Known::read(path, target, columns.target, Some(column))?;
            return Self::of_new_groups(&known, &table.words(column)?, target, request, path);
        }
        let by = request.by.as_deref().filter(|&by| by != name);
        let (known, table) = Known::read(path, target, columns.target, by)?;
        match (request.half_life, recent) {
            (Some(half_life), recent) => {
                return Self::weighted(known, recent, half_life, target, request, path);
            }
            (None, Some(recent)) => return Self::after(known, recent, target, request, path),
            (None, None) => {}
        }
        let groups = match by {
            None => None,
            Some(column) => {
                let absent = || {
                    let problem = format!(
                        "names `{column}`, which {} does not have; fit with `--keep {column}`",
                        path.display()
                    );
                    refused(BY, problem)
                };
                let rule = columns.rules.get(column).ok_or_else(absent)?;
                let cells = table.words(column).map_err(|_| absent())?;
                Some(CellGroups::of(column, rule, columns.options, &cells))
            }
        };
        let weights = equal(known.rows());
        Self::of(&known, groups, &weights, target, request, path)
    }

    /// Calibrates on whole groups, for rows of new ones: each group counts like the new one (hierarchical conformal
    /// prediction; Lee, Barber and Willett, 2023).
    pub(super) fn of_new_groups(
        known: &Known,
        cells: &[&str],
        target: &Target,
        request: &ConformalRequest,
        path: &Path,
    ) -> Result<Self> {
        let names: BTreeSet<&str> = cells.iter().copied().collect();
        let names: Vec<&str> = names.into_iter().collect();
        let place = |cell: &&str| names.partition_point(|name| name < cell);
        let units = Units::of(&cells.iter().map(place).collect::<Vec<_>>());
        let (groups, needed) = (units.count(), rows_needed(request.level));
        if groups < needed {
            return Err(TabularError::Data(format!(
                "{}: the held-out rows are of {groups} groups, too few for the level {}, which needs at least {needed}; give \
                 a lower level, or fit with more groups or a larger `--validation`",
                path.display(),
                request.level
            )));
        }
        Ok(Self {
            groups: Some(groups),
            ..Self::of(known, None, &shared(&units), target, request, path)?
        })
    }

    /// Calibrates on held-out rows and recent ones in time, of which the older ones weigh less.
    pub(super) fn weighted(
        known: Known,
        recent: Option<Known>,
        half_life: f64,
        target: &Target,
        request: &ConformalRequest,
        path: &Path,
    ) -> Result<Self> {
        let count = recent.as_ref().map_or(0, Known::rows);
        let all = match &recent {
            Some(recent) => known.and(recent).map_err(|error| damaged(path, error))?,
            None => known,
        };
        let weights = halved(all.rows(), half_life);
        Ok(Self {
            drift: Some(Drift::Weighted(Weighted {
                half_life,
                recent: count,
                weight: weights.iter().sum(),
            })),
            ..Self::of(&all, None, &weights, target, request, path)?
        })
    }

    /// Calibrates on held-out rows and recent ones in time, of which the last have the threshold at the level that follows
    /// all of them.
    fn after(
        known: Known,
        recent: Known,
        target: &Target,
        request: &ConformalRequest,
        path: &Path,
    ) -> Result<Self> {
        let damaged = |error| damaged(path, error);
        let level = request.level;
        let all = known.and(&recent).map_err(damaged)?;
        // Fails if there are too few rows for the level.
        let found = Self::of(&all, None, &equal(all.rows()), target, request, path)?;
        let (next, inside) = all.followed(request).map_err(damaged)?;
        let count = recent.rows().min(inside.len());
        let hits = inside.iter().rev().take(count).filter(|hit| **hit).count();
        let end = all.rows();
        let rows: Vec<usize> = (end - window(level).min(end)..end).collect();
        let request = ConformalRequest {
            level: next.at_most(1.0 - f64::EPSILON).at_least(f64::EPSILON),
            ..request.clone()
        };
        let rule = all
            .rule(&rows, &equal(rows.len()), &request)
            .map_err(damaged)?;
        if rule.threshold() == f64::INFINITY {
            let share = tick(100.0 * hits as f64 / count as f64);
            return Err(TabularError::Data(format!(
                "of the {count} rows of `--conformal-recent` {share} % were inside at the level {level}, so that it would \
                 take sets or intervals of everything to reach it; fit again with these rows"
            )));
        }
        Ok(Self {
            rules: Rules::Together(rule),
            rows: rows.len(),
            drift: Some(Drift::Followed(Followed {
                level: next,
                rows: count,
                hits,
            })),
            ..found
        })
    }

    /// Calibrates on held-out rows, with the groups of a column and the group of each row, if these have the level, and
    /// otherwise with these weights. `path` is for messages.
    pub(super) fn of(
        known: &Known,
        groups: Option<(CellGroups, Vec<Option<usize>>)>,
        weights: &[f64],
        target: &Target,
        request: &ConformalRequest,
        path: &Path,
    ) -> Result<Self> {
        let (level, mut rows, mut of_parts) = (request.level, known.rows(), Vec::new());
        let damaged = |error| damaged(path, error);
        let rules = match (groups, &request.by) {
            (Some((groups, of_rows)), _) => {
                let members: Vec<usize> = (0..rows).filter(|&row| of_rows[row].is_some()).collect();
                let of_members: Vec<usize> = of_rows.iter().flatten().copied().collect();
                let rule = |chosen: &[usize]| {
                    known.rule(&selected(&members, chosen), &equal(chosen.len()), request)
                };
                let rules = Mondrian::calibrate(&of_members, rule).map_err(damaged)?;
                let parts = groups::members(&of_members, groups.names.len());
                of_parts = parts.iter().map(Vec::len).collect();
                for (group, name) in groups.names.iter().enumerate() {
                    let is_too_few = |rule: &Rule| rule.threshold() == f64::INFINITY;
                    if rules.of_group(group).is_some_and(is_too_few) {
                        let name = shown(name.as_deref());
                        let of_group = format!(" of the group `{name}` of `{}`", groups.by);
                        return Err(too_few(path, of_parts[group], &of_group, request));
                    }
                }
                rows = members.len();
                Rules::ByGroup(groups, rules)
            }
            (None, Some(_)) => Rules::ByClass(known.by_class(request).map_err(damaged)?),
            (None, None) => {
                let all: Vec<usize> = (0..rows).collect();
                Rules::Together(known.rule(&all, weights, request).map_err(damaged)?)
            }
        };
        match &rules {
            Rules::Together(rule) if rule.threshold() == f64::INFINITY => {
                return Err(too_few(path, rows, "", request));
            }
            Rules::ByClass(rule) => {
                for (class, &threshold) in rule.thresholds().iter().enumerate() {
                    let (count, name) = known.class(target, class);
                    if threshold == f64::INFINITY {
                        let of_class = format!(" of the class `{name}`");
                        return Err(too_few(path, count, &of_class, request));
                    }
                    of_parts.push(count);
                }
            }
            _ => {}
        }
        Ok(Self {
            level,
            rows,
            rules,
            drift: None,
            groups: None,
            of_parts,
            is_ordered: false,
        })
    }

    /// The same for ordered classes, whose sets are ranges.
    pub(crate) fn of_ordered_classes(self) -> Self {
        Self {
            is_ordered: true,
            ..self
        }
    }

    /// The level.
    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// The number of held-out rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The number of independent held-out rows that say as much about a threshold: that of a group or class which has one, or
    /// of all rows.
    pub(crate) fn independent_rows(&self, part: Option<usize>) -> usize {
        match (part, self.drift, self.groups) {
            (Some(part), ..) => self.of_parts[part],
            (None, Some(Drift::Weighted(Weighted { weight, .. })), _) => weight as usize,
            (None, _, groups) => groups.unwrap_or(self.rows),
        }
    }

    /// The groups with a threshold each, if they are those of a column.
    pub(crate) fn groups(&self) -> Option<&CellGroups> {
        match &self.rules {
            Rules::ByGroup(groups, _) => Some(groups),
            _ => None,
        }
    }

    /// Whether each class has a threshold.
    pub(crate) fn is_by_class(&self) -> bool {
        matches!(self.rules, Rules::ByClass(_))
    }

    /// The group of each row, from the cells of its column; `None` without such groups.
    ///
    /// # Errors
    /// If no held-out row was in the group of a row, with the number of this row.
    pub(crate) fn groups_of<'a>(
        &self,
        cells: impl IntoIterator<Item = (usize, &'a str)>,
        options: &CsvOptions,
    ) -> Result<Option<Vec<usize>>> {
        let Rules::ByGroup(groups, rules) = &self.rules else {
            return Ok(None);
        };
        let of_cell = |(place, cell): (usize, &str)| {
            let group = group_of(groups, rules, cell, options);
            group.map_err(|problem| TabularError::Data(format!("row {place}: {problem}")))
        };
        cells
            .into_iter()
            .map(of_cell)
            .collect::<Result<_>>()
            .map(Some)
    }

    /// Why there is no guarantee for a row with this cell in the column of the groups; `None` if there is one.
    pub(crate) fn problem_of(&self, cell: &str, options: &CsvOptions) -> Option<String> {
        match &self.rules {
            Rules::ByGroup(groups, rules) => group_of(groups, rules, cell, options).err(),
            _ => None,
        }
    }

    /// What holds, in words.
    pub(crate) fn guarantee(&self) -> String {
        let what = match &self.rules {
            Rules::Together(Rule::Intervals(_)) => {
                "the interval of a new row contains its target".into()
            }
            Rules::Together(_) => "the set of a new row contains its class".into(),
            Rules::ByClass(_) => {
                "for each class, the set of a new row of this class contains it".into()
            }
            Rules::ByGroup(groups, rules) => {
                let mut groups_of_rows = 0..groups.names.len();
                let what = match groups_of_rows.find_map(|group| rules.of_group(group)) {
                    Some(Rule::Intervals(_)) => "the interval of a new row contains its target",
                    _ => "the set of a new row contains its class",
                };
                format!("in each group of `{}`, {what}", groups.by)
            }
        };
        let rows = self.rows;
        if let Some(groups) = self.groups {
            return format!(
                "{what} with a probability of at least {} %, if the row is of a new group, and the groups of new rows come \
                 from the same distribution as those of the training file; calibrated on {rows} held-out rows of {groups} \
                 groups",
                tick(100.0 * self.level)
            );
        }
        match self.drift {
            Some(Drift::Followed(Followed {
                level,
                rows: known,
                hits,
            })) => {
                let inside = match known {
                    0 => String::new(),
                    _ => format!(
                        "of the last {known} known rows, {} % were inside, and ",
                        tick(percentage(hits as f64 / known as f64))
                    ),
                };
                format!(
                    "in {} % of the rows in the long run, {what}, if the target of every row is given in \
                     `--conformal-recent` before the next one is predicted; {inside}the level is {} % now, with the \
                     threshold of the last {rows} rows",
                    tick(100.0 * self.level),
                    tick(percentage(level))
                )
            }
            Some(Drift::Weighted(Weighted {
                half_life,
                recent,
                weight,
            })) => {
                let held_out = rows - recent;
                let recent = match recent {
                    0 => String::new(),
                    count => format!(" and {count} recent ones"),
                };
                format!(
                    "{what} with a probability of at least {} %, if new rows come from the same distribution as the known \
                     ones; if they drift, less by at most the mean change of the distribution of all rows (in total \
                     variation) when the new row and a known one change places; weights of this mean, and of the \
                     calibration, are halved after {} rows; calibrated on {held_out} held-out rows{recent}, which weigh as \
                     much as {} new ones",
                    tick(100.0 * self.level),
                    tick(half_life),
                    number(weight)
                )
            }
            None => format!(
                "{what} with a probability of at least {} %, if the row comes from the same distribution as the training \
                 file; calibrated on {rows} held-out rows",
                tick(100.0 * self.level),
            ),
        }
    }

    /// The prediction sets of rows, with the group of each; `None` for a regression.
    pub(crate) fn sets(
        &self,
        predictions: &ClassPredictions,
        groups: Option<&[usize]>,
    ) -> Result<Option<PredictionSets>> {
        let average = predictions.checked()?.average();
        let sets = match &self.rules {
            Rules::Together(rule) => rule.sets(&average).transpose()?,
            Rules::ByClass(rule) => Some(rule.sets(&average)?),
            Rules::ByGroup(_, rules) => {
                let of_rows = |rule: &Rule, rows: &[usize]| match rule.sets(&average.select(rows)?)
                {
                    Some(sets) => sets,
                    None => unreachable!("the rules of classes make sets"),
                };
                Some(rules.sets(groups.unwrap_or_default(), of_rows)?)
            }
        };
        Ok(match self.is_ordered {
            true => sets.map(PredictionSets::as_ranges),
            false => sets,
        })
    }

    /// The prediction intervals of rows, with the group of each; `None` for a classification.
    pub(crate) fn intervals(
        &self,
        moments: &Moments,
        groups: Option<&[usize]>,
    ) -> Result<Option<PredictionIntervals<'static>>> {
        let deviations = moments.deviations();
        let intervals = match &self.rules {
            Rules::Together(Rule::Intervals(rule)) => {
                Some(rule.intervals(&moments.mean, &deviations)?)
            }
            Rules::Together(_) | Rules::ByClass(_) => None,
            Rules::ByGroup(_, rules) => {
                let of_rows = |rule: &Rule, rows: &[usize]| match rule {
                    Rule::Intervals(rule) => {
                        rule.intervals(&selected(&moments.mean, rows), &selected(&deviations, rows))
                    }
                    _ => unreachable!("the rules of numbers make intervals"),
                };
                Some(rules.intervals(groups.unwrap_or_default(), of_rows)?)
            }
        };
        let (Some(found), Some(least)) = (&intervals, moments.least) else {
            return Ok(intervals);
        };
        let lower = found.lower().iter().map(|&limit| limit.at_least(least));
        let upper = found.upper().to_vec();
        Ok(Some(PredictionIntervals::new(
            lower.collect::<Vec<_>>(),
            upper,
        )?))
    }
}

/// The error of rows that cannot be used.
fn damaged(path: &Path, error: EvalError) -> TabularError {
    TabularError::Data(format!("{}: {error}", path.display()))
}

/// The error of too few rows, or of too small weights; `of_group` says which rows.
fn too_few(path: &Path, rows: usize, of_group: &str, request: &ConformalRequest) -> TabularError {
    let (level, needed) = (request.level, rows_needed(request.level));
    let path = path.display();
    let more = "fit with more rows or a larger `--validation`";
    let Some(half_life) = request.half_life.filter(|_| rows >= needed) else {
        return TabularError::Data(format!(
            "{path}: {rows} held-out rows{of_group} are too few for the level {level}, which needs at least {needed}; give \
             a lower level, or {more}"
        ));
    };
    let weight: f64 = halved(rows, half_life).iter().sum();
    let of_level = level / (1.0 - level);
    // Rounded down, so that it can be reached.
    let most = (1e4 * weight / (1.0 + weight)).floor() / 1e4;
    let longer = match shortest_half_life(rows, of_level) {
        Some(shortest) => format!("a half-life of at least {}", tick(shortest)),
        None => "no half-life".into(),
    };
    TabularError::Data(format!(
        "{path}: with a `--{HALF_LIFE}` of {half_life}, the {rows} known rows weigh as much as {} new ones, too few for the \
         level {level}, which needs {}; give a level of at most {most} or {longer}, or {more}",
        number(weight),
        number(of_level)
    ))
}

/// The group of a cell.
///
/// # Errors
/// If no held-out row was in it.
fn group_of(
    groups: &CellGroups,
    rules: &Mondrian<Rule>,
    cell: &str,
    options: &CsvOptions,
) -> Result<usize, String> {
    let group = groups.group(cell.trim(), options);
    let calibrated = group.filter(|&group| rules.of_group(group).is_some());
    calibrated.ok_or_else(|| {
        let column = &groups.by;
        let has = match group.map(|group| shown(groups.names[group].as_deref())) {
            Some(name) => format!("is in the group `{name}` of `{cell}` in"),
            None => format!("has the value `{cell}` of"),
        };
        format!(
            "no held-out row of the fit {has} `{column}`, so there is no guarantee for this group; leave its rows out, merge the \
             group with another one in both files, or leave out `--conformal-by`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_bayes::eval::conformal_threshold;
    use burn_bayes_data::ColumnScale;

    #[test]
    fn the_number_of_rows_needed_is_the_smallest_with_a_finite_threshold() {
        let levels = (1..100).map(|percent| f64::from(percent) / 100.0);
        for level in levels.chain([0.995, 0.999, 0.9999, 1.0 / 3.0]) {
            let needed = rows_needed(level);
            let scores = vec![1.0; needed];
            assert!(
                conformal_threshold(&scores, level).unwrap().is_finite(),
                "{level}: {needed}"
            );
            let fewer = conformal_threshold(&scores[1..], level);
            assert!(
                fewer.is_err() || fewer.unwrap().is_infinite(),
                "{level}: {needed}"
            );
        }
    }

    /// The columns of these files: `ward` has words.
    fn kept() -> BTreeMap<String, GroupRule> {
        [("ward".to_string(), GroupRule::Categories)].into()
    }

    fn calibrated(
        path: &Path,
        target: &Target,
        name: &str,
        request: &ConformalRequest,
    ) -> Result<Conformal> {
        let (rules, options) = (&kept(), &CsvOptions::default());
        let columns = HeldOutColumns {
            target: None,
            rules,
            options,
            group_by: None,
        };
        Conformal::calibrate(path, target, name, request, &columns, None)
    }

    #[test]
    fn a_file_calibrates_as_its_numbers_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validation.csv");
        std::fs::write(&path, "row,mean,std,target\n1,0,1,0.5\n2,1,2,2\n3,2,1,4\n").unwrap();
        let target = Target::Real(ColumnScale::KEPT);
        let request = ConformalRequest::at;
        let found = calibrated(&path, &target, "y", &request(0.5)).unwrap();
        let Rules::Together(Rule::Intervals(rule)) = found.rules else {
            panic!("intervals");
        };
        // The scores are 0.5, 0.5 and 2, and the second of them is the threshold.
        assert_eq!((rule.threshold(), found.rows()), (0.5, 3));
        assert!(found.guarantee().contains("50 %"), "{}", found.guarantee());
        let few = calibrated(&path, &target, "y", &request(0.8))
            .unwrap_err()
            .to_string();
        assert!(
            few.contains("3 held-out rows are too few") && few.contains("at least 4"),
            "{few}"
        );

        std::fs::write(&path, "row,p_a,p_b,target\n1,0.9,0.1,a\n2,0.2,0.8,b\n").unwrap();
        let classes = Target::Classes(["a", "b"].map(String::from).to_vec());
        let found = calibrated(&path, &classes, "y", &request(0.6)).unwrap();
        let Rules::Together(Rule::Sets(rule)) = found.rules else {
            panic!("sets");
        };
        assert!((rule.threshold() - 0.2).abs() < 1e-15);
        std::fs::write(&path, "row,p_a,p_b,target\n1,0.9,0.1,a\n2,0.2,0.8,c\n").unwrap();
        let error = calibrated(&path, &classes, "y", &request(0.6))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("validation.csv") && error.contains("`c`"),
            "{error}"
        );
    }

    #[test]
    fn sets_of_ordered_classes_are_ranges() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validation.csv");
        let rows = "1,0.45,0.1,0.45,a\n2,0.45,0.1,0.45,c\n";
        std::fs::write(&path, format!("row,p_a,p_b,p_c,target\n{rows}")).unwrap();
        let names = ["a", "b", "c"].map(String::from).to_vec();
        let request = ConformalRequest::at(0.6);
        let target = Target::Classes(names.clone());
        let found = calibrated(&path, &target, "y", &request).unwrap();
        let predictions = ClassPredictions::new(names, 1, vec![0.45, 0.1, 0.45]);
        let classes = |conformal: &Conformal| {
            let sets = conformal.sets(&predictions, None).unwrap();
            sets.unwrap().classes_of(0)
        };
        assert_eq!(classes(&found), [0, 2]);
        assert_eq!(classes(&found.of_ordered_classes()), [0, 1, 2]);
    }

    #[test]
    fn each_of_several_targets_has_its_own_threshold() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validation.csv");
        let header = "row,a_mean,a_std,b_mean,b_std,a_target,b_target";
        std::fs::write(&path, format!("{header}\n1,0,1,0,1,1,5\n2,0,1,0,1,2,6\n")).unwrap();
        let target = Target::Real(ColumnScale::KEPT);
        let several = Target::Several(["a", "b"].map(|name| (name.into(), target.clone())).into());
        let request = |by: Option<&str>| ConformalRequest {
            by: by.map(String::from),
            ..ConformalRequest::at(0.6)
        };
        request(None).validate(&several, "a").unwrap();
        let problem = request(Some("b")).validate(&several, "a").unwrap_err();
        assert!(problem.to_string().contains("fit `b` alone"), "{problem}");
        for (name, threshold) in [("a", 2.0), ("b", 6.0)] {
            let columns = HeldOutColumns {
                target: Some(name),
                rules: &kept(),
                options: &CsvOptions::default(),
                group_by: None,
            };
            let found =
                Conformal::calibrate(&path, &target, name, &request(None), &columns, None).unwrap();
            let Rules::Together(Rule::Intervals(rule)) = found.rules else {
                panic!("intervals");
            };
            assert_eq!(rule.threshold(), threshold);
        }
    }

    #[test]
    fn older_rows_weigh_less() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validation.csv");
        let sizes = [9.0, 9.0, 9.0, 1.0, 2.0, 3.0];
        let rows = sizes.iter().enumerate();
        let rows: String = rows
            .map(|(row, size)| format!("{row},0,1,{size}\n"))
            .collect();
        std::fs::write(&path, format!("row,mean,std,target\n{rows}")).unwrap();
        let target = Target::Real(ColumnScale::KEPT);
        let request = |level, half_life| ConformalRequest {
            half_life,
            ..ConformalRequest::at(level)
        };
        let threshold = |level, half_life| {
            let found = calibrated(&path, &target, "y", &request(level, half_life)).unwrap();
            match found.rules {
                Rules::Together(Rule::Intervals(rule)) => rule.threshold(),
                _ => panic!("intervals"),
            }
        };
        assert_eq!(threshold(0.5, None), 9.0);
        // The weights are 2^(−1/2) = 0.71 for the last row, then 0.5, 0.35, 0.25, …; all and the new row weigh 3.11.
        assert_eq!(threshold(0.5, Some(2.0)), 3.0);
        assert_eq!(threshold(0.25, Some(2.0)), 2.0);
        assert_eq!(threshold(0.5, Some(1e9)), 9.0);
        let recent = Known::Numbers([vec![0.0; 4], vec![1.0; 4], vec![1.0; 4]]);
        let columns = HeldOutColumns {
            target: None,
            rules: &kept(),
            options: &CsvOptions::default(),
            group_by: None,
        };
        let wanted = request(0.5, Some(2.0));
        let found = Conformal::calibrate(&path, &target, "y", &wanted, &columns, Some(recent));
        let found = found.unwrap();
        let guarantee = found.guarantee();
        // Ten weights from 2^(−1/2) on, halved after two rows, sum to 2.34.
        assert_eq!((found.rows(), found.independent_rows(None)), (10, 2));
        for words in [
            "halved after 2 rows",
            "6 held-out rows and 4 recent ones",
            "50 %",
        ] {
            assert!(guarantee.contains(words), "{words}: {guarantee}");
        }

        // Enough rows for the level, and none more whose coverage could be counted.
        let recent = Known::Numbers([vec![0.0; 3], vec![1.0; 3], vec![1.0; 3]]);
        let wanted = request(0.9, None);
        let found = Conformal::calibrate(&path, &target, "y", &wanted, &columns, Some(recent));
        let guarantee = found.unwrap().guarantee();
        assert!(
            guarantee.contains("; the level is 90 % now") && !guarantee.contains("NaN"),
            "{guarantee}"
        );

        let error = |level, half_life| {
            let found = calibrated(&path, &target, "y", &request(level, Some(half_life)));
            found.unwrap_err().to_string()
        };
        // Six rows weigh 2.11 new ones.
        let few = error(0.8, 2.0);
        for words in [
            "weigh as much as 2.11",
            "needs 4.0",
            "at most 0.67",
            "half-life of at least 6",
        ] {
            assert!(few.contains(words), "{words}: {few}");
        }
        assert!(threshold(0.8, Some(6.0)).is_finite());
        assert!(
            error(0.9, 2.0).contains("6 held-out rows are too few"),
            "{}",
            error(0.9, 2.0)
        );
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let problem = request(0.5, Some(wrong))
                .validate(&target, "y")
                .unwrap_err();
            assert!(problem.to_string().contains("above 0"), "{problem}");
        }
        let by = ConformalRequest {
            by: Some("ward".into()),
            ..request(0.5, Some(2.0))
        };
        let problem = by.validate(&target, "y").unwrap_err().to_string();
        assert!(problem.contains("`conformal-half-life`"), "{problem}");
    }

    #[test]
    fn groups_and_classes_have_thresholds_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validation.csv");
        let rows = "1,a,0,1,1\n2,a,0,1,2\n3,b,0,1,10\n4,b,0,1,20\n";
        std::fs::write(&path, format!("row,ward,mean,std,target\n{rows}")).unwrap();
        let target = Target::Real(ColumnScale::KEPT);
        let request = |by: &str, level| ConformalRequest {
            by: Some(by.into()),
            ..ConformalRequest::at(level)
        };
        let found = calibrated(&path, &target, "y", &request("ward", 0.6)).unwrap();
        assert!(
            found.guarantee().contains("in each group of `ward`"),
            "{}",
            found.guarantee()
        );
        let independent = [Some(0), Some(1), None].map(|part| found.independent_rows(part));
        assert_eq!(independent, [2, 2, 4]);
        let groups = found
            .groups_of([(1, "b"), (2, " a")], &CsvOptions::default())
            .unwrap()
            .unwrap();
        let moments = Moments {
            mean: vec![0.0, 5.0],
            variance: vec![1.0, 4.0],
            variance_between_draws: vec![0.0; 2],
            least: None,
        };
        let positive = Moments {
            least: Some(0.0),
            ..moments.clone()
        };
        let intervals = found.intervals(&moments, Some(&groups)).unwrap().unwrap();
        // The second of two scores: 20 in one group, and 2 times a deviation of 2 in the other.
        for (found, limits) in [
            (intervals.lower(), [-20.0, 1.0]),
            (intervals.upper(), [20.0, 9.0]),
        ] {
            let errors = found.iter().zip(limits).map(|(one, other)| one - other);
            assert!(errors.map(f64::abs).all(|error| error < 1e-14), "{found:?}");
        }
        let intervals = found.intervals(&positive, Some(&groups)).unwrap().unwrap();
        assert_eq!(intervals.lower()[0], 0.0);
        assert!((intervals.lower()[1] - 1.0).abs() < 1e-14);
        let unknown = found
            .groups_of([(7, "c")], &CsvOptions::default())
            .unwrap_err()
            .to_string();
        assert!(
            unknown.contains("row 7") && unknown.contains("`c`"),
            "{unknown}"
        );
        let error = |by: &str, level| {
            let request = request(by, level);
            request.validate(&target, "y").unwrap();
            calibrated(&path, &target, "y", &request)
                .unwrap_err()
                .to_string()
        };
        assert!(error("ward", 0.8).contains("2 held-out rows of the group `a` of `ward`"));
        assert!(
            error("age", 0.6).contains("--keep age"),
            "{}",
            error("age", 0.6)
        );
        assert!(request("y", 0.6).validate(&target, "y").is_err());

        let rows = "1,0.9,0.1,a\n2,0.8,0.2,a\n3,0.4,0.6,b\n4,0.7,0.3,b\n";
        std::fs::write(&path, format!("row,p_a,p_b,target\n{rows}")).unwrap();
        let classes = Target::Classes(["a", "b"].map(String::from).to_vec());
        let found = calibrated(&path, &classes, "y", &request("y", 0.6)).unwrap();
        let Rules::ByClass(rule) = &found.rules else {
            panic!("classes");
        };
        assert_eq!(found.independent_rows(Some(1)), 2);
        let thresholds = rule.thresholds();
        assert!((thresholds[0] - 0.2).abs() < 1e-15 && (thresholds[1] - 0.7).abs() < 1e-15);
        assert!(
            found.guarantee().contains("for each class"),
            "{}",
            found.guarantee()
        );
        let few = calibrated(&path, &classes, "y", &request("y", 0.8)).unwrap_err();
        assert!(
            few.to_string().contains("2 held-out rows of the class `a`"),
            "{few}"
        );
    }
}
