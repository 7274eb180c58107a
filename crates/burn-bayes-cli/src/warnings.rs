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

impl Warnings {
    /// What is to be shown, if anything.
    fn unseen(&self, record: &Record<'_>) -> Option<String> {
        if !self.enabled(record.metadata()) {
            return None;
        }
        let warning = record.args().to_string();
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.insert(warning.clone()).then_some(warning)
    }
}

impl Log for Warnings {
    /// Errors are left out: the command that fails says why. So is what other crates log.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() == Level::Warn && metadata.target().starts_with("burn_bayes")
    }

    fn log(&self, record: &Record<'_>) {
        if let Some(warning) = self.unseen(record) {
            warn(warning);
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_warnings_are_shown_once() {
        let warnings = Warnings(Mutex::default());
        let shown = |level, target, text| {
            let mut record = Record::builder();
            record.level(level).target(target);
            warnings.unseen(&record.args(format_args!("{text}")).build())
        };
        let graph = "burn_bayes_graph::captured";
        for text in ["one draw at a time", "by the loop"] {
            assert_eq!(shown(Level::Warn, graph, text).as_deref(), Some(text));
            assert_eq!(shown(Level::Warn, graph, text), None);
        }
        assert_eq!(shown(Level::Warn, "burn_train", "not ours"), None);
        assert_eq!(shown(Level::Error, graph, "an error is returned too"), None);
    }
}
