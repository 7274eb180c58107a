//! Which rows a network is fitted to, and how a file becomes rows.

use std::path::PathBuf;

use burn_bayes_data::{CsvOptions, PreprocessorConfig, Scaling};

use super::choices::{
    DecimalName, Delimiter, HeaderName, MissingName, TaskName, UnseenName, Words,
};
use super::fit::refused;
use super::table::settings;
use crate::error::Result;

settings! {
    /// The file of the rows, and how it is read.
    DataSettings {
        /// File of delimited text with the training rows, packed with gzip or not.
        [option: Some("data"), value: Some("FILE")]
        path: PathBuf;
        /// Column to predict.
        target: String;
        /// What the target is: regression or classification.
        task: TaskName;
        /// Positive class of F1, if there are two classes; the second one by default.
        [value: Some("CLASS")]
        positive: String;
        /// Columns that are neither target nor feature, with commas between them.
        ignore: Words = Words::default();
        /// Columns of categories that are written as numbers, with commas between them.
        categories: Words = Words::default();
        /// The most categories that a column, or classes that a target may have.
        most_levels: usize = 1000;
        /// Character between cells, or `tab`; found from the first rows by default.
        delimiter: Delimiter;
        /// Character before the decimal fraction of numbers: a point or a comma.
        [value: Some("MARK")]
        decimal: DecimalName = DecimalName::Point;
        /// Whether the first row names the columns: detect, present or absent.
        header: HeaderName = HeaderName::Detect;
        /// What is done about a missing cell: refuse, impute or drop.
        missing: MissingName = MissingName::Refuse;
        /// Words for a missing cell beside an empty one, with commas between them.
        [allows_hyphens: true]
        missing_words: Words = missing_words();
        /// What is done about a category that no training row has: refuse or zeros.
        unseen: UnseenName = UnseenName::Refuse;
        /// Columns as they are, where otherwise numbers are brought to mean 0 and variance 1.
        no_standardize: bool = false;
        /// Share of the rows that is held out to score the fit; 0 scores nothing.
        validation: f64 = 0.2;
    }
}

/// How a new file is written, where that is not as in the fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFormat {
    /// Character before the decimal fraction of numbers.
    pub decimal: Option<DecimalName>,
    /// Character between cells.
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

/// What the reader takes for a missing cell, without the empty one.
fn missing_words() -> Words {
    let words = CsvOptions::default().missing.into_iter();
    Words(words.filter(|word| !word.is_empty()).collect())
}

impl DataSettings {
    /// Refuses what cannot be used, naming the field.
    pub(crate) fn validate(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.validation) {
            let problem = format!("is {}; it must be in [0, 1)", self.validation);
            return Err(refused("validation", problem));
        }
        self.path().and(self.target()).and(self.task()).map(drop)
    }

    /// The file.
    pub fn path(&self) -> Result<&PathBuf> {
        let problem = "is not given; name a file of delimited text";
        self.path.as_ref().ok_or_else(|| refused("data", problem))
    }

    /// The column to predict.
    pub fn target(&self) -> Result<&str> {
        let problem = "is not given; name the column to predict";
        self.target
            .as_deref()
            .ok_or_else(|| refused("target", problem))
    }

    /// What the target is.
    pub fn task(&self) -> Result<TaskName> {
        let problem = "is not given; use regression or classification";
        self.task.ok_or_else(|| refused("task", problem))
    }

    /// How the file is read. What its columns hold, the reader finds, or a preparation knows.
    pub(crate) fn csv_options(&self) -> CsvOptions {
        let words = self.missing_words.0.iter().cloned();
        CsvOptions {
            delimiter: self.delimiter.map(|delimiter| delimiter.0),
            decimal: self.decimal.into(),
            header: self.header.into(),
            missing: words.chain([String::new()]).collect(),
            ..CsvOptions::default()
        }
    }

    /// How its columns are prepared.
    pub fn preprocessor(&self) -> Result<PreprocessorConfig> {
        let config = PreprocessorConfig::new(self.target()?, self.task()?.into())
            .with_missing(self.missing.into())
            .with_unseen(self.unseen.into())
            .with_most_levels(self.most_levels);
        Ok(match self.no_standardize {
            true => config
                .with_scaling(Scaling::Keep)
                .with_target_scaling(Scaling::Keep),
            false => config,
        })
    }
}
