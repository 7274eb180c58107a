//! `compare`: several methods on the same divisions of the same rows.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use burn_bayes_tabular::Result;
use burn_bayes_tabular::cells::{self, Ledger};
use burn_bayes_tabular::comparison::{Comparison, Runs};
use burn_bayes_tabular::fits::FitsTask;
use burn_bayes_tabular::settings::Method;
use clap::Args;

use super::Fits;
use crate::console::{command_line, print, print_json};
use crate::settings::{ConfigFlags, choice};

/// What to compare, and how often.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the runs and the table
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Methods to compare, with commas between them
    #[arg(
        long,
        value_name = "METHODS",
        value_delimiter = ',',
        value_parser = choice::<Method>(),
        default_value = "map,mean-field,vifa,swag,slang"
    )]
    methods: Vec<Method>,
    /// How often the rows are dealt anew, with a new seed for the fits
    #[arg(long, value_name = "N", default_value_t = 5)]
    seeds: usize,
    /// Folds of the rows, each of which is the test set once
    #[arg(long, value_name = "N", default_value_t = 5)]
    splits: usize,
    /// Use again what the folder holds of these runs
    #[arg(long)]
    resume: bool,
    /// Fits at the same time, each in a process of its own [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: ConfigFlags,
}

/// Options of `fit` that say nothing here.
const REFUSED: [(&str, &str); 3] = [
    ("method", "is of one fit; name all methods with `--methods`"),
    (
        "validation",
        "holds rows out, and here every row is a test row once; leave it out",
    ),
    (
        "checkpoint_every",
        "is of one fit, and here `--resume` goes on with the next one; leave it out",
    ),
];

/// Compares.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments.settings.refuse(REFUSED)?;
    let config = arguments.settings.config()?;
    let runs = Runs::new(
        config,
        &arguments.methods,
        arguments.seeds,
        arguments.splits,
    )?;
    let rows = super::dealt(runs.config())?;
    let (fits, positive) = runs.of_rows(&rows)?;
    let ledger = Ledger::begin(&arguments.out, "runs.jsonl", arguments.resume)?;
    let crew = super::crew(arguments.threads, runs.config())?;
    let shown = Fits::of("compare", arguments.resume);
    let task = FitsTask::Compare(runs.clone());
    let records = cells::run(&task, &fits, &ledger, &crew, &shown)?;
    let positive = positive.as_deref();
    let comparison = Comparison::of(command_line(), positive, runs.methods(), &records)?;
    comparison.write(&arguments.out)?;
    comparison.expect_scores()?;
    match arguments.json {
        true => print_json(&comparison),
        false => print(comparison.markdown()),
    }
}
