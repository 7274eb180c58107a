//! The tasks of worker processes.

use serde::{Deserialize, Serialize};

use crate::comparison::Runs;
use crate::error::Result;
use crate::jobs::{Job, Task};
use crate::run::Members;
use crate::search::JudgedTrials;
use crate::simulation_based_calibration::Simulations;

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
