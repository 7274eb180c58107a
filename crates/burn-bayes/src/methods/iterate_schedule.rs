//! Which iterates of a training are taken.

use super::checks::counts;
use crate::error::{Error, Result};

/// Every `interval` steps from step `start` (from 1) on; at least 1 both.
#[derive(Clone, Copy, Debug)]
pub struct IterateSchedule {
    /// The first step.
    pub start: u64,
    /// The steps between two iterates.
    pub interval: u64,
}

impl IterateSchedule {
    /// What is not given is such that about `count` iterates come from the last quarter of a training of this number of
    /// steps; without it, every step from `start` on.
    ///
    /// # Errors
    ///
    /// If a number is 0, or neither the start nor the number of steps is known.
    pub fn new(
        start: Option<u64>,
        interval: Option<u64>,
        steps: Option<u64>,
        count: u64,
    ) -> Result<Self> {
        counts([
            ("start", start.unwrap_or(1)),
            ("interval", interval.unwrap_or(1)),
        ])?;
        let last_quarter = steps.map(|steps| (3 * steps).div_ceil(4).max(1));
        let start = start.or(last_quarter).ok_or_else(|| {
            let problem = "is not known: set it, or the number of steps of the training, of which the last quarter is \
                           used, by `BayesianConfig::with_steps`";
            Error::config("start", problem)
        })?;
        let spread = steps.map(|steps| steps.saturating_sub(start) / count);
        let interval = interval.or(spread).unwrap_or(1).max(1);
        Ok(Self { start, interval })
    }

    /// The number of iterates taken after optimiser step `step`.
    pub fn taken(self, step: u64) -> u64 {
        let since = step.checked_sub(self.start);
        since.map_or(0, |since| since / self.interval + 1)
    }

    /// Whether the iterate after optimiser step `step` is taken.
    pub fn takes(self, step: u64) -> bool {
        self.taken(step) > self.taken(step.saturating_sub(1))
    }

    /// The number of iterates taken, if there are at least two.
    pub fn enough(self, method: &str, step: u64) -> Result<u64> {
        let (taken, Self { start, interval }) = (self.taken(step), self);
        if taken >= 2 {
            return Ok(taken);
        }
        Err(Error::too_early(format!(
            "{method} has collected {taken} iterates after {step} steps and needs at least two; it \
             collects one every {interval} steps from step {start} on: train longer, or lower \
             `start` or `interval`"
        )))
    }
}
