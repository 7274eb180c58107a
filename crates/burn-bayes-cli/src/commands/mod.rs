//! One command, one file: its arguments and what it does with them.

mod compare;
mod completions;
mod data;
mod demo;
mod evaluate;
mod fit;
mod plan;
mod predict;
mod tune;

use std::num::NonZeroUsize;
use std::sync::OnceLock;

use clap::Subcommand;

use crate::console::{Counter, busy, command_line, warn};
use crate::interruption;
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::fits::FitsTask;
use burn_bayes_tabular::jobs::{self, Progress, Record, WorkerPool, threads};
use burn_bayes_tabular::rows::{PreparedRows, SplitTable, read_table, warnings};
use burn_bayes_tabular::run::{Run, RunFolder};
use burn_bayes_tabular::settings::{Config, DeviceName};

/// What the program can be asked to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See in seconds what the methods say of data whose truth is known
    Demo(demo::Arguments),
    /// Say what a fit will take in memory and time
    Plan(Box<plan::Arguments>),
    /// Fit a network to the rows of a file, and learn how sure its weights are
    Fit(Box<fit::Arguments>),
    /// Say what a fit predicts of the rows of a file, and how unsure it is
    Predict(predict::Arguments),
    /// Score a fit on the rows of a file whose targets are known
    Evaluate(evaluate::Arguments),
    /// Search the settings of a method that are best on folds of the training rows
    Tune(Box<tune::Arguments>),
    /// Fit several methods to the same divisions of the same rows, and test their differences
    Compare(Box<compare::Arguments>),
    /// List, download or generate the data sets that are known by name
    Data(data::Arguments),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
    /// Make fits for another process
    #[command(hide = true)]
    Worker,
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Demo(arguments) => demo::run(&arguments),
            Self::Plan(arguments) => plan::run(&arguments),
            Self::Fit(arguments) => fit::run(&arguments),
            Self::Predict(arguments) => predict::run(&arguments),
            Self::Evaluate(arguments) => evaluate::run(&arguments),
            Self::Tune(arguments) => tune::run(&arguments),
            Self::Compare(arguments) => compare::run(&arguments),
            Self::Data(arguments) => data::run(&arguments),
            Self::Completions(arguments) => completions::run(&arguments),
            Self::Worker => jobs::serve::<FitsTask>(),
        }
    }
}

/// The run in a folder, with a warning if its fit has diverged.
fn loaded(folder: &RunFolder, device: Option<DeviceName>) -> Result<Run> {
    let run = Run::load(folder, device)?;
    if let Some(reason) = &run.diverged {
        let path = folder.path().display();
        warn(format_args!("the fit in {path} has diverged: {reason}"));
    }
    Ok(run)
}

/// The rows of the settings' file, with a warning of what is suspicious in them.
fn dealt(config: &Config) -> Result<SplitTable> {
    let path = config.data.path()?.display();
    let table = busy(format_args!("reading {path}"), || read_table(&config.data))?;
    for warning in warnings(&table, &config.data)? {
        warn(warning);
    }
    SplitTable::deal(table, &config.data, config.fit.seed)
}

/// The same, prepared.
fn prepared(config: &Config) -> Result<PreparedRows> {
    let dealt = dealt(config)?;
    let what = format!("preparing {} rows", dealt.table.rows());
    busy(what, || PreparedRows::prepare(dealt, &config.data))
}

/// Counts the fits of a command.
struct Fits {
    name: &'static str,
    counter: OnceLock<Counter>,
}

impl Fits {
    /// Those of the command with this name. From now on an interruption says how to go on with them.
    fn of(name: &'static str, resumes: bool) -> Self {
        let command = command_line();
        interruption::continue_by(match resumes {
            true => command,
            false => format!("{command} --resume"),
        });
        let counter = OnceLock::new();
        Self { name, counter }
    }
}

impl Progress for Fits {
    fn begin(&self, waiting: usize) {
        self.counter
            .get_or_init(|| Counter::new(self.name, waiting));
    }

    fn done(&self, record: &Record) {
        if let Some(counter) = self.counter.get() {
            counter.count(format_args!("{}: {:.1} s", record.key, record.seconds));
        }
    }

    fn warn(&self, warning: &str) {
        warn(warning);
    }
}

/// Who computes the fits of a command: processes, but on a GPU threads, because each process would take a
/// part of its memory.
fn worker_pool(asked: Option<NonZeroUsize>, config: &Config) -> Result<WorkerPool> {
    let data = config.data.path()?.as_path();
    Ok(match config.fit.device.is_host() {
        true => WorkerPool::of_files(threads(asked), [data].into_iter()),
        false => WorkerPool::threads(threads(asked)),
    })
}
