//! Independent jobs with cached results.
//!
//! The result of a job depends only on its settings and data. Jobs run in parallel, each on its own
//! thread. An interrupted list of jobs resumes from the finished ones, with the same results.

mod result_cache;
mod runner;

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Result, TabularError};
use crate::scores::Measures;

pub use result_cache::{Existing, Record, ResultCache};
pub use runner::{Progress, run};

/// The number of threads; by default the number of processors.
pub fn threads(asked: Option<NonZeroUsize>) -> usize {
    let available = || std::thread::available_parallelism().ok();
    asked.or_else(available).map_or(1, usize::from)
}

/// The name of a job. Jobs that differ only in their seed are averaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The data.
    pub case: String,
    /// The algorithm and its settings.
    pub method: String,
    /// The seed, or the index of a fold.
    pub seed: u64,
}

impl Key {
    /// The name of the job with this data, method and seed.
    pub fn new(case: impl Into<String>, method: impl Into<String>, seed: u64) -> Self {
        Self {
            case: case.into(),
            method: method.into(),
            seed,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.case, self.method, self.seed)
    }
}

/// What a job computes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Computed {
    /// The results, by name.
    pub measures: Measures,
    /// The negative log-likelihood of each test row; empty if the job does not store it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub row_costs: Vec<f64>,
    /// What intervals of new rows need of the fit; absent if the job does not store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// What the fit without a fold says about the rows of the fold, and about new rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Target minus predictive mean of each row of the fold, in the unit of the target.
    pub errors: Vec<f64>,
    /// Predictive mean of each new row.
    pub new_means: Vec<f64>,
}

/// A computation whose result depends only on its settings and data.
pub struct Job {
    /// Its name.
    pub key: Key,
    /// Everything that the result depends on; a cached result is reused if these are equal.
    pub(crate) settings: Value,
    work: Box<dyn Fn() -> Result<Computed> + Send + Sync>,
}

/// The name of a row's cost in a message.
const COST_OF_ROW: &str = "the negative log-likelihood of a row";

impl Job {
    /// A job that computes from its input alone, whose serialised form is the key of its result.
    pub(crate) fn of<I: Serialize + Send + Sync + 'static>(
        key: Key,
        input: I,
        work: fn(&I) -> Result<Computed>,
    ) -> Result<Self> {
        let settings = serialised(&key, &input)?;
        let work = Box::new(move || work(&input));
        Ok(Self {
            key,
            settings,
            work,
        })
    }

    /// A job whose settings are stored in serialised form.
    pub fn new(
        key: Key,
        settings: &impl Serialize,
        work: impl Fn() -> Result<Measures> + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::with_row_results(key, settings, move || Ok(work()?.into()))
    }

    /// As [`Job::new`], for a job that also stores results of rows.
    pub fn with_row_results(
        key: Key,
        settings: &impl Serialize,
        work: impl Fn() -> Result<Computed> + Send + Sync + 'static,
    ) -> Result<Self> {
        Ok(Self {
            settings: serialised(&key, settings)?,
            key,
            work: Box::new(work),
        })
    }

    /// Computes it.
    fn compute(&self) -> Result<Record> {
        let start = Instant::now();
        let computed = (self.work)()?;
        let costs = computed.row_costs.iter().map(|cost| (COST_OF_ROW, cost));
        let measures = computed.measures.iter();
        let mut values = measures
            .map(|(name, value)| (name.as_str(), value))
            .chain(costs);
        match values.find(|(_, value)| !value.is_finite()) {
            None => Ok(self.record(computed, start.elapsed().as_secs_f64())),
            Some((name, value)) => Err(TabularError::Numerical(format!(
                "{}: {name} is {value}",
                self.key
            ))),
        }
    }

    fn record(&self, computed: Computed, seconds: f64) -> Record {
        Record {
            key: self.key.clone(),
            settings: self.settings.clone(),
            computed,
            seconds,
        }
    }
}

fn serialised(key: &Key, settings: &impl Serialize) -> Result<Value> {
    let wrong = |error| TabularError::Usage(format!("{key}: settings: {error}"));
    serde_json::to_value(settings).map_err(wrong)
}

impl From<Measures> for Computed {
    fn from(measures: Measures) -> Self {
        Self {
            measures,
            ..Self::default()
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
