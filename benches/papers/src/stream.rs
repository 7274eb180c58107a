//! A training on a given number of mini-batches of an endless sequence, as the papers count steps.

use burn_bayes::train::Batches;

/// One long epoch of `steps` mini-batches, from a sequence that `batches` starts anew.
#[derive(Debug)]
pub(crate) struct Stream<F> {
    pub(crate) steps: usize,
    pub(crate) batches: F,
}

impl<I: Iterator, F: Fn() -> I> Batches for Stream<F> {
    type Batch = I::Item;

    fn per_epoch(&self) -> usize {
        self.steps
    }

    fn epoch(&self, _epoch: usize, first: usize) -> impl Iterator<Item = I::Item> {
        (self.batches)().take(self.steps).skip(first)
    }
}
