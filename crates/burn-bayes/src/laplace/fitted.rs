//! The result of a Laplace approximation.

use std::sync::Arc;

use burn::tensor::Tensor;
use burn_bayes_graph::Layout;

use super::structure::Factored;
use crate::error::Result;
use crate::posterior::{FactorPosterior, ModelState, Posterior};
use crate::prior::{Prior, PriorPrecisions};

/// The curvature of the loss at the trained weights, from which posteriors for any prior follow.
#[derive(Clone, Debug)]
pub struct LaplaceFit {
    pub(super) layout: Arc<Layout>,
    /// That of the model outside the layout.
    pub(super) state: ModelState,
    /// θ*.
    pub(super) mean: Tensor<1>,
    /// G.
    pub(super) curvature: Factored,
    /// log p(D | θ*).
    pub(super) log_likelihood: f64,
    /// N.
    pub(super) train_len: usize,
    pub(super) prior: PriorPrecisions,
}

impl LaplaceFit {
    /// The posterior, N(θ*, (G + diag α)⁻¹).
    ///
    /// # Errors
    ///
    /// If a weight or the curvature is not finite.
    pub fn posterior(&self) -> Result<FactorPosterior> {
        let Factored { factors, rest } = self.curvature.clone();
        let precision = rest + self.prior.expanded(&self.mean.device());
        let (layout, mean) = (self.layout.clone(), self.mean.clone());
        let posterior = FactorPosterior::precision(layout, mean, factors, precision)?;
        Ok(posterior.with_state(self.state.clone()))
    }

    /// log p(D | θ*), in nats, scaled to N examples.
    pub fn log_likelihood(&self) -> f64 {
        self.log_likelihood
    }

    /// The prior precisions, α.
    pub fn prior(&self) -> &PriorPrecisions {
        &self.prior
    }

    /// The same curvature with another prior. The weights stay those that were trained.
    ///
    /// # Errors
    ///
    /// Those of [`Prior::resolve`].
    pub fn with_prior(self, prior: &Prior) -> Result<Self> {
        let prior = prior.resolve(&self.layout)?;
        Ok(Self { prior, ..self })
    }
}
