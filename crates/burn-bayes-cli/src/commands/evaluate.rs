//! `evaluate`: scores a run on a file of rows with known targets.

use std::path::{Path, PathBuf};

use burn_bayes_tabular::Result;
use burn_bayes_tabular::files::{is_same, make_folder};
use burn_bayes_tabular::new_rows::Evaluation;
use burn_bayes_tabular::predict::CostRule;
use burn_bayes_tabular::run::RunFolder;
use burn_bayes_tabular::scores::{ConformalScores, Scores};
use burn_bayes_tabular::settings::{DeviceName, Pairs, Words, refused};
use clap::{ArgAction, Args};

use super::OutputFlags;
use crate::console::{
    busy, command_line, print, print_baselines, print_json, print_scores, print_table, warn,
};
use crate::settings::{ConformalFlags, FileFlags};

/// Which run to score, and on which rows.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of a finished fit
    run: PathBuf,
    /// File of rows with known targets
    rows: PathBuf,
    /// Number of weight draws, not with --conformal [default: as in the fit]
    #[arg(long)]
    draws: Option<usize>,
    /// Positive class of F1, and of fp and fn in --cost, for two classes [default: as in the fit]
    #[arg(long, value_name = "CLASS")]
    positive: Option<String>,
    /// Also score the decisions by their costs, as fp=1,fn=20,abstain=0.5 for two classes; see predict --cost
    #[arg(long, value_name = "NAME=COST,...")]
    cost: Option<Pairs>,
    /// Also score the rows by the values of these columns, separated by commas: by category, or by quartile of a
    /// number
    #[arg(long, value_name = "COLUMNS", action = ArgAction::Append)]
    by: Vec<Words>,
    /// Also score a constant and ridge, negative binomial or logistic regression, which were fitted to the same
    /// training rows
    #[arg(long)]
    baseline: bool,
    #[command(flatten)]
    conformal: ConformalFlags,
    #[command(flatten)]
    file: FileFlags,
    /// Device: flex, wgpu, cuda or cuda:1 [default: as in the fit]
    #[arg(long)]
    device: Option<DeviceName>,
    /// Folder for a report of the scores, report.html, and its charts
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = RunFolder::open(&arguments.run)?;
    let page = arguments
        .report
        .as_deref()
        .map(|report| {
            let inputs = [arguments.rows.as_path()].into_iter();
            let inputs = inputs.chain(arguments.conformal.recent());
            super::expect_no_input(report, "report.html", "report", inputs)?;
            page(report, &folder)
        })
        .transpose()?;
    let run = super::loaded(&folder, arguments.device)?;
    let draws = run.draws(arguments.draws)?;
    let asked = arguments
        .positive
        .as_ref()
        .or(run.config.data.positive.as_ref());
    let positive = run.model.target().positive(asked.map(String::as_str))?;
    let costs = arguments.cost.as_ref();
    let costs = costs.map(|costs| CostRule::of(costs, run.model.target(), positive));
    let costs = costs.transpose()?;
    let by = super::names(&arguments.by);
    let conformal = arguments.conformal.request();
    let conformal_by = conformal.as_ref().and_then(|request| request.by.as_deref());
    let format = arguments.file.format();
    let rows = super::known_rows(&run, &arguments.rows, format, &by, conformal_by)?;
    if let Some(of_fit) = rows.training_file(&run)? {
        warn(format_args!(
            "the rows of {} are those of {}, the file of the fit, and most of these were trained on: the scores are better than \
             those of new rows",
            arguments.rows.display(),
            of_fit.display()
        ));
    }
    let what = format!("scoring {} rows", rows.rows());
    let mut evaluation = busy(what, || rows.score(&run, draws, positive))?;
    if arguments.baseline {
        evaluation = evaluation.with_baselines(&run, &folder, arguments.device)?;
    }
    if let Some(request) = &conformal {
        evaluation = evaluation.with_conformal(&run, &folder, request, arguments.draws, format)?;
    }
    if let Some(costs) = &costs {
        evaluation = evaluation.with_costs(costs)?;
    }
    if let Some(page) = page {
        evaluation.report(&run, &folder, &command_line(), &page)?;
    }
    match arguments.output.json {
        true => print_json(&evaluation),
        false => show(&evaluation),
    }
}

fn show(evaluation: &Evaluation) -> Result<()> {
    print_scores(&evaluation.scores)?;
    if let Some(test) = &evaluation.calibration {
        print(test.finding("scored"))?;
    }
    if let Scores::Classification(scores) = &evaluation.scores {
        print_table(&scores.class_table())?;
    }
    if !evaluation.baselines.is_empty() {
        print_baselines(&evaluation.scores, &evaluation.baselines)?;
    }
    for by in &evaluation.by {
        print_table(&by.table())?;
        by.notes().into_iter().try_for_each(print)?;
    }
    if let Some(costs) = &evaluation.costs {
        print_table(&costs.table())?;
    }
    show_conformal(evaluation.conformal_scores())
}

/// Prints the coverage of the conformal sets or intervals of each target.
fn show_conformal(scores: &[ConformalScores]) -> Result<()> {
    for of_target in scores {
        let (level, headline) = (of_target.level, of_target.headline());
        print(format_args!("conformal at {level}: {headline}"))?;
    }
    let Some(first) = scores.first() else {
        return Ok(());
    };
    print(&first.guarantee)?;
    let mut tables = scores.iter().flat_map(ConformalScores::tables);
    tables.try_for_each(|table| print_table(&table))?;
    print(first.note())
}

/// The path of the report in a folder, which is created if needed.
///
/// # Errors
/// If the folder cannot be created, or contains the report of a fit, which would be overwritten.
fn page(report: &Path, run: &RunFolder) -> Result<PathBuf> {
    make_folder(report)?;
    if is_same(report, run.path()) || RunFolder::open(report).is_ok() {
        let problem =
            "is the folder of a run, whose report would be overwritten; name another folder";
        return Err(refused("report", problem));
    }
    Ok(report.join("report.html"))
}
