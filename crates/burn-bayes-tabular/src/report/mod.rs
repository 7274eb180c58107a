//! `report.html`: a page with the training curves, scores, calibration and posterior of a fit.
//!
//! The page is self-contained: no scripts, external fonts or images. All numbers come from [`Scores`]; the
//! charts are drawn from the same predictions. [`SideBySide`] is a page in the same style that compares methods.

mod baselines;
mod chart;
mod classification;
mod counts;
mod evaluation;
mod groups;
mod input_space;
mod leaderboard;
mod page;
mod palette;
mod posterior;
mod ranks;
mod regression;
mod row_tables;
mod section;
mod side_by_side;
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
pub(crate) use leaderboard::{Contender, Leaderboard, SettingValues, shown_p_value};
pub use posterior::PosteriorSummary;
pub use section::Table;
pub use side_by_side::{FitCaption, Problem, SideBySide, write_side_by_side};
pub use summary::{Summary, SummaryLine};
pub use training::TrainingCurve;

use crate::assessment::{Assessment, Baseline};
use crate::error::Result;
use crate::files::write_whole;
use crate::predict::Predictions;
use crate::rows::RowInputs;
use crate::scores::{ConformalScores, Scores, ScoresByGroup};
use crate::simulation_based_calibration::Check;
use page::Page;

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
    /// The name of the target's column.
    pub target: &'a str,
    /// The scored rows; `None` if the fit stopped at a non-finite number.
    pub rows: Option<ScoredRows<'a>>,
    /// Why the fit diverged; `None` if it did not.
    pub diverged: Option<&'a str>,
    /// Whether the fit can be trusted; `None` if it was not assessed.
    pub assessment: Option<&'a Assessment>,
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
    /// The coverage of conformal sets or intervals.
    pub conformal: Option<&'a ConformalScores>,
}

/// The page of a simulation-based calibration.
#[derive(Clone, Copy, Debug)]
pub struct CheckReport<'a> {
    /// The heading.
    pub title: &'a str,
    /// What was simulated.
    pub subtitle: &'a str,
    /// The command line that made it.
    pub command: &'a str,
    /// The settings in effect, as TOML.
    pub config: &'a str,
    /// The result.
    pub check: &'a Check,
}

/// Writes a report to `path`, and its charts into the folder `plots` beside it.
pub fn write(report: &Report<'_>, path: &Path) -> Result<()> {
    write_page(&Page::of(report)?, path)
}

/// Writes the page of a simulation-based calibration to `path`, and its charts into the folder `plots` beside it.
pub fn write_check(report: &CheckReport<'_>, path: &Path) -> Result<()> {
    write_page(&Page::of_check(report)?, path)
}

fn write_page(page: &Page<'_>, path: &Path) -> Result<()> {
    page::save_drawings(page.figures(), path)?;
    write_whole(path, page.html()?.as_bytes())
}
