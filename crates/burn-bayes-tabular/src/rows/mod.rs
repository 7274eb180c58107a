//! Reads a file of delimited text, and splits it into training and validation rows.

mod inputs;
mod task;
mod training_set;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use burn_bayes_data::{
    Column, ColumnKind, CsvReader, Dataset, KFold, Preprocessor, Split, Table, Targets, Task,
    partition, stratified_partition, suspicions,
};

use strsim::levenshtein;

use crate::error::{Result, TabularError};
use crate::files::hashed;
use crate::groups::GroupRule;
use crate::settings::{DataSettings, HeaderName, MissingName, listed, refused};

pub use inputs::RowInputs;
pub use task::InferredTask;
pub(crate) use training_set::held_out_rows;
pub use training_set::{Target, TrainingSet};

/// Warnings about suspicious columns of a table, and about missing values that are imputed.
pub fn warnings(table: &Table, settings: &DataSettings) -> Result<Vec<String>> {
    let found = suspicions(table, settings.targets()?);
    let mut warnings: Vec<String> = found.iter().map(ToString::to_string).collect();
    if settings.missing == MissingName::Impute {
        let (path, targets) = (settings.path()?.display(), settings.targets()?);
        let rows = table.rows();
        for column in table.columns() {
            let (name, missing) = (column.name(), rows - column.present_rows());
            let what = match targets.iter().any(|target| target == name) {
                true => "have no value to predict, and are left out",
                false => "have none, which is imputed (`--missing` says how)",
            };
            if missing > 0 {
                warnings.push(format!(
                    "{path}, column `{name}`: {missing} of {rows} rows {what}"
                ));
            }
        }
    }
    Ok(warnings)
}

/// The rows of a file, split but not yet prepared.
#[derive(Clone, Debug)]
pub struct SplitTable {
    /// All rows of the file.
    pub table: Arc<Table>,
    /// Indices of the training rows in the table.
    pub train: Vec<usize>,
    /// Indices of the validation rows in the table.
    pub validation: Vec<usize>,
}

impl SplitTable {
    /// Splits the rows of a table at random; equal seeds give equal splits.
    ///
    /// # Errors
    /// If a value is missing and the settings refuse that, or there are too few rows to hold some out.
    pub fn deal(table: Table, settings: &DataSettings, seed: u64) -> Result<Self> {
        if settings.missing == MissingName::Refuse {
            table.check_complete()?;
        }
        let mut rows = usable_rows(&table, settings);
        if settings.missing == MissingName::Impute {
            rows = rows_with_targets(&table, settings.targets()?, rows)?;
        }
        if rows.is_empty() {
            let problem = match settings.missing {
                MissingName::Impute => "no row has a value to predict; check `--target`",
                MissingName::Refuse | MissingName::Drop => {
                    "every row has a missing value; use `--missing impute`, or `--ignore` the empty columns"
                }
            };
            let path = settings.path()?.display();
            return Err(TabularError::Data(format!("{path}: {problem}")));
        }
        let (train, validation) = dealt(&table, &rows, settings, seed)?;
        Ok(Self {
            table: Arc::new(table),
            train,
            validation,
        })
    }

    /// Cross-validation splits of the training rows, stratified by class for a classification.
    pub fn divisions(&self, settings: &DataSettings, folds: KFold) -> Result<Vec<Split>> {
        let divisions = match settings.task()?.into() {
            Task::Regression | Task::Counts | Task::Multilabel => folds.splits(self.train.len())?,
            Task::Classification => {
                let target = self.table.column(&settings.targets()?[0])?;
                let groups = target.groups();
                let groups: Vec<usize> = self.train.iter().map(|&row| groups[row]).collect();
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

/// Training and validation rows, prepared with statistics of the training rows.
#[derive(Clone, Debug)]
pub struct PreparedRows {
    /// The transformation of columns to features, fitted on the training rows.
    pub preprocessor: Preprocessor,
    /// The training rows.
    pub train: TrainingSet,
    /// The validation rows; `None` if no rows were held out.
    pub validation: Option<Dataset>,
    /// The inputs of the validation rows, with their places in the file.
    pub validation_inputs: RowInputs,
    /// How each column that is copied into the predictions is divided into groups, by the training rows.
    pub(crate) kept_columns: BTreeMap<String, GroupRule>,
}

impl PreparedRows {
    /// A hash of the rows. Their inputs as in the file and the groups of columns have no part in a training.
    pub(crate) fn fingerprint(&self) -> u64 {
        let Self {
            train,
            validation,
            preprocessor: _,
            validation_inputs: _,
            kept_columns: _,
        } = self;
        let train = train.fingerprint();
        validation.as_ref().map_or(train, |rows| {
            fingerprint_of(train, rows.features().values(), rows.targets())
        })
    }

    /// Prepares the rows of a split table.
    ///
    /// # Errors
    /// If the rows cannot be prepared, for example because a validation row has a new category, or the
    /// positive class does not exist.
    pub fn prepare(dealt: SplitTable, settings: &DataSettings) -> Result<Self> {
        let SplitTable {
            table,
            train,
            validation,
        } = dealt;
        let config = settings.preprocessor()?;
        let preprocessor = Preprocessor::fit(&config, &table, train.iter().copied())?;
        let dataset = match validation.is_empty() {
            true => None,
            false => Some(preprocessor.dataset(&table, validation.iter().copied())?),
        };
        let target = Target::of(&preprocessor);
        target.positive(settings.positive.as_deref())?;
        Ok(Self {
            kept_columns: kept_columns(&table, &train, settings)?,
            train: TrainingSet::prepared(&preprocessor, &table, &train)?,
            validation: dataset,
            validation_inputs: RowInputs::of(&preprocessor, &table, validation)?
                .with_kept(&table, &settings.keep.0),
            preprocessor,
        })
    }
}

/// How the columns to keep are divided into groups, by the training rows.
fn kept_columns(
    table: &Table,
    train: &[usize],
    settings: &DataSettings,
) -> Result<BTreeMap<String, GroupRule>> {
    let missing = settings.csv_options().missing;
    let rule = |name: &String| {
        let cell = |&row: &usize| table.text(name, row).unwrap_or_default().trim();
        let cells: Vec<&str> = train.iter().map(cell).collect();
        // An ignored column has no kind.
        let column = table.column(name).ok();
        let is_category = settings.categories.0.contains(name)
            || column.is_some_and(|column| column.kind() == ColumnKind::Category);
        Ok((name.clone(), GroupRule::of(&cells, is_category, &missing)?))
    };
    settings.keep.0.iter().map(rule).collect()
}

/// The rows of a table that are not dropped because of missing values.
pub(crate) fn usable_rows(table: &Table, settings: &DataSettings) -> Vec<usize> {
    match settings.missing {
        MissingName::Drop => table.complete_rows(),
        MissingName::Refuse | MissingName::Impute => (0..table.rows()).collect(),
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

/// Continues the hash `others` with more rows.
pub(crate) fn fingerprint_of(others: u64, features: &[f64], targets: &Targets) -> u64 {
    let features = features.iter().map(|value| value.to_bits());
    hashed(others, features.chain(bits(targets)))
}

fn bits(targets: &Targets) -> Vec<u64> {
    match targets {
        Targets::Real(values) => values.iter().map(|value| value.to_bits()).collect(),
        Targets::Classes(classes) => classes.iter().map(|&class| class as u64).collect(),
        Targets::Several(columns) => columns.iter().flat_map(bits).collect(),
    }
}

/// Targets in their own unit.
pub(crate) fn true_targets(dataset: &Dataset, target: &Target) -> Targets {
    in_own_unit(dataset.targets(), target)
}

fn in_own_unit(targets: &Targets, target: &Target) -> Targets {
    match (targets, target) {
        (Targets::Real(values), Target::Real(scale)) => {
            Targets::Real(values.iter().map(|&value| scale.undo(value)).collect())
        }
        (Targets::Several(columns), Target::Several(targets)) => {
            let pairs = columns.iter().zip(targets);
            Targets::Several(
                pairs
                    .map(|(column, (_, target))| in_own_unit(column, target))
                    .collect(),
            )
        }
        (targets, _) => targets.clone(),
    }
}

/// Reads the data file, without ignored columns.
///
/// # Errors
/// If it cannot be read, or a setting names a column that does not exist.
pub fn read_table(settings: &DataSettings) -> Result<Table> {
    let (path, targets) = (settings.path()?, settings.targets()?);
    // Opened only once, because a pipe can be read only once.
    let options = settings
        .csv_options()
        .with_kept(settings.keep.0.iter().cloned());
    let mut reader = CsvReader::open(path, options)?;
    let names: Vec<String> = reader.columns().map(|(name, _)| name.to_string()).collect();
    let asked = [
        ("ignore", &settings.ignore),
        ("categories", &settings.categories),
    ];
    let asked = asked.into_iter().flat_map(|(field, words)| {
        let names = words.0.iter().map(String::as_str);
        names.map(move |name| (field, name))
    });
    let target_names = targets.iter().map(|name| ("target", name.as_str()));
    for (field, name) in target_names.chain(asked) {
        if !names.iter().any(|known| known == name) {
            let unnamed = match settings.header == HeaderName::Detect && names[0] == "column_0" {
                true => {
                    "; the first line was read as data; if it is a header, use `--header present`"
                }
                false => "",
            };
            let problem = format!("{}{unnamed}", not_a_column(name, path, &names));
            return Err(refused(field, problem));
        }
    }
    if let Some(target) = targets.iter().find(|name| settings.ignore.0.contains(name)) {
        let problem = format!("names the target `{target}`; leave it out");
        return Err(refused("ignore", problem));
    }
    for name in &settings.ignore.0 {
        reader = reader.without(name)?;
    }
    for name in &settings.categories.0 {
        reader = reader.with_kind(name, ColumnKind::Category)?;
    }
    Ok(reader.read_all()?)
}

/// Training and validation rows, stratified by class for a classification.
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
    let parts = match settings.task()?.into() {
        Task::Regression | Task::Counts | Task::Multilabel => partition(rows.len(), &shares, seed)
            .map_err(|_| {
                let (path, share) = (path.display(), settings.validation);
                let count = rows.len();
                unfit(format!(
                    "{path}: a fraction of {share} cannot be held out of {count} rows"
                ))
            })?,
        Task::Classification => {
            let target = table.column(&settings.targets()?[0])?;
            refuse_rare_classes(target, rows, settings)?;
            let groups = target.groups();
            let groups: Vec<usize> = rows.iter().map(|&row| groups[row]).collect();
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

/// What is wrong with the name of a column that does not exist.
pub(crate) fn not_a_column(name: &str, path: &Path, names: &[String]) -> String {
    let hint = nearest(name, names);
    let hint = hint.map_or(String::new(), |hint| format!("; did you mean `{hint}`"));
    format!(
        "is `{name}`, which is not a column of {}{hint}; its columns are {}",
        path.display(),
        listed(names)
    )
}

/// The name with the smallest edit distance to `name`, if at most half of its characters differ.
fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let candidates = names
        .iter()
        .map(|known| (levenshtein(&lower, &known.to_lowercase()), known));
    let (count, known) = candidates.min_by_key(|&(count, _)| count)?;
    (count <= name.chars().count() / 2).then_some(known.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["price", "rooms", "town"].map(String::from);
        assert_eq!(nearest("prise", &names), Some("price"));
        assert_eq!(nearest("TOWN", &names), Some("town"));
        assert_eq!(nearest("petal_length", &names), None);
    }
}
