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
mod samples;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::path::Path;

use burn_bayes_data::Targets;

pub(crate) use posterior::PosteriorSummary;
pub(crate) use training::TrainingCurve;

use crate::failure::{Failure, Result};
use crate::predictions::Predictions;
use crate::scores::Scores;
use page::Page;

/// What a report shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report<'a> {
    /// The heading.
    pub(crate) title: &'a str,
    /// The command line that made it.
    pub(crate) command: &'a str,
    /// The settings in effect, as TOML.
    pub(crate) config: &'a str,
    /// What was recorded epoch by epoch.
    pub(crate) training: &'a [TrainingCurve],
    /// Which rows were predicted: "validation rows", "test rows".
    pub(crate) part: &'a str,
    /// The name of the target's column.
    pub(crate) target: &'a str,
    /// What the fit says of them.
    pub(crate) predictions: &'a Predictions,
    /// What was true of them.
    pub(crate) targets: &'a Targets,
    /// The scores of `predictions` against `targets`.
    pub(crate) scores: &'a Scores,
    /// What was learnt of the weights; absent for a point estimate.
    pub(crate) posterior: Option<&'a PosteriorSummary>,
}

/// Writes a report to `path`, and its drawings into the folder `plots` beside it.
pub(crate) fn write(report: &Report<'_>, path: &Path) -> Result<()> {
    let page = Page::of(report)?;
    let plots = path.with_file_name("plots");
    std::fs::create_dir_all(&plots).map_err(at(&plots))?;
    for figure in page.figures() {
        let file = plots.join(format!("{}.svg", figure.name));
        write_whole(&file, &page::drawing(figure)?)?;
    }
    write_whole(path, &page.html()?)
}

/// Writes under another name, then renames: a reader finds the old file or the new one.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".unfinished-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(at(folder))?;
    file.write_all(text.as_bytes()).map_err(at(path))?;
    file.persist(path).map_err(|error| at(path)(error.error))?;
    Ok(())
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| {
        let message = format!("{path}: {error}");
        Failure::System(std::io::Error::new(error.kind(), message))
    }
}
