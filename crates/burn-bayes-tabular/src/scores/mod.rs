//! From predictions and targets to numbers.
//!
//! A score that these rows leave undefined is null, and says why; nothing is ever NaN. Intervals come
//! of resampling the rows, so they take rows for independent.

mod classification;
mod regression;
mod score;
mod selective;

use burn_bayes_data::{Targets, Task};
use serde::Serialize;

pub use classification::{ClassificationScores, ReferredClasses, ReliabilityBin};
pub(crate) use regression::LEVELS;
pub use regression::{CoverageScores, QuantileFrequency, ReferredReals, RegressionScores};
pub use score::{Interval, Intervals, Score};
pub use selective::SelectiveScores;

use crate::error::{Result, TabularError};
use crate::predict::Predictions;

/// Every score of some rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Scores {
    /// Of classes.
    Classification(Box<ClassificationScores>),
    /// Of real numbers.
    Regression(Box<RegressionScores>),
}

impl Scores {
    /// Scores predictions against what was true, with F1 of the second of two classes.
    pub fn of(predictions: &Predictions, targets: &Targets, intervals: Intervals) -> Result<Self> {
        Self::of_positive(predictions, targets, intervals, None)
    }

    /// The same with F1 of another class.
    pub fn of_positive(
        predictions: &Predictions,
        targets: &Targets,
        intervals: Intervals,
        positive: Option<&str>,
    ) -> Result<Self> {
        match (predictions, targets) {
            (Predictions::Classes(predictions), Targets::Classes(labels)) => {
                let scores =
                    ClassificationScores::of_positive(predictions, labels, intervals, positive)?;
                Ok(Self::Classification(Box::new(scores)))
            }
            (Predictions::Reals(predictions), Targets::Real(targets)) => {
                let scores = RegressionScores::of(predictions, targets, intervals)?;
                Ok(Self::Regression(Box::new(scores)))
            }
            (Predictions::Classes(_), Targets::Real(_)) => Err(mismatch("classes", "numbers")),
            (Predictions::Reals(_), Targets::Classes(_)) => Err(mismatch("numbers", "classes")),
        }
    }
}

/// What the scores of a task call the mean negative log-likelihood of a row.
pub(crate) fn likelihood_name(task: Task) -> &'static str {
    match task {
        Task::Classification => "nll",
        Task::Regression => "nmll",
    }
}

fn mismatch(predicted: &str, given: &str) -> TabularError {
    TabularError::Data(format!(
        "the fit predicts {predicted}, but the target column was read as {given}: give the rows of the same task"
    ))
}
