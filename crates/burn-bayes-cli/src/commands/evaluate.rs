//! `evaluate`: how well a run predicts the rows of a file whose targets are known.

use std::path::{Path, PathBuf};

use burn_bayes_data::read_csv;
use clap::Args;

use crate::console::{busy, command_line, print_json, print_scores, tell};
use crate::settings::FileFlags;
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::files::{at, make_folder};
use burn_bayes_tabular::report::ScoredRows;
use burn_bayes_tabular::rows::{true_targets, usable_rows};
use burn_bayes_tabular::run::{RunFolder, RunReport};
use burn_bayes_tabular::scores::{Intervals, Scores};
use burn_bayes_tabular::settings::{DeviceName, refused};

/// Which rows.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of a finished fit
    run: PathBuf,
    /// File of rows with their targets
    rows: PathBuf,
    /// Draws of the weights; as the fit says by default
    #[arg(long)]
    draws: Option<usize>,
    /// Positive class of F1, if there are two classes; as the fit says by default
    #[arg(long, value_name = "CLASS")]
    positive: Option<String>,
    #[command(flatten)]
    file: FileFlags,
    /// Where to compute: flex, wgpu, cuda or cuda:1; as the fit says by default
    #[arg(long)]
    device: Option<DeviceName>,
    /// Folder for a page with the scores and charts, report.html, and its drawings
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Scores.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = RunFolder::open(&arguments.run)?;
    let page = arguments
        .report
        .as_deref()
        .map(|report| page(report, &folder))
        .transpose()?;
    let run = super::loaded(&folder, arguments.device)?;
    let draws = run.draws(arguments.draws)?;
    let asked = arguments
        .positive
        .as_ref()
        .or(run.config.data.positive.as_ref());
    let positive = run.fitted.meaning().positive(asked.map(String::as_str))?;
    let options = arguments.file.format().csv_options(&run.config.data);
    let options = run.preprocessor.csv_options(options);
    let path = arguments.rows.display();
    let table = busy(format_args!("reading {path}"), || {
        read_csv(&arguments.rows, &options)
    })?;
    let rows = usable_rows(&table, &run.config.data);
    if rows.len() < table.rows() {
        let (usable, all) = (rows.len(), table.rows());
        tell(format_args!(
            "{usable} of {all} rows are scored; the others have a missing cell"
        ));
    }
    let dataset = run.preprocessor.dataset(&table, rows)?;
    let targets = true_targets(&dataset, run.fitted.meaning());
    let what = format!("scoring {} rows", dataset.rows());
    let (predictions, scores) = busy(what, || {
        let predictions = run.fitted.predict(dataset.features(), draws)?;
        let intervals = Intervals::Bootstrapped;
        let scores = Scores::of_positive(&predictions, &targets, intervals, positive)?;
        Ok::<_, TabularError>((predictions, scores))
    })?;
    if let Some(page) = page {
        let report = RunReport {
            config: &run.config,
            command: &command_line(),
            meaning: run.fitted.meaning(),
            metrics: &run.metrics(&folder)?,
            posterior: run.fitted.posterior(),
            rows: Some(ScoredRows {
                part: &format!("rows of {path}"),
                predictions: &predictions,
                targets: &targets,
                scores: &scores,
            }),
            diverged: run.diverged.as_deref(),
        };
        report.write(&page)?;
    }
    match arguments.json {
        true => print_json(&scores),
        false => print_scores(&scores),
    }
}

/// The page in a folder, which is made if it is missing.
///
/// # Errors
/// If it cannot be written, or holds the report of the fit, which would be lost.
fn page(report: &Path, run: &RunFolder) -> Result<PathBuf> {
    make_folder(report)?;
    let same = |path: &Path| path.canonicalize().map_err(at(path));
    if same(report)? == same(run.path())? || RunFolder::open(report).is_ok() {
        let problem =
            "is the folder of a run, whose report is of its validation rows; name another folder";
        return Err(refused("report", problem));
    }
    Ok(report.join("report.html"))
}
