//! `report.html`: one page that shows what a fit has learnt and how far it can be trusted.
//!
//! The page needs nothing but itself: no script, no font, no picture from elsewhere. Every number on
//! it comes from [`Scores`]; the curves are drawn from the same predictions.

mod chart;
mod classification;
mod page;
mod palette;
mod posterior;
mod regression;
mod summary;
mod text;
mod training;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::path::Path;

use burn_bayes_data::Targets;

pub use posterior::PosteriorSummary;
pub(crate) use summary::f1_name;
pub use summary::{Summary, SummaryLine};
pub use text::number;
pub use training::TrainingCurve;

use crate::error::Result;
use crate::files::{make_folder, write_whole};
use crate::predict::Predictions;
use crate::scores::Scores;
use page::Page;

/// What a report shows.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The heading.
    pub title: &'a str,
    /// The command line that made it.
    pub command: &'a str,
    /// The settings in effect, as TOML.
    pub config: &'a str,
    /// What was recorded epoch by epoch.
    pub training: &'a [TrainingCurve],
    /// The name of the target's column.
    pub target: &'a str,
    /// The rows that were predicted; none if the fit left the finite numbers.
    pub rows: Option<ScoredRows<'a>>,
    /// Why the fit has diverged; none if it has not.
    pub diverged: Option<&'a str>,
    /// What was learnt of the weights; absent for a point estimate.
    pub posterior: Option<&'a PosteriorSummary>,
}

/// Rows whose targets are known, with what a fit says of them.
#[derive(Clone, Copy, Debug)]
pub struct ScoredRows<'a> {
    /// Which rows these are: "validation rows", "test rows".
    pub part: &'a str,
    /// What the fit says of them.
    pub predictions: &'a Predictions,
    /// What was true of them.
    pub targets: &'a Targets,
    /// The scores of `predictions` against `targets`.
    pub scores: &'a Scores,
}

/// Writes a report to `path`, and its drawings into the folder `plots` beside it.
pub fn write(report: &Report<'_>, path: &Path) -> Result<()> {
    let page = Page::of(report)?;
    let plots = path.with_file_name("plots");
    make_folder(&plots)?;
    for figure in page.figures() {
        let file = plots.join(format!("{}.svg", figure.name));
        write_whole(&file, page::drawing(figure)?.as_bytes())?;
    }
    write_whole(path, page.html()?.as_bytes())
}
