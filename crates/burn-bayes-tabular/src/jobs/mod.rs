//! Computations that are made once: named, independent of each other, and written down as they are done.
//!
//! A job is a function of its settings and its data alone. Several are computed at a time, each in a
//! process of its own; a run that was stopped goes on where it was, and ends as one that was not.

mod result_cache;
mod runner;
mod summary;
mod workers;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Result, TabularError};

pub use result_cache::{Record, ResultCache};
pub use runner::{Progress, run};
pub use summary::Summary;
pub use workers::{Task, WorkerPool, serve};

/// As many threads as are asked for; by default one for each processor.
pub fn threads(asked: Option<NonZeroUsize>) -> usize {
    let available = || std::thread::available_parallelism().ok();
    asked.or_else(available).map_or(1, usize::from)
}

/// The name of a job: jobs that differ in their seed alone are averaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The data.
    pub case: String,
    /// The algorithm and its settings.
    pub method: String,
    /// The seed, or the number of a split.
    pub seed: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.case, self.method, self.seed)
    }
}

/// What a job found, by the names of the measures.
pub type Measures = BTreeMap<String, f64>;

/// A computation whose result depends on its settings and its data alone.
pub struct Job {
    /// Its name.
    pub key: Key,
    /// Everything that its result depends on; a result is used again if these are the same.
    pub(crate) settings: Value,
    work: Box<dyn Fn() -> Result<Measures> + Send + Sync>,
}

impl Job {
    /// A job whose settings are written down as they are serialised.
    pub fn new(
        key: Key,
        settings: &impl Serialize,
        work: impl Fn() -> Result<Measures> + Send + Sync + 'static,
    ) -> Result<Self> {
        let settings = serde_json::to_value(settings)
            .map_err(|error| TabularError::Usage(format!("{key}: settings: {error}")))?;
        Ok(Self {
            key,
            settings,
            work: Box::new(work),
        })
    }

    /// Computes it.
    fn compute(&self) -> Result<Record> {
        let start = Instant::now();
        let measures = (self.work)()?;
        match measures.iter().find(|(_, value)| !value.is_finite()) {
            None => Ok(self.record(measures, start.elapsed().as_secs_f64())),
            Some((name, value)) => Err(TabularError::Numerical(format!(
                "{}: {name} is {value}",
                self.key
            ))),
        }
    }

    fn record(&self, measures: Measures, seconds: f64) -> Record {
        Record {
            key: self.key.clone(),
            settings: self.settings.clone(),
            measures,
            seconds,
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("key", &self.key)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
