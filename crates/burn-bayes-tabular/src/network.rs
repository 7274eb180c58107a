//! Linear models and multilayer perceptrons, as ordinary Burn models.

use burn::module::{Module, Param, ParamId};
use burn::nn::Linear;
use burn::tensor::activation::{relu, silu, softplus, tanh};
use burn::tensor::{Device, ExecutionError, Tensor, TensorData};
use burn::train::{ItemLazy, TrainOutput, TrainStep};
use burn_bayes::graph::ExampleBatch;
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::likelihood::{Likelihood, MixDraws};
use burn_bayes::train::{BatchLoss, CompiledStep, Recordings, TrainerModel};
use burn_bayes::{ExampleLoss, Noise};

use crate::random::{first_weights, generator};
use crate::settings::{Activation, NetworkShape};

/// The most variance of the noise of logarithms, in variances of the logarithms.
const MOST_LOG_VARIANCE: f64 = 4.0;

/// A multilayer perceptron; without hidden layers, a linear model.
#[derive(Module, Debug)]
pub struct Network {
    layers: Vec<Linear>,
    /// The logarithm of the variance of the noise, or of the dispersion, of every target, where it is the same for all rows
    /// and learned as a weight.
    noise: Option<Param<Tensor<1>>>,
    #[module(skip)]
    activation: Activation,
    #[module(skip)]
    likelihood: Likelihood,
    /// Added to the outputs: the logarithm of the mean count, so that the prior is about deviations from it; 0 for
    /// other targets.
    #[module(skip)]
    offset: f64,
    /// Whether the last input is added to the outputs: the logarithm of an exposure.
    #[module(skip)]
    has_exposure: bool,
    /// The least variance of the noise of every target, if the network predicts the noise; otherwise none.
    #[module(skip)]
    least_variances: Vec<f64>,
    /// The standard deviation of the logarithms, if these are predicted; otherwise 0.
    #[module(skip)]
    log_spread: f64,
}

/// A mini-batch.
#[derive(Clone, Debug, ExampleBatch)]
pub struct Batch {
    /// `[rows, features]`.
    pub(crate) inputs: Tensor<2>,
    /// Numbers or labels, `[rows, targets]`, or one-hot encoded classes, `[rows, classes]`.
    pub(crate) targets: Tensor<2>,
}

/// The numbers of inputs and outputs of the layers of a network, and whether they have biases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerSizes {
    pub(crate) features: usize,
    pub(crate) outputs: usize,
    pub(crate) biases: bool,
    /// The number of targets whose noise is a weight of its own.
    pub(crate) noises: usize,
}

impl LayerSizes {
    /// The number of weights of a network of this shape; `None` on overflow.
    pub(crate) fn weights(&self, shape: &NetworkShape) -> Option<usize> {
        let widths = [&[self.features], shape.hidden.as_slice(), &[self.outputs]].concat();
        let bias = usize::from(self.biases);
        widths.windows(2).try_fold(self.noises, |sum, pair| {
            let layer = pair[0].checked_add(bias)?.checked_mul(pair[1])?;
            sum.checked_add(layer)
        })
    }
}

impl Network {
    /// A network with [`first_weights`] from `noise`.
    pub(crate) fn new(
        shape: &NetworkShape,
        activation: Activation,
        ends: LayerSizes,
        likelihood: Likelihood,
        noise: Noise,
        device: &Device,
    ) -> Self {
        let mut generator = generator(noise);
        let widths = [&[ends.features], shape.hidden.as_slice(), &[ends.outputs]].concat();
        let mut parameters = 0..;
        // Fixed ids, so that equal networks give equal files.
        let mut id = || ParamId::from(parameters.next().unwrap_or(0));
        let layers = widths.windows(2).map(|pair| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let mut first = |count| first_weights(inputs, count, &mut generator);
            let weight = TensorData::new(first(inputs * outputs), [inputs, outputs]);
            let weight = Param::initialized(id(), trained(Tensor::from_data(weight, device)));
            let bias = ends.biases.then(|| {
                let bias = TensorData::new(first(outputs), [outputs]);
                Param::initialized(id(), trained(Tensor::from_data(bias, device)))
            });
            Linear { weight, bias }
        });
        let layers: Vec<Linear> = layers.collect();
        let noise = (ends.noises > 0).then(|| {
            let logarithms = Tensor::zeros([ends.noises], device);
            Param::initialized(id(), trained(logarithms))
        });
        Self {
            layers,
            noise,
            activation,
            likelihood,
            offset: 0.0,
            has_exposure: false,
            least_variances: Vec::new(),
            log_spread: 0.0,
        }
    }

    /// The network with an offset of its outputs, to which the last input belongs if it is the logarithm of an exposure.
    #[must_use]
    pub(crate) fn with_offset(self, offset: f64, has_exposure: bool) -> Self {
        Self {
            offset,
            has_exposure,
            ..self
        }
    }

    /// The network with a floor of the variances that it predicts, one for each target. Where it predicts logarithms of this
    /// standard deviation, the floor is that at their mean, and belongs to a constant deviation of the targets themselves.
    #[must_use]
    pub(crate) fn with_least_variances(self, least_variances: Vec<f64>, log_spread: f64) -> Self {
        Self {
            least_variances,
            log_spread,
            ..self
        }
    }

    /// The network with the weights and biases of another first layer of the same size.
    #[must_use]
    pub(crate) fn with_first_layer(mut self, first: Linear) -> Self {
        if let Some(layer) = self.layers.first_mut() {
            let (weight, bias) = (first.weight.val(), first.bias.map(|bias| bias.val()));
            layer.weight = layer.weight.clone().map(|_| trained(weight));
            layer.bias = layer
                .bias
                .take()
                .zip(bias)
                .map(|(own, bias)| own.map(|_| trained(bias)));
        }
        self
    }

    /// The network with other noise precisions of the targets, if its likelihood has them.
    #[must_use]
    pub(crate) fn with_noise_precisions(self, precisions: &[f64]) -> Self {
        Self {
            likelihood: self.likelihood.with_noise_precisions(precisions),
            ..self
        }
    }

    /// The weights of a linear model without its biases, `[features, outputs]` row-major; `None` with hidden layers.
    pub(crate) fn linear_weights(&self) -> Option<Vec<f64>> {
        match self.layers.as_slice() {
            [layer] => Some(layer.weight.val().into_data().iter::<f64>().collect()),
            _ => None,
        }
    }

    /// The outputs, `[rows, outputs]`; [`Likelihood`] says what they are.
    pub(crate) fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        let [_, width] = inputs.dims();
        let (inputs, exposures) = match self.has_exposure {
            true => {
                let exposures = inputs.clone().narrow(1, width - 1, 1);
                (inputs.narrow(1, 0, width - 1), Some(exposures))
            }
            false => (inputs, None),
        };
        let mut layers = self.layers.iter();
        let first = layers.next().map(|layer| layer.forward(inputs.clone()));
        let outputs = layers.fold(first.unwrap_or(inputs), |values, layer| {
            layer.forward(match self.activation {
                Activation::Relu => relu(values),
                Activation::Silu => silu(values),
                Activation::Tanh => tanh(values),
            })
        });
        let outputs = match self.offset {
            0.0 => outputs,
            offset => outputs + offset,
        };
        let outputs = match exposures {
            None => outputs,
            Some(logarithms) => outputs + logarithms,
        };
        let outputs = match &self.noise {
            None => outputs,
            Some(noise) => {
                let ([rows, _], [targets]) = (outputs.dims(), noise.dims());
                let logarithms = noise.val().reshape([1, targets]).expand([rows, targets]);
                Tensor::cat(vec![outputs, logarithms], 1)
            }
        };
        match self.least_variances.is_empty() {
            true => outputs,
            false => self.with_bounds(outputs),
        }
    }

    /// Means and the logarithms v of variances, of which ln(exp v + least variance) is left. Those of logarithms have a most
    /// variance as well: the mean of a log-normal distribution grows with the exponential of it, so that one row far from
    /// the others would have a mean beyond all bounds.
    fn with_bounds(&self, outputs: Tensor<2>) -> Tensor<2> {
        let targets = self.least_variances.len();
        let components = match self.likelihood {
            Likelihood::GaussianMixture { components } => components,
            _ => 1,
        };
        let logarithms = self.least_variances.iter().map(|variance| variance.ln());
        let logarithms: Vec<f32> = logarithms.map(|logarithm| logarithm as f32).collect();
        let least = TensorData::new(logarithms, [1, targets]);
        let least = Tensor::from_data(least, &outputs.device());
        let least = match components {
            1 => least,
            _ => least.repeat_dim(1, components),
        };
        let width = components * targets;
        let means = outputs.clone().narrow(1, 0, width);
        let least = match self.log_spread {
            0.0 => least,
            spread => least - means.clone() * (2.0 * spread),
        };
        let variances = outputs.clone().narrow(1, width, width);
        let variances = variances.clone() + softplus(least - variances, 1.0);
        let variances = match self.log_spread {
            0.0 => variances,
            _ => variances.clone() - softplus(variances - MOST_LOG_VARIANCE.ln(), 1.0),
        };
        let mut all = vec![means, variances];
        if components > 1 {
            let [_, count] = outputs.dims();
            all.push(outputs.narrow(1, 2 * width, count - 2 * width));
        }
        Tensor::cat(all, 1)
    }
}

/// The training output: the mean loss of a mini-batch.
#[derive(Clone, Debug)]
pub struct MeanLoss {
    /// The mean loss, `[1]`.
    pub loss: Tensor<1>,
    rows: usize,
}

impl MeanLoss {
    /// From the losses per row, `[rows]`.
    pub fn of(losses: Tensor<1>) -> Self {
        let [rows] = losses.dims();
        Self {
            loss: losses.mean(),
            rows,
        }
    }
}

impl BatchLoss for MeanLoss {
    fn batch_loss(&self) -> Tensor<1> {
        self.loss.clone()
    }

    fn batch_rows(&self) -> Option<usize> {
        Some(self.rows)
    }
}

impl TrainerModel for Network {
    fn compiled(&self, recordings: &Recordings) -> Option<CompiledStep<Self>> {
        recordings.step_of_losses(self)
    }
}

impl ItemLazy for MeanLoss {
    fn sync(self) -> Result<Self, ExecutionError> {
        Ok(self)
    }
}

impl MixDraws for MeanLoss {
    /// Predictions are averaged elsewhere, from the outputs of the model.
    type Mixture = ();

    fn rows(&self) -> usize {
        self.rows
    }

    fn mix(_draws: Vec<Self>) {}
}

impl TrainStep for Network {
    type Input = Batch;
    type Output = MeanLoss;

    fn step(&self, batch: Batch) -> TrainOutput<MeanLoss> {
        self.mean_loss_step(batch)
    }
}

impl ExampleLoss for Network {
    fn example_losses(&self, batch: Batch) -> Tensor<1> {
        let outputs = self.forward(batch.inputs);
        self.likelihood.losses(outputs, batch.targets)
    }

    fn example_outputs(&self, _batch: Batch, losses: Tensor<1>) -> MeanLoss {
        MeanLoss::of(losses)
    }
}

impl ModelOutputs for Network {
    type Features = Tensor<2>;

    fn features(batch: Batch) -> Tensor<2> {
        batch.inputs
    }

    fn outputs(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.forward(inputs)
    }

    fn likelihood(&self) -> Likelihood {
        self.likelihood.clone()
    }
}

/// Requires gradients if the device supports autodiff.
fn trained<const R: usize>(value: Tensor<R>) -> Tensor<R> {
    match value.device().is_autodiff() {
        true => value.require_grad(),
        false => value,
    }
}
