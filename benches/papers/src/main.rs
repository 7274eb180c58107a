//! `papers`: what the papers measured, measured again.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that talks to a terminal"
)]

mod console;
mod distances;
mod e1;
mod e10;
mod e12;
mod e2;
mod e3;
mod e4;
mod e5;
mod e6;
mod e7;
mod e8;
mod e9;
mod experiment;
mod findings;
mod grid;
mod images;
mod linear_model;
mod logistic;
mod logistic_sets;
mod picture_fit;
mod published;
mod report;
mod results;
mod run;
mod sampling;
mod sets;
mod shared;
mod stream;
mod trust;
mod vifa_fit;

use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use burn_bayes_tabular::experiments::jobs;
use burn_bayes_tabular::files::write_whole;
use burn_bayes_tabular::{Result, TabularError};
use clap::{Args, Parser, Subcommand};

use console::tell;
use experiment::Effort;
use run::Request;

/// A step of a small network makes some hundred small tensors: this allocator takes a fifth off it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure again what the papers measured
#[derive(Debug, Parser)]
#[command(name = "papers", version, args_conflicts_with_subcommands = true)]
struct Program {
    #[command(subcommand)]
    inner: Option<Inner>,
    #[command(flatten)]
    arguments: Arguments,
}

#[derive(Debug, Subcommand)]
enum Inner {
    /// List the data sets, or download one and verify its files by SHA-256
    Fetch {
        /// Name of a data set [default: list all]
        set: Option<String>,
        /// Folder of all data sets; $BURN_BAYES_DATA, or `data`, by default
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Mirror to use instead of the public ones, with the file layout of the data folder;
        /// $BURN_BAYES_MIRROR, if set, by default
        #[arg(long, value_name = "ADDRESS")]
        mirror: Option<String>,
    },
    /// Draw the picture of the book's section on gaps
    GapPicture {
        /// The SVG file
        file: PathBuf,
    },
    /// Draw the pictures of the book's chapter on priors over functions
    FunctionPictures {
        /// Figures 3.1 and 3.2 and the seasonal series, as SVG files
        #[arg(num_args = 3)]
        files: Vec<PathBuf>,
    },
}

/// Which experiments, and how.
#[derive(Debug, Args)]
struct Arguments {
    /// E1, E2, … or all of them; trust-linear, … or trust for fits at the defaults
    #[arg(required = true, value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Reduced settings: minutes instead of hours, with the findings checked that these can show
    #[arg(long)]
    quick: bool,
    /// Folder of the results; what it already holds is not computed again
    #[arg(long, value_name = "DIR", default_value = "reproduced")]
    out: PathBuf,
    /// Compute only the jobs whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Cells computed at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Folder of all data sets; $BURN_BAYES_DATA, or `data`, by default
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Skip the experiments whose data sets are missing, which otherwise is an error at the end
    #[arg(long)]
    skip_missing: bool,
    /// Print one JSON object at the end in the place of tables
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn request(self) -> Request {
        Request {
            experiments: self.experiments,
            effort: match self.quick {
                true => Effort::Quick,
                false => Effort::Full,
            },
            out: self.out,
            only: self.only,
            threads: jobs::threads(self.threads),
            data: data_folder(self.data),
            skips_missing: self.skip_missing,
            json: self.json,
        }
    }
}

/// The folder of all data sets: the given one, $BURN_BAYES_DATA or `data`.
fn data_folder(given: Option<PathBuf>) -> PathBuf {
    given
        .or_else(|| std::env::var_os("BURN_BAYES_DATA").map(PathBuf::from))
        .unwrap_or_else(|| "data".into())
}

fn main() -> ExitCode {
    // Burn loads an optimiser's state to the device that it prefers, which may be a GPU that is not
    // there: the one that is always there is preferred.
    // SAFETY: there is no other thread yet.
    #[cfg(feature = "flex")]
    unsafe {
        std::env::set_var("BURN_DEVICE", "flex");
    }
    match run(Program::parse()) {
        Ok(failed) if failed.is_empty() => ExitCode::SUCCESS,
        Ok(failed) => {
            tell(format_args!(
                "error: {} of the findings did not hold:\n  {}",
                failed.len(),
                failed.join("\n  ")
            ));
            ExitCode::FAILURE
        }
        // Who closes a pipe has seen enough.
        Err(TabularError::System(error)) if error.kind() == ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(TabularError::Interrupted(_)) => console::end(),
        Err(error) => {
            tell(format_args!("error: {error}"));
            ExitCode::from(error.code())
        }
    }
}

/// The findings that did not hold.
fn run(program: Program) -> Result<Vec<String>> {
    match program.inner {
        Some(Inner::Fetch { set, data, mirror }) => {
            let mirror = mirror.or_else(|| std::env::var("BURN_BAYES_MIRROR").ok());
            let mirror = mirror.filter(|address| !address.is_empty());
            sets::run(set.as_deref(), &data_folder(data), mirror)?;
            Ok(Vec::new())
        }
        Some(Inner::GapPicture { file }) => {
            write_whole(&file, trust::gap_picture()?.as_bytes())?;
            Ok(Vec::new())
        }
        Some(Inner::FunctionPictures { files }) => {
            for (file, picture) in files.iter().zip(e10::pictures()?) {
                write_whole(file, picture.as_bytes())?;
            }
            Ok(Vec::new())
        }
        None => {
            console::catch_interruptions()?;
            run::run(&program.arguments.request())
        }
    }
}
