//! Ctrl-C, or another signal that asks the program to end.
//!
//! A command ends at once: what it has not finished goes, and the last line says how to go on if there
//! is more to go on from than its files. Only a fit asks for time, to save where it stands. A signal
//! that the program was told to ignore when it was started, as by `nohup`, ends nothing but a fit.

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::console::tell;
use burn_bayes_tabular::error::{INTERRUPTED, Result, TabularError};
use burn_bayes_tabular::files::remove_unfinished;

static IS_POSTPONED: AtomicBool = AtomicBool::new(false);
static IS_ASKED: AtomicBool = AtomicBool::new(false);
static CONTINUATION: Mutex<Option<String>> = Mutex::new(None);

/// From now on an interruption ends the process as above.
pub(crate) fn catch() -> Result<()> {
    caught(ctrlc::try_set_handler(interrupt))
}

/// In a process that works for another one, which has all to say and to keep.
pub(crate) fn catch_in_worker() -> Result<()> {
    caught(ctrlc::try_set_handler(|| process::exit(INTERRUPTED.into())))
}

/// From now on the first interruption only asks to stop; a second one ends the process.
pub(crate) fn postpone() -> Result<()> {
    IS_POSTPONED.store(true, Ordering::Relaxed);
    caught(ctrlc::set_handler(interrupt))
}

/// From now on an interruption ends the process again.
///
/// # Errors
/// If one was asked for since it was postponed.
pub(crate) fn restore_handler() -> Result<()> {
    IS_POSTPONED.store(false, Ordering::Relaxed);
    match is_asked() {
        true => Err(failure()),
        false => Ok(()),
    }
}

/// Whether someone asked to stop.
pub(crate) fn is_asked() -> bool {
    IS_ASKED.load(Ordering::Relaxed)
}

/// From now on this command goes on with what an interruption ends.
pub(crate) fn continue_by(command: String) {
    *CONTINUATION.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
}

/// What an interruption comes to.
fn failure() -> TabularError {
    let continuation = CONTINUATION.lock().unwrap_or_else(PoisonError::into_inner);
    TabularError::Interrupted(match &*continuation {
        Some(command) => format!("interrupted; `{command}` goes on from here"),
        None => "interrupted".into(),
    })
}

/// Ends the process.
pub(crate) fn end() -> ! {
    // Who comes second waits here for the first one.
    remove_unfinished();
    tell(format_args!("error: {}", failure()));
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
        // There is one already, or the signal is to be ignored.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        Err(error) => Err(TabularError::System(io::Error::other(error))),
    }
}
