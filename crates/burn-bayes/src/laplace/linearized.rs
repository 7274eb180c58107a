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
//! Reference: Immer, Korzepa and Bauer (2021), "Improving predictions of Bayesian neural nets via local
//! linearization".

use std::f64::consts::PI;

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;

use super::outputs::{ModelOutputs, OutputGradients, micro_batches};
use crate::error::{Error, Result};
use crate::likelihood::Likelihood;
use crate::noise::Noise;
use crate::posterior::{FactorPosterior, Posterior};

/// The number of elements of the Jacobian of a micro-batch, which fits into a processor's cache.
const ELEMENTS: usize = 1 << 19;
/// The least number of examples in a micro-batch, each of which costs a pass over the model.
const FEWEST_EXAMPLES: usize = 16;
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
}

/// The Gaussian distribution of every example's outputs, without the noise of the targets.
#[derive(Clone, Debug)]
pub struct LinearizedOutputs {
    /// f(x; θ*), `[M, C]`.
    pub mean: Tensor<2>,
    /// diag J Σ Jᵀ, `[M, C]`.
    pub variance: Tensor<2>,
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
        let roots = self.posterior.covariance_roots()?;
        let (mut means, mut variances) = (Vec::new(), Vec::new());
        for features in micro_batches(features, self.examples_at_a_time(1))? {
            let mean = self.gradients.outputs(&self.model, &features)?;
            let [_, width] = mean.dims();
            let columns = (0..width).map(|output| {
                let gradients = self
                    .gradients
                    .of_output(&self.model, &features, &mean, output)?;
                Ok(roots.variance(gradients.materialise()).unsqueeze_dim(1))
            });
            variances.push(Tensor::cat(columns.collect::<Result<_>>()?, 1));
            means.push(mean);
        }
        expect_examples(means.len())?;
        Ok(LinearizedOutputs {
            mean: Tensor::cat(means, 0),
            variance: Tensor::cat(variances, 0),
        })
    }

    /// The covariance of every example's outputs, `[M, C, C]`.
    ///
    /// # Errors
    ///
    /// Those of [`outputs`](Self::outputs).
    pub fn covariance(&self, features: &M::Features) -> Result<Tensor<3>> {
        let roots = self.posterior.covariance_roots()?;
        let mut covariances = Vec::new();
        let width = self.width(features)?;
        for features in micro_batches(features, self.examples_at_a_time(width))? {
            let outputs = self.gradients.outputs(&self.model, &features)?;
            let [examples, width] = outputs.dims();
            let parts = (0..width).map(|output| {
                let gradients =
                    self.gradients
                        .of_output(&self.model, &features, &outputs, output)?;
                Ok(roots.of(gradients.materialise()))
            });
            let parts = parts.collect::<Result<Vec<_>>>()?;
            let mut covariance = Tensor::zeros([examples, width, width], &outputs.device());
            for root in 0..parts[0].len() {
                let stacked = parts.iter().map(|part| part[root].clone()).collect();
                let stacked: Tensor<3> = Tensor::stack(stacked, 1);
                covariance = covariance + stacked.clone().matmul(stacked.transpose());
            }
            covariances.push(covariance);
        }
        expect_examples(covariances.len())?;
        Ok(Tensor::cat(covariances, 0))
    }

    /// The outputs at `count` draws, `[count, M, C]`. Draw s has the weights of the posterior's draw with
    /// `noise.row(s)`, for all examples.
    ///
    /// # Errors
    ///
    /// Those of [`outputs`](Self::outputs); also without draws.
    pub fn draws(&self, features: &M::Features, noise: Noise, count: usize) -> Result<Tensor<3>> {
        if count == 0 {
            return Err(Error::config("draws", "is 0; it must be at least 1"));
        }
        let outputs = self.gradients.outputs(&self.model, features)?;
        let [_, width] = outputs.dims();
        let gradients = (0..width).map(|output| {
            self.gradients
                .of_output(&self.model, features, &outputs, output)
        });
        let gradients = gradients.collect::<Result<Vec<_>>>()?;
        let sampler = self.posterior.sampler()?;
        let mean: Tensor<2> = self.posterior.mean().unsqueeze();
        let mut passes = Vec::new();
        for first in (0..count).step_by(DRAWS_AT_A_TIME) {
            let some = first..count.min(first + DRAWS_AT_A_TIME);
            let draws = some.map(|draw| sampler.draw(noise.row(draw as u64)));
            let draws: Tensor<2> = Tensor::stack(draws.collect::<Result<_>>()?, 0);
            let shifts = draws - mean.clone();
            // [M, S] for every output.
            let changes = gradients
                .iter()
                .map(|rows| rows.dot(shifts.clone()).transpose());
            let changes: Tensor<3> = Tensor::stack(changes.collect(), 2);
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
            Likelihood::Categorical if self.width(features)? == 2 => {
                let mean = self.gradients.outputs(&self.model, features)?;
                let covariance = self.covariance(features)?;
                let entry = |row: usize, column: usize| -> Tensor<2> {
                    covariance
                        .clone()
                        .narrow(1, row, 1)
                        .narrow(2, column, 1)
                        .squeeze_dim(2)
                };
                let variance = entry(0, 0) + entry(1, 1) - entry(0, 1) - entry(1, 0);
                let difference = mean.clone().narrow(1, 1, 1) - mean.narrow(1, 0, 1);
                let logit = shrink(difference, variance.clamp_min(0.0));
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

    /// The number of examples whose Jacobians, with `rows` rows each, are in memory at a time.
    fn examples_at_a_time(&self, rows: usize) -> usize {
        (ELEMENTS / (rows * self.posterior.len())).max(FEWEST_EXAMPLES)
    }

    /// C.
    fn width(&self, features: &M::Features) -> Result<usize> {
        let first = micro_batches(features, 1)?.next();
        let first = first.ok_or_else(no_examples)?;
        Ok(self.gradients.outputs(&self.model, &first)?.dims()[1])
    }
}

fn expect_examples(batches: usize) -> Result<()> {
    match batches {
        0 => Err(no_examples()),
        _ => Ok(()),
    }
}

fn no_examples() -> Error {
    Error::config("features", "have no examples")
}
