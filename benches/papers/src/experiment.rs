//! What an experiment is.

use std::path::PathBuf;

use burn_bayes_tabular::error::{Result, TabularError};

pub(crate) use burn_bayes_tabular::experiments::jobs::{Job, Key};
pub(crate) use burn_bayes_tabular::scores::Measures;

use super::findings::Finding;
use super::published::Published;
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
    /// What the papers report: the content of a file in `published/`; empty if they give no numbers.
    pub(crate) published: &'static str,
    /// All its jobs, in the order of the table.
    pub(crate) jobs: fn(&Context) -> Result<Vec<Job>>,
    /// What the paper concludes, judged by the results.
    pub(crate) findings: fn(&Results<'_>) -> Vec<Finding>,
}

impl Experiment {
    /// What the papers report.
    pub(crate) fn published(&self) -> Result<Published> {
        Published::parse(self.published).map_err(|error| {
            TabularError::Data(format!("published figures of {}: {error}", self.name))
        })
    }
}

/// A measure, how a table summarises its runs, and what the table calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) measure: &'static str,
    pub(crate) title: &'static str,
    pub(crate) statistic: Statistic,
}

/// A summary of runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Statistic {
    /// The mean with its standard error.
    Mean,
    /// The median with the quartiles.
    Quartiles,
    /// The largest value.
    Largest,
    /// How many runs have it, of a measure that is 0 or 1.
    Count,
}

impl Column {
    /// The mean of a measure.
    pub(crate) const fn mean(measure: &'static str, title: &'static str) -> Self {
        Self::new(Statistic::Mean, measure, title)
    }

    /// A summary of a measure.
    pub(crate) const fn new(
        statistic: Statistic,
        measure: &'static str,
        title: &'static str,
    ) -> Self {
        Self {
            measure,
            title,
            statistic,
        }
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
    /// Where results are kept.
    pub(crate) out: PathBuf,
    pub(crate) effort: Effort,
    /// What the names of the wanted jobs contain, if not all are wanted.
    pub(crate) only: Option<String>,
}

impl Context {
    /// Whether a job is to be computed.
    pub(crate) fn wants(&self, key: &Key) -> bool {
        let name = key.to_string();
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }
}
