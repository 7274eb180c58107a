//! Methods that compute the posterior of a trained model in passes over its training data.

use crate::error::Result;
use crate::posterior::Posterior;

/// A method that needs no training loop of its own, such as [`Laplace`](crate::laplace::Laplace).
pub trait PostHoc<M, B> {
    /// What it estimates.
    type Posterior: Posterior;

    /// The posterior over the weights of a trained model, from the batches of its training data.
    fn fit(&self, model: &M, batches: impl IntoIterator<Item = B>) -> Result<Self::Posterior>;
}
