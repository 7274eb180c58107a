//! The warnings of our libraries, which they give to the `log` facade, on standard error.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::console::warn;

/// From now on every warning is shown, once.
pub(crate) fn show() {
    // There is no other logger in this program.
    if log::set_logger(&WARNINGS).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

static WARNINGS: Warnings = Warnings(Mutex::new(BTreeSet::new()));

/// Those that were shown.
struct Warnings(Mutex<BTreeSet<String>>);

impl Log for Warnings {
    /// Errors are left out: the command that fails says why. So is what other crates log.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() == Level::Warn && metadata.target().starts_with("burn_bayes")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let warning = record.args().to_string();
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.insert(warning.clone()) {
            warn(warning);
        }
    }

    fn flush(&self) {}
}
