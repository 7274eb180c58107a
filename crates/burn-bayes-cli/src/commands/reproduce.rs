//! `reproduce`: what the papers measured, measured again.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::data::DataFolder;
use crate::reproduce::{self, Effort, Request};
use burn_bayes_tabular::cells;
use burn_bayes_tabular::error::Result;

/// Which experiments, and how.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// E1, E2, … or all
    #[arg(required = true, value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Reduced settings: minutes instead of hours, with the findings checked that these can show
    #[arg(long)]
    quick: bool,
    /// Folder of the results; what it already holds is not computed again
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,
    /// Compute only the cells whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Cells computed at the same time, each in a process of its own [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    data: DataFolder,
    /// Print one JSON object at the end in the place of tables
    #[arg(long)]
    json: bool,
}

/// Runs them, prints their tables and fails if a finding does.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    let effort = if arguments.quick {
        Effort::Quick
    } else {
        Effort::Full
    };
    reproduce::run(&Request {
        experiments: arguments.experiments,
        effort,
        out: arguments.out,
        only: arguments.only,
        threads: cells::threads(arguments.threads),
        data: arguments.data.path(),
        json: arguments.json,
    })
}
