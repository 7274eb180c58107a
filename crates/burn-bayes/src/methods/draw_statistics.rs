//! Running statistics for every draw of a step.

use std::sync::Arc;

use burn::module::{Module, RunningState};
use burn::tensor::Tensor;
use burn_bayes_graph::Layout;

use crate::error::Result;
use crate::posterior::unshared;

/// Running statistics of the model for every draw of a proposal, each evaluated and updated with its own.
#[derive(Clone, Debug)]
pub(crate) struct DrawStatistics {
    layout: Arc<Layout>,
    /// One vector per draw.
    values: Vec<RunningState<Tensor<1>>>,
}

impl DrawStatistics {
    pub(crate) fn new(layout: Arc<Layout>, values: Vec<RunningState<Tensor<1>>>) -> Self {
        Self { layout, values }
    }

    /// The model with the statistics of draw `index`, which it does not share with its clones.
    pub(crate) fn enter<M: Module>(&self, index: usize, model: M) -> Result<M> {
        let values = self.values[index].value_sync().without_autodiff();
        Ok(self.layout.write(unshared(model), values)?)
    }

    /// Takes the statistics of draw `index` from the model after its evaluation.
    pub(crate) fn leave<M: Module>(&self, index: usize, model: &M) -> Result<()> {
        let values = self.layout.flatten(&model.valid())?;
        self.values[index].update(Tensor::from_inner(values));
        // A record has no pending updates.
        let _ = self.values[index].value_sync();
        Ok(())
    }
}
