//! What an experiment is.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Failure, Result};

use super::findings::Finding;
use super::results::Results;

/// Something that a paper measured.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// What people call it, and its folder.
    pub(crate) name: &'static str,
    /// One line: what is measured, after which paper.
    pub(crate) title: &'static str,
    /// What differs from the paper, and how to read the table.
    pub(crate) notes: &'static str,
    /// Files or folders in the data folder without which there is nothing to measure.
    pub(crate) needs: &'static [&'static str],
    /// The columns of its table.
    pub(crate) columns: &'static [Column],
    /// What the papers report.
    pub(crate) published: &'static [Published],
    /// All its cells, in the order of the table.
    pub(crate) cells: fn(&Context) -> Result<Vec<Cell>>,
    /// What the paper concludes, judged by the results.
    pub(crate) findings: fn(&Results<'_>) -> Vec<Finding>,
}

/// A measure, and what a table calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) measure: &'static str,
    pub(crate) title: &'static str,
}

/// A row of a paper's table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) case: &'static str,
    pub(crate) method: &'static str,
    pub(crate) figures: &'static [Figure],
}

/// A published number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) measure: &'static str,
    pub(crate) value: f64,
    pub(crate) standard_error: Option<f64>,
}

/// A published number without a standard error.
pub(crate) const fn figure(measure: &'static str, value: f64) -> Figure {
    Figure {
        measure,
        value,
        standard_error: None,
    }
}

/// How much to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// The papers' settings.
    Full,
    /// As little as still shows the findings.
    Quick,
}

impl Effort {
    /// The value for this effort.
    pub(crate) fn choose<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// Where and how much.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) data: PathBuf,
    pub(crate) effort: Effort,
    /// What the names of the wanted cells contain, if not all are wanted.
    pub(crate) only: Option<String>,
}

/// The name of a cell: cells that differ in their seed alone are averaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The data.
    pub(crate) case: String,
    /// The algorithm and its settings.
    pub(crate) method: String,
    /// The seed, or the number of a split.
    pub(crate) seed: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.case, self.method, self.seed)
    }
}

/// What a cell found, by the names of the measures.
pub(crate) type Measures = BTreeMap<String, f64>;

/// A computation whose result depends on its settings and its data alone.
pub(crate) struct Cell {
    pub(crate) key: Key,
    /// Everything that its result depends on; a result is used again if these are the same.
    pub(crate) settings: Value,
    work: Box<dyn Fn() -> Result<Measures> + Send + Sync>,
}

impl Cell {
    /// A cell whose settings are written down as they are serialised.
    pub(crate) fn new(
        key: Key,
        settings: &impl Serialize,
        work: impl Fn() -> Result<Measures> + Send + Sync + 'static,
    ) -> Result<Self> {
        let settings = serde_json::to_value(settings)
            .map_err(|error| Failure::Usage(format!("{key}: settings: {error}")))?;
        Ok(Self {
            key,
            settings,
            work: Box::new(work),
        })
    }

    /// Computes it.
    pub(crate) fn compute(&self) -> Result<Measures> {
        let measures = (self.work)()?;
        match measures.iter().find(|(_, value)| !value.is_finite()) {
            None => Ok(measures),
            Some((name, value)) => Err(Failure::Numerical(format!(
                "{}: {name} is {value}",
                self.key
            ))),
        }
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell")
            .field("key", &self.key)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
