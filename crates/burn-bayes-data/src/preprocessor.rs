//! The transformation of raw columns to features, fitted on the training rows.

use std::collections::BTreeSet;
use std::f64::consts::TAU;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::checks::{check_kind, check_positive, class_label, count_target, exposure, real_target};
use crate::csv_options::CsvOptions;
use crate::dataset::{Dataset, Features, Targets};
use crate::dates::{DateOrder, Moment, WEEKDAYS};
use crate::error::{DataError, Place, at_path, shown};
use crate::levels::Levels;
use crate::magnitudes::logarithm;
use crate::one_or_several::OneOrSeveral;
use crate::preprocessor_config::{MissingPolicy, PreprocessorConfig, Task, UnseenPolicy};
use crate::scale::ColumnScale;
use crate::source;
use crate::table::{Column, ColumnKind, Table};

/// The format of a saved [`Preprocessor`].
const FORMAT: u32 = 6;

/// A preprocessor fitted on training rows, saved with the model.
///
/// ```
/// use burn_bayes_data::{CsvOptions, CsvReader, Preprocessor, PreprocessorConfig, Task};
///
/// let text = "size,town,price\n50,Oslo,10\n70,Rome,12\n90,Oslo,20\n";
/// let table = CsvReader::new(text.as_bytes(), "flats.csv", CsvOptions::default())?.read_all()?;
/// let config = PreprocessorConfig::new("price", Task::Regression);
/// let preprocessor = Preprocessor::fit(&config, &table, 0..2)?;
/// assert_eq!(preprocessor.feature_names(), ["size", "town=Oslo", "town=Rome"]);
///
/// let test = preprocessor.dataset(&table, 2..3)?;
/// assert_eq!(test.features().row(0), [3.0, 1.0, 0.0]);
///
/// // A new file without prices, and with a town that no training row has.
/// let text = "town,size\nParis,60\n";
/// let options = preprocessor.csv_options(CsvOptions::default());
/// let table = CsvReader::new(text.as_bytes(), "new.csv", options)?.read_all()?;
/// let error = preprocessor.features(&table, 0..1).unwrap_err();
/// assert!(error.to_string().starts_with(
///     "new.csv, line 2, column `town`: found `Paris`, expected one of `Oslo`, `Rome`"
/// ));
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preprocessor {
    format: u32,
    missing: MissingPolicy,
    unseen: UnseenPolicy,
    /// Columns that say nothing about the training rows.
    left_out: BTreeSet<String>,
    pub(crate) features: Vec<FeaturePlan>,
    target: OneOrSeveral<TargetPlan>,
}

/// The rows of a table that a preprocessor can use.
#[derive(Debug, Clone)]
pub struct UsableRows {
    /// The features of the usable rows.
    pub features: Features,
    /// The indices of the usable rows in the table, in order.
    pub rows: Vec<usize>,
    /// The other rows with their errors.
    pub faults: Vec<(usize, DataError)>,
}

/// The transformation of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FeaturePlan {
    pub(crate) name: String,
    /// Whether a last feature is 1 where the value is missing.
    pub(crate) says_missing: bool,
    /// Whether every training row has a value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_complete: bool,
    pub(crate) code: Code,
}

/// The encoding of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Code {
    /// A scaled number.
    Number { numbers: Numbers },
    /// One-hot encoding, with one place for all rare categories, if there are some; `imputed` replaces missing values, unless a
    /// feature says that they are.
    OneHot {
        levels: Levels,
        rare: Levels,
        imputed: String,
    },
    /// A date or time: the scaled days since 1970, and parts of the year, the week and the day as angles and one-hot days.
    Date {
        order: DateOrder,
        days: Numbers,
        parts: DateParts,
    },
    /// The logarithm of an exposure over their mean in the training rows; of the last column.
    Exposure { scale: ColumnScale },
}

/// The encoding of a number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Numbers {
    /// The unit of the logarithms that are scaled, of a column with long tails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<f64>,
    pub(crate) scale: ColumnScale,
    /// What replaces missing values.
    pub(crate) imputed: f64,
    /// The range of the training rows.
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Numbers {
    /// The scaled number, which must be of a size that networks can compute with; `place` is for messages.
    fn scaled(&self, value: f64, place: impl Fn() -> Place) -> Result<f64, DataError> {
        match self.unit {
            Some(unit) => self.scale.apply_at(logarithm(value, unit), place),
            None => self.scale.apply_at(value, place),
        }
    }
}

/// Which parts of a date become features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DateParts {
    pub(crate) season: bool,
    pub(crate) weekday: bool,
    pub(crate) time: bool,
}

/// The transformation of a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetPlan {
    pub(crate) name: String,
    pub(crate) code: TargetCode,
}

/// The encoding of a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub(crate) enum TargetCode {
    Regression {
        scale: ColumnScale,
    },
    /// With the mean count of the training rows.
    Counts {
        mean: f64,
    },
    /// `labels` is the type of the column: 1 and 01 are equal as numbers, but not as names.
    Classification {
        classes: Levels,
        labels: ColumnKind,
    },
}

impl Preprocessor {
    /// Fits a preprocessor on rows of a table.
    ///
    /// # Errors
    /// If the target does not exist, is constant or has a single class, a value is missing and the
    /// configuration refuses that, or a column has too many categories.
    pub fn fit(
        config: &PreprocessorConfig,
        table: &Table,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<Self, DataError> {
        let mut fit = crate::PreprocessorFit::new(config.clone());
        fit.observe(table, rows)?;
        fit.finish()
    }

    pub(crate) fn new(
        config: &PreprocessorConfig,
        features: Vec<FeaturePlan>,
        left_out: BTreeSet<String>,
        targets: Vec<TargetPlan>,
    ) -> Self {
        Self {
            format: FORMAT,
            missing: config.missing,
            unseen: config.unseen,
            features,
            left_out,
            target: targets.into(),
        }
    }

    /// The names of the features, in order; that of a category is `column=category`.
    pub fn feature_names(&self) -> Vec<String> {
        self.features.iter().flat_map(FeaturePlan::names).collect()
    }

    /// The columns that have no feature, since they say nothing about the training rows.
    pub fn left_out(&self) -> impl Iterator<Item = &str> {
        self.left_out.iter().map(String::as_str)
    }

    /// The columns whose numbers are scaled as logarithms.
    pub fn logarithmic(&self) -> impl Iterator<Item = &str> {
        let columns = self.features.iter().filter(
            |plan| matches!(&plan.code, Code::Number { numbers } if numbers.unit.is_some()),
        );
        columns.map(|plan| plan.name.as_str())
    }

    /// The number of features.
    pub fn width(&self) -> usize {
        self.widths().iter().sum()
    }

    /// Whether the training rows have this category of a feature's column.
    pub fn has_category(&self, column: &str, category: &str) -> bool {
        let mut features = self.features.iter();
        features.any(|plan| plan.name == column && plan.code.has(category))
    }

    /// The number of features of each column, in order.
    pub fn widths(&self) -> Vec<usize> {
        self.features.iter().map(FeaturePlan::width).collect()
    }

    /// The transformations of the targets, at least one.
    pub fn targets(&self) -> &[TargetPlan] {
        self.target.as_slice()
    }

    /// The names of the target columns.
    pub fn target_names(&self) -> impl Iterator<Item = &str> {
        self.targets().iter().map(TargetPlan::name)
    }

    /// Type of the task.
    pub fn task(&self) -> Task {
        match self.targets() {
            [first, _, ..] if first.classes().is_some() => Task::Multilabel,
            targets => targets[0].task(),
        }
    }

    /// Whether the last feature is the logarithm of an exposure: a model adds it to the logarithm of the mean count.
    pub fn has_exposure(&self) -> bool {
        self.features.last().is_some_and(FeaturePlan::is_exposure)
    }

    /// `options` for reading only the columns of this preprocessor, with the same types as in training.
    #[must_use]
    pub fn csv_options(&self, options: CsvOptions) -> CsvOptions {
        let features = self
            .features
            .iter()
            .map(|plan| (plan.name.clone(), plan.kind()));
        let targets = self.targets().iter();
        let targets = targets.map(|plan| (plan.name.clone(), plan.kind()));
        let names = self.features.iter().map(|plan| &plan.name);
        let target_names = self.targets().iter().map(|plan| &plan.name);
        let wanted: BTreeSet<String> = names.chain(target_names).cloned().collect();
        CsvOptions {
            kinds: features.chain(targets).collect(),
            only: Some(wanted.clone()),
            // Targets may be unknown; a missing feature is reported where it is used.
            optional: wanted,
            ..options
        }
    }

    /// The features of some rows.
    ///
    /// # Errors
    /// If a column is missing or has another type than in training, or the policies refuse a missing value
    /// or a new category.
    pub fn features(
        &self,
        table: &Table,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<Features, DataError> {
        let columns = self.feature_columns(table)?;
        let rows = rows.into_iter();
        let (mut count, mut values) = (0, self.room(table, rows.size_hint().0));
        for row in rows {
            self.push_row(table, &columns, row, &mut values)?;
            count += 1;
        }
        Features::new(count, self.width(), values)
    }

    /// The features of the rows that can be used, and the errors of the others.
    ///
    /// # Errors
    /// If a column is missing or has another type than in training.
    pub fn usable_features(
        &self,
        table: &Table,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<UsableRows, DataError> {
        let columns = self.feature_columns(table)?;
        let candidates = rows.into_iter();
        let mut values = self.room(table, candidates.size_hint().0);
        let (mut rows, mut faults) = (Vec::new(), Vec::new());
        for row in candidates {
            match self.push_row(table, &columns, row, &mut values) {
                Ok(()) => rows.push(row),
                Err(fault) => faults.push((row, fault)),
            }
        }
        Ok(UsableRows {
            features: Features::new(rows.len(), self.width(), values)?,
            rows,
            faults,
        })
    }

    /// The columns of a table that become features, in the order of the features.
    ///
    /// # Errors
    /// If a column is missing or has another type than in training.
    pub fn feature_columns<'a>(&self, table: &'a Table) -> Result<Vec<&'a Column>, DataError> {
        let columns = self.features.iter().map(|plan| plan.find(table));
        columns.collect()
    }

    /// An empty vector with capacity for about `rows` rows, which is only a hint.
    fn room(&self, table: &Table, rows: usize) -> Vec<f64> {
        Vec::with_capacity(rows.min(table.rows()).saturating_mul(self.width()))
    }

    /// Adds the features of a row, or nothing on error.
    fn push_row(
        &self,
        table: &Table,
        columns: &[&Column],
        row: usize,
        values: &mut Vec<f64>,
    ) -> Result<(), DataError> {
        table.check_row(row)?;
        let start = values.len();
        let mut plans = self.features.iter().zip(columns);
        let pushed = plans.try_for_each(|(plan, column)| {
            let place = || table.place(row).column(&plan.name);
            plan.push(column, row, self, values, place)
        });
        if pushed.is_err() {
            values.truncate(start);
        }
        pushed
    }

    /// Features and targets of some rows.
    ///
    /// # Errors
    /// As for [`Preprocessor::features`], and if a target is missing or a class is new.
    pub fn dataset(
        &self,
        table: &Table,
        rows: impl IntoIterator<Item = usize> + Clone,
    ) -> Result<Dataset, DataError> {
        let features = self.features(table, rows.clone())?;
        let targets = self.targets().iter();
        let mut targets: Vec<Targets> = targets
            .map(|plan| plan.targets(table, rows.clone()))
            .collect::<Result<_, _>>()?;
        let targets = match targets.len() {
            1 => targets.remove(0),
            _ => Targets::Several(targets),
        };
        Dataset::new(features, targets)
    }

    /// Writes the preprocessor as TOML, atomically. Numbers are exact.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), DataError> {
        let path = path.as_ref();
        let text =
            toml::to_string(self).map_err(|error| at_path(path)(std::io::Error::other(error)))?;
        source::write_whole(path, text.as_bytes())
    }

    /// Reads a file written by [`Preprocessor::save`].
    ///
    /// # Errors
    /// If the file cannot be read, is invalid or has another format version.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(at_path(path))?;
        let wrong = |found: String| {
            DataError::data(
                Place::of(&path.display().to_string()),
                found,
                format_args!("a preprocessor in format {FORMAT}"),
                "use the file that was saved with the model, unchanged",
            )
        };
        let loaded: Self = toml::from_str(&text).map_err(|error| wrong(error.message().into()))?;
        loaded.check().map_err(wrong)?;
        Ok(loaded)
    }

    /// Checks the consistency of a file, which may have been edited.
    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("format {}", self.format));
        }
        if self.features.is_empty() {
            return Err("no features".into());
        }
        for plan in &self.features {
            match &plan.code {
                Code::Number { numbers } | Code::Date { days: numbers, .. }
                    if !numbers.imputed.is_finite() =>
                {
                    let (imputed, name) = (numbers.imputed, shown(&plan.name));
                    return Err(format!("{imputed} for a missing {name}"));
                }
                Code::Number { numbers } if !numbers.unit.is_none_or(is_unit) => {
                    let name = shown(&plan.name);
                    return Err(format!("a unit of {name} that is not above 0"));
                }
                Code::OneHot {
                    levels,
                    rare,
                    imputed,
                } if levels.index(imputed).or(rare.index(imputed)).is_none() => {
                    return Err(format!("the unknown category {}", shown(imputed)));
                }
                _ => {}
            }
        }
        let exposures = self.features.iter().filter(|plan| plan.is_exposure());
        let is_last = exposures.count() == usize::from(self.has_exposure());
        let is_of_counts = matches!(self.targets(), [one] if one.mean_count().is_some());
        if !is_last || self.has_exposure() && !is_of_counts {
            return Err("an exposure that is not the last column, or without counts".into());
        }
        let mut tasks = self.targets().iter().map(TargetPlan::task);
        let first = tasks.next().ok_or("no target")?;
        if tasks.any(|task| task != first) {
            return Err("targets of different tasks".into());
        }
        self.targets().iter().try_for_each(TargetPlan::check)
    }
}

fn is_unit(unit: f64) -> bool {
    unit.is_finite() && unit > 0.0
}

impl TargetPlan {
    /// The name of the column.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The scale of a number; its [`undo`](ColumnScale::undo) converts predictions back.
    pub fn scale(&self) -> Option<ColumnScale> {
        match self.code {
            TargetCode::Regression { scale } => Some(scale),
            TargetCode::Counts { .. } | TargetCode::Classification { .. } => None,
        }
    }

    /// The mean of the training rows, for a count.
    pub fn mean_count(&self) -> Option<f64> {
        match self.code {
            TargetCode::Counts { mean } => Some(mean),
            TargetCode::Regression { .. } | TargetCode::Classification { .. } => None,
        }
    }

    /// The classes, in order; `None` for numbers.
    pub fn classes(&self) -> Option<&Levels> {
        match &self.code {
            TargetCode::Regression { .. } | TargetCode::Counts { .. } => None,
            TargetCode::Classification { classes, .. } => Some(classes),
        }
    }

    /// The task, if this is the only target.
    fn task(&self) -> Task {
        match self.code {
            TargetCode::Regression { .. } => Task::Regression,
            TargetCode::Counts { .. } => Task::Counts,
            TargetCode::Classification { .. } => Task::Classification,
        }
    }

    /// The type of the column in a new file.
    fn kind(&self) -> ColumnKind {
        match self.code {
            TargetCode::Regression { .. } | TargetCode::Counts { .. } => ColumnKind::Number,
            // As a category, a label that is not a number is reported as an unknown class.
            TargetCode::Classification { .. } => ColumnKind::Category,
        }
    }

    /// The targets of some rows.
    fn targets(
        &self,
        table: &Table,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<Targets, DataError> {
        let column = table.column(&self.name)?;
        let rows = rows.into_iter();
        Ok(match &self.code {
            TargetCode::Regression { scale } => {
                let value = |row| {
                    let place = || table.place(row).column(column.name());
                    let value = real_target(table, column, row)?;
                    let value = match scale.is_logarithmic {
                        true => check_positive(value, place)?,
                        false => value,
                    };
                    scale.apply_at(value, place)
                };
                Targets::Real(rows.map(value).collect::<Result<_, _>>()?)
            }
            TargetCode::Counts { .. } => {
                let counts = rows.map(|row| count_target(table, column, row));
                Targets::Real(counts.collect::<Result<_, _>>()?)
            }
            TargetCode::Classification { classes, labels } => {
                let class = |row| {
                    let place = || table.place(row).column(column.name());
                    classes.class(&class_label(table, column, *labels, row)?, place)
                };
                Targets::Classes(rows.map(class).collect::<Result<_, _>>()?)
            }
        })
    }

    /// Checks the consistency of a file.
    fn check(&self) -> Result<(), String> {
        match &self.code {
            TargetCode::Classification { classes, .. } if classes.len() < 2 => {
                Err("fewer than two classes".into())
            }
            TargetCode::Counts { mean } if !(mean.is_finite() && *mean > 0.0) => {
                Err(format!("the mean count {mean}"))
            }
            _ => Ok(()),
        }
    }
}

impl Code {
    /// The number of features of a value.
    fn width(&self) -> usize {
        match self {
            Self::Number { .. } | Self::Exposure { .. } => 1,
            Self::OneHot { levels, rare, .. } => levels.len() + usize::from(!rare.is_empty()),
            Self::Date { parts, .. } => 1 + parts.names().len(),
        }
    }

    /// Whether the training rows have a category.
    pub(crate) fn has(&self, category: &str) -> bool {
        let is_in = |known: &Levels| known.index(category).is_some();
        matches!(self, Self::OneHot { levels, rare, .. } if is_in(levels) || is_in(rare))
    }
}

impl FeaturePlan {
    /// Whether it tells some rows from others: it does not if all categories are rare.
    pub(crate) fn says_something(&self) -> bool {
        self.says_missing || !matches!(&self.code, Code::OneHot { levels, .. } if levels.is_empty())
    }

    pub(crate) fn is_exposure(&self) -> bool {
        matches!(self.code, Code::Exposure { .. })
    }

    /// The type of the column.
    fn kind(&self) -> ColumnKind {
        match self.code {
            Code::Number { .. } | Code::Exposure { .. } => ColumnKind::Number,
            Code::OneHot { .. } | Code::Date { .. } => ColumnKind::Category,
        }
    }

    /// The names of the features.
    fn names(&self) -> Vec<String> {
        let name = &self.name;
        let mut names = match &self.code {
            Code::Number { .. } => vec![name.clone()],
            Code::Exposure { .. } => vec![format!("logarithm of {name}")],
            Code::OneHot { levels, rare, .. } => {
                let levels = levels.names().iter();
                let levels = levels.map(|level| format!("{name}={level}"));
                let rare = (!rare.is_empty()).then(|| format!("{name} is rare"));
                levels.chain(rare).collect()
            }
            Code::Date { parts, .. } => {
                let parts = parts.names();
                let parts = parts.into_iter().map(|part| format!("{name}: {part}"));
                [name.clone()].into_iter().chain(parts).collect()
            }
        };
        if self.says_missing {
            names.push(format!("{name} is missing"));
        }
        names
    }

    /// The number of features of the column.
    fn width(&self) -> usize {
        self.code.width() + usize::from(self.says_missing)
    }

    fn find<'a>(&self, table: &'a Table) -> Result<&'a Column, DataError> {
        let column = table.column(&self.name)?;
        check_kind(table, column, self.kind())?;
        Ok(column)
    }

    fn push(
        &self,
        column: &Column,
        row: usize,
        policies: &Preprocessor,
        values: &mut Vec<f64>,
        place: impl Fn() -> Place,
    ) -> Result<(), DataError> {
        let is_missing = column.is_missing(row);
        if is_missing && policies.missing == MissingPolicy::Refuse && !self.is_exposure() {
            return Err(DataError::missing(place()));
        }
        match &self.code {
            Code::Number { numbers } => {
                let value = column.number(row).unwrap_or(numbers.imputed);
                values.push(numbers.scaled(value, place)?);
            }
            Code::Exposure { scale } => {
                let value = exposure(column, row, &place)?;
                values.push(scale.apply_at(value, place)?);
            }
            Code::OneHot {
                levels,
                rare,
                imputed,
            } => {
                let found = match column.category(row) {
                    None if self.says_missing => None,
                    category => {
                        let category = category.unwrap_or(imputed);
                        level(category, [levels, rare], policies.unseen, &place)?
                    }
                };
                let places = 0..self.code.width();
                values.extend(places.map(|place| f64::from(found == Some(place))));
            }
            Code::Date { order, days, parts } => match column.category(row) {
                Some(text) => {
                    let moment = order
                        .moment(text)
                        .ok_or_else(|| not_a_date(text, place()))?;
                    values.push(days.scaled(moment.days(), place)?);
                    parts.push(moment, values);
                }
                None => {
                    values.push(days.scaled(days.imputed, place)?);
                    values.extend(parts.names().iter().map(|_| 0.0));
                }
            },
        }
        if self.says_missing {
            values.push(f64::from(is_missing));
        }
        Ok(())
    }
}

/// The place of a category among the levels, after which is that of rare ones and of new ones; none for a new one that is encoded
/// as zeros.
fn level(
    category: &str,
    [levels, rare]: [&Levels; 2],
    unseen: UnseenPolicy,
    place: &impl Fn() -> Place,
) -> Result<Option<usize>, DataError> {
    let found = levels.index(category);
    if found.is_some() {
        return Ok(found);
    }
    if unseen == UnseenPolicy::Refuse && rare.index(category).is_none() {
        return Err(DataError::data(
            place(),
            shown(category),
            format_args!("one of {levels}, the categories of the training rows"),
            "correct the cell, train again, or set `unseen` to zeros, which encodes new categories as zeros",
        ));
    }
    Ok((!rare.is_empty()).then_some(levels.len()))
}

impl DateParts {
    /// The names of the features.
    fn names(self) -> Vec<&'static str> {
        let season: &[&str] = &["sine of the season", "cosine of the season"];
        let time: &[&str] = &["sine of the time", "cosine of the time"];
        let parts = [
            (self.season, season),
            (self.weekday, &WEEKDAYS),
            (self.time, time),
        ];
        let parts = parts.into_iter().filter(|(is_feature, _)| *is_feature);
        parts.flat_map(|(_, names)| names).copied().collect()
    }

    fn push(self, moment: Moment, values: &mut Vec<f64>) {
        let angle = |part: f64| <[f64; 2]>::from((TAU * part).sin_cos());
        if self.season {
            values.extend(angle(moment.season()));
        }
        if self.weekday {
            let weekday = moment.weekday();
            values.extend((0..WEEKDAYS.len()).map(|day| f64::from(day == weekday)));
        }
        if self.time {
            values.extend(angle(moment.time()));
        }
    }
}

/// The error of a text in a column of dates.
pub(crate) fn not_a_date(text: &str, place: Place) -> DataError {
    DataError::data(
        place,
        shown(text),
        "a date or time, as in the other rows of the column",
        "correct the cell, or list it as a missing value (`--na-values`)",
    )
}
