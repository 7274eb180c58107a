//! `report.html`: a page with the training curves, scores, calibration and posterior of a fit.
//!
//! The page is self-contained: no scripts, external fonts or images. All numbers come from [`Scores`]; the
//! charts are drawn from the same predictions. [`SideBySide`] is a page in the same style that compares methods.

mod bars;
mod baselines;
pub(crate) mod chart;
mod classification;
mod counts;
mod evaluation;
mod explanation;
mod input_space;
mod leaderboard;
mod page;
pub(crate) mod palette;
mod posterior;
mod regression;
mod row_tables;
pub(crate) mod section;
mod side_by_side;
mod similar;
mod summary;
mod terms;
mod ticks;
mod training;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::path::Path;

use burn_bayes_data::Targets;

pub use crate::text::number;
pub use explanation::{Effect, EffectPoint, Explanation, Importance};
pub(crate) use leaderboard::{Contender, Leaderboard, SettingValues, shown_p_value};
pub use page::VerdictPanel;
pub(crate) use page::{Page, remove_drawings};
pub use posterior::PosteriorSummary;
pub use section::Table;
pub use side_by_side::{FitCaption, Problem, SideBySide, write_side_by_side};
pub use similar::{ExplainedRow, PredictedValue, SimilarRow, SimilarRows};
pub use summary::{Summary, SummaryLine};
pub use training::TrainingCurve;

use crate::error::Result;
use crate::predict::Predictions;
use crate::rows::RowInputs;
use crate::scores::{Baseline, ConformalScores, CostScores, Scores, ScoresByGroup};

/// The content of a report.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The heading.
    pub title: &'a str,
    /// The command line that made it.
    pub command: &'a str,
    /// The settings in effect, as TOML.
    pub config: &'a str,
    /// Quantities recorded at every epoch.
    pub training: &'a [TrainingCurve],
    /// Whether the epochs are those of chains, which sample.
    pub is_sampled: bool,
    /// The name of the target's column.
    pub target: &'a str,
    /// The scored rows; `None` if the fit stopped at a non-finite number.
    pub rows: Option<ScoredRows<'a>>,
    /// Why the fit diverged; `None` if it did not.
    pub diverged: Option<&'a str>,
    /// Whether the fit can be trusted; `None` if it was not assessed.
    pub verdict: Option<&'a VerdictPanel>,
    /// The posterior; `None` for a point estimate.
    pub posterior: Option<&'a PosteriorSummary>,
}

/// Rows with known targets and their predictions.
#[derive(Clone, Copy, Debug)]
pub struct ScoredRows<'a> {
    /// Which rows these are: "validation rows", "test rows".
    pub part: &'a str,
    /// The predictions.
    pub predictions: &'a Predictions,
    /// The true targets.
    pub targets: &'a Targets,
    /// The scores of `predictions` against `targets`.
    pub scores: &'a Scores,
    /// The inputs of the rows; `None` if they have no names and no file.
    pub inputs: Option<&'a RowInputs>,
    /// Scores with a section of their own.
    pub further: FurtherScores<'a>,
}

/// Scores of rows beside those of the predictions; by default none.
#[derive(Clone, Copy, Debug, Default)]
pub struct FurtherScores<'a> {
    /// Plain models on the same rows.
    pub baselines: &'a [Baseline],
    /// The scores by the values of columns.
    pub by: &'a [ScoresByGroup],
    /// The coverage of the conformal sets or intervals of each target.
    pub conformal: &'a [ConformalScores],
    /// What decisions cost.
    pub costs: Option<&'a CostScores>,
}

/// Writes a report to `path`, and its charts into the folder `plots` beside it.
pub fn write(report: &Report<'_>, path: &Path) -> Result<()> {
    Page::of(report)?.write(path)
}
