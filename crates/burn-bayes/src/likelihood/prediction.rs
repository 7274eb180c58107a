//! [`Prediction`]: the predictive distribution of rows, averaged over draws of the weights.
//!
//! With f_s the outputs at draw s, p(y) = (1/S) Σ_s p(y | f_s). Its mean is that of the draws' means, and its variance
//!
//!   (1/S) Σ_s Var(y | f_s) + Var_s E(y | f_s),
//!
//! the aleatoric and the epistemic part.

use burn::tensor::{Tensor, TensorData, TensorReadError};
use burn_bayes_eval::{CountMixture, quantiles};

use super::family::{Gaussians, Likelihood, halves};
use super::regression_draws::{DrawGaussians, read};
use crate::error::{Error, Result};

/// The predictive distribution of rows whose targets may be unknown, from draws of the weights.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_bayes::likelihood::{Likelihood, Prediction};
///
/// // Two draws for one row.
/// let outputs = Tensor::<3>::from_data([[[1.0]], [[3.0]]], &Device::default());
/// let prediction = Prediction::new(Likelihood::Gaussian { noise_precision: 4.0 }, outputs);
/// let deviation = prediction.deviation().into_scalar::<f64>();
/// assert!((deviation - 1.25_f64.sqrt()).abs() < 1e-6); // 1/4 of the noise, 1 between the draws
/// let median = prediction.quantiles(0.5)?.into_scalar::<f64>();
/// assert!((median - 2.0).abs() < 1e-6);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Prediction {
    likelihood: Likelihood,
    draw_outputs: Tensor<3>,
}

impl Prediction {
    /// From the outputs of a model at every draw, `[draws, rows, outputs]`.
    pub fn new(likelihood: Likelihood, draw_outputs: Tensor<3>) -> Self {
        Self {
            likelihood,
            draw_outputs,
        }
    }

    /// The likelihood of the targets, given the outputs.
    pub fn likelihood(&self) -> &Likelihood {
        &self.likelihood
    }

    /// The outputs of the model at every draw, `[draws, rows, outputs]`.
    pub fn draw_outputs(&self) -> &Tensor<3> {
        &self.draw_outputs
    }

    /// The expectation of the targets, `[rows, targets]`: means, rates, or the probabilities of classes or labels.
    pub fn mean(&self) -> Tensor<2> {
        self.draw_means().mean_dim(0).squeeze_dim(0)
    }

    /// The expectation of the targets at every draw, `[draws, rows, targets]`.
    pub fn draw_means(&self) -> Tensor<3> {
        self.of_rows(|outputs| self.likelihood.mean(outputs))
    }

    /// The probabilities of the classes or labels, `[rows, classes]`.
    ///
    /// # Errors
    ///
    /// If the targets are numbers or counts.
    pub fn probabilities(&self) -> Result<Tensor<2>> {
        match self.likelihood {
            Likelihood::Categorical | Likelihood::Ordinal | Likelihood::Bernoulli => {
                Ok(self.mean())
            }
            _ => Err(self.refused("probabilities of classes")),
        }
    }

    /// The entropy of the class of each row, in nats, `[rows]`: the whole uncertainty.
    ///
    /// # Errors
    ///
    /// If the targets are no classes.
    pub fn predictive_entropy(&self) -> Result<Tensor<1>> {
        self.expect_classes("entropy of classes")?;
        Ok(self.class_entropy())
    }

    /// The information that the class of each row would give about the weights, in nats, `[rows]`: the entropy less the average
    /// of the draws' own entropies, which is the epistemic part of the uncertainty.
    ///
    /// # Errors
    ///
    /// If the targets are no classes.
    pub fn mutual_information(&self) -> Result<Tensor<1>> {
        self.expect_classes("mutual information of classes")?;
        Ok(self.class_information())
    }

    /// The entropy of the averaged probabilities.
    pub(crate) fn class_entropy(&self) -> Tensor<1> {
        entropies::<2, 1>(self.mean())
    }

    /// The entropy of the averaged probabilities less the average of the draws' entropies.
    pub(crate) fn class_information(&self) -> Tensor<1> {
        let of_draws = entropies::<3, 2>(self.draw_means());
        let expected = of_draws.mean_dim(0).squeeze_dim::<1>(0);
        (self.class_entropy() - expected).clamp_min(0.0)
    }

    fn expect_classes(&self, what: &str) -> Result<()> {
        match self.likelihood {
            Likelihood::Categorical | Likelihood::Ordinal => Ok(()),
            _ => Err(self.refused(what)),
        }
    }

    /// The standard deviation of the targets, `[rows, targets]`; for classes, those of their indicators.
    pub fn deviation(&self) -> Tensor<2> {
        (self.aleatoric_variance() + self.epistemic_variance()).sqrt()
    }

    /// The variance of the targets that remains with known weights: the average over draws, `[rows, targets]`.
    pub fn aleatoric_variance(&self) -> Tensor<2> {
        self.draw_variances().mean_dim(0).squeeze_dim(0)
    }

    /// The variance of the draws' means, `[rows, targets]`.
    pub fn epistemic_variance(&self) -> Tensor<2> {
        let means = self.draw_means();
        let average = means.clone().mean_dim(0);
        (means - average).square().mean_dim(0).squeeze_dim(0)
    }

    /// The values below which the targets lie with this probability, `[rows, targets]`; of counts, the smallest such
    /// count.
    ///
    /// # Errors
    ///
    /// If the probability is not between 0 and 1, or the targets are classes or labels.
    pub fn quantiles(&self, probability: f64) -> Result<Tensor<2>> {
        let means = self.draw_means();
        let [draws, rows, targets] = means.dims();
        let device = means.device();
        let dtype = means.dtype();
        let places = rows * targets;
        let found = match self.likelihood {
            Likelihood::Poisson => CountMixture::new(host(means)?, draws, places)
                .and_then(|mixture| mixture.quantiles(probability)),
            Likelihood::NegativeBinomial => {
                let dispersions = host(self.of_rows(|outputs| {
                    let [_, log_dispersions] = halves(outputs);
                    log_dispersions.exp()
                }))?;
                CountMixture::new(host(means)?, draws, places).and_then(|mixture| {
                    mixture
                        .with_dispersions(dispersions)?
                        .quantiles(probability)
                })
            }
            _ => {
                let gaussians = self.gaussians();
                let gaussians = gaussians.ok_or_else(|| self.refused("quantiles"))?;
                let ([], read) = gaussians.read([]).map_err(failed)?;
                let mixture = read.mixture(1.0, places);
                mixture.and_then(|mixture| quantiles(&mixture, probability))
            }
        };
        let found = found.map_err(|error| Error::numerical(error.to_string()))?;
        let found = TensorData::new(found, [rows, targets]);
        Ok(Tensor::from_data(found, (&device, dtype)))
    }

    /// The variance of the targets at every draw, `[draws, rows, targets]`.
    fn draw_variances(&self) -> Tensor<3> {
        self.of_rows(|outputs| self.likelihood.variance(outputs))
    }

    /// The Gaussians of every draw's prediction; `None` without Gaussian noise.
    pub(super) fn gaussians(&self) -> Option<DrawGaussians> {
        let components = match self.likelihood {
            Likelihood::GaussianMixture { components } => components,
            Likelihood::Gaussian { .. }
            | Likelihood::GaussianTargets { .. }
            | Likelihood::HeteroscedasticGaussian => {
                let variances = Some(self.draw_variances());
                return Some(DrawGaussians::alone(self.draw_means(), variances));
            }
            _ => return None,
        };
        let [draws, ..] = self.draw_outputs.dims();
        let outputs = |draw| self.draw_outputs.clone().narrow(0, draw, 1).squeeze_dim(0);
        let (mut means, mut variances, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for draw in 0..draws {
            let gaussians = Gaussians::of(&outputs(draw), components);
            means.push(gaussians.means);
            variances.push(gaussians.variances);
            weights.push(gaussians.weights);
        }
        let [means, variances, weights] =
            [means, variances, weights].map(|parts| Tensor::cat(parts, 0));
        Some(DrawGaussians {
            per_draw: components,
            means,
            variances: Some(variances),
            weights: Some(weights),
        })
    }

    /// A function of the outputs of every draw, `[draws, rows, …]`.
    pub(super) fn of_draws(&self, function: impl Fn(Tensor<2>) -> Tensor<2>) -> Tensor<3> {
        let [draws, ..] = self.draw_outputs.dims();
        let outputs = |draw| self.draw_outputs.clone().narrow(0, draw, 1).squeeze_dim(0);
        Tensor::stack((0..draws).map(|draw| function(outputs(draw))).collect(), 0)
    }

    /// A function of each row of outputs on its own, for every draw, `[draws, rows, …]`.
    fn of_rows(&self, function: impl Fn(Tensor<2>) -> Tensor<2>) -> Tensor<3> {
        let [draws, rows, width] = self.draw_outputs.dims();
        let results = function(self.draw_outputs.clone().reshape([draws * rows, width]));
        let width = results.dims()[1];
        results.reshape([draws, rows, width])
    }

    /// The same without the graph of automatic differentiation.
    pub(super) fn without_autodiff(self) -> Self {
        let draw_outputs = self.draw_outputs.without_autodiff();
        Self {
            draw_outputs,
            ..self
        }
    }

    fn refused(&self, what: &str) -> Error {
        let likelihood = &self.likelihood;
        Error::config(
            "likelihood",
            format!("is {likelihood:?}, which has no {what}"),
        )
    }
}

/// −Σ p ln p over the last axis, in nats.
fn entropies<const R: usize, const Q: usize>(probabilities: Tensor<R>) -> Tensor<Q> {
    // The smallest number above zero, because 0 ln 0 is 0.
    let logarithms = probabilities.clone().clamp_min(f32::MIN_POSITIVE).log();
    let sum = (probabilities * logarithms).sum_dim(R - 1);
    sum.squeeze_dim::<Q>(R - 1).neg()
}

/// The numbers of a tensor, in rows.
fn host(tensor: Tensor<3>) -> Result<Vec<f64>> {
    Ok(read([tensor]).map_err(failed)?.concat())
}

fn failed(error: TensorReadError) -> Error {
    Error::numerical(format!("the device failed: {error}"))
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::kernels::to_host;

    fn prediction(likelihood: Likelihood, outputs: [f64; 2]) -> Prediction {
        let outputs = outputs.map(|output| [[output]]);
        Prediction::new(likelihood, Tensor::from_data(outputs, &Device::default()))
    }

    #[test]
    fn the_variance_is_that_within_the_draws_and_between_them() {
        let noise_precision = 4.0;
        let prediction = prediction(Likelihood::Gaussian { noise_precision }, [0.0, 2.0]);
        assert_eq!(to_host(prediction.mean()), [1.0]);
        assert_eq!(to_host(prediction.aleatoric_variance()), [0.25]);
        assert_eq!(to_host(prediction.epistemic_variance()), [1.0]);
        assert!((to_host(prediction.deviation())[0] - 1.25_f64.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn quantiles_are_those_of_the_mixture() {
        let normal = prediction(
            Likelihood::Gaussian {
                noise_precision: 1.0,
            },
            [3.0, 3.0],
        );
        let upper = to_host(normal.quantiles(0.975).unwrap())[0];
        assert!((upper - 4.959_964).abs() < 1e-5, "{upper}");
        let counts = prediction(Likelihood::Poisson, [0.0, 0.0]);
        // P(Y ≤ 1) = 2/e = .736 and P(Y ≤ 2) = .920.
        assert_eq!(to_host(counts.quantiles(0.9).unwrap()), [2.0]);
    }

    #[test]
    fn what_a_likelihood_does_not_have_is_refused_by_name() {
        let labels = prediction(Likelihood::Bernoulli, [0.0, 0.0]);
        assert_eq!(to_host(labels.probabilities().unwrap()), [0.5]);
        let message = labels.quantiles(0.5).unwrap_err().to_string();
        assert!(
            message.contains("Bernoulli, which has no quantiles"),
            "{message}"
        );
        let counts = prediction(Likelihood::Poisson, [0.0, 0.0]);
        let message = counts.probabilities().unwrap_err().to_string();
        assert!(message.contains("Poisson"), "{message}");
        let message = counts.quantiles(1.5).unwrap_err().to_string();
        assert!(message.contains("1.5"), "{message}");
    }
}
