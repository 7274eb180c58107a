//! The project's own tasks: `cargo xtask` lists them, `cargo xtask ci` is the whole check.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal"
)]

mod book;
mod chapters;
mod commands;
mod features;
mod links;
mod process;
mod source;
mod stages;
mod tables;
mod tidy;
mod workspace;

use std::process::ExitCode;

/// What a task comes to: nothing, or what went wrong in words for the terminal.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match stages::dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
