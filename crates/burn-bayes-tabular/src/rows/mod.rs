//! Reads a file of delimited text, and splits it into training and validation rows.

mod frequency;
mod inputs;
mod same_rows;
mod split_table;
mod task;
mod training_set;
mod units;

use std::collections::BTreeMap;
use std::path::Path;

use burn_bayes_data::shell::quoted;
use burn_bayes_data::{
    Column, ColumnKind, CsvReader, Dataset, Preprocessor, PreprocessorConfig, Suspicion, Table,
    Targets, suspicions,
};

use strsim::levenshtein;

use crate::error::Result;
use crate::files::hashed;
use crate::groups::GroupRule;
use crate::settings::{DataSettings, HeaderName, MissingName, listed, refused};

pub(crate) use frequency::repeated;
pub use inputs::RowInputs;
pub(crate) use same_rows::are_rows_of;
pub(crate) use split_table::rows_with_targets;
pub use split_table::{HeldOut, SplitTable};
pub use task::InferredTask;
pub use training_set::{Target, TrainingSet};
pub use units::Units;

/// Warnings about suspicious columns, cells and rows of a table, about missing values that are imputed, and about times.
pub fn warnings(table: &Table, settings: &DataSettings) -> Result<Vec<String>> {
    let (path, targets) = (settings.path()?.display(), settings.targets()?);
    let not_features: Vec<String> = settings.not_features(table).collect();
    let is_feature = |name: &str| {
        let mut others = targets
            .iter()
            .chain(&not_features)
            .chain(&settings.exposure);
        others.all(|other| other != name)
    };
    let features: Vec<&str> = table.columns().iter().map(Column::name).collect();
    let features: Vec<&str> = features
        .into_iter()
        .filter(|name| is_feature(name))
        .collect();
    let rows = table.rows();
    let fewest = PreprocessorConfig::fewest_rows(settings.rare, rows);
    let has_rare_only = |column: &Column| {
        // Rows that stand for several are counted where they are prepared.
        let is_counted = settings.frequency.is_none() && features.contains(&column.name());
        is_counted && column.rows_of_category().is_some_and(|most| most < fewest)
    };
    let suspicions = suspicions(table, targets);
    // A column that is left out need not be suspected, unless it is left out because of how it was read.
    let is_used = |found: &&Suspicion| {
        found.column().is_none_or(|name| {
            let column = table.column(name).ok();
            let is_left_out = !found.is_of_reading() && column.is_some_and(has_rare_only);
            let is_target = targets.iter().any(|target| target == name);
            is_target || features.contains(&name) && !is_left_out
        })
    };
    let suspicions: Vec<_> = suspicions.iter().filter(is_used).collect();
    let is_imputed = |column: &&Column| {
        let present = column.present_rows();
        let has_some = present > 0 && present < rows;
        has_some && features.contains(&column.name()) && settings.missing == MissingName::Impute
    };
    let imputed: Vec<&Column> = table.columns().iter().filter(is_imputed).collect();
    // Many columns have one line together.
    let have_lines = imputed.len() <= MOST_LINES;
    let mut warnings: Vec<String> = suspicions.iter().map(ToString::to_string).collect();
    for column in table.columns() {
        let (name, missing) = (column.name(), rows - column.present_rows());
        let is_feature = features.contains(&name);
        let mut warn =
            |finding: String| warnings.push(format!("{path}, column `{name}`: {finding}"));
        if missing > 0 && settings.missing == MissingName::Impute {
            let what = match (is_feature, targets.iter().any(|target| target == name)) {
                (_, true) => "have no value to predict, and are left out",
                (true, _) if missing == rows => "have no value: it is left out",
                (true, _) if !have_lines => continue,
                (true, _) => "have no value, which is imputed (`--missing` says how)",
                (false, false) => continue,
            };
            warn(format!("{missing} of {rows} rows {what}"));
        }
        if has_rare_only(column) {
            warn(format!(
                "no category has {fewest} rows: it is left out (`--rare`)"
            ));
        }
        let is_suspicious = suspicions.iter().any(|found| found.column() == Some(name));
        let is_split = settings.time.is_some() || settings.group_by.is_some();
        if is_feature && !is_suspicious && !is_split && is_time(column) {
            warn(format!(
                "it looks like the time of the rows; if later rows are to be predicted, hold out the latest ones (`--time {}`)",
                quoted(name)
            ));
        }
    }
    if let Some(warning) = frequency::warning(table, settings, &features) {
        warnings.push(format!("{path}: {warning}"));
    }
    if !have_lines {
        let counts = imputed.iter().map(|column| {
            let missing = rows - column.present_rows();
            format!("`{}` ({missing})", column.name())
        });
        let counts = counts.collect::<Vec<_>>().join(", ");
        warnings.push(format!(
            "{path}: some of {rows} rows have no value, which is imputed (`--missing` says how), in {} columns: {counts}",
            imputed.len()
        ));
    }
    let is_constant = |column: &&Column| {
        features.contains(&column.name()) && column.is_constant() && column.present_rows() == rows
    };
    let constants = table.columns().iter().filter(is_constant);
    let constants: Vec<String> = constants.map(|column| column.name().to_string()).collect();
    if !constants.is_empty() {
        let names = listed(&constants);
        warnings.push(format!(
            "{path}: the same value in every row says nothing: {names}"
        ));
    }
    Ok(warnings)
}

/// The most columns with missing values that have a line each.
const MOST_LINES: usize = 3;
/// Fewer rows may be in order by chance, and so may numbers of which many are equal.
const FEWEST_IN_ORDER: usize = 20;

/// Whether a column has dates, or numbers in order of which at least half are different.
fn is_time(column: &Column) -> bool {
    let Some(times) = column.times() else {
        return false;
    };
    let rows = times.len();
    let different = 1 + times.windows(2).filter(|pair| pair[0] < pair[1]).count();
    rows >= FEWEST_IN_ORDER && (column.is_of_dates() || times.is_sorted() && 2 * different >= rows)
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
            held_out,
        } = dealt;
        let config = settings.preprocessor(&table)?;
        let preprocessor = Preprocessor::fit(&config, &table, train.iter().copied())?;
        let rows = &held_out.rows;
        let dataset = match rows.is_empty() {
            true => None,
            false => Some(preprocessor.dataset(&held_out.table, rows.iter().copied())?),
        };
        let target = Target::of(&preprocessor);
        target.positive(settings.positive.as_deref())?;
        Ok(Self {
            kept_columns: kept_columns(&table, &train, settings)?,
            train: TrainingSet::prepared(&preprocessor, &table, settings, &train)?,
            validation: dataset,
            validation_inputs: RowInputs::of(
                &preprocessor,
                &held_out.table,
                settings,
                held_out.rows,
            )?
            .with_kept(&held_out.table, settings.kept_columns()),
            preprocessor,
        })
    }

    /// All rows as training rows; `None` without held-out rows.
    ///
    /// # Errors
    /// If the targets of the held-out rows are of another type.
    pub fn all(&self) -> Result<Option<TrainingSet>> {
        let units = &self.validation_inputs.units;
        let held_out = self.validation.as_ref();
        let all = held_out.map(|rows| self.train.with_rows(rows, units));
        all.transpose()
    }
}

/// How the columns to keep are divided into groups, by the training rows.
fn kept_columns(
    table: &Table,
    train: &[usize],
    settings: &DataSettings,
) -> Result<BTreeMap<String, GroupRule>> {
    let options = settings.csv_options();
    let rule = |name: &String| {
        let cell = |&row: &usize| table.text(name, row).unwrap_or_default().trim();
        let cells: Vec<&str> = train.iter().map(cell).collect();
        // An ignored column has no kind.
        let column = table.column(name).ok();
        let is_category = settings.categories.0.contains(name)
            || column.is_some_and(|column| column.kind() == ColumnKind::Category);
        Ok((name.clone(), GroupRule::of(&cells, is_category, &options)?))
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

/// The true values of each target.
pub(crate) fn columns_of(targets: &Targets) -> &[Targets] {
    match targets {
        Targets::Several(columns) => columns,
        one => std::slice::from_ref(one),
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
        .with_kept(settings.kept_columns().cloned());
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
    let of_split = [
        ("time", &settings.time),
        ("group_by", &settings.group_by),
        ("frequency", &settings.frequency),
        ("exposure", &settings.exposure),
    ];
    let of_split = of_split.into_iter();
    let of_split = of_split.filter_map(|(field, name)| Some((field, name.as_deref()?)));
    for (field, name) in target_names.chain(of_split).chain(asked) {
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
    for name in settings.unread() {
        reader = reader.without(name)?;
    }
    for name in &settings.categories.0 {
        reader = reader.with_kind(name, ColumnKind::Category)?;
    }
    Ok(reader.read_all()?)
}

/// What is wrong with the name of a column that does not exist.
pub(crate) fn not_a_column(name: &str, path: &Path, names: &[String]) -> String {
    let hint = nearest(name, names);
    let hint = hint.map_or(String::new(), |hint| format!("; did you mean `{hint}`"));
    let quoted = match names.iter().any(|known| known.contains(',')) {
        true => "; write a name with a comma in quotes, as in '\"a, b\"'",
        false => "",
    };
    format!(
        "is `{name}`, which is not a column of {}{hint}; its columns are {}{quoted}",
        path.display(),
        listed(names)
    )
}

/// The name with the smallest edit distance to `name`, if at most half of its characters differ.
pub(crate) fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let candidates = names
        .iter()
        .map(|known| (levenshtein(&lower, &known.to_lowercase()), known));
    let (count, known) = candidates.min_by_key(|&(count, _)| count)?;
    (count <= name.chars().count() / 2).then_some(known.as_str())
}

#[cfg(test)]
mod tests {
    use burn_bayes_data::CsvOptions;

    use super::*;

    #[test]
    fn the_time_of_the_rows_is_named_even_if_it_is_the_only_feature() {
        let column = |name: &str, value: &dyn Fn(u32) -> f64| {
            Column::numbers(name, (0..50).map(value).collect())
        };
        let target = column("y", &|row| f64::from(row).sin());
        let table = Table::new(vec![column("t", &|row| f64::from(row) / 2.0), target]).unwrap();
        let settings = DataSettings {
            path: Some("walk.csv".into()),
            target: Some("y".into()),
            ..DataSettings::default()
        };
        let told = warnings(&table, &settings).unwrap();
        assert!(
            told.len() == 1 && told[0].contains("`--time t`"),
            "{told:?}"
        );
    }

    #[test]
    fn a_column_that_is_left_out_because_of_how_it_was_read_is_named() {
        let rows: String = (0..60)
            .map(|row| format!("{row}.5k,{}\n", row % 7))
            .collect();
        let file = format!("revenue,y\n{rows}");
        let reader = CsvReader::new(file.as_bytes(), "a.csv", CsvOptions::default()).unwrap();
        let settings = DataSettings {
            path: Some("a.csv".into()),
            target: Some("y".into()),
            ..DataSettings::default()
        };
        let told = warnings(&reader.read_all().unwrap(), &settings).unwrap();
        for part in ["look like numbers", "column `revenue`: no category has"] {
            assert!(told.iter().any(|told| told.contains(part)), "{told:?}");
        }
    }

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["price", "rooms", "town"].map(String::from);
        assert_eq!(nearest("prise", &names), Some("price"));
        assert_eq!(nearest("TOWN", &names), Some("town"));
        assert_eq!(nearest("petal_length", &names), None);
    }
}
