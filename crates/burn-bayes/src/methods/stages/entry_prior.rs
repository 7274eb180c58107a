//! The prior of a training, as its record has it.

use burn_bayes_graph::Layout;

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

    /// The precisions, but 0 for these parameters.
    pub(super) fn without(&self, entries: &Entries) -> PriorPrecisions {
        let mut start = 0;
        let runs = self.lengths.iter().zip(&entries.0).map(|(&len, &is_in)| {
            let precision = if is_in {
                0.0
            } else {
                self.precisions.at(start)
            };
            start += len;
            (len, precision)
        });
        PriorPrecisions::of_runs(runs)
    }
}

/// Some of the parameters of a layout.
#[derive(Clone, Debug)]
pub(super) struct Entries(Vec<bool>);

impl Entries {
    pub(super) fn none(layout: &Layout) -> Self {
        Self(vec![false; layout.entries().len()])
    }

    pub(super) fn of(layout: &Layout, paths: &[String]) -> Self {
        let entries = layout.entries().iter();
        Self(entries.map(|entry| paths.contains(&entry.path)).collect())
    }
}

impl RecordedValue for Entries {
    fn numbers(&self) -> Vec<u64> {
        self.0.iter().map(|&is_in| u64::from(is_in)).collect()
    }

    fn restored(self, numbers: &[u64]) -> Self {
        Self(numbers.iter().map(|&number| number != 0).collect())
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
