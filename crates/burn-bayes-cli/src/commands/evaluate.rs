//! `evaluate`: scores a run on a file of rows with known targets.

use std::path::{Path, PathBuf};

use burn_bayes_tabular::Result;
use burn_bayes_tabular::files::{at, make_folder};
use burn_bayes_tabular::new_rows::KnownRows;
use burn_bayes_tabular::run::RunFolder;
use burn_bayes_tabular::settings::{DeviceName, refused};
use clap::Args;

use crate::console::{busy, command_line, print_json, print_scores, tell};
use crate::settings::FileFlags;

/// Which run to score, and on which rows.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of a finished fit
    run: PathBuf,
    /// File of rows with known targets
    rows: PathBuf,
    /// Number of weight draws [default: as in the fit]
    #[arg(long)]
    draws: Option<usize>,
    /// Average over the true posterior by importance weights, if Pareto k̂ of the fit allows it
    #[arg(long)]
    importance_weighted: bool,
    /// Positive class of F1, for two classes [default: as in the fit]
    #[arg(long, value_name = "CLASS")]
    positive: Option<String>,
    #[command(flatten)]
    file: FileFlags,
    /// Device: flex, wgpu, cuda or cuda:1 [default: as in the fit]
    #[arg(long)]
    device: Option<DeviceName>,
    /// Folder for a report of the scores, report.html, and its charts
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = RunFolder::open(&arguments.run)?;
    let page = arguments
        .report
        .as_deref()
        .map(|report| page(report, &folder))
        .transpose()?;
    let run = super::loaded(&folder, arguments.device, arguments.importance_weighted)?;
    let draws = run.draws(arguments.draws)?;
    let asked = arguments
        .positive
        .as_ref()
        .or(run.config.data.positive.as_ref());
    let positive = run.model.target().positive(asked.map(String::as_str))?;
    let path = arguments.rows.display();
    let rows = busy(format_args!("reading {path}"), || {
        KnownRows::read(&run, &arguments.rows, arguments.file.format())
    })?;
    if rows.left_out() > 0 {
        let (usable, all) = (rows.rows(), rows.rows() + rows.left_out());
        tell(format_args!(
            "{usable} of {all} rows are scored; the others have missing values"
        ));
    }
    let what = format!("scoring {} rows", rows.rows());
    let evaluation = busy(what, || rows.score(&run, draws, positive))?;
    if let Some(page) = page {
        evaluation.report(&run, &folder, &command_line(), &page)?;
    }
    let scores = evaluation.scores;
    match arguments.json {
        true => print_json(&scores),
        false => print_scores(&scores),
    }
}

/// The path of the report in a folder, which is created if needed.
///
/// # Errors
/// If the folder cannot be created, or contains the report of a fit, which would be overwritten.
fn page(report: &Path, run: &RunFolder) -> Result<PathBuf> {
    make_folder(report)?;
    let same = |path: &Path| path.canonicalize().map_err(at(path));
    if same(report)? == same(run.path())? || RunFolder::open(report).is_ok() {
        let problem =
            "is the folder of a run, whose report would be overwritten; name another folder";
        return Err(refused("report", problem));
    }
    Ok(report.join("report.html"))
}
