//! One command, one file: its arguments and what it does with them.

mod completions;

use clap::Subcommand;

use crate::failure::Result;

/// What the program can be asked to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print a completion script for a shell
    Completions(completions::Arguments),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Completions(arguments) => completions::run(&arguments),
        }
    }
}
