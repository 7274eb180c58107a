//! `evaluate`: how well a run predicts the rows of a file whose targets are known.

use std::path::{Path, PathBuf};

use burn_bayes_tabular::Result;
use burn_bayes_tabular::files::{at, make_folder};
use burn_bayes_tabular::new_rows::KnownRows;
use burn_bayes_tabular::run::RunFolder;
use burn_bayes_tabular::settings::{DeviceName, refused};
use clap::Args;

use crate::console::{busy, command_line, print_json, print_scores, tell};
use crate::settings::FileFlags;

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
    let path = arguments.rows.display();
    let rows = busy(format_args!("reading {path}"), || {
        KnownRows::read(&run, &arguments.rows, arguments.file.format())
    })?;
    if rows.left_out() > 0 {
        let (usable, all) = (rows.rows(), rows.rows() + rows.left_out());
        tell(format_args!(
            "{usable} of {all} rows are scored; the others have a missing cell"
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
