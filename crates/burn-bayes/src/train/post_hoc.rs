//! Methods that compute the posterior of a trained model in passes over its training data.
//!
//! [`Laplace`] is the diagonal Laplace approximation with the empirical Fisher information. At the trained
//! weights θ*, with the gradient gᵢ of every example's negative log-likelihood and the prior's precisions α,
//! the posterior is N(θ*, diag(p)⁻¹) with
//!
//! * p = (N/M) Σᵢ gᵢ² + α, over the M examples of the batches.
//!
//! | symbol | field |
//! |---|---|
//! | N | `train_len` |
//! | α | `prior` |

use std::sync::Arc;

use burn::config::Config;
use burn::module::{Module, ParamGroup};
use burn::tensor::Tensor;
use burn_bayes_graph::{CapturedModel, ExampleBatch, Layout};

use super::gather_per_example::ExampleLoss;
use crate::error::{Error, Result};
use crate::posterior::{FactorPosterior, Posterior};
use crate::prior::Prior;

/// A method that needs no training loop of its own.
pub trait PostHoc<M, B> {
    /// What it estimates.
    type Posterior: Posterior;

    /// The posterior over the weights of a trained model, from the batches of its training data.
    fn fit(&self, model: &M, batches: impl IntoIterator<Item = B>) -> Result<Self::Posterior>;
}

/// The diagonal Laplace approximation.
///
/// ```
/// use burn_bayes::train::{ExampleLoss, Laplace, PostHoc};
/// use burn_bayes::{ExampleBatch, FactorPosterior};
///
/// fn posterior<M, B>(trained: &M, train_len: usize, batches: Vec<B>) -> burn_bayes::Result<FactorPosterior>
/// where
///     M: burn::module::Module + ExampleLoss<Input = B> + 'static,
///     B: ExampleBatch + Send + Sync + 'static,
/// {
///     Laplace::new(train_len).fit(trained, batches)
/// }
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct Laplace {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// The prior over the weights, with which the model was trained.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// The parameters that become random; the others stay point estimates.
    #[config(default = "ParamGroup::all()")]
    pub group: ParamGroup,
}

impl<M, B> PostHoc<M, B> for Laplace
where
    M: Module + ExampleLoss<Input = B> + 'static,
    B: ExampleBatch + 'static,
{
    type Posterior = FactorPosterior;

    /// # Errors
    ///
    /// Without examples, or if the gradient of every example cannot be computed.
    fn fit(&self, model: &M, batches: impl IntoIterator<Item = B>) -> Result<FactorPosterior> {
        if self.train_len == 0 {
            return Err(Error::config("train_len", "is 0; it must be at least 1"));
        }
        let layout = Arc::new(Layout::new(model, &self.group)?);
        let prior = self.prior.resolve(&layout)?;
        let losses = |model: &M, batch| model.example_losses(batch);
        let captured = CapturedModel::new(layout.clone(), losses);
        let mut examples = 0;
        let mut squares: Option<Tensor<1>> = None;
        for batch in batches {
            let gradients = captured.example_gradients(model, &batch)?.gradients;
            examples += gradients.count();
            let of_batch = gradients.sum_of_squares();
            squares = Some(match squares {
                Some(sum) => sum + of_batch,
                None => of_batch,
            });
        }
        let squares = squares.ok_or_else(|| Error::config("batches", "there are none"))?;
        let alpha = prior.expanded(&squares.device());
        let precision = squares.mul_scalar(self.train_len as f64 / examples as f64) + alpha;
        FactorPosterior::precision(layout.clone(), layout.flatten(model)?, None, precision)
    }
}
