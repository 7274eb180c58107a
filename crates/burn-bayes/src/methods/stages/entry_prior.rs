//! The prior of a training, as its record has it.

use crate::error::Result;
use crate::methods::setup::Setup;
use crate::prior::{Prior, PriorPrecisions};
use crate::recorded::RecordedValue;

/// A prior whose precisions are the same for all weights of a parameter, as its record needs.
#[derive(Clone, Debug)]
pub(super) struct EntryPrior {
    pub(super) precisions: PriorPrecisions,
    /// The numbers of weights of the parameters.
    lengths: Vec<usize>,
}

impl EntryPrior {
    pub(super) fn new(prior: &Prior, setup: &Setup) -> Result<Self> {
        let lengths = setup.layout.entries().iter().map(|entry| entry.len());
        Ok(Self {
            precisions: setup.precisions(prior)?,
            lengths: lengths.collect(),
        })
    }

    pub(super) fn times(&self, factor: f64) -> Self {
        Self {
            precisions: self.precisions.times(factor),
            lengths: self.lengths.clone(),
        }
    }
}

impl RecordedValue for EntryPrior {
    fn numbers(&self) -> Vec<u64> {
        let mut start = 0;
        let numbers = self.lengths.iter().map(|len| {
            let precision = self.precisions.at(start);
            start += len;
            precision.to_bits()
        });
        numbers.collect()
    }

    fn restored(self, numbers: &[u64]) -> Self {
        if numbers == self.numbers() {
            return self;
        }
        let precisions = numbers.iter().map(|&bits| f64::from_bits(bits));
        let precisions = PriorPrecisions::of_runs(self.lengths.iter().copied().zip(precisions));
        Self { precisions, ..self }
    }
}
