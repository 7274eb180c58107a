//! The tasks of worker processes.

use serde::{Deserialize, Serialize};

use super::Members;
use super::comparison::Runs;
use super::jobs::{Job, Task};
use super::search::JudgedTrials;
use super::simulation_based_calibration::Simulations;
use crate::error::Result;

/// A task of a worker.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FitsTask {
    /// Fits of trials to folds.
    Tune(JudgedTrials),
    /// Fits of several methods to the same folds.
    Compare(Runs),
    /// Fits to simulated targets.
    Check(Simulations),
    /// Fits of the members of an ensemble.
    Members(Members),
}

impl Task for FitsTask {
    fn jobs(&self) -> Result<Vec<Job>> {
        match self {
            Self::Tune(trials) => trials.jobs(),
            Self::Compare(runs) => runs.jobs(),
            Self::Check(simulations) => simulations.jobs(),
            Self::Members(members) => members.jobs(),
        }
    }
}
