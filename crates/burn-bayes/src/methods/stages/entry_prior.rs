//! The prior of a training, as its record has it.

use burn_bayes_graph::Layout;

use crate::error::Result;
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
    pub(super) fn new(prior: &Prior, layout: &Layout) -> Result<Self> {
        let lengths = layout.entries().iter().map(|entry| entry.len());
        Ok(Self {
            precisions: prior.resolve(layout)?,
            lengths: lengths.collect(),
        })
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
