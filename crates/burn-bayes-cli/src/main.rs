//! The `burn-bayes` program: from a CSV to predictions with uncertainty, without writing Rust.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the one crate that talks to a terminal"
)]

mod commands;
mod console;
mod interruption;
mod settings;
mod warnings;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;
use crate::console::tell;
use burn_bayes_tabular::error::TabularError;

/// A step of a small network makes some hundred small tensors: this allocator takes a fifth off it.
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
    warnings::show();
    // Clap leaves with 2 on a usage error, which is what `TabularError::Usage` does too.
    let program = Program::parse();
    let caught = match program.command {
        Command::Worker => interruption::catch_in_worker(),
        _ => interruption::catch(),
    };
    match caught.and_then(|()| program.command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        // Who closes a pipe has seen enough.
        Err(TabularError::System(error)) if error.kind() == ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(TabularError::Interrupted(_)) => interruption::end(),
        Err(failure) => {
            tell(format_args!("error: {failure}"));
            ExitCode::from(failure.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn options_do_not_collide() {
        Program::command().debug_assert();
    }
}
