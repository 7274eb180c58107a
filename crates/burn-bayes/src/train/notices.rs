//! Warnings about a training that is probably not the intended one, each logged once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::predict::TrainingFlag;

/// A warning that clones of a wrapped model log once together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notice(Arc<AtomicBool>);

impl Notice {
    pub(crate) fn give(&self, message: impl FnOnce() -> String) {
        if !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::Relaxed) {
            log::warn!("{}", message());
        }
    }
}

/// The rows of the training steps since the last validation, which clones of a wrapped model count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowsSeen(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    rows: AtomicU64,
    largest_batch: AtomicU64,
    is_checked: AtomicBool,
    /// What is wrong with N, once it has been compared.
    problem: OnceLock<String>,
}

impl RowsSeen {
    /// Counts the rows of a mini-batch.
    pub(crate) fn count(&self, rows: usize) {
        self.0.rows.fetch_add(rows as u64, Ordering::Relaxed);
        let largest = &self.0.largest_batch;
        largest.fetch_max(rows as u64, Ordering::Relaxed);
    }

    /// The same for one training; clones from before it begin again.
    pub(crate) fn taken(&self) -> Self {
        let taken = Counts {
            rows: self.0.rows.swap(0, Ordering::Relaxed).into(),
            largest_batch: self.0.largest_batch.swap(0, Ordering::Relaxed).into(),
            is_checked: self.0.is_checked.load(Ordering::Relaxed).into(),
            problem: OnceLock::new(),
        };
        Self(taken.into())
    }

    /// The validations need not come after an epoch each.
    pub(crate) fn leave_unchecked(&self) {
        self.0.is_checked.store(true, Ordering::Relaxed);
    }

    /// Compares the rows before the first validation, which a Learner makes after an epoch, with N.
    pub(crate) fn check(&self, train_len: usize) {
        let rows = self.0.rows.load(Ordering::Relaxed);
        if rows == 0 || self.0.is_checked.swap(true, Ordering::Relaxed) {
            return;
        }
        let largest = self.0.largest_batch.load(Ordering::Relaxed);
        if rows.abs_diff(train_len as u64) > largest {
            let problem = format!(
                "train_len: is {train_len}, but {rows} rows were trained on before the first validation; set it to \
                 the number of training examples, {rows} if that was one epoch"
            );
            log::warn!("{problem}");
            let _ = self.0.problem.set(problem);
        }
    }

    /// What the comparison with N has found.
    pub(crate) fn problem(&self) -> Option<String> {
        self.0.problem.get().cloned()
    }
}

/// Logs the dropout layers that wrapping a model with these flags switches off.
pub(crate) fn warn_about_dropout(flags: &[TrainingFlag]) {
    let dropout = flags.iter().filter(|flag| flag.is_on && flag.is_dropout());
    let layers: Vec<_> = dropout.map(ToString::to_string).collect();
    if !layers.is_empty() {
        log::warn!(
            "dropout is off in {}, because the posterior already perturbs the weights; \
             `Bayesian::with_dropout` switches it on again",
            layers.join(", ")
        );
    }
}
