//! `data`: the generated data sets.

use std::io::Write;
use std::path::{Path, PathBuf};

use burn_bayes_data::{GENERATED_SETS, GeneratedSet, Table};
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::files::{Output, at, csv_of};
use clap::{Args, Subcommand};
use serde_json::json;

use super::OutputFlags;
use crate::console::{print, print_json};

/// What to do with the data sets.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the data sets that can be generated
    List {
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Write a generated data set as CSV
    Generate {
        /// Name of the data set, as `data list` shows it
        set: String,
        /// Number of rows
        #[arg(long, default_value_t = 600)]
        rows: usize,
        /// Random seed; other seeds give other rows from the same distribution
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Output file [default: standard output]
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.action {
        Action::List { output } => match output.json {
            true => list_as_json(),
            false => list(),
        },
        Action::Generate {
            set,
            rows,
            seed,
            output,
        } => {
            let table = GeneratedSet::find(set)?.table(*rows, *seed)?;
            write_csv(&table, output.as_deref())
        }
    }
}

fn list_as_json() -> Result<()> {
    let sets = GENERATED_SETS.iter().map(|set| {
        json!({
            "name": set.name,
            "about": set.about,
            "target": set.target,
        })
    });
    print_json(&json!({ "sets": sets.collect::<Vec<_>>() }))
}

fn list() -> Result<()> {
    for set in GENERATED_SETS {
        print(format_args!(
            "{:<16} {} (target: `{}`)",
            set.name, set.about, set.target
        ))?;
    }
    print("\n`burn-bayes data generate NAME` writes one of them")
}

/// Writes a table to a file or standard output, with missing values as empty cells.
pub(super) fn write_csv(table: &Table, path: Option<&Path>) -> Result<()> {
    let columns = table.columns();
    let bytes = csv_of(|writer| {
        writer.write_record(columns.iter().map(|column| column.name()))?;
        (0..table.rows()).try_for_each(|row| {
            let cells = columns.iter().map(|column| column.label(row));
            writer.write_record(cells.map(Option::unwrap_or_default))
        })
    })?;
    let mut output = Output::new(path)?;
    output.write_all(&bytes).map_err(at(output.path()))?;
    output.finish()
}
