//! `tune`: random search of settings with cross-validation, and a file of the best ones.

use std::path::PathBuf;

use burn_bayes_data::shell::quoted;
use burn_bayes_tabular::Result;
use burn_bayes_tabular::experiments::jobs::{ResultCache, threads};
use burn_bayes_tabular::experiments::search::{Ranges, Tuned, Tuning};
use burn_bayes_tabular::report::number;
use clap::Args;
use serde_json::json;

use super::{Fits, JobFlags};
use crate::console::{command_line, print, print_json};
use crate::settings::ConfigFlags;

/// What to search.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the trials and the best settings
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of random trials
    #[arg(long, value_name = "N", default_value_t = 30)]
    trials: usize,
    /// Number of cross-validation folds of the training rows
    #[arg(long, value_name = "N", default_value_t = 5)]
    folds: usize,
    /// Number of trials evaluated on all folds: the best ones on the first fold [default: all]
    #[arg(long, value_name = "N")]
    survivors: Option<usize>,
    /// TOML file with a range for each setting [default: the ranges of the method]
    #[arg(long, value_name = "FILE")]
    ranges: Option<PathBuf>,
    #[command(flatten)]
    jobs: JobFlags,
    #[command(flatten)]
    settings: ConfigFlags,
}

/// The number of trials printed; the file has all.
const SHOWN: usize = 10;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut config = arguments.settings.config()?;
    let ranges = arguments.ranges.as_deref();
    let ranges = ranges.map(|path| Ranges::read(path, &config.fit));
    let ranges = ranges.transpose()?;
    let inputs = [
        config.data.path.as_deref(),
        config.data.validation_file.as_deref(),
        arguments.ranges.as_deref(),
        arguments.settings.file(),
    ];
    super::expect_outputs(&arguments.out, &Tuned::FILES, inputs.into_iter().flatten())?;
    let rows = super::dealt(&mut config)?;
    super::choose_scales(&rows, &mut config)?;
    let mut tuning = Tuning::new(config, &rows, arguments.folds)?;
    let ranges = match ranges {
        Some(ranges) => ranges,
        None => tuning.default_ranges()?,
    };
    let searched = "is searched; leave it out, or give `--ranges` without it";
    let flags = ranges.names().map(|name| (name, searched));
    arguments.settings.refuse(flags)?;
    let search = tuning.search(ranges, arguments.trials, arguments.survivors)?;
    let [finished, _, best, _] = Tuned::FILES;
    let cache = ResultCache::begin(&arguments.out, finished, arguments.jobs.existing())?;
    let shown = Fits::of("tune", arguments.jobs.resume);
    let tuned = tuning.run(&search, &cache, threads(arguments.jobs.threads), &shown)?;
    tuned.write(&arguments.out)?;
    tuned.write_leaderboard(&arguments.out, &command_line())?;
    let file = arguments.out.join(best).display().to_string();
    match arguments.jobs.output.json {
        true => print_json(&json!({ "config": file, "trials": tuned.trials })),
        false => show(&tuned, &file),
    }
}

fn show(tuned: &Tuned, file: &str) -> Result<()> {
    let line = |entries: Vec<String>| print(format_args!("| {} |", entries.join(" | ")));
    let heads = tuned.heads();
    line(heads.iter().map(ToString::to_string).collect())?;
    line(vec!["---".into(); heads.len()])?;
    for row in tuned.trials.iter().take(SHOWN) {
        line(row.entries(|&value| number(value)))?;
    }
    let rest = tuned.trials.len().saturating_sub(SHOWN);
    if rest > 0 {
        print(format_args!("\n{rest} more trials are in trials.csv"))?;
    }
    print(format_args!(
        "\n`burn-bayes fit --config {} --out DIR` fits the best settings",
        quoted(file)
    ))
}
