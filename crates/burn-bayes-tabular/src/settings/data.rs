//! The training rows: which file, which columns, and how they are prepared.

use std::path::PathBuf;

use burn_bayes_data::{Column, CsvOptions, PreprocessorConfig, Scaling, Table};

use super::choices::{
    DecimalName, Delimiter, FeatureScaleName, HeaderName, MissingName, TargetColumns,
    TargetScaleName, TaskName, UnseenName, Words,
};
use super::fit::refused;
use super::table::settings;
use crate::error::Result;

settings! {
    /// The file with the training rows, and how it is read.
    DataSettings {
        /// File with the training rows: CSV or JSON lines, optionally compressed with gzip, zstd or zip; with the feature
        /// `parquet`, also Parquet or Arrow.
        [option: Some("data"), value: Some("FILE")]
        path: PathBuf;
        /// Column to predict, or several, separated by commas.
        target: TargetColumns;
        /// Type of the task [default: from the targets, unless their values are a few whole numbers].
        task: TaskName;
        /// Positive class of F1, precision and recall, for two classes [default: the second one].
        [value: Some("CLASS")]
        positive: String;
        /// Classes of the target from the lowest to the highest, separated by commas [default: in numerical or
        /// alphabetical order].
        class_order: Words = Words::default();
        /// Columns to copy into validation.csv, with which `predict --conformal-by` makes groups, separated by commas.
        keep: Words = Words::default();
        /// Columns to leave out, separated by commas.
        ignore: Words = Words::default();
        /// Numeric columns to treat as categories, separated by commas.
        categories: Words = Words::default();
        /// Categories with fewer training rows are one category together; 1 for none [default: 5, or in fewer than 100 rows a
        /// twentieth of them].
        [value: Some("ROWS")]
        rare: usize;
        /// Maximum number of categories of a column that are not rare, or of classes of the target.
        max_categories: usize = 1000;
        /// Column separator, or `tab` [default: detected from the first rows].
        delimiter: Delimiter;
        /// Decimal separator: a point or a comma.
        [value: Some("MARK")]
        decimal: DecimalName = DecimalName::Point;
        /// Whether the first row names the columns.
        header: HeaderName = HeaderName::Detect;
        /// Treatment of missing values.
        missing: MissingName = MissingName::Impute;
        /// Values that count as missing, in addition to an empty cell and the default ones, separated by commas.
        [allows_hyphens: true]
        na_values: Words = na_values();
        /// Treatment of categories that do not occur in the training rows.
        unseen: UnseenName = UnseenName::Zeros;
        /// How numeric columns with long tails are scaled.
        feature_scale: FeatureScaleName = FeatureScaleName::Auto;
        /// What is predicted of a number.
        target_scale: TargetScaleName = TargetScaleName::Auto;
        /// Do not standardise numeric columns and targets to mean 0 and variance 1.
        no_standardize: bool = false;
        /// Fraction of the rows held out for validation; 0 for none.
        validation: f64 = 0.2;
        /// File with the rows to hold out, in the place of a fraction of the others.
        [value: Some("FILE")]
        validation_file: PathBuf;
        /// Column of times, numbers or dates: the latest rows are held out, and folds are tested on later rows than they train on.
        [value: Some("COLUMN")]
        time: String;
        /// Column of groups, such as patients or places, which are held out as a whole. It is not a feature.
        [value: Some("COLUMN")]
        group_by: String;
        /// Column that says for how many rows each row stands. It is not a feature.
        [value: Some("COLUMN")]
        frequency: String;
        /// Column of exposures, such as the time or the population that counts were counted in: the mean of a count is
        /// proportional to it.
        [value: Some("COLUMN")]
        exposure: String;
    }
}

/// The format of a new file, if it differs from that of the fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFormat {
    /// Decimal separator.
    pub decimal: Option<DecimalName>,
    /// Column separator.
    pub delimiter: Option<Delimiter>,
}

impl FileFormat {
    /// How the new file is read.
    pub fn csv_options(&self, settings: &DataSettings) -> CsvOptions {
        let settings = DataSettings {
            decimal: self.decimal.unwrap_or(settings.decimal),
            delimiter: self.delimiter.or(settings.delimiter),
            ..settings.clone()
        };
        settings.csv_options()
    }
}

/// The values that the reader treats as missing by default, without the empty cell.
fn na_values() -> Words {
    let words = CsvOptions::default().missing.into_iter();
    Words(words.filter(|word| !word.is_empty()).collect())
}

impl DataSettings {
    /// Checks all values. An error names the field.
    pub(crate) fn validate(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.validation) {
            let problem = format!("is {}; it must be in [0, 1)", self.validation);
            return Err(refused("validation", problem));
        }
        if self.validation_file.is_some() && self.validation != Self::default().validation {
            let problem = "is given together with `--validation-file`; leave out one of them";
            return Err(refused("validation", problem));
        }
        self.path()?;
        let targets = self.targets()?;
        for (place, name) in targets.iter().enumerate() {
            if targets[..place].contains(name) {
                return Err(refused(
                    "target",
                    format!("names `{name}` twice; leave out one of them"),
                ));
            }
        }
        let others = [
            ("time", &self.time),
            ("group_by", &self.group_by),
            ("frequency", &self.frequency),
            ("exposure", &self.exposure),
        ];
        for (field, column) in others {
            if let Some(name) = column.as_ref().filter(|&name| targets.contains(name)) {
                return Err(refused(
                    field,
                    format!("is the target `{name}`; name another column"),
                ));
            }
        }
        if self.time.is_some() && self.group_by.is_some() {
            let problem = "is given together with `--group-by`; rows are held out by one of them";
            return Err(refused("time", problem));
        }
        match (&self.exposure, self.task) {
            (Some(_), Some(task)) if task != TaskName::Counts => {
                let problem = format!(
                    "is for counts, but the task is {task}; leave it out, or use `--task counts`"
                );
                return Err(refused("exposure", problem));
            }
            _ => {}
        }
        if let (false, Some(task)) = (self.class_order.0.is_empty(), self.task)
            && task != TaskName::Classification
        {
            let problem = format!("is for classes, but the task is {task}; leave it out");
            return Err(refused("class_order", problem));
        }
        let is_one_number =
            targets.len() == 1 && self.task.is_none_or(|task| task == TaskName::Regression);
        if self.target_scale == TargetScaleName::Log && !is_one_number {
            let problem = "is log, which is for a regression with one target; leave it out";
            return Err(refused("target_scale", problem));
        }
        if self.feature_scale == FeatureScaleName::Log && self.no_standardize {
            let problem =
                "is log, which is a scale, but columns are not scaled; leave one of both out";
            return Err(refused("feature_scale", problem));
        }
        match (self.task, targets) {
            (Some(task @ (TaskName::Counts | TaskName::Classification)), [_, _, ..]) => {
                let problem = format!(
                    "is {task}, which has one target, but `target` names {}; fit each of them alone, or use regression, or \
                     multilabel if all have two values",
                    targets.len()
                );
                Err(refused("task", problem))
            }
            (Some(TaskName::Multilabel), [_]) => {
                let problem = "is multilabel, but `target` names one column; use classification, or name several columns";
                Err(refused("task", problem))
            }
            _ => Ok(()),
        }
    }

    /// The file.
    pub fn path(&self) -> Result<&PathBuf> {
        let problem = "is not given; name a file of delimited text";
        self.path.as_ref().ok_or_else(|| refused("path", problem))
    }

    /// The columns to predict, at least one.
    pub fn targets(&self) -> Result<&[String]> {
        let problem = "is not given; name the column to predict";
        let names = self.target.as_ref().map(TargetColumns::names);
        names
            .filter(|names| !names.is_empty())
            .ok_or_else(|| refused("target", problem))
    }

    /// The columns to predict, as text.
    pub fn target_text(&self) -> Result<String> {
        Ok(self.targets()?.join(", "))
    }

    /// The type of the task.
    pub fn task(&self) -> Result<TaskName> {
        let problem = "is not given; use regression, counts, classification or multilabel";
        self.task.ok_or_else(|| refused("task", problem))
    }

    /// How the file is read. The column types are detected, or taken from a fitted preprocessor.
    pub(crate) fn csv_options(&self) -> CsvOptions {
        let options = CsvOptions {
            delimiter: self.delimiter.map(|delimiter| delimiter.0),
            decimal: self.decimal.into(),
            header: self.header.into(),
            ..CsvOptions::default()
        };
        options.with_further_missing(self.na_values.0.iter().cloned())
    }

    /// Columns of a table that are neither targets nor features: those that are read for the splits, and those that other
    /// fits to the table use.
    pub(crate) fn not_features(&self, table: &Table) -> impl Iterator<Item = String> {
        let columns = table.columns().iter().map(Column::name);
        let ignored = columns.filter(|&name| self.ignore.0.iter().any(|ignored| ignored == name));
        let ignored: Vec<String> = ignored.map(String::from).collect();
        let of_splits = self.group_by.iter().chain(&self.frequency).cloned();
        ignored.into_iter().chain(of_splits)
    }

    /// Columns that are copied into the file of the held-out rows: those that were asked for, and that of the groups, for
    /// guarantees about new ones.
    pub(crate) fn kept_columns(&self) -> impl Iterator<Item = &String> {
        self.keep.0.iter().chain(&self.group_by)
    }

    /// Columns that are not read.
    pub(crate) fn unread(&self) -> impl Iterator<Item = &String> {
        let used = [&self.time, &self.group_by, &self.frequency, &self.exposure];
        let used = used.map(Option::as_ref);
        let ignored = self.ignore.0.iter();
        ignored.filter(move |name| !used.contains(&Some(*name)))
    }

    /// How the columns of a table are prepared.
    pub fn preprocessor(&self, table: &Table) -> Result<PreprocessorConfig> {
        let config = PreprocessorConfig::new(self.targets()?.to_vec(), self.task()?.into())
            .with_ignored(self.not_features(table))
            .with_exposure(self.exposure.clone())
            .with_missing(self.missing.into())
            .with_unseen(self.unseen.into())
            .with_rare(self.rare)
            .with_max_categories(self.max_categories)
            .with_class_order(self.class_order.0.iter().cloned());
        let config = match self.feature_scale {
            FeatureScaleName::Log => config.with_logarithmic_features(),
            FeatureScaleName::Auto | FeatureScaleName::Linear => config,
        };
        let config = match self.target_scale {
            TargetScaleName::Log => config.with_logarithmic_targets(),
            TargetScaleName::Auto | TargetScaleName::Linear => config,
        };
        Ok(match self.no_standardize {
            true => config
                .with_scaling(Scaling::Keep)
                .with_target_scaling(Scaling::Keep),
            false => config,
        })
    }
}
