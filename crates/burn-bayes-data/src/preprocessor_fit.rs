//! Fits a [`Preprocessor`] on a table, or on a file in chunks.

use std::collections::{BTreeMap, BTreeSet};

use crate::checks::{
    check_finite, check_kind, check_positive, class_label, count_target, exposure, real_target,
};
use crate::dates::{DateOrder, Moment, WEEKDAYS};
use crate::error::{DataError, Place, listed, shown};
use crate::levels::Levels;
use crate::magnitudes::Magnitudes;
use crate::preprocessor::{
    Code, DateParts, FeaturePlan, Numbers, Preprocessor, TargetCode, TargetPlan, not_a_date,
};
use crate::preprocessor_config::{MissingPolicy, PreprocessorConfig, Task};
use crate::scale::{ColumnScale, Scaling, Spread};
use crate::suspicion::leave_out;
use crate::table::{Column, ColumnKind, Table};

/// Fits a [`Preprocessor`] on chunks of rows, which are not kept.
///
/// A file of any size can be prepared in two passes: one with [`observe`](PreprocessorFit::observe), and
/// one with [`Preprocessor::dataset`].
///
/// ```
/// use burn_bayes_data::{
///     CsvOptions, CsvReader, Dataset, PreprocessorConfig, PreprocessorFit, Task,
/// };
///
/// let text = "x,y\n1,a\n2,b\n3,a\n4,b\n5,b\n";
/// let read = |options| CsvReader::new(text.as_bytes(), "example", options);
///
/// let mut fit = PreprocessorFit::new(PreprocessorConfig::new("y", Task::Classification));
/// let mut reader = read(CsvOptions::default())?;
/// while let Some(table) = reader.next_table(2)? {
///     fit.observe(&table, 0..table.rows())?;
/// }
/// let preprocessor = fit.finish()?;
///
/// let mut all: Option<Dataset> = None;
/// let mut reader = read(preprocessor.csv_options(CsvOptions::default()))?;
/// while let Some(table) = reader.next_table(2)? {
///     let piece = preprocessor.dataset(&table, 0..table.rows())?;
///     match &mut all {
///         Some(all) => all.append(piece)?,
///         None => all = Some(piece),
///     }
/// }
/// assert_eq!(all.unwrap().targets().as_classes(), Some(&[0, 1, 0, 1, 1][..]));
/// # Ok::<(), burn_bayes_data::DataError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PreprocessorFit {
    config: PreprocessorConfig,
    /// The statistics of every target.
    targets: Vec<Seen>,
    /// The features of the first table, with the statistics of all rows.
    columns: Option<Columns>,
    /// The number of rows so far.
    rows: usize,
}

/// The columns of the first table.
#[derive(Debug, Clone)]
struct Columns {
    features: Vec<Feature>,
    /// The types of the target columns.
    target_kinds: Vec<ColumnKind>,
    /// The source of the table.
    source: Place,
}

/// A column that becomes features.
#[derive(Debug, Clone)]
struct Feature {
    name: String,
    seen: Seen,
    /// Those of numbers that may be scaled as logarithms.
    magnitudes: Option<Magnitudes>,
    /// Those of a column of dates, in the place of its categories.
    dates: Option<Dates>,
    /// The number of missing values.
    missing: usize,
}

impl Feature {
    /// Whether there was no value.
    fn is_empty(&self) -> bool {
        let has_dates = self
            .dates
            .as_ref()
            .is_some_and(|dates| dates.days.count() > 0);
        !has_dates
            && match &self.seen {
                Seen::Numbers(spread) => spread.count() == 0,
                Seen::Categories(counts) => counts.is_empty(),
            }
    }
}

/// The statistics of a column.
#[derive(Debug, Clone)]
enum Seen {
    Numbers(Spread),
    /// The count of each category.
    Categories(BTreeMap<String, usize>),
}

/// The statistics of dates.
#[derive(Debug, Clone)]
struct Dates {
    order: DateOrder,
    days: Spread,
    /// Whether there are dates on each day of the week.
    weekdays: [bool; WEEKDAYS.len()],
    /// Whether there are other times than midnight.
    has_times: bool,
}

/// A column with fewer missing values, or a smaller share of them, has no feature that says where they are: where they are
/// missing at random it would cost more than it tells.
const FEWEST_MISSING: usize = 5;
const LEAST_SHARE: f64 = 0.125;
/// Dates of fewer days have no season, and those of fewer have no weekday.
const YEAR: f64 = 365.0;
const TWO_WEEKS: f64 = 14.0;

impl Dates {
    /// Without rows, for a column whose first cells these are; `None` if they are no dates.
    fn of(column: &Column) -> Option<Self> {
        DateOrder::of(&column.levels()).map(|order| Self {
            order,
            days: Spread::default(),
            weekdays: [false; WEEKDAYS.len()],
            has_times: false,
        })
    }

    fn push(&mut self, moment: Moment) {
        self.days.push(moment.days());
        self.weekdays[moment.weekday()] = true;
        self.has_times |= moment.time() > 0.0;
    }

    /// The parts that vary in the training rows: within less than a year, the season is the date.
    fn parts(&self) -> DateParts {
        let (least, most) = self.days.range();
        let is_seen = |&&is_seen: &&bool| is_seen;
        DateParts {
            season: most - least >= YEAR,
            weekday: most - least >= TWO_WEEKS && self.weekdays.iter().filter(is_seen).count() > 1,
            time: self.has_times,
        }
    }
}

impl Seen {
    fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Number => Self::Numbers(Spread::default()),
            ColumnKind::Category => Self::Categories(BTreeMap::new()),
        }
    }

    fn kind(&self) -> ColumnKind {
        match self {
            Self::Numbers(_) => ColumnKind::Number,
            Self::Categories(_) => ColumnKind::Category,
        }
    }
}

impl PreprocessorFit {
    /// A fit without rows.
    pub fn new(config: PreprocessorConfig) -> Self {
        let target = Seen::new(match config.task {
            Task::Regression | Task::Counts => ColumnKind::Number,
            Task::Classification | Task::Multilabel => ColumnKind::Category,
        });
        Self {
            targets: vec![target; config.target.as_slice().len()],
            config,
            columns: None,
            rows: 0,
        }
    }

    /// Adds rows of a table. The first table determines the features.
    ///
    /// # Errors
    /// As for [`Preprocessor::fit`]; rows added before the error remain.
    pub fn observe(
        &mut self,
        table: &Table,
        rows: impl IntoIterator<Item = usize>,
    ) -> Result<(), DataError> {
        let Columns {
            features,
            target_kinds,
            ..
        } = match &mut self.columns {
            Some(columns) => columns,
            None => self.columns.insert(Columns::of(table, &self.config)?),
        };
        let mut columns = Vec::with_capacity(features.len());
        for feature in features.iter() {
            let column = table.column(&feature.name)?;
            check_kind(table, column, feature.seen.kind())?;
            columns.push(column);
        }
        let targets = self.config.target.as_slice().iter();
        let targets = targets.map(|name| table.column(name));
        let targets: Vec<&Column> = targets.collect::<Result<_, _>>()?;
        for row in rows {
            table.check_row(row)?;
            self.rows += 1;
            for (feature, column) in features.iter_mut().zip(&columns) {
                let name = &feature.name;
                let place = || table.place(row).column(name);
                if self.config.exposure.as_ref() == Some(name) {
                    exposure(column, row, place)?;
                } else if column.is_missing(row) {
                    match self.config.missing {
                        MissingPolicy::Refuse => return Err(DataError::missing(place())),
                        MissingPolicy::Impute => feature.missing += 1,
                    }
                }
                if let Some(dates) = &mut feature.dates {
                    if let Some(text) = column.category(row) {
                        let moment = dates.order.moment(text);
                        dates.push(moment.ok_or_else(|| not_a_date(text, place()))?);
                    }
                    continue;
                }
                match &mut feature.seen {
                    Seen::Numbers(spread) => {
                        if let Some(value) = column.number(row) {
                            spread.push(check_finite(value, place)?);
                            if let Some(magnitudes) = &mut feature.magnitudes {
                                magnitudes.push(value);
                            }
                        }
                    }
                    Seen::Categories(counts) => {
                        if let Some(category) = column.category(row) {
                            count(counts, category);
                        }
                    }
                }
            }
            let seen = self.targets.iter_mut().zip(&*target_kinds);
            for ((seen, kind), target) in seen.zip(&targets) {
                observe_target(&self.config, seen, table, target, *kind, row)?;
            }
        }
        Ok(())
    }

    /// The fitted preprocessor.
    ///
    /// # Errors
    /// If there were no rows, all values of a column were missing, or the target was constant or had a
    /// single class.
    pub fn finish(self) -> Result<Preprocessor, DataError> {
        let Some(columns) = self.columns else {
            let cure = "check that the file has rows";
            return Err(DataError::data(
                Place::default(),
                "no table",
                "at least one",
                cure,
            ));
        };
        let place = |name: &str| columns.source.clone().column(name);
        let names = self.config.target.as_slice().iter();
        let targets = names.zip(self.targets).zip(columns.target_kinds);
        let targets = targets.map(|((name, seen), kind)| {
            Ok(TargetPlan {
                name: name.clone(),
                code: target_code(&self.config, seen, kind, &|| place(name))?,
            })
        });
        let targets = targets.collect::<Result<_, DataError>>()?;
        let fewest = ((LEAST_SHARE * self.rows as f64).ceil() as usize).max(FEWEST_MISSING);
        let numbers = |spread: &Spread, name: &str| {
            let (least, most) = spread.range();
            Ok::<_, DataError>(Numbers {
                unit: None,
                scale: spread.scale(self.config.scaling, place(name))?,
                imputed: spread.mean(),
                least,
                most,
            })
        };
        let names = columns.features.iter().map(|feature| feature.name.clone());
        let mut left_out: BTreeSet<String> = names.collect();
        let features = columns.features.into_iter();
        let features = features
            .filter(|feature| self.config.missing == MissingPolicy::Refuse || !feature.is_empty());
        let features = features.map(|feature| {
            let Feature {
                name,
                seen,
                magnitudes,
                dates,
                missing,
            } = feature;
            let code = match (dates, seen) {
                (_, Seen::Numbers(spread)) if self.config.exposure.as_ref() == Some(&name) => {
                    Code::Exposure {
                        scale: ColumnScale {
                            centre: spread.mean().ln(),
                            is_logarithmic: true,
                            ..ColumnScale::KEPT
                        },
                    }
                }
                (Some(dates), _) => Code::Date {
                    order: dates.order,
                    days: numbers(&dates.days, &name)?,
                    parts: dates.parts(),
                },
                (None, Seen::Numbers(spread)) => {
                    let kept = numbers(&spread, &name)?;
                    let logarithmic = magnitudes.and_then(|found| found.logarithmic());
                    Code::Number {
                        numbers: match logarithmic {
                            Some((unit, scale)) => Numbers {
                                unit: Some(unit),
                                scale,
                                imputed: unit * scale.centre.sinh(),
                                ..kept
                            },
                            None => kept,
                        },
                    }
                }
                (None, Seen::Categories(counts)) => {
                    one_hot(counts, &name, &self.config, self.rows, place(&name))?
                }
            };
            Ok(FeaturePlan {
                name,
                says_missing: missing >= fewest,
                is_complete: missing == 0,
                code,
            })
        });
        let mut features = features.collect::<Result<Vec<_>, DataError>>()?;
        features.retain(FeaturePlan::says_something);
        // The exposure is last.
        features.sort_by_key(FeaturePlan::is_exposure);
        if features.iter().all(FeaturePlan::is_exposure) {
            let (place, cure) = (
                columns.source.clone(),
                "check that the file is the right one",
            );
            return Err(DataError::data(
                place,
                "no feature with a number, or with a category of enough rows",
                "at least one",
                cure,
            ));
        }
        for plan in &features {
            left_out.remove(&plan.name);
        }
        Ok(Preprocessor::new(&self.config, features, left_out, targets))
    }
}

impl Columns {
    /// The columns of a table, after checking the names in the configuration.
    fn of(table: &Table, config: &PreprocessorConfig) -> Result<Self, DataError> {
        let names = table.names();
        let targets = config.target.as_slice();
        if targets.is_empty() {
            return Err(DataError::config("target", "no column", "at least one"));
        }
        for (place, name) in targets.iter().enumerate() {
            if targets[..place].contains(name) {
                let found = format_args!("{} twice", shown(name));
                return Err(DataError::config("target", found, "each column once"));
            }
        }
        let is_several = targets.len() > 1;
        match config.task {
            Task::Counts | Task::Classification if is_several => {
                let found = "counts or classification, and several targets";
                let expected = "one target, or regression or multilabel";
                return Err(DataError::config("task", found, expected));
            }
            Task::Multilabel if !is_several => {
                let expected = "several targets, or classification";
                return Err(DataError::config(
                    "task",
                    "multilabel, and one target",
                    expected,
                ));
            }
            _ => {}
        }
        let ignored = config.ignore.iter().map(|name| ("ignore", name));
        let target_names = targets.iter().map(|name| ("target", name));
        let exposure = config.exposure.iter().map(|name| ("exposure", name));
        for (setting, name) in target_names.chain(ignored).chain(exposure) {
            if !names.contains(&name.as_str()) {
                let expected = format_args!("a column of {}: {}", table.whole(), listed(&names));
                return Err(DataError::config(setting, shown(name), expected));
            }
        }
        if let Some(name) = &config.exposure {
            let is_used = targets.contains(name) || config.ignore.contains(name);
            let problem = match table.column(name)?.kind() {
                ColumnKind::Category => Some(("of categories", "a column of numbers")),
                ColumnKind::Number if is_used => {
                    Some(("a target or an ignored column", "another column"))
                }
                ColumnKind::Number if config.task != Task::Counts => {
                    Some(("without counts", "the task counts, or no exposure"))
                }
                ColumnKind::Number => None,
            };
            if let Some((found, expected)) = problem {
                let found = format_args!("{}, {found}", shown(name));
                return Err(DataError::config("exposure", found, expected));
            }
        }
        let is_feature = |name: &str| {
            !targets.iter().any(|target| target == name) && !config.ignore.contains(name)
        };
        let columns = table.columns().iter();
        let features: Vec<_> = columns
            .filter(|column| is_feature(column.name()))
            .map(|column| Feature {
                name: column.name().to_string(),
                seen: Seen::new(column.kind()),
                magnitudes: (config.features_are_logarithmic
                    && config.scaling == Scaling::Standardise)
                    .then(Magnitudes::default),
                dates: Dates::of(column),
                missing: 0,
            })
            .collect();
        if features.is_empty() {
            return Err(DataError::data(
                table.whole(),
                "no column that is a feature",
                "at least one",
                "check that the file is the right one, the delimiter, and which columns are left out",
            ));
        }
        let kinds = targets.iter().map(|name| Ok(table.column(name)?.kind()));
        Ok(Self {
            features,
            target_kinds: kinds.collect::<Result<_, DataError>>()?,
            source: table.whole(),
        })
    }
}

/// Adds a cell of a target to its statistics.
fn observe_target(
    config: &PreprocessorConfig,
    seen: &mut Seen,
    table: &Table,
    target: &Column,
    kind: ColumnKind,
    row: usize,
) -> Result<(), DataError> {
    match seen {
        Seen::Numbers(spread) if config.task == Task::Counts => {
            spread.push(count_target(table, target, row)?);
        }
        Seen::Numbers(spread) => {
            let value = real_target(table, target, row)?;
            spread.push(match config.target_is_logarithmic {
                true => check_positive(value, || table.place(row).column(target.name()))?.ln(),
                false => value,
            });
        }
        Seen::Categories(counts) => {
            let label = class_label(table, target, kind, row)?;
            count(counts, &label);
            if counts.len() > config.max_categories {
                let place = table.place(row).column(target.name());
                let cure = "for a numeric target, choose regression; otherwise raise the limit";
                return Err(too_many(place, config.max_categories, cure));
            }
        }
    }
    Ok(())
}

/// The encoding of a target with these statistics.
fn target_code(
    config: &PreprocessorConfig,
    seen: Seen,
    kind: ColumnKind,
    place: &impl Fn() -> Place,
) -> Result<TargetCode, DataError> {
    match seen {
        Seen::Numbers(spread) => {
            let scale = ColumnScale {
                is_logarithmic: config.target_is_logarithmic && config.task == Task::Regression,
                ..spread.scale(config.target_scaling, place())?
            };
            if spread.is_constant() {
                let value = match scale.is_logarithmic {
                    true => spread.mean().exp(),
                    false => spread.mean(),
                };
                return Err(DataError::data(
                    place(),
                    format_args!("the target {value} in every training row"),
                    "a target that varies",
                    "check the target column and the choice of rows",
                ));
            }
            Ok(match config.task {
                Task::Counts => TargetCode::Counts {
                    mean: spread.mean(),
                },
                _ => TargetCode::Regression { scale },
            })
        }
        Seen::Categories(counts) => {
            let classes = Levels::classes(counts.into_keys(), place())?
                .in_order(&config.class_order, place)?;
            if config.target_is_logarithmic {
                return Err(DataError::data(
                    place(),
                    format_args!("the classes {classes}"),
                    "numbers, because their logarithm is predicted",
                    "leave `--target-scale` out",
                ));
            }
            if config.task == Task::Multilabel && classes.len() != 2 {
                return Err(DataError::data(
                    place(),
                    format_args!("{} classes: {classes}", classes.len()),
                    "two, because the task is multilabel",
                    "leave the column out of the targets, or fit it alone as a classification",
                ));
            }
            Ok(TargetCode::Classification {
                classes,
                labels: kind,
            })
        }
    }
}

/// The limit on categories, for messages.
const MOST_LEVELS: &str = "at most as many as `max_categories`";

/// Counts a category.
fn count(counts: &mut BTreeMap<String, usize>, category: &str) {
    match counts.get_mut(category) {
        Some(count) => *count += 1,
        None => {
            counts.insert(category.into(), 1);
        }
    }
}

/// The error of a column with more categories than the limit.
fn too_many(place: Place, most: usize, cure: &str) -> DataError {
    let found = format_args!("more than {most} categories");
    DataError::data(place, found, MOST_LEVELS, cure)
}

/// One-hot encoding. Of equally frequent categories, the first one is imputed.
fn one_hot(
    counts: BTreeMap<String, usize>,
    name: &str,
    config: &PreprocessorConfig,
    rows: usize,
    place: Place,
) -> Result<Code, DataError> {
    let mut most: Option<(&String, usize)> = None;
    for (category, &count) in &counts {
        if most.is_none_or(|(_, before)| count > before) {
            most = Some((category, count));
        }
    }
    let Some((imputed, _)) = most else {
        let cure = "choose other rows, or leave the column out";
        return Err(DataError::data(place, "no value", "at least one", cure));
    };
    let imputed = imputed.clone();
    let fewest = PreprocessorConfig::fewest_rows(config.rare, rows);
    let (rare, frequent): (Vec<_>, Vec<_>) =
        counts.into_iter().partition(|&(_, count)| count < fewest);
    // A single rare category has a place in any case.
    let (rare, frequent) = match rare.len() {
        1 => (Vec::new(), [frequent, rare].concat()),
        _ => (rare, frequent),
    };
    if frequent.len() > config.max_categories {
        let leave_out = leave_out(name);
        let cure =
            format!("if it contains names or identifiers, {leave_out}; otherwise raise the limit");
        return Err(too_many(place, config.max_categories, &cure));
    }
    let [levels, rare] = [frequent, rare]
        .map(|counts| Levels::new(counts.into_iter().map(|(category, _)| category)));
    Ok(Code::OneHot {
        levels,
        rare,
        imputed,
    })
}
