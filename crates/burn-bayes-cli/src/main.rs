//! The `burn-bayes` program: from a CSV to predictions with uncertainty, without writing Rust.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one crate that talks to a terminal"
)]

mod commands;
#[allow(dead_code, reason = "the commands that fit follow")]
mod engine;
mod failure;
#[allow(dead_code, reason = "the commands that fit follow")]
mod network;
#[allow(dead_code, reason = "the commands that fit follow")]
mod predictions;
#[allow(dead_code, reason = "the commands that fit follow")]
mod problem;
#[allow(dead_code, reason = "the commands that fit follow")]
mod report;
#[allow(dead_code, reason = "the commands that fit follow")]
mod scores;
#[allow(dead_code, reason = "the commands that fit follow")]
mod settings;
mod uncertainty;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// Bayesian training of small networks on tables, with predictions that know their uncertainty.
#[derive(Debug, Parser)]
#[command(name = "burn-bayes", version, propagate_version = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    // Clap leaves with 2 on a usage error, which is what `Failure::Usage` does too.
    match Program::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            failure.exit_code()
        }
    }
}
