//! Predictions with the model linearised at the posterior mean.
//!
//! ```text
//! f(x; θ) ≈ f(x; θ*) + J (θ − θ*),  J = ∂f(x; θ*)/∂θ,  θ ~ N(θ*, Σ)
//! outputs        N(f(x; θ*), J Σ Jᵀ)
//! draw s         f(x; θ*) + J (θ_s − θ*), the same θ_s for all inputs
//! probit         softmax(f ⊙ (1 + π/8 diag J Σ Jᵀ)^-½);  two classes: σ of the logits' difference z,
//!                scaled by (1 + π/8 Var z)^-½
//! ```
//!
//! The Laplace approximation with the GGN matrix is the posterior of this linear model, not of the network
//! itself: draws of a network's own weights are often far from the data where the linear model's are not.
//!
//! `closed_form.rs` computes the covariances.
//!
//! Reference: Immer, Korzepa and Bauer (2021), "Improving predictions of Bayesian neural nets via local
//! linearization".

mod closed_form;

use std::f64::consts::PI;
use std::sync::OnceLock;

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;

use self::closed_form::{Batching, Covariances, Variances};
use super::outputs::{ModelOutputs, OutputGradients};
use crate::error::{Error, Result};
use crate::kernels::composed::at_least;
use crate::likelihood::Likelihood;
use crate::methods::checks::counts;
use crate::noise::Noise;
use crate::posterior::{CovarianceTerms, FactorPosterior, Posterior};
use crate::predict::Predictor;

/// Draws of the weights in memory at a time.
const DRAWS_AT_A_TIME: usize = 32;

/// A model, linearised at the mean of a Gaussian posterior over its weights. It works for the posterior of any method.
///
/// ```
/// use burn::{module::Module, tensor::Tensor};
/// use burn_bayes::laplace::{Linearized, ModelOutputs};
/// use burn_bayes::{FactorPosterior, Noise};
///
/// fn deviations<M: Module + ModelOutputs + 'static>(
///     model: M,
///     posterior: FactorPosterior,
///     features: M::Features,
/// ) -> burn_bayes::Result<Tensor<2>> {
///     let linearized = Linearized::new(model, posterior)?;
///     Ok(linearized.outputs(&features)?.variance.sqrt())
/// }
/// ```
#[derive(Debug)]
pub struct Linearized<M: ModelOutputs> {
    /// With the mean as its weights.
    model: M,
    posterior: FactorPosterior,
    gradients: OutputGradients<M>,
    terms: CovarianceTerms,
    batching: OnceLock<Batching>,
}

/// The Gaussian distribution of every example's outputs, without the noise of the targets.
#[derive(Clone, Debug)]
pub struct LinearizedOutputs {
    /// f(x; θ*), `[M, C]`.
    pub mean: Tensor<2>,
    /// diag J Σ Jᵀ, `[M, C]`.
    pub variance: Tensor<2>,
}

impl<M: Module + ModelOutputs + 'static> Predictor<M> {
    /// The model, linearised at the posterior's mean: predictions in closed form, without draws.
    ///
    /// ```
    /// # use burn::{module::Module, tensor::Tensor};
    /// use burn_bayes::Predictor;
    /// use burn_bayes::laplace::ModelOutputs;
    ///
    /// fn deviations<M: Module + ModelOutputs + 'static>(
    ///     predictor: &Predictor<M>,
    ///     features: M::Features,
    /// ) -> burn_bayes::Result<Tensor<2>> {
    ///     Ok(predictor.linearized()?.outputs(&features)?.variance.sqrt())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If a matrix of the posterior cannot be factorised.
    pub fn linearized(&self) -> Result<Linearized<M>> {
        Linearized::new(self.mean_model()?, self.posterior().clone())
    }
}

impl<M: Module + ModelOutputs + 'static> Linearized<M> {
    /// Combines a model and a posterior over its weights.
    ///
    /// # Errors
    ///
    /// If the posterior is over other parameters than the model's.
    pub fn new(model: M, posterior: FactorPosterior) -> Result<Self> {
        posterior.layout().check(&model)?;
        Ok(Self {
            model: posterior.write_mean(model)?,
            gradients: OutputGradients::new(posterior.layout().clone()),
            terms: posterior.covariance_terms()?,
            batching: OnceLock::new(),
            posterior,
        })
    }

    /// The posterior.
    pub fn posterior(&self) -> &FactorPosterior {
        &self.posterior
    }

    /// The mean and the variance of every output.
    ///
    /// # Errors
    ///
    /// If an output is not finite, or a gradient cannot be computed.
    pub fn outputs(&self, features: &M::Features) -> Result<LinearizedOutputs> {
        let (mean, variance) = self.closed_form(features, &Variances)?;
        Ok(LinearizedOutputs { mean, variance })
    }

    /// The covariance of every example's outputs, `[M, C, C]`.
    ///
    /// # Errors
    ///
    /// Those of [`outputs`](Self::outputs).
    pub fn covariance(&self, features: &M::Features) -> Result<Tensor<3>> {
        let identity = &self.batching(features)?.identity;
        Ok(self.closed_form(features, &Covariances(identity))?.1)
    }

    /// The outputs at `count` draws, `[count, M, C]`. Draw s has the weights of the posterior's draw with
    /// `noise.row(s)`, for all examples.
    ///
    /// # Errors
    ///
    /// Those of [`outputs`](Self::outputs); also without draws.
    pub fn draws(&self, features: &M::Features, noise: Noise, count: usize) -> Result<Tensor<3>> {
        counts([("draws", count)])?;
        let identity = &self.batching(features)?.identity;
        let (outputs, jacobians) = self.gradients.jacobians(&self.model, features, identity)?;
        let sampler = self.posterior.sampler()?;
        let mean: Tensor<2> = self.posterior.mean().unsqueeze();
        let mut passes = Vec::new();
        for first in (0..count).step_by(DRAWS_AT_A_TIME) {
            let some = first..count.min(first + DRAWS_AT_A_TIME);
            let draws = some.map(|draw| sampler.draw(noise.row(draw as u64)));
            let draws: Tensor<2> = Tensor::stack(draws.collect::<Result<_>>()?, 0);
            let shifts = draws - mean.clone();
            let changes = jacobians.dot(&shifts).permute([2, 0, 1]);
            passes.push(changes + outputs.clone().unsqueeze::<3>());
        }
        Ok(Tensor::cat(passes, 0))
    }

    /// The probabilities of the classes, `[M, C]`, or of independent labels, by the probit approximation.
    ///
    /// # Errors
    ///
    /// Those of [`outputs`](Self::outputs); also if the likelihood has no probabilities.
    pub fn probit(&self, features: &M::Features) -> Result<Tensor<2>> {
        let shrink =
            |mean: Tensor<2>, variance: Tensor<2>| mean / (variance * (PI / 8.0) + 1.0).sqrt();
        match self.model.likelihood() {
            Likelihood::Categorical if self.batching(features)?.identity.dims()[0] == 2 => {
                let identity = &self.batching(features)?.identity;
                let (mean, covariance) = self.closed_form(features, &Covariances(identity))?;
                let entry = |row: usize, column: usize| -> Tensor<2> {
                    covariance
                        .clone()
                        .narrow(1, row, 1)
                        .narrow(2, column, 1)
                        .squeeze_dim(2)
                };
                let variance = entry(0, 0) + entry(1, 1) - entry(0, 1) - entry(1, 0);
                let difference = mean.clone().narrow(1, 1, 1) - mean.narrow(1, 0, 1);
                let logit = shrink(difference, at_least(variance, 0.0));
                Ok(Tensor::cat(
                    vec![sigmoid(logit.clone().neg()), sigmoid(logit)],
                    1,
                ))
            }
            likelihood
            @ (Likelihood::Categorical | Likelihood::Ordinal | Likelihood::Bernoulli) => {
                let LinearizedOutputs { mean, variance } = self.outputs(features)?;
                Ok(likelihood.mean(shrink(mean, variance)))
            }
            likelihood => Err(Error::config(
                "likelihood",
                format!("is {likelihood:?}, which has no class probabilities; use `outputs`"),
            )),
        }
    }
}
