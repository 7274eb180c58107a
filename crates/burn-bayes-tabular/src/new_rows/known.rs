//! Scores of a run on a file of rows with known targets.

use std::path::{Path, PathBuf};

use burn_bayes_data::{Dataset, Targets, read_csv};

use crate::error::Result;
use crate::predict::Predictions;
use crate::report::ScoredRows;
use crate::rows::{true_targets, usable_rows};
use crate::run::{Run, RunFolder, RunReport};
use crate::scores::{Intervals, Scores};
use crate::settings::FileFormat;

/// Rows with known targets.
#[derive(Debug)]
pub struct KnownRows {
    path: PathBuf,
    dataset: Dataset,
    /// Number of rows left out because of missing values.
    left_out: usize,
}

/// Predictions of a run, and their scores.
#[derive(Debug)]
pub struct Evaluation {
    /// Every score.
    pub scores: Scores,
    path: PathBuf,
    predictions: Predictions,
    targets: Targets,
}

impl KnownRows {
    /// Reads a file with the settings of the run.
    ///
    /// # Errors
    /// If the file cannot be read, or lacks a column of the run.
    pub fn read(run: &Run, path: &Path, format: FileFormat) -> Result<Self> {
        let options = format.csv_options(&run.config.data);
        let table = read_csv(path, &run.preprocessor.csv_options(options))?;
        let rows = usable_rows(&table, &run.config.data);
        Ok(Self {
            path: path.into(),
            left_out: table.rows() - rows.len(),
            dataset: run.preprocessor.dataset(&table, rows)?,
        })
    }

    /// Number of rows to score.
    pub fn rows(&self) -> usize {
        self.dataset.rows()
    }

    /// Number of rows left out because of missing values.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Scores a run on these rows; `positive` is the positive class of F1.
    ///
    /// # Errors
    /// If a prediction is not finite, or there is no such class.
    pub fn score(self, run: &Run, draws: usize, positive: Option<&str>) -> Result<Evaluation> {
        let targets = true_targets(&self.dataset, run.model.target());
        let predictions = run.model.predict(self.dataset.features(), draws)?;
        let intervals = Intervals::Bootstrapped;
        Ok(Evaluation {
            scores: Scores::of_positive(&predictions, &targets, intervals, positive)?,
            path: self.path,
            predictions,
            targets,
        })
    }
}

impl Evaluation {
    /// Writes a report, which names `command`.
    ///
    /// # Errors
    /// If it cannot be written, or a file of the run was changed since the fit.
    pub fn report(&self, run: &Run, folder: &RunFolder, command: &str, page: &Path) -> Result<()> {
        let report = RunReport {
            config: &run.config,
            command,
            target: run.model.target(),
            metrics: &run.metrics(folder)?,
            posterior: run.model.posterior(),
            rows: Some(ScoredRows {
                part: &format!("rows of {}", self.path.display()),
                predictions: &self.predictions,
                targets: &self.targets,
                scores: &self.scores,
            }),
            diverged: run.diverged.as_deref(),
            assessment: None,
        };
        report.write(page)
    }
}
