//! The commands, one per file.

mod check;
mod compare;
mod completions;
mod data;
mod demo;
mod evaluate;
mod explain;
mod fit;
mod manual;
mod plan;
mod predict;
mod tune;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::OnceLock;

use clap::{Args, Subcommand};

use crate::console::{Counter, busy, command_line, tell, warn};
use crate::interruption;
use burn_bayes_data::{FarValues, Table};
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::ModelChoice;
use burn_bayes_tabular::experiments::jobs::{Existing, Progress, Record, threads};
use burn_bayes_tabular::files::would_overwrite;
use burn_bayes_tabular::new_rows::KnownRows;
use burn_bayes_tabular::rows::{InferredTask, PreparedRows, SplitTable, read_table, warnings};
use burn_bayes_tabular::run::{Run, RunFolder};
use burn_bayes_tabular::scores::Verdict;
use burn_bayes_tabular::settings::{Config, DeviceName, FileFormat, Words, refused};

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare four methods on generated data, in seconds
    Demo(demo::Arguments),
    /// Estimate the memory and time of a fit
    Plan(Box<plan::Arguments>),
    /// Fit a Bayesian network to the rows of a file
    Fit(Box<fit::Arguments>),
    /// Predict the rows of a file, with uncertainty
    Predict(predict::Arguments),
    /// Score a fit on a file of rows with known targets
    Evaluate(evaluate::Arguments),
    /// Show what a fit has learned from each column
    Explain(explain::Arguments),
    /// Tune the settings of a method by random search with cross-validation
    Tune(Box<tune::Arguments>),
    /// Compare methods and settings by cross-validation, with paired tests
    Compare(Box<compare::Arguments>),
    /// Check the calibration of a method by fits to simulated targets
    Check(Box<check::Arguments>),
    /// List or generate data sets
    Data(data::Arguments),
    /// Print a shell completion script
    Completions(completions::Arguments),
    /// Write the manual pages of all commands
    Manual(manual::Arguments),
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Demo(arguments) => demo::run(&arguments),
            Self::Plan(arguments) => plan::run(&arguments),
            Self::Fit(arguments) => fit::run(&arguments),
            Self::Predict(arguments) => predict::run(&arguments),
            Self::Evaluate(arguments) => evaluate::run(&arguments),
            Self::Explain(arguments) => explain::run(&arguments),
            Self::Tune(arguments) => tune::run(&arguments),
            Self::Compare(arguments) => compare::run(&arguments),
            Self::Check(arguments) => check::run(&arguments),
            Self::Data(arguments) => data::run(&arguments),
            Self::Completions(arguments) => completions::run(&arguments),
            Self::Manual(arguments) => manual::run(&arguments),
        }
    }
}

/// How a command prints its result.
#[derive(Debug, Args)]
struct OutputFlags {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of a command with many fits.
#[derive(Debug, Args)]
struct JobFlags {
    /// Resume from the finished fits in the folder
    #[arg(long)]
    resume: bool,
    /// Replace the results in the folder
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
    /// Number of fits at the same time [default: the number of processors]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    output: OutputFlags,
}

impl JobFlags {
    fn existing(&self) -> Existing {
        match (self.resume, self.overwrite) {
            (true, _) => Existing::Resumed,
            (false, true) => Existing::Replaced,
            (false, false) => Existing::Refused,
        }
    }
}

/// Checks the output files of a command in a folder, which may hold those of an earlier run of it, as the first of them says.
///
/// # Errors
/// If one is an input, or is of another origin.
fn expect_outputs<'a>(
    folder: &Path,
    names: &[&str],
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    let inputs: Vec<&Path> = inputs.into_iter().collect();
    let has_results = folder.join(names[0]).exists();
    for name in names {
        expect_no_input(folder, name, "out", inputs.iter().copied())?;
        if !has_results && folder.join(name).exists() {
            return Err(overwritten(folder, name, "out", "is not of this command"));
        }
    }
    Ok(())
}

/// Refuses the folder of an option where the file with this name, which is written, is an input.
fn expect_no_input<'a>(
    folder: &Path,
    name: &str,
    option: &str,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    let file = folder.join(name);
    match inputs
        .into_iter()
        .any(|input| would_overwrite(&file, input))
    {
        true => Err(overwritten(folder, name, option, "is read")),
        false => Ok(()),
    }
}

fn overwritten(folder: &Path, name: &str, option: &str, reason: &str) -> TabularError {
    let folder = folder.display();
    let problem =
        format!("is {folder}, whose {name} {reason} and would be overwritten; name another folder");
    refused(option, problem)
}

/// More columns with values far outside of the training rows are counted.
const MOST_FAR: usize = 10;

/// Warns of columns that have values far outside of the training rows.
fn warn_of_far(far: &[FarValues]) {
    far.iter().take(MOST_FAR).for_each(warn);
    if far.len() > MOST_FAR {
        let others = far.len() - MOST_FAR;
        warn(format_args!(
            "{others} more columns have values far outside of the training rows; `predict --mark-far` names them for every row"
        ));
    }
}

/// Reads rows with known targets, and says which are left out and which are far from the training rows.
fn known_rows(
    run: &Run,
    path: &Path,
    format: FileFormat,
    by: &[String],
    conformal_by: Option<&str>,
) -> Result<KnownRows> {
    let rows = busy(format_args!("reading {}", path.display()), || {
        KnownRows::read(run, path, format, by, conformal_by)
    })?;
    if rows.rows() == 0 {
        let problem = "no row can be scored: each lacks a value to compare predictions with, or one that they need";
        return Err(TabularError::Data(format!("{}: {problem}", path.display())));
    }
    if rows.left_out > 0 {
        let (usable, all) = (rows.rows(), rows.rows() + rows.left_out);
        tell(format_args!(
            "{usable} of {all} rows are scored; the others have missing values"
        ));
    }
    warn_of_far(&rows.far);
    Ok(rows)
}

/// The names of an option that may be given several times.
fn names(lists: &[Words]) -> Vec<String> {
    lists.iter().flat_map(|words| words.0.clone()).collect()
}

/// Loads the run in a folder, and warns if its fit diverged, or is not to be used.
fn loaded(folder: &RunFolder, device: Option<DeviceName>) -> Result<Run> {
    let run = Run::load(folder, device)?;
    if let Some(reason) = &run.diverged {
        let path = folder.path().display();
        warn(format_args!("the fit in {path} cannot be used: {reason}"));
    } else if run.verdict == Some(Verdict::DoNotUse) {
        let report = folder.path().join("report.html");
        warn(format_args!(
            "the verdict on the fit in {} is `do not use`; {} has the reasons",
            folder.path().display(),
            report.display()
        ));
    }
    Ok(run)
}

/// Reads the data file, warns about suspicious columns, and infers the task if it is not given.
fn read(config: &mut Config) -> Result<Table> {
    let path = config.data.path()?.display();
    let table = busy(format_args!("reading {path}"), || read_table(&config.data))?;
    for warning in warnings(&table, &config.data)? {
        warn(warning);
    }
    if config.data.task.is_none() {
        let InferredTask { task, reason } = InferredTask::of(&table, &config.data)?;
        tell(format_args!("task: {task}, because {reason}"));
        config.data.task = Some(task);
    }
    Ok(table)
}

/// Reads and splits the data file.
fn dealt(config: &mut Config) -> Result<SplitTable> {
    let table = read(config)?;
    let dealt = SplitTable::deal(table, &config.data, config.fit.seed)?;
    if let Some(warning) = dealt.warning(&config.data) {
        warn(warning);
    }
    Ok(dealt)
}

/// Reads, splits and prepares the data file.
fn prepared(config: &mut Config) -> Result<PreparedRows> {
    let dealt = dealt(config)?;
    prepared_as(dealt, config)
}

/// The same, after the choice of what the settings leave open.
fn chosen(config: &mut Config) -> Result<PreparedRows> {
    let dealt = dealt(config)?;
    choose(config, |config, threads| {
        ModelChoice::of(&dealt, config, threads)
    })?;
    prepared_as(dealt, config)
}

/// Chooses the scales of the target and of columns with long tails, if the settings leave them open.
fn choose_scales(rows: &SplitTable, config: &mut Config) -> Result<()> {
    choose(config, |config, threads| {
        ModelChoice::of_scales(rows, config, threads)
    })
}

fn choose(
    config: &mut Config,
    choice: impl FnOnce(&Config, usize) -> Result<Option<ModelChoice>>,
) -> Result<()> {
    let choice = busy("choosing the scales and the model", || {
        choice(config, threads(None))
    })?;
    if let Some(choice) = choice {
        tell(format_args!("chosen: {choice}"));
        choice.apply(config);
    }
    Ok(())
}

fn prepared_as(dealt: SplitTable, config: &Config) -> Result<PreparedRows> {
    let what = format!("preparing {} rows", dealt.table.rows());
    busy(what, || PreparedRows::prepare(dealt, &config.data))
}

/// Options of `fit` about one run, which do not apply to commands that make many fits.
const OF_ONE_RUN: [(&str, &str); 5] = [
    ("keep", "is not used here; leave it out"),
    ("patience", "is not used here; leave it out"),
    ("refit", "is not used here; leave it out"),
    ("recalibrate", "is not used here; leave it out"),
    ("members", "is not used here; leave it out"),
];

/// Shows the progress of the fits of a command.
struct Fits {
    name: &'static str,
    counter: OnceLock<Counter>,
    /// Whether there are too many fits for a line about each.
    is_quiet: bool,
}

impl Fits {
    /// For the command with this name. From now on, an interruption prints the command that resumes it.
    fn of(name: &'static str, resumes: bool) -> Self {
        let command = command_line();
        let continuation = match resumes {
            true => command,
            false => format!("{command} --resume"),
        };
        Self::continued_by(name, continuation)
    }

    /// For the command with this name. From now on, an interruption prints this command.
    fn continued_by(name: &'static str, command: String) -> Self {
        interruption::continue_by(command);
        Self {
            name,
            counter: OnceLock::new(),
            is_quiet: false,
        }
    }

    /// With a line at every tenth of all fits only.
    fn quietly(self) -> Self {
        Self {
            is_quiet: true,
            ..self
        }
    }
}

impl Progress for Fits {
    fn begin(&self, waiting: usize) {
        self.counter
            .get_or_init(|| Counter::new(self.name, waiting));
    }

    fn done(&self, record: &Record) {
        match self.counter.get() {
            Some(counter) if self.is_quiet => counter.count_quietly(),
            Some(counter) => {
                counter.count(format_args!("{}: {:.1} s", record.key, record.seconds));
            }
            None => {}
        }
    }
}
