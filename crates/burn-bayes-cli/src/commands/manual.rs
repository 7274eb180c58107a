//! `manual`: a manual page for the program, and one for each command.

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use crate::Program;
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::files::{make_folder, write_whole};

/// Where to write the pages.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the pages, such as ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut program = Program::command().disable_help_subcommand(true);
    program.build();
    make_folder(&arguments.out)?;
    write_pages(&program, &arguments.out)
}

fn write_pages(command: &Command, folder: &Path) -> Result<()> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    write_whole(&folder.join(page.get_filename()), &text)?;
    let mut commands = command.get_subcommands();
    commands.try_for_each(|command| write_pages(command, folder))
}
