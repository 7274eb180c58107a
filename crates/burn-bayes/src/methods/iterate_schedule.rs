//! Which iterates of a training are taken.

use crate::error::{Error, Result};

/// Every `interval` steps from step `start` (from 1) on.
#[derive(Clone, Copy, Debug)]
pub struct IterateSchedule {
    /// The first step.
    pub start: u64,
    /// The steps between two iterates.
    pub interval: u64,
}

impl IterateSchedule {
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
