//! What a person sees of a run, and how it ends when it is interrupted.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn_bayes_data::shell::command_of;
use burn_bayes_tabular::error::INTERRUPTED;
use burn_bayes_tabular::experiments::jobs::{Progress, Record};
use burn_bayes_tabular::files::remove_unfinished;
use burn_bayes_tabular::{Result, TabularError};
use serde::Serialize;

/// What a person types before the arguments.
const PROGRAM: &str = "cargo run --release -p burn-bayes-papers --";

/// The command line with these arguments.
pub(crate) fn command_line(arguments: &[OsString]) -> String {
    format!("{PROGRAM}{}", command_of("", arguments))
}

/// Writes a line to standard output.
pub(crate) fn print(line: impl Display) -> Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Prints an object as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(serde_json::to_string(value).map_err(io::Error::from)?)
}

/// Writes a line to standard error; nothing can be done where nobody listens.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// From now on an interruption ends the process, and says how to go on.
pub(crate) fn catch_interruptions() -> Result<()> {
    caught(ctrlc::try_set_handler(|| end()))
}

/// Ends the process after an interruption.
pub(crate) fn end() -> ! {
    // Who comes second waits here for the first one.
    remove_unfinished();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let command = command_line(&arguments);
    tell(format_args!(
        "error: interrupted; `{command}` continues from here"
    ));
    process::exit(INTERRUPTED.into())
}

fn caught(handler: Result<(), ctrlc::Error>) -> Result<()> {
    match handler {
        // The signal is to be ignored.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        Err(error) => Err(TabularError::System(io::Error::other(error))),
    }
}

/// A line for every cell that is computed.
#[derive(Debug)]
pub(crate) struct Lines {
    name: &'static str,
    waiting: AtomicUsize,
    done: AtomicUsize,
}

impl Lines {
    /// Of an experiment.
    pub(crate) fn of(name: &'static str) -> Self {
        Self {
            name,
            waiting: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        }
    }
}

impl Progress for Lines {
    fn begin(&self, waiting: usize) {
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    fn done(&self, record: &Record) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let waiting = self.waiting.load(Ordering::Relaxed);
        let (name, key, seconds) = (self.name, &record.key, record.seconds);
        tell(format_args!(
            "{name} {done}/{waiting}: {key}: {seconds:.1} s"
        ));
    }
}
