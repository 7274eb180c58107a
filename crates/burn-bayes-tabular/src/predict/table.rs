//! Predictions as a table.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::io::{self, Write};

use burn_bayes::eval::{ClassProbabilities, DrawProbabilities, MemberDisagreement};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::error::{Result, TabularError};
use crate::files::io_error;
use crate::predict::{
    ClassPredictions, Conformal, ConformalTargets, CostRule, CountPredictions, NumberMixture,
    Predictions, RealPredictions, Uncertainty, classes, members, mismatched,
};
use crate::rows::Target;
use crate::settings::{DataSettings, refused};
use crate::text::number;

/// Columns of predictions, with one cell per row.
#[derive(Clone, Debug)]
pub struct PredictionTable {
    columns: Vec<Column>,
    /// What is guaranteed of every row; written to objects only.
    guarantee: Option<String>,
}

/// A column: its name and cells.
type Column = (String, Vec<Cell>);

/// A cell of a column.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum Cell {
    Empty,
    Count(usize),
    Number(f64),
    Word(String),
    List(Vec<String>),
}

impl Display for Cell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Count(count) => count.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Word(word) => word.fmt(f),
            Self::List(words) => {
                let words: Vec<_> = words.iter().map(|word| separable(word)).collect();
                words.join(SEPARATOR).fmt(f)
            }
        }
    }
}

/// A word of a list: in quotes if it has a separator or a quote, as the cells of CSV are.
fn separable(word: &str) -> Cow<'_, str> {
    match word.contains([';', '"']) {
        true => format!("\"{}\"", word.replace('"', "\"\"")).into(),
        false => word.into(),
    }
}

fn numbers(name: impl Into<String>, values: Vec<f64>) -> Column {
    (name.into(), values.into_iter().map(Cell::Number).collect())
}

fn words(name: impl Into<String>, words: impl IntoIterator<Item = String>) -> Column {
    (name.into(), words.into_iter().map(Cell::Word).collect())
}

/// The number of the row in its file, from 1, without the header.
const ROW: &str = "row";
/// Why a row could not be predicted.
const PROBLEM: &str = "problem";
/// The most probable class.
pub(crate) const LABEL: &str = "label";
/// The true target.
pub(crate) const TARGET: &str = "target";
/// The classes of a conformal prediction set.
const SET: &str = "set";
/// Between these classes, in a cell of CSV, as [`separable`] writes them.
const SEPARATOR: &str = ";";
/// The limits of a conformal prediction interval.
const LIMITS: [&str; 2] = ["lower", "upper"];
/// The guarantee, in an object.
const GUARANTEE: &str = "guarantee";
/// The mean of a number.
pub(crate) const MEAN: &str = "mean";
/// Whether to keep or refer a row, or the action of least expected cost.
const DECISION: &str = "decision";
/// The expected cost of that action.
const EXPECTED_COST: &str = "expected_cost";
/// The columns of a row that are far from the training rows.
const FAR: &str = "far";
/// The standard deviation of a number without noise.
pub(crate) const EPISTEMIC: &str = "epistemic_std";
/// The uncertainty scores of a regression.
pub(crate) const DEVIATIONS: [&str; 2] = ["std", EPISTEMIC];

/// The parts of the mutual information within and between the members of an ensemble.
const OF_CLASSES: [&str; 2] = ["mutual_information_within", "mutual_information_between"];
/// The parts of the epistemic standard deviation; their squares add up to its square.
const OF_NUMBERS: [&str; 2] = ["epistemic_std_within", "epistemic_std_between"];

impl PredictionTable {
    /// The columns of predictions, possibly without rows; `levels` are the quantiles of numbers and counts. The columns of
    /// several targets begin with their names.
    pub fn new(predictions: &Predictions, levels: &[f64]) -> Result<Self> {
        Ok(Self {
            columns: columns_of(predictions, levels)?,
            guarantee: None,
        })
    }

    /// Adds conformal prediction sets, or the limits of intervals.
    pub(crate) fn with_conformal(
        mut self,
        conformal: &ConformalTargets,
        predictions: &Predictions,
        groups: Option<&[usize]>,
    ) -> Result<Self> {
        let pairs = predictions.of_targets().into_iter().zip(conformal.iter());
        for ((_, predictions), (target, conformal)) in pairs {
            let columns = conformal_columns(conformal, predictions, groups)?.into_iter();
            self.columns
                .extend(columns.map(|(name, cells)| (column_name(target, &name), cells)));
        }
        self.guarantee = Some(conformal.guarantee());
        Ok(self)
    }

    /// Checks that columns with these names can be copied beside predictions and targets.
    ///
    /// # Errors
    /// If one is also a column of the predictions, or two targets have columns of the same name.
    pub(crate) fn check_kept(target: &Target, settings: &DataSettings) -> Result<()> {
        let targets = target.of_targets().into_iter();
        let targets = targets.map(|(name, _)| (name.map(String::from), Vec::new()));
        let table = Self::new(&Predictions::none(target), &[])?.with_targets(targets.collect());
        let known: Vec<&String> = table.columns.iter().map(|(name, _)| name).collect();
        let mut places = known.iter().enumerate();
        if let Some((_, name)) = places.find(|&(place, name)| known[..place].contains(name)) {
            let problem = format!(
                "names columns whose predictions would both be `{name}`; rename one of them in the file"
            );
            return Err(refused("target", problem));
        }
        match settings.kept_columns().find(|name| table.has(name)) {
            Some(name) if settings.keep.0.contains(name) => Err(taken("keep", name)),
            Some(name) => Err(taken("group_by", name)),
            None => Ok(()),
        }
    }

    /// Whether a column has this name.
    fn has(&self, name: &str) -> bool {
        let is_guarantee = name == GUARANTEE && self.guarantee.is_some();
        name == ROW || is_guarantee || self.columns.iter().any(|(known, _)| known == name)
    }

    /// Adds the true targets; those of several targets have their names.
    pub fn with_targets(mut self, targets: Vec<(Option<String>, Vec<String>)>) -> Self {
        let columns = targets.into_iter();
        let columns =
            columns.map(|(target, cells)| words(column_name(target.as_deref(), TARGET), cells));
        self.columns.extend(columns);
        self
    }

    /// Moves the predictions to these indices of a table with more rows, which could not be predicted.
    pub(crate) fn spread(mut self, places: &[usize], rows: usize) -> Self {
        for (_, cells) in &mut self.columns {
            let mut all = vec![Cell::Empty; rows];
            for (cell, &place) in cells.drain(..).zip(places) {
                all[place] = cell;
            }
            *cells = all;
        }
        self
    }

    /// Adds the decisions: rows with a score up to `threshold` are kept; all others, also those that
    /// could not be predicted, are referred.
    pub(crate) fn with_decisions(mut self, score: &str, threshold: f64) -> Result<Self> {
        let mut columns = self.columns.iter();
        let (_, scores) = columns.find(|(name, _)| name == score).ok_or_else(|| {
            TabularError::Usage(format!("`{score}` is not a score of these predictions"))
        })?;
        let decision = |score: &Cell| match score {
            Cell::Number(score) if *score <= threshold => "keep".to_string(),
            _ => "refer".to_string(),
        };
        let decisions = words(DECISION, scores.iter().map(decision));
        self.columns.push(decisions);
        Ok(self)
    }

    /// Adds the most probable classes with their probabilities, the first `count` of them; of equally probable ones, the
    /// first in the order of the classes.
    pub(crate) fn with_top(mut self, predictions: &Predictions, count: usize) -> Result<Self> {
        let predictions = classes(predictions)?;
        let orders: Vec<Vec<(usize, f64)>> = match predictions.rows() {
            0 => Vec::new(),
            rows => {
                let draws = predictions.checked()?;
                let average = draws.average();
                let order = |row| {
                    let mut order: Vec<(usize, f64)> =
                        average.row(row).iter().copied().enumerate().collect();
                    order.sort_by(|(_, one), (_, other)| other.total_cmp(one));
                    order
                };
                (0..rows).map(order).collect()
            }
        };
        for place in 0..count {
            let name = format!("top_{}", place + 1);
            let of_place = orders.iter().map(|order| order[place]);
            let (found, probabilities): (Vec<usize>, Vec<f64>) = of_place.unzip();
            let names = found
                .into_iter()
                .map(|class| predictions.kind[class].clone());
            self.columns.push(words(&*name, names));
            self.columns
                .push(numbers(format!("{name}_probability"), probabilities));
        }
        Ok(self)
    }

    /// Adds the actions of least expected cost, and that cost.
    pub(crate) fn with_costs(mut self, rule: &CostRule, predictions: &Predictions) -> Result<Self> {
        let predictions = classes(predictions)?;
        let decisions = match predictions.rows() {
            0 => Vec::new(),
            _ => rule.decisions(&predictions.checked()?.average())?,
        };
        let actions = decisions.iter();
        let actions = actions.map(|decision| rule.name(decision.action).to_string());
        let costs = decisions.iter().map(|decision| decision.expected_cost);
        self.columns.push(words(DECISION, actions));
        self.columns.push(numbers(EXPECTED_COST, costs.collect()));
        Ok(self)
    }

    /// Adds the columns of each row that are far from the training rows.
    pub(crate) fn with_far(mut self, far: Vec<Vec<String>>) -> Self {
        let lists = far.into_iter().map(Cell::List);
        self.columns.push((FAR.into(), lists.collect()));
        self
    }

    /// Adds the reasons why rows could not be predicted.
    pub(crate) fn with_problems(mut self, problems: Vec<Option<String>>) -> Self {
        let problems = problems.into_iter();
        let problems = problems.map(|problem| problem.map_or(Cell::Empty, Cell::Word));
        self.columns.push((PROBLEM.into(), problems.collect()));
        self
    }

    /// Prepends the row numbers, from the indices of the rows in their file, and columns copied from it.
    ///
    /// # Errors
    /// If a copied column has the name of another column.
    pub(crate) fn after(
        mut self,
        places: Vec<usize>,
        copied: Vec<(String, Vec<String>)>,
    ) -> Result<Self> {
        let places = places.into_iter().map(|place| Cell::Count(place + 1));
        if let Some((name, _)) = copied.iter().find(|(name, _)| self.has(name)) {
            return Err(taken("keep", name));
        }
        let copied = copied.into_iter();
        let mut columns = vec![(ROW.to_string(), places.collect())];
        columns.extend(copied.map(|(name, cells)| words(name, cells)));
        columns.append(&mut self.columns);
        Ok(Self { columns, ..self })
    }

    /// Writes one JSON object per row.
    pub fn write_objects(&self, writer: &mut impl Write) -> io::Result<()> {
        for row in 0..self.rows() {
            let object = Object { table: self, row };
            serde_json::to_writer(&mut *writer, &object)?;
            writeln!(writer)?;
        }
        Ok(())
    }

    /// Writes a line for each column of each row, with a blank line before all but the first row of all.
    pub fn write_lines(&self, is_first: bool, writer: &mut impl Write) -> io::Result<()> {
        for row in 0..self.rows() {
            if row > 0 || !is_first {
                writeln!(writer)?;
            }
            for (name, cells) in &self.columns {
                match &cells[row] {
                    Cell::Number(value) => writeln!(writer, "{name}: {}", number(*value))?,
                    other => writeln!(writer, "{name}: {other}")?,
                }
            }
        }
        Ok(())
    }

    /// Writes the names of the columns, if they are wanted, and the rows.
    pub fn write_csv(&self, has_header: bool, out: &mut impl Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        if has_header {
            let names = self.columns.iter().map(|(name, _)| name);
            writer.write_record(names).map_err(io_error)?;
        }
        for row in 0..self.rows() {
            let record = self.columns.iter().map(|(_, cells)| cells[row].to_string());
            writer.write_record(record).map_err(io_error)?;
        }
        writer.flush()
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, cells)| cells.len())
    }
}

/// A row as a JSON object.
struct Object<'a> {
    table: &'a PredictionTable,
    row: usize,
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut cells = serializer.serialize_map(None)?;
        for (name, column) in &self.table.columns {
            cells.serialize_entry(name, &column[self.row])?;
        }
        if let Some(guarantee) = &self.table.guarantee {
            cells.serialize_entry(GUARANTEE, guarantee)?;
        }
        cells.end()
    }
}

/// The name of a column, with its target before it if there are several.
pub(crate) fn column_name(target: Option<&str>, column: &str) -> String {
    target.map_or_else(|| column.to_string(), |target| format!("{target}_{column}"))
}

fn columns_of(predictions: &Predictions, levels: &[f64]) -> Result<Vec<Column>> {
    match predictions {
        Predictions::Classes(predictions) => class_columns(predictions),
        Predictions::Reals(RealPredictions { members, .. })
        | Predictions::Counts(CountPredictions { members, .. }) => {
            number_columns(predictions, members, levels)
        }
        Predictions::Several(targets) => {
            let mut columns = Vec::new();
            for target in targets {
                let of_target = columns_of(&target.predictions, levels)?.into_iter();
                columns.extend(
                    of_target.map(|(name, cells)| (column_name(Some(&target.name), &name), cells)),
                );
            }
            Ok(columns)
        }
    }
}

/// The column of the prediction sets of a target, or those of the limits of its intervals.
fn conformal_columns(
    conformal: &Conformal,
    predictions: &Predictions,
    groups: Option<&[usize]>,
) -> Result<Vec<Column>> {
    match predictions {
        Predictions::Classes(predictions) => {
            let sets = match predictions.rows() {
                0 => None,
                _ => conformal.sets(predictions, groups)?,
            };
            let names = |class: usize| predictions.kind[class].clone();
            let lists = (0..predictions.rows()).map(|row| match &sets {
                Some(sets) => Cell::List(sets.classes_of(row).into_iter().map(names).collect()),
                None => Cell::Empty,
            });
            Ok(vec![(SET.into(), lists.collect())])
        }
        Predictions::Reals(_) | Predictions::Counts(_) => {
            let intervals = match predictions.moments()? {
                None => None,
                Some(moments) => conformal.intervals(&moments, groups)?,
            };
            let (lower, upper) = intervals.map_or_else(Default::default, |intervals| {
                (intervals.lower().to_vec(), intervals.upper().to_vec())
            });
            let limits = LIMITS.into_iter().zip([lower, upper]);
            Ok(limits.map(|(name, limits)| numbers(name, limits)).collect())
        }
        Predictions::Several(_) => Err(mismatched(predictions)),
    }
}

/// The column of the probability of a class.
pub(crate) fn probability_column(class: &str) -> String {
    format!("p_{class}")
}

fn class_columns(predictions: &ClassPredictions) -> Result<Vec<Column>> {
    // The checks refuse empty predictions.
    let draws = match predictions.rows() {
        0 => None,
        _ => Some(predictions.checked()?),
    };
    let average = draws.as_ref().map(DrawProbabilities::average);
    let mut columns = Vec::new();
    for (class, name) in predictions.kind.iter().enumerate() {
        let of_class = |average: &ClassProbabilities<'_>| {
            (0..average.rows())
                .map(|row| average.row(row)[class])
                .collect()
        };
        let probabilities = average.as_ref().map_or_else(Vec::new, of_class);
        columns.push(numbers(probability_column(name), probabilities));
    }
    let labels = average.map_or_else(Vec::new, |average| average.predicted_classes());
    let labels = labels.iter().map(|&class| predictions.kind[class].clone());
    columns.push(words(LABEL, labels));
    for score in Uncertainty::ALL {
        let scores = draws
            .as_ref()
            .map_or_else(Vec::new, |draws| score.of(draws));
        columns.push(numbers(score.name(), scores));
    }
    if let Some(members) = members(&predictions.members) {
        let parts = draws.map(|draws| MemberDisagreement::of_classes(&draws, &members));
        columns.extend(of_members(OF_CLASSES, parts.transpose()?, |part| part));
    }
    Ok(columns)
}

/// The columns of numbers or counts.
fn number_columns(
    predictions: &Predictions,
    counts: &[usize],
    levels: &[f64],
) -> Result<Vec<Column>> {
    // The checks refuse empty predictions.
    let mixture = match predictions.rows() {
        0 => None,
        _ => predictions.mixture()?,
    };
    let moments = mixture.as_ref().map(NumberMixture::moments);
    let moments = moments.unwrap_or_default();
    let [total, epistemic] = DEVIATIONS;
    let (deviations, of_draws) = (moments.deviations(), moments.epistemic_deviations());
    let mut columns = vec![
        numbers(MEAN, moments.mean),
        numbers(total, deviations),
        numbers(epistemic, of_draws),
    ];
    if let Some(members) = members(counts) {
        let parts = mixture.as_ref().map(|mixture| mixture.parts(&members));
        columns.extend(of_members(OF_NUMBERS, parts.transpose()?, f64::sqrt));
    }
    for &level in levels {
        let values = mixture.as_ref().map(|mixture| mixture.quantiles(level));
        let values = values.transpose()?.unwrap_or_default();
        columns.push(numbers(format!("q{level}"), values));
    }
    Ok(columns)
}

/// The epistemic uncertainty of an ensemble in two columns: within its members, and between them.
fn of_members(
    names: [&str; 2],
    parts: Option<MemberDisagreement>,
    scale: impl Fn(f64) -> f64 + Copy,
) -> [Column; 2] {
    let parts = parts.map_or_else(Default::default, |parts| [parts.within, parts.between]);
    let [within, between] = names;
    let [of_draws, of_averages] = parts.map(|part| part.into_iter().map(scale).collect());
    [numbers(within, of_draws), numbers(between, of_averages)]
}

/// A column of the file with the name of one of the predictions.
fn taken(field: &str, name: &str) -> TabularError {
    let problem = format!("names `{name}`, a column of the predictions; rename it in the file");
    refused(field, problem)
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::ColumnScale;

    use super::*;
    use crate::predict::TargetPredictions;

    fn written(table: &PredictionTable) -> String {
        let mut bytes = Vec::new();
        table.write_csv(true, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn classes_get_probabilities_labels_and_scores() {
        let predictions = Predictions::Classes(ClassPredictions::new(
            vec!["a".into(), "b, c".into()],
            2,
            vec![1.0, 0.0, 0.25, 0.75, 0.0, 1.0, 0.25, 0.75],
        ));
        let table = PredictionTable::new(&predictions, &[]).unwrap();
        let table = table.with_decisions("mutual_information", 0.1).unwrap();
        let text = written(&table);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("p_a,\"p_b, c\",label,entropy,"),
            "{text}"
        );
        // The draws contradict each other: the mutual information is ln 2.
        assert!(lines[1].starts_with("0.5,0.5,a,0.693147"), "{text}");
        assert!(lines[1].ends_with(",refer"), "{text}");
        assert!(lines[2].starts_with("0.25,0.75,\"b, c\","), "{text}");
        assert!(lines[2].ends_with(",keep"), "{text}");
    }

    #[test]
    fn the_words_of_a_list_can_be_told_apart() {
        let list = Cell::List(["a", "b;c", "5\""].map(String::from).to_vec());
        assert_eq!(list.to_string(), "a;\"b;c\";\"5\"\"\"");
    }

    #[test]
    fn the_columns_of_several_targets_have_their_names() {
        let numbers = |name: &str, mean: f64| TargetPredictions {
            name: name.into(),
            unit: 1.0,
            predictions: Predictions::Reals(RealPredictions::new(2.0, 1, vec![mean])),
        };
        let real = |name: &str| (name.to_string(), Target::Real(ColumnScale::KEPT));
        let same = Target::Several(vec![real("a"), real("a_epistemic")]);
        let settings = DataSettings::default();
        let message = PredictionTable::check_kept(&same, &settings).unwrap_err();
        assert!(
            message.to_string().contains("`a_epistemic_std`"),
            "{message}"
        );

        let predictions = Predictions::Several(vec![numbers("a", 1.0), numbers("b", -1.0)]);
        let table = PredictionTable::new(&predictions, &[0.5]).unwrap();
        let targets = ["a", "b"].map(|name| (Some(name.to_string()), vec![name.to_string()]));
        let text = written(&table.with_targets(targets.to_vec()));
        assert_eq!(
            text,
            "a_mean,a_std,a_epistemic_std,a_q0.5,b_mean,b_std,b_epistemic_std,b_q0.5,a_target,b_target\n\
             1,2,0,1,-1,2,0,-1,a,b\n"
        );
    }

    #[test]
    fn numbers_get_deviations_and_quantiles() {
        let predictions = Predictions::Reals(RealPredictions::new(4.0, 2, vec![-3.0, 3.0]));
        let table = PredictionTable::new(&predictions, &[0.5]).unwrap();
        let table = table.with_targets(vec![(None, vec!["1".into()])]);
        let text = written(&table);
        assert_eq!(
            text.lines().next(),
            Some("mean,std,epistemic_std,q0.5,target")
        );
        assert!(text.lines().nth(1).unwrap().starts_with("0,5,3,"), "{text}");
        assert!(table.with_decisions("entropy", 0.1).is_err());
    }
}
