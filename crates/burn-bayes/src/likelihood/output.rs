//! The output of a training step with any likelihood, and its average over draws.
//!
//! The predictive distribution is the mixture p(y) = (1/S) Σ_s p(y | f_s), so its loss is
//! −log p(y) = log S − log Σ_s exp(−ℓ_s), with ℓ_s the loss of draw s.

use burn::tensor::{ExecutionError, Tensor};
use burn::train::ItemLazy;
use burn::train::metric::{Adaptor, LossInput};

use super::family::Likelihood;
use super::mixture::{MixDraws, MixStacked};

/// What a model with one of the [likelihoods](Likelihood) returns from its training and validation steps.
///
/// ```
/// # use burn::{module::Module, nn::Linear, tensor::Tensor};
/// # use burn::train::{TrainOutput, TrainStep};
/// use burn_bayes::likelihood::{Likelihood, LikelihoodOutput};
///
/// /// Predicts a mean and the logarithm of a variance.
/// #[derive(Module, Debug)]
/// struct NoisyLine {
///     layer: Linear, // two outputs
/// }
///
/// impl TrainStep for NoisyLine {
///     type Input = (Tensor<2>, Tensor<2>);
///     type Output = LikelihoodOutput;
///
///     fn step(&self, (inputs, targets): Self::Input) -> TrainOutput<LikelihoodOutput> {
///         let outputs = self.layer.forward(inputs);
///         let output = LikelihoodOutput::new(Likelihood::HeteroscedasticGaussian, outputs, targets);
///         TrainOutput::new(self, output.loss.backward(), output)
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct LikelihoodOutput {
    /// The mean loss, `[1]`.
    pub loss: Tensor<1>,
    /// The outputs of the model, `[rows, outputs]`.
    pub outputs: Tensor<2>,
    /// The true values, or one-hot encoded classes, `[rows, targets]`.
    pub targets: Tensor<2>,
    /// The likelihood of the targets, given the outputs.
    pub likelihood: Likelihood,
}

impl LikelihoodOutput {
    /// The outputs of a batch with their mean loss; shapes as in [`Likelihood::losses`].
    pub fn new(likelihood: Likelihood, outputs: Tensor<2>, targets: Tensor<2>) -> Self {
        Self {
            loss: likelihood.losses(outputs.clone(), targets.clone()).mean(),
            outputs,
            targets,
            likelihood,
        }
    }
}

impl ItemLazy for LikelihoodOutput {
    fn sync(self) -> Result<Self, ExecutionError> {
        self.loss.device().flush()?;
        Ok(Self {
            loss: self.loss.without_autodiff(),
            outputs: self.outputs.without_autodiff(),
            targets: self.targets.without_autodiff(),
            likelihood: self.likelihood,
        })
    }
}

impl Adaptor<LossInput> for LikelihoodOutput {
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone())
    }
}

/// The mixture of the predictive distributions of several draws of the weights.
#[derive(Clone, Debug)]
pub struct LikelihoodMixture {
    /// The mean negative log-likelihood of the mixture, `[1]`, in nats.
    pub loss: Tensor<1>,
    /// The outputs of each draw, `[draws, rows, outputs]`.
    pub draw_outputs: Tensor<3>,
    /// The true values, or one-hot encoded classes, `[rows, targets]`.
    pub targets: Tensor<2>,
    /// The likelihood of the targets, given the outputs.
    pub likelihood: Likelihood,
}

impl LikelihoodMixture {
    pub(super) fn new(likelihood: Likelihood, draw_outputs: Tensor<3>, targets: Tensor<2>) -> Self {
        let mut mixture = Self {
            loss: Tensor::zeros([1], &draw_outputs.device()),
            draw_outputs,
            targets,
            likelihood,
        };
        mixture.loss = mixture.row_losses().mean();
        mixture
    }

    /// The negative log-likelihood of the mixture for each row, `[rows]`; with several targets, their joint one.
    pub(super) fn row_losses(&self) -> Tensor<1> {
        let losses = self.of_draws(|outputs| {
            let losses = self.likelihood.losses(outputs, self.targets.clone());
            losses.unsqueeze_dim(1)
        });
        // [draws, rows, 1] → log-sum-exp over draws, without overflow.
        let draws = losses.dims()[0] as f64;
        let least = losses.clone().min_dim(0);
        let sum = (least.clone() - losses).exp().sum_dim(0);
        let rows = least - sum.log().add_scalar(-draws.ln());
        rows.squeeze_dim::<2>(0).squeeze_dim(1)
    }

    /// The expectation of the targets, `[rows, targets]`: means, rates, or the probabilities of classes or labels.
    pub fn mean(&self) -> Tensor<2> {
        let means = self.of_draws(|outputs| self.likelihood.mean(outputs));
        means.mean_dim(0).squeeze_dim(0)
    }

    /// The variance of the targets that remains with known weights: the average over draws, `[rows, targets]`.
    pub fn aleatoric_variance(&self) -> Tensor<2> {
        let variances = self.of_draws(|outputs| self.likelihood.variance(outputs));
        variances.mean_dim(0).squeeze_dim(0)
    }

    /// The variance of the draws' means, `[rows, targets]`.
    pub fn epistemic_variance(&self) -> Tensor<2> {
        let means = self.of_draws(|outputs| self.likelihood.mean(outputs));
        let average = means.clone().mean_dim(0);
        (means - average).square().mean_dim(0).squeeze_dim(0)
    }

    /// A function of the outputs of every draw, `[draws, rows, …]`.
    fn of_draws(&self, function: impl Fn(Tensor<2>) -> Tensor<2>) -> Tensor<3> {
        let [draws, ..] = self.draw_outputs.dims();
        let outputs = |draw| self.draw_outputs.clone().narrow(0, draw, 1).squeeze_dim(0);
        Tensor::stack((0..draws).map(|draw| function(outputs(draw))).collect(), 0)
    }
}

impl MixDraws for LikelihoodOutput {
    type Mixture = LikelihoodMixture;

    fn rows(&self) -> usize {
        self.targets.dims()[0]
    }

    fn mix(draws: Vec<Self>) -> LikelihoodMixture {
        let (likelihood, targets) = (draws[0].likelihood.clone(), draws[0].targets.clone());
        let outputs = draws.into_iter().map(|draw| draw.outputs).collect();
        LikelihoodMixture::new(likelihood, Tensor::stack(outputs, 0), targets)
    }

    fn row_losses(mixtures: [&LikelihoodMixture; 2]) -> Option<[Tensor<1>; 2]> {
        Some(mixtures.map(LikelihoodMixture::row_losses))
    }
}

impl MixStacked for LikelihoodOutput {
    fn stacked_values(self) -> Tensor<2> {
        self.outputs
    }

    fn mix_stacked(one: Self, numbers: Tensor<3>) -> LikelihoodMixture {
        LikelihoodMixture::new(one.likelihood, numbers, one.targets)
    }
}

impl ItemLazy for LikelihoodMixture {
    fn sync(self) -> Result<Self, ExecutionError> {
        self.loss.device().flush()?;
        Ok(Self {
            loss: self.loss.without_autodiff(),
            draw_outputs: self.draw_outputs.without_autodiff(),
            targets: self.targets.without_autodiff(),
            likelihood: self.likelihood,
        })
    }
}

impl Adaptor<LossInput> for LikelihoodMixture {
    fn adapt(&self) -> LossInput {
        LossInput::new(self.loss.clone())
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    fn values<const R: usize>(tensor: Tensor<R>) -> Vec<f64> {
        tensor.into_data().iter().collect()
    }

    fn output(likelihood: Likelihood, outputs: [f32; 2], targets: [f32; 2]) -> LikelihoodOutput {
        let device = Device::default();
        let column = |numbers: [f32; 2]| Tensor::from_data(numbers.map(|number| [number]), &device);
        LikelihoodOutput::new(likelihood, column(outputs), column(targets))
    }

    #[test]
    fn the_loss_is_that_of_the_mixture() {
        let targets = [3.0, 0.0];
        let draws = [[0.5, -1.0], [1.5, 0.0], [-0.2, 0.3]];
        let outputs = draws.map(|draw| output(Likelihood::Poisson, draw, targets));
        let mixture = MixDraws::mix(outputs.to_vec());
        let expected = [0, 1].map(|row| {
            let density = |draw: &[f32; 2]| {
                let log_rate = f64::from(draw[row]);
                (f64::from(targets[row]) * log_rate - log_rate.exp()).exp()
            };
            -(draws.iter().map(density).sum::<f64>() / 3.0).ln()
        });
        for (found, expected) in values(mixture.row_losses()).into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let mean = (expected[0] + expected[1]) / 2.0;
        assert!((values(mixture.loss.clone())[0] - mean).abs() < 1e-6);

        let numbers = Tensor::stack(outputs.iter().map(|one| one.outputs.clone()).collect(), 0);
        let stacked = LikelihoodOutput::mix_stacked(outputs[0].clone(), numbers);
        assert_eq!(values(stacked.loss), values(mixture.loss));
    }

    #[test]
    fn draws_that_rule_the_truth_out_leave_a_finite_loss() {
        let draws = [output(Likelihood::Bernoulli, [-200.0, 300.0], [1.0, 0.0])];
        let mixture = MixDraws::mix(draws.to_vec());
        assert_eq!(values(mixture.row_losses()), [200.0, 300.0]);
    }

    #[test]
    fn the_variance_is_that_within_the_draws_and_between_them() {
        let draws = [[0.0, 1.0], [2.0, 1.0]];
        let likelihood = Likelihood::Gaussian {
            noise_precision: 4.0,
        };
        let draws = draws.map(|draw| output(likelihood.clone(), draw, [0.0, 0.0]));
        let mixture = MixDraws::mix(draws.to_vec());
        assert_eq!(values(mixture.mean()), [1.0, 1.0]);
        assert_eq!(values(mixture.aleatoric_variance()), [0.25, 0.25]);
        assert_eq!(values(mixture.epistemic_variance()), [1.0, 0.0]);
    }
}
