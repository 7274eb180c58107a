//! Conformal prediction sets and intervals, calibrated on the held-out rows of a run.
//!
//! A set has every class whose nonconformity score is at most a threshold; an interval is the mean ± q̂ standard
//! deviations of the prediction. Threshold and q̂ are order statistics of the held-out rows, so that
//!
//!   P(a new row is inside) ≥ level,
//!
//! over the held-out rows and the new row, if these are exchangeable: drawn from one distribution, and none of them
//! used by the fit. With a threshold for each group of rows, or for each true class, this holds in every group or class
//! (Mondrian conformal prediction); a group needs as many held-out rows as all rows do otherwise. The tests in
//! `guarantees.rs` simulate what is promised.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn_bayes::eval::{
    AdaptiveLevel, Bounded, ClassProbabilities, ConformalAps, ConformalByClass, ConformalLac,
    ConformalNormalisedResidual, ConformalRaps, EvalError, LabelledProbabilities, Mondrian,
    PredictionIntervals, PredictionSets, RankPenalty, SetScore,
};
use burn_bayes_data::Targets;

use super::held_out::HeldOutTable;
use super::table::DEVIATIONS;
use super::{ClassPredictions, MEAN, Moments, Predictions, TARGET, mismatched, probability_column};
use crate::error::{Result, TabularError};
use crate::groups::{CellGroups, GroupRule, shown};
use crate::rows::Target;
use crate::settings::{choices, refused};
use crate::text::tick;

/// The penalty of RAPS: on every class beyond the most probable one.
const PENALTY: RankPenalty = RankPenalty {
    weight: 0.1,
    free_classes: 1,
};

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
    /// A file of rows that came after those of the fit, whose targets are known: the level follows them.
    pub recent: Option<PathBuf>,
}

/// The columns of a run that are copied into the predictions of the held-out rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptColumns<'a> {
    /// How each is divided into groups, from the training rows.
    pub(crate) rules: &'a BTreeMap<String, GroupRule>,
    /// The cells that count as missing.
    pub(crate) missing: &'a [String],
}

/// Prediction sets or intervals with a coverage guarantee.
#[derive(Clone, Debug)]
pub struct Conformal {
    level: f64,
    rows: usize,
    rules: Rules,
    /// How the level followed the rows; `None` if there were no recent ones.
    followed: Option<Followed>,
}

/// How a level followed rows in time.
#[derive(Clone, Copy, Debug)]
struct Followed {
    /// The level at the end.
    level: f64,
    /// The number of recent rows, and the fraction of them that was inside.
    rows: usize,
    coverage: f64,
}

#[derive(Clone, Debug)]
enum Rules {
    Together(Rule),
    ByGroup(CellGroups, Mondrian<Rule>),
    ByClass(ConformalByClass),
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Lac(ConformalLac),
    Aps(ConformalAps),
    Raps(ConformalRaps),
    Intervals(ConformalNormalisedResidual),
}

/// The predictions and targets of the held-out rows.
pub(crate) enum Known {
    Classes(ClassProbabilities<'static>, Vec<usize>),
    Numbers([Vec<f64>; 3]),
}

impl ConformalRequest {
    /// Checks the request for a target in the column `name`.
    pub(crate) fn validate(&self, target: &Target, name: &str) -> Result<()> {
        let level = self.level;
        if !(level > 0.0 && level < 1.0) {
            let problem = format!("is {level}; it must be in (0, 1), such as 0.9");
            return Err(refused("conformal", problem));
        }
        target.expect_one("conformal", "leave it out, or fit each target alone")?;
        if self.recent.is_some() && self.by.is_some() {
            let problem = "is for all rows together; leave it out, or `--conformal-by`";
            return Err(refused("conformal-recent", problem));
        }
        let is_number = matches!(target, Target::Real(_) | Target::Counts { .. });
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
        columns: &KeptColumns<'_>,
        recent: Option<Known>,
    ) -> Result<Self> {
        let by = request.by.as_deref().filter(|&by| by != name);
        let (known, table) = Known::read(path, target, by)?;
        if let Some(recent) = recent {
            return Self::after(known, recent, target, request, path);
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
                Some(CellGroups::of(column, rule, columns.missing, &cells))
            }
        };
        Self::of(&known, groups, target, request, path)
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
        let damaged = |error: EvalError| TabularError::Data(format!("{}: {error}", path.display()));
        let level = request.level;
        let all = known.and(&recent).map_err(damaged)?;
        // Fails if there are too few rows for the level.
        let found = Self::of(&all, None, target, request, path)?;
        let (next, inside) = all.followed(request).map_err(damaged)?;
        let count = recent.rows().min(inside.len());
        let hits = inside.iter().rev().take(count).filter(|hit| **hit).count();
        let end = all.rows();
        let rows: Vec<usize> = (end - window(level).min(end)..end).collect();
        let request = ConformalRequest {
            level: next.at_most(1.0 - f64::EPSILON).at_least(f64::EPSILON),
            ..request.clone()
        };
        let rule = all.rule(&rows, &request).map_err(damaged)?;
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
            followed: Some(Followed {
                level: next,
                rows: count,
                coverage: hits as f64 / count as f64,
            }),
            ..found
        })
    }

    /// Calibrates on held-out rows, with the groups of a column and the group of each row, if these have the level.
    /// `path` is for messages.
    pub(super) fn of(
        known: &Known,
        groups: Option<(CellGroups, Vec<Option<usize>>)>,
        target: &Target,
        request: &ConformalRequest,
        path: &Path,
    ) -> Result<Self> {
        let (level, mut rows) = (request.level, known.rows());
        let damaged = |error: EvalError| TabularError::Data(format!("{}: {error}", path.display()));
        let rules = match (groups, &request.by) {
            (Some((groups, of_rows)), _) => {
                let members: Vec<usize> = (0..rows).filter(|&row| of_rows[row].is_some()).collect();
                let of_members: Vec<usize> = of_rows.iter().flatten().copied().collect();
                let rule = |chosen: &[usize]| known.rule(&pick(&members, chosen), request);
                let rules = Mondrian::calibrate(&of_members, rule).map_err(damaged)?;
                for (group, name) in groups.names.iter().enumerate() {
                    let is_too_few = |rule: &Rule| rule.threshold() == f64::INFINITY;
                    if rules.of_group(group).is_some_and(is_too_few) {
                        let count = of_members.iter().filter(|&&other| other == group).count();
                        let name = shown(name.as_deref());
                        let of_group = format!(" of the group `{name}` of `{}`", groups.by);
                        return Err(too_few(path, count, &of_group, level));
                    }
                }
                rows = members.len();
                Rules::ByGroup(groups, rules)
            }
            (None, Some(_)) => Rules::ByClass(known.by_class(request).map_err(damaged)?),
            (None, None) => {
                let all: Vec<usize> = (0..rows).collect();
                Rules::Together(known.rule(&all, request).map_err(damaged)?)
            }
        };
        match &rules {
            Rules::Together(rule) if rule.threshold() == f64::INFINITY => {
                return Err(too_few(path, rows, "", level));
            }
            Rules::ByClass(rule) => {
                let mut thresholds = rule.thresholds().iter();
                if let Some(class) = thresholds.position(|&threshold| threshold == f64::INFINITY) {
                    let (count, name) = known.class(target, class);
                    let of_class = format!(" of the class `{name}`");
                    return Err(too_few(path, count, &of_class, level));
                }
            }
            _ => {}
        }
        Ok(Self {
            level,
            rows,
            rules,
            followed: None,
        })
    }

    /// The level.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// The number of held-out rows.
    pub fn rows(&self) -> usize {
        self.rows
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

    /// The group of each row, from the cells of its column; `None` without such groups. `place` is the number of a row
    /// for messages.
    ///
    /// # Errors
    /// If no held-out row was in the group of a row.
    pub(crate) fn groups_of<'a>(
        &self,
        cells: impl IntoIterator<Item = (usize, &'a str)>,
    ) -> Result<Option<Vec<usize>>> {
        let Rules::ByGroup(groups, rules) = &self.rules else {
            return Ok(None);
        };
        let of_cell = |(place, cell): (usize, &str)| {
            let group = groups.group(cell.trim());
            let calibrated = group.filter(|&group| rules.of_group(group).is_some());
            calibrated.ok_or_else(|| {
                let column = &groups.by;
                let has = match group.map(|group| shown(groups.names[group].as_deref())) {
                    Some(name) => format!("is in the group `{name}` of `{cell}` in"),
                    None => format!("has the value `{cell}` of"),
                };
                TabularError::Data(format!(
                    "row {place}: no held-out row of the fit {has} `{column}`, so there is no guarantee \
                     for this group; leave its rows out, merge the group with another one in both files, or leave out \
                     `--conformal-by`"
                ))
            })
        };
        cells
            .into_iter()
            .map(of_cell)
            .collect::<Result<_>>()
            .map(Some)
    }

    /// What holds, in words.
    pub fn guarantee(&self) -> String {
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
        if let Some(Followed {
            level,
            rows,
            coverage,
        }) = self.followed
        {
            let [wanted, level, coverage] =
                [self.level, level, coverage].map(|share| tick((1000.0 * share).round() / 10.0));
            return format!(
                "in {wanted} % of the rows in the long run, {what}, if the target of every row is given in \
                 `--conformal-recent` before the next one is predicted; of the last {rows} known rows, {coverage} % were \
                 inside, and the level is {level} % now, with the threshold of the last {} rows",
                self.rows
            );
        }
        format!(
            "{what} with a probability of at least {} %, if the row comes from the same distribution as the training \
             file; calibrated on {} held-out rows",
            tick(100.0 * self.level),
            self.rows
        )
    }

    /// The prediction sets of rows, with the group of each; `None` for a regression.
    pub(crate) fn sets(
        &self,
        predictions: &ClassPredictions,
        groups: Option<&[usize]>,
    ) -> Result<Option<PredictionSets>> {
        let average = predictions.checked()?.average();
        Ok(match &self.rules {
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
        })
    }

    /// The prediction intervals of rows, with the group of each; `None` for a classification.
    pub(crate) fn intervals(
        &self,
        moments: &Moments,
        groups: Option<&[usize]>,
    ) -> Result<Option<PredictionIntervals<'static>>> {
        let deviations = moments.deviations();
        Ok(match &self.rules {
            Rules::Together(Rule::Intervals(rule)) => {
                Some(rule.intervals(&moments.mean, &deviations)?)
            }
            Rules::Together(_) | Rules::ByClass(_) => None,
            Rules::ByGroup(_, rules) => {
                let of_rows = |rule: &Rule, rows: &[usize]| match rule {
                    Rule::Intervals(rule) => {
                        rule.intervals(&pick(&moments.mean, rows), &pick(&deviations, rows))
                    }
                    _ => unreachable!("the rules of numbers make intervals"),
                };
                Some(rules.intervals(groups.unwrap_or_default(), of_rows)?)
            }
        })
    }
}

impl Rule {
    fn threshold(&self) -> f64 {
        match self {
            Self::Lac(rule) => rule.threshold(),
            Self::Aps(rule) => rule.threshold(),
            Self::Raps(rule) => rule.threshold(),
            Self::Intervals(rule) => rule.threshold(),
        }
    }

    /// The sets of rows; `None` for intervals.
    fn sets(&self, average: &ClassProbabilities<'_>) -> Option<Result<PredictionSets, EvalError>> {
        match self {
            Self::Lac(rule) => Some(rule.sets(average)),
            Self::Aps(rule) => Some(rule.sets(average)),
            Self::Raps(rule) => Some(rule.sets(average)),
            Self::Intervals(_) => None,
        }
    }
}

/// The number of last rows whose threshold a level that follows a drift has.
fn window(level: f64) -> usize {
    LEAST_WINDOW.max(2 * rows_needed(level))
}

const LEAST_WINDOW: usize = 100;
/// In simulations of errors that drift, grow, jump and come in seasons, .89 to .91 of 200 rows were inside at .9, and at most
/// two of a thousand intervals infinite; with steps of .02 and .05 up to 22 and 117 were.
const STEP: f64 = 0.01;

impl Known {
    /// Predictions of rows with their targets.
    ///
    /// # Errors
    /// If they do not match.
    pub(crate) fn of(predictions: &Predictions, targets: &Targets) -> Result<Self> {
        match (predictions, targets) {
            (Predictions::Classes(classes), Targets::Classes(truths)) => {
                Ok(Self::Classes(classes.checked()?.average(), truths.clone()))
            }
            (_, Targets::Real(truths)) => {
                let moments = predictions.moments()?.unwrap_or_default();
                Ok(Self::Numbers([
                    moments.mean.clone(),
                    moments.deviations(),
                    truths.clone(),
                ]))
            }
            _ => Err(mismatched(predictions)),
        }
    }

    /// These rows, and then others of the same kind.
    fn and(self, others: &Self) -> Result<Self, EvalError> {
        match (self, others) {
            (Self::Classes(table, truths), Self::Classes(other, more)) => {
                let values = [table.values(), other.values()].concat();
                let truths = [&truths[..], more].concat();
                let classes = table.classes();
                let table = ClassProbabilities::new(values, truths.len(), classes)?;
                Ok(Self::Classes(table, truths))
            }
            (Self::Numbers(columns), Self::Numbers(others)) => {
                let mut columns = columns;
                let pairs = columns.iter_mut().zip(others);
                pairs.for_each(|(column, other)| column.extend(other));
                Ok(Self::Numbers(columns))
            }
            _ => unreachable!("rows of one run have one kind"),
        }
    }

    /// The level after these rows in time, and whether each of them but the first ones was inside at the level before it.
    fn followed(&self, request: &ConformalRequest) -> Result<(f64, Vec<bool>), EvalError> {
        let mut adaptive = AdaptiveLevel::new(request.level, STEP)?;
        let window = window(request.level);
        let mut inside = Vec::new();
        for row in 1..self.rows() {
            let before: Vec<usize> = (row.saturating_sub(window)..row).collect();
            let is_inside = match adaptive.level() {
                level if level >= 1.0 => true,
                level if level <= 0.0 => false,
                level => {
                    let request = ConformalRequest {
                        level,
                        ..request.clone()
                    };
                    self.is_inside(row, &self.rule(&before, &request)?)?
                }
            };
            // Until there are enough rows for a finite threshold, nothing is learned.
            if row >= rows_needed(request.level) {
                adaptive.update(is_inside);
                inside.push(is_inside);
            }
        }
        Ok((adaptive.level(), inside))
    }

    /// Whether a rule has the target of a row inside.
    fn is_inside(&self, row: usize, rule: &Rule) -> Result<bool, EvalError> {
        match (self, rule) {
            (Self::Numbers([means, deviations, truths]), Rule::Intervals(rule)) => {
                let found = rule.intervals(&[means[row]], &[deviations[row]])?;
                Ok(found.covered(&[truths[row]])?[0])
            }
            (Self::Classes(table, truths), rule) => {
                let sets = rule.sets(&table.select(&[row])?).transpose()?;
                Ok(sets.is_some_and(|sets| sets.contains(0, truths[row])))
            }
            (Self::Numbers(_), _) => unreachable!("the rules of numbers make intervals"),
        }
    }

    /// The number of rows.
    fn rows(&self) -> usize {
        match self {
            Self::Classes(_, truths) => truths.len(),
            Self::Numbers([means, ..]) => means.len(),
        }
    }

    /// Reads the file; `by` is a column of words that is read too, if the file has it.
    fn read(path: &Path, target: &Target, by: Option<&str>) -> Result<(Self, HeldOutTable)> {
        let words = |target: &[&'static str]| -> Vec<String> {
            let target = target.iter().copied();
            target.chain(by).map(String::from).collect()
        };
        match target {
            Target::Classes(classes) => {
                let names: Vec<String> = classes
                    .iter()
                    .map(|class| probability_column(class))
                    .collect();
                let table = HeldOutTable::read(path, &names, &words(&[TARGET]))?;
                let truths = table.words(TARGET)?.into_iter();
                let truths = truths.map(|truth| {
                    let class = classes.iter().position(|class| class == truth);
                    class.ok_or_else(|| table.damaged(format_args!("`{truth}` is not a class")))
                });
                let truths: Vec<usize> = truths.collect::<Result<_>>()?;
                let columns = names.iter().map(|name| table.numbers(name));
                let columns: Vec<Vec<f64>> = columns.collect::<Result<_>>()?;
                let of_row = |row: usize| columns.iter().map(move |column| column[row]);
                let values: Vec<f64> = (0..table.rows()).flat_map(of_row).collect();
                let damaged = |error| table.damaged(error);
                let probabilities = ClassProbabilities::new(values, truths.len(), classes.len())
                    .map_err(damaged)?;
                LabelledProbabilities::new(&probabilities, &truths).map_err(damaged)?;
                Ok((Self::Classes(probabilities, truths), table))
            }
            Target::Real(_) | Target::Counts { .. } => {
                let names = [MEAN, DEVIATIONS[0], TARGET].map(String::from);
                let table = HeldOutTable::read(path, &names, &words(&[]))?;
                let [mean, deviation, truth] = names.map(|name| table.numbers(&name));
                Ok((Self::Numbers([mean?, deviation?, truth?]), table))
            }
            Target::Several(_) => unreachable!("a request for several targets is refused"),
        }
    }

    /// The rule of these rows.
    fn rule(&self, rows: &[usize], request: &ConformalRequest) -> Result<Rule, EvalError> {
        let level = request.level;
        match self {
            Self::Classes(probabilities, truths) => {
                let (table, truths) = (probabilities.select(rows)?, pick(truths, rows));
                let labelled = LabelledProbabilities::new(&table, &truths)?;
                Ok(match request.set_method.unwrap_or(SetMethod::Lac) {
                    SetMethod::Lac => Rule::Lac(ConformalLac::calibrate(&labelled, level)?),
                    SetMethod::Aps => Rule::Aps(ConformalAps::calibrate(&labelled, level)?),
                    SetMethod::Raps => {
                        Rule::Raps(ConformalRaps::calibrate(&labelled, level, PENALTY)?)
                    }
                })
            }
            Self::Numbers(columns) => {
                let [mean, deviation, truth] = columns.each_ref().map(|column| pick(column, rows));
                ConformalNormalisedResidual::calibrate(&mean, &deviation, &truth, level)
                    .map(Rule::Intervals)
            }
        }
    }

    /// The rule with a threshold for each class.
    fn by_class(&self, request: &ConformalRequest) -> Result<ConformalByClass, EvalError> {
        let Self::Classes(probabilities, truths) = self else {
            unreachable!("the request was validated");
        };
        let score = match request.set_method.unwrap_or(SetMethod::Lac) {
            SetMethod::Lac => SetScore::Lac,
            SetMethod::Aps => SetScore::Aps,
            SetMethod::Raps => SetScore::Raps(PENALTY),
        };
        let labelled = LabelledProbabilities::new(probabilities, truths)?;
        ConformalByClass::calibrate(&labelled, request.level, score)
    }

    /// The number of rows of a class, and its name.
    fn class(&self, target: &Target, class: usize) -> (usize, String) {
        match (self, target) {
            (Self::Classes(_, truths), Target::Classes(names)) => {
                let count = truths.iter().filter(|&&truth| truth == class).count();
                (count, names[class].clone())
            }
            _ => unreachable!("the request was validated"),
        }
    }
}

/// The values of these rows.
fn pick<T: Clone>(values: &[T], rows: &[usize]) -> Vec<T> {
    rows.iter().map(|&row| values[row].clone()).collect()
}

/// The error of too few rows; `of_group` says which rows.
fn too_few(path: &Path, rows: usize, of_group: &str, level: f64) -> TabularError {
    let needed = rows_needed(level);
    TabularError::Data(format!(
        "{}: {rows} held-out rows{of_group} are too few for the level {level}, which needs at least {needed}; give a lower \
         level, or fit with more rows or a larger `--validation`",
        path.display()
    ))
}

/// The smallest n with ⌈(n + 1)·level⌉ ≤ n.
fn rows_needed(level: f64) -> usize {
    let exact = level / (1.0 - level);
    // A quotient within rounding of an integer is that integer.
    (exact * (1.0 - 4.0 * f64::EPSILON / (1.0 - level))).ceil() as usize
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
        let (rules, missing) = (&kept(), &[][..]);
        let columns = KeptColumns { rules, missing };
        Conformal::calibrate(path, target, name, request, &columns, None)
    }

    #[test]
    fn a_file_calibrates_as_its_numbers_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validation.csv");
        std::fs::write(&path, "row,mean,std,target\n1,0,1,0.5\n2,1,2,2\n3,2,1,4\n").unwrap();
        let target = Target::Real(ColumnScale::KEPT);
        let request = |level| ConformalRequest {
            level,
            set_method: None,
            by: None,
            recent: None,
        };
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
        let Rules::Together(Rule::Lac(rule)) = found.rules else {
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
    fn groups_and_classes_have_thresholds_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validation.csv");
        let rows = "1,a,0,1,1\n2,a,0,1,2\n3,b,0,1,10\n4,b,0,1,20\n";
        std::fs::write(&path, format!("row,ward,mean,std,target\n{rows}")).unwrap();
        let target = Target::Real(ColumnScale::KEPT);
        let request = |by: &str, level| ConformalRequest {
            level,
            set_method: None,
            by: Some(by.into()),
            recent: None,
        };
        let found = calibrated(&path, &target, "y", &request("ward", 0.6)).unwrap();
        assert!(
            found.guarantee().contains("in each group of `ward`"),
            "{}",
            found.guarantee()
        );
        let groups = found.groups_of([(1, "b"), (2, " a")]).unwrap().unwrap();
        let moments = Moments {
            mean: vec![0.0, 5.0],
            variance: vec![1.0, 4.0],
            variance_between_draws: vec![0.0; 2],
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
        let unknown = found.groups_of([(7, "c")]).unwrap_err().to_string();
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
