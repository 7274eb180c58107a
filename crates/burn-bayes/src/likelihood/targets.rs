//! The true values of a batch, as data have them.

use std::fmt::Debug;

use burn::tensor::{Int, Tensor};
use burn_bayes_graph::ExampleBatch;
use burn_bayes_graph::losses::one_hot;

use super::family::Likelihood;

/// True values that a [`Likelihood`] can score: numbers, labels or counts `[rows, targets]`, or one of them per row,
/// `[rows]`; of classes, their indices `[rows]`, or one-hot rows `[rows, classes]`.
pub trait Targets: ExampleBatch + Debug + Send + Sync + 'static {
    /// As [`Likelihood::losses`] takes them, for a model of this number of outputs.
    fn columns(self, likelihood: &Likelihood, outputs: usize) -> Tensor<2>;
}

impl Targets for Tensor<2> {
    fn columns(self, _likelihood: &Likelihood, _outputs: usize) -> Self {
        self
    }
}

impl Targets for Tensor<1> {
    fn columns(self, _likelihood: &Likelihood, _outputs: usize) -> Tensor<2> {
        self.unsqueeze_dim(1)
    }
}

impl Targets for Tensor<1, Int> {
    fn columns(self, likelihood: &Likelihood, outputs: usize) -> Tensor<2> {
        match likelihood.classes(outputs) {
            Some(classes) => one_hot(self, classes),
            None => self.float().unsqueeze_dim(1),
        }
    }
}
