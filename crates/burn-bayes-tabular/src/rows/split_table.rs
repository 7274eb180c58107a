//! Which rows of a table train, and which are held out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use burn_bayes_data::{
    Column, ColumnKind, CsvOptions, CsvReader, DataError, KFold, Split, Table, Task,
    grouped_partition, latest_partition, partition, stratified_partition,
};

use super::same_rows::equal_rows;
use super::{are_rows_of, repeated, usable_rows};
use crate::error::{Result, TabularError};
use crate::order::selected;
use crate::settings::{DataSettings, MissingName, refused};

/// The rows of a file, split but not yet prepared.
#[derive(Clone, Debug)]
pub struct SplitTable {
    /// All rows of the file.
    pub table: Arc<Table>,
    /// Indices of the training rows in the table.
    pub train: Vec<usize>,
    /// The rows that are held out.
    pub held_out: HeldOut,
}

/// Rows of a table that are held out.
#[derive(Clone, Debug)]
pub struct HeldOut {
    /// The table of the training rows, or that of another file.
    pub table: Arc<Table>,
    /// Their indices in it.
    pub rows: Vec<usize>,
}

impl SplitTable {
    /// Splits the rows of a table: at random, and equal seeds give equal splits; by whole groups; or in time. With a file of
    /// validation rows, all rows of the table train.
    ///
    /// # Errors
    /// If a value is missing and the settings refuse that, there are too few rows to hold some out, or the file of validation rows
    /// cannot be read.
    pub fn deal(table: Table, settings: &DataSettings, seed: u64) -> Result<Self> {
        let rows = rows_to_use(&table, settings, settings.path()?)?;
        if let Some(path) = &settings.validation_file {
            let other = read_as(&table, path, settings)?;
            if are_rows_of(&table, &other) {
                let problem = "has the rows of the training file, which say nothing about others; give rows that were not \
                               trained on, or leave the option out";
                return Err(refused("validation_file", problem));
            }
            return Ok(Self {
                held_out: HeldOut {
                    rows: rows_to_use(&other, settings, path)?,
                    table: Arc::new(other),
                },
                table: Arc::new(table),
                train: rows,
            });
        }
        let (train, validation) = dealt(&table, &rows, settings, seed)?;
        Ok(Self::of(table, train, validation))
    }

    /// What is wrong with validation rows of another file, if some of them are equal to training rows.
    pub fn warning(&self, settings: &DataSettings) -> Option<String> {
        let (path, held_out) = (settings.validation_file.as_ref()?, &self.held_out.table);
        let (equal, rows) = (equal_rows(&self.table, held_out), held_out.rows());
        (equal > 0).then(|| {
            format!(
                "{}: {equal} of {rows} rows are equal to training rows, so that scores are too good; leave them out",
                path.display()
            )
        })
    }

    /// With rows of the same table held out.
    pub(crate) fn of(
        table: impl Into<Arc<Table>>,
        train: Vec<usize>,
        held_out: Vec<usize>,
    ) -> Self {
        let table = table.into();
        let held_out = HeldOut {
            table: table.clone(),
            rows: held_out,
        };
        Self {
            table,
            train,
            held_out,
        }
    }

    /// Cross-validation splits of the training rows: stratified by class for a classification, by whole groups, or forward in
    /// time.
    ///
    /// # Errors
    /// If there are too few rows, groups or times.
    pub fn divisions(&self, settings: &DataSettings, folds: KFold) -> Result<Vec<Split>> {
        let divisions = match (Order::of(&self.table, settings)?, settings.task()?.into()) {
            (Order::Groups(groups), _) => folds.grouped_splits(&selected(&groups, &self.train))?,
            (Order::Times(times), _) => folds.splits_in_time(&selected(&times, &self.train))?,
            (Order::Random, Task::Regression | Task::Counts | Task::Multilabel) => {
                folds.splits(self.train.len())?
            }
            (Order::Random, Task::Classification) => {
                let target = self.table.column(&settings.targets()?[0])?;
                let groups = target.groups();
                let groups = selected(&groups, &self.train);
                // First without classes, so that an invalid number of folds is not blamed on a class.
                folds.splits(groups.len())?;
                let path = settings.path()?;
                folds.stratified_splits(&groups).map_err(|_| {
                    let rarest = rarest_class(path, target, &self.train);
                    let cure = "use fewer folds, or leave the rows out";
                    TabularError::Data(format!("{rarest}, fewer than the number of folds; {cure}"))
                })?
            }
        };
        let divisions = divisions.into_iter();
        let of_table = divisions.map(|split| split.of_rows(&self.train));
        Ok(of_table.collect())
    }
}

/// What rows that are held out have in common.
pub(super) enum Order {
    Random,
    /// They are whole groups.
    Groups(Vec<usize>),
    /// They are later than the others.
    Times(Vec<f64>),
}

impl Order {
    pub(super) fn of(table: &Table, settings: &DataSettings) -> Result<Self> {
        if let Some(name) = &settings.group_by {
            return Ok(Self::Groups(table.column(name)?.groups()));
        }
        let Some(name) = &settings.time else {
            return Ok(Self::Random);
        };
        let column = table.column(name)?;
        let problem = "is not a column of numbers or dates, such as 2024-03-01";
        let times = column
            .times()
            .ok_or_else(|| refused("time", format!("is `{name}`, which {problem}")))?;
        match times.iter().position(|time| time.is_nan()) {
            None => Ok(Self::Times(times)),
            Some(row) => {
                let place = table.row_name(row);
                let problem = format!("is `{name}`, which has no value in {place}");
                Err(refused(
                    "time",
                    format!("{problem}; fill it in, or leave the row out"),
                ))
            }
        }
    }
}

/// Those of these rows in which no target is missing.
pub(crate) fn rows_with_targets(
    table: &Table,
    targets: &[String],
    rows: Vec<usize>,
) -> Result<Vec<usize>> {
    let columns = targets.iter().map(|name| table.column(name));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let is_known = |&row: &usize| !columns.iter().any(|column| column.is_missing(row));
    Ok(rows.into_iter().filter(is_known).collect())
}

/// The rows that the treatment of missing values leaves, at least one, each as often as it counts.
fn rows_to_use(table: &Table, settings: &DataSettings, path: &Path) -> Result<Vec<usize>> {
    if settings.missing == MissingName::Refuse {
        table.check_complete()?;
    }
    let mut rows = usable_rows(table, settings);
    if settings.missing == MissingName::Impute {
        rows = rows_with_targets(table, settings.targets()?, rows)?;
    }
    if rows.is_empty() {
        let problem = match settings.missing {
            MissingName::Impute => "no row has a value to predict; check `--target`",
            MissingName::Refuse | MissingName::Drop => {
                "every row has a missing value; use `--missing impute`, or `--ignore` the empty columns"
            }
        };
        let path = path.display();
        return Err(TabularError::Data(format!("{path}: {problem}")));
    }
    repeated(table, rows, settings, path)
}

/// Reads a further file with the columns of a table, of the same types.
fn read_as(table: &Table, path: &Path, settings: &DataSettings) -> Result<Table> {
    let columns = table.columns().iter();
    let kinds = columns.map(|column| (column.name().to_string(), column.kind()));
    let kinds: BTreeMap<_, _> = kinds.collect();
    let options = settings.csv_options().with_only(kinds.keys().cloned());
    let options = options.with_kept(settings.kept_columns().cloned());
    let options = CsvOptions { kinds, ..options };
    Ok(CsvReader::open(path, options)?.read_all()?)
}

/// Training and validation rows: stratified by class for a classification, by whole groups, or in time.
fn dealt(
    table: &Table,
    rows: &[usize],
    settings: &DataSettings,
    seed: u64,
) -> Result<(Vec<usize>, Vec<usize>)> {
    if settings.validation == 0.0 {
        return Ok((rows.to_vec(), Vec::new()));
    }
    let shares = [1.0 - settings.validation, settings.validation];
    let path = settings.path()?;
    let unfit = |problem: String| {
        let cure = "use more rows, another fraction with `--validation`, or 0 to hold out none";
        TabularError::Data(format!("{problem}; {cure}"))
    };
    let of_split = |split: std::result::Result<Split, DataError>, column: &Option<String>, what| {
        let split = split.map_err(|_| {
            let (path, name) = (path.display(), column.as_deref().unwrap_or_default());
            unfit(format!(
                "{path}, column `{name}`: the rows have too few different {what} to hold some out"
            ))
        })?;
        Ok::<_, TabularError>(vec![split.train, split.test])
    };
    let share = settings.validation;
    let parts = match (Order::of(table, settings)?, settings.task()?.into()) {
        (Order::Groups(groups), _) => {
            let split = grouped_partition(&selected(&groups, rows), share, seed);
            of_split(split, &settings.group_by, "groups")?
        }
        (Order::Times(times), _) => {
            let split = latest_partition(&selected(&times, rows), share);
            of_split(split, &settings.time, "times")?
        }
        (Order::Random, Task::Regression | Task::Counts | Task::Multilabel) => {
            partition(rows.len(), &shares, seed).map_err(|_| {
                let (path, share) = (path.display(), settings.validation);
                let count = rows.len();
                unfit(format!(
                    "{path}: a fraction of {share} cannot be held out of {count} rows"
                ))
            })?
        }
        (Order::Random, Task::Classification) => {
            let target = table.column(&settings.targets()?[0])?;
            refuse_rare_classes(target, rows, settings)?;
            let groups = target.groups();
            let groups = selected(&groups, rows);
            stratified_partition(&groups, &shares, seed).map_err(|_| {
                let (rarest, share) = (rarest_class(path, target, rows), settings.validation);
                unfit(format!(
                    "{rarest}, too few to hold out a fraction of {share}"
                ))
            })?
        }
    };
    let numbers = |part: &[usize]| part.iter().map(|&place| rows[place]).collect();
    Ok((numbers(&parts[0]), numbers(&parts[1])))
}

/// The beginning of a message that names the class with the fewest of these rows.
fn rarest_class(path: &Path, target: &Column, rows: &[usize]) -> String {
    let counts = counts(target, rows).into_iter();
    let (class, count) = counts.min_by_key(|&(_, count)| count).unwrap_or_default();
    let (path, name) = (path.display(), target.name());
    format!("{path}, column `{name}`: the class `{class}` has {count} rows")
}

/// The number of these rows in each class.
fn counts(target: &Column, rows: &[usize]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for label in rows.iter().filter_map(|&row| target.label(row)) {
        *counts.entry(label).or_insert(0) += 1;
    }
    counts
}

/// Refuses classes with a single row, which cannot be in both training and validation rows.
fn refuse_rare_classes(target: &Column, rows: &[usize], settings: &DataSettings) -> Result<()> {
    let counts = counts(target, rows);
    let Some((class, _)) = counts.iter().find(|&(_, &count)| count == 1) else {
        return Ok(());
    };
    let (file, name) = (settings.path()?.display(), target.name());
    let cure = match target.kind() == ColumnKind::Number && 2 * counts.len() > rows.len() {
        true => "for a numeric target, use `--task regression`",
        false => "leave the row out, or hold out no rows with `--validation 0`",
    };
    Err(TabularError::Data(format!(
        "{file}, column `{name}`: the class `{class}` has one row, but at least two are needed, one for \
         training and one to hold out; {cure}"
    )))
}
