//! `completions`: a script that completes commands and options in a shell.

use std::io;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Program;
use burn_bayes_tabular::error::Result;

/// Which script to print.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Program::command(),
        "burn-bayes",
        &mut script,
    );
    Ok(io::Write::write_all(&mut io::stdout(), &script)?)
}
