//! Handling of Ctrl-C and other termination signals.
//!
//! A command ends at once: its unfinished files are removed, and the last line prints the command that
//! continues it, if there is one. Only a fit delays the end, to save a checkpoint. A signal that was
//! ignored at startup, as with `nohup`, ends only a fit.

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::console::say;
use burn_bayes_tabular::error::{INTERRUPTED, Result, TabularError};
use burn_bayes_tabular::files::remove_unfinished;

static IS_POSTPONED: AtomicBool = AtomicBool::new(false);
static IS_ASKED: AtomicBool = AtomicBool::new(false);
static CONTINUATION: Mutex<Option<String>> = Mutex::new(None);

/// Installs the handler: an interruption ends the process.
pub(crate) fn catch() -> Result<()> {
    caught(ctrlc::try_set_handler(interrupt))
}

/// From now on, the first interruption only requests a stop; a second one ends the process.
pub(crate) fn postpone() -> Result<()> {
    IS_POSTPONED.store(true, Ordering::Relaxed);
    caught(ctrlc::set_handler(interrupt))
}

/// From now on, an interruption ends the process again.
///
/// # Errors
/// If an interruption occurred since [`postpone`].
pub(crate) fn restore_handler() -> Result<()> {
    IS_POSTPONED.store(false, Ordering::Relaxed);
    match is_asked() {
        true => Err(failure()),
        false => Ok(()),
    }
}

/// Whether an interruption occurred.
pub(crate) fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Relaxed)
}

/// Sets the command that is printed on interruption as the one that continues.
pub(crate) fn continue_by(command: String) {
    *CONTINUATION.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
}

/// The error of an interruption.
fn failure() -> TabularError {
    let continuation = CONTINUATION.lock().unwrap_or_else(PoisonError::into_inner);
    TabularError::Interrupted(match &*continuation {
        Some(command) => format!("interrupted; `{command}` continues from here"),
        None => "interrupted".into(),
    })
}

/// Removes unfinished files, prints the error and ends the process.
pub(crate) fn end() -> ! {
    // A second thread blocks here until the first one ends the process.
    remove_unfinished();
    say(format_args!("error: {}", failure()));
    process::exit(INTERRUPTED.into())
}

fn interrupt() {
    let is_first = !IS_ASKED.swap(true, Ordering::Relaxed);
    if !(is_first && IS_POSTPONED.load(Ordering::Relaxed)) {
        end();
    }
}

fn caught(handler: Result<(), ctrlc::Error>) -> Result<()> {
    match handler {
        // A handler is already installed, or the signal is ignored.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        Err(error) => Err(TabularError::System(io::Error::other(error))),
    }
}
