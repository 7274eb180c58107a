//! The `burn-bayes` program: from a CSV to predictions with uncertainty, without writing Rust.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one crate that talks to a terminal"
)]

mod cells;
mod commands;
mod comparison;
mod console;
mod distinct;
mod engine;
mod failure;
mod files;
mod interruption;
mod network;
mod new_rows;
mod parallel;
mod prediction_table;
mod predictions;
mod problem;
mod random;
mod report;
mod reproduce;
mod rows;
mod run;
mod scores;
mod search;
mod selection;
mod settings;
mod uncertainty;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;
use crate::console::tell;
use crate::failure::Failure;

#[cfg(test)]
#[path = "../../burn-bayes-data/tests/it/damage.rs"]
mod damage;

/// A step of a small network makes some hundred small tensors: this allocator takes a fifth off it.
/// Tests have another one, which counts.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bayesian training of small networks on tables, with predictions that know their uncertainty.
#[derive(Debug, Parser)]
#[command(
    name = "burn-bayes",
    version,
    propagate_version = true,
    args_override_self = true
)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    // Burn loads an optimiser's state to the device that it prefers, which may be a GPU that is not
    // there: the one that is always there is preferred, and the first step brings the state to its
    // parameters.
    // SAFETY: there is no other thread yet.
    #[cfg(feature = "flex")]
    unsafe {
        std::env::set_var("BURN_DEVICE", "flex");
    }
    // Clap leaves with 2 on a usage error, which is what `Failure::Usage` does too.
    let program = Program::parse();
    let caught = match cells::is_worker() {
        true => interruption::catch_in_worker(),
        false => interruption::catch(),
    };
    match caught.and_then(|()| program.command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        // Who closes a pipe has seen enough.
        Err(Failure::System(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure @ Failure::Interrupted(_)) => interruption::end(&failure),
        Err(failure) => {
            tell(format_args!("error: {failure}"));
            ExitCode::from(failure.code())
        }
    }
}
