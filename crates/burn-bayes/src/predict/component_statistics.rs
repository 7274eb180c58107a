//! Running statistics of batch norm for every component of a mixture.

use burn::module::Module;

use super::predictor::Predictor;
use crate::error::Result;
use crate::posterior::{Mixture, Posterior};

impl<M: Module, P: Posterior> Predictor<M, Mixture<P>> {
    /// Recomputes the running statistics of every component; see
    /// [`with_refreshed_statistics`](Self::with_refreshed_statistics). Components have their own statistics already, unless
    /// their posteriors were made from tensors.
    ///
    /// # Errors
    ///
    /// Those of [`with_refreshed_statistics`](Self::with_refreshed_statistics).
    pub fn with_component_statistics<B, T>(
        self,
        batches: &[B],
        mut forward: impl FnMut(&M, &B) -> T,
    ) -> Result<Self> {
        self.with_refreshed_statistics(batches, |model, batch| forward(model, *batch))
    }
}
