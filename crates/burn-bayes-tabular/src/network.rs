//! The networks that the program fits: linear models and perceptrons, as ordinary Burn models.

use burn::module::{Module, Param, ParamId};
use burn::nn::Linear;
use burn::tensor::activation::{log_softmax, relu};
use burn::tensor::{Device, ExecutionError, Tensor, TensorData};
use burn::train::{ItemLazy, TrainOutput, TrainStep};
use burn_bayes::graph::{ExampleBatch, losses};
use burn_bayes::likelihood::MixDraws;
use burn_bayes::train::{BatchLoss, TrainerModel};
use burn_bayes::{ExampleLoss, Noise};

use crate::random::{first_weights, generator};
use crate::settings::NetworkShape;

/// A perceptron with rectifiers between its layers; without hidden layers, a linear model.
#[derive(Module, Debug)]
pub struct Network {
    layers: Vec<Linear>,
    #[module(skip)]
    likelihood: Likelihood,
}

/// What the outputs of a network say of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Likelihood {
    /// They are its mean, under noise of this precision.
    Gaussian(f64),
    /// They are the logarithms of its classes' probabilities, up to a constant.
    Categorical,
}

/// Some rows, as a network takes them.
#[derive(Clone, Debug, ExampleBatch)]
pub struct Batch {
    /// `[rows, features]`.
    pub(crate) inputs: Tensor<2>,
    /// Numbers, `[rows, 1]`, or a one at the place of the class, `[rows, classes]`.
    pub(crate) targets: Tensor<2>,
}

/// The width of a network's ends, and whether its layers have biases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayerSizes {
    pub(crate) features: usize,
    pub(crate) outputs: usize,
    pub(crate) biases: bool,
}

impl LayerSizes {
    /// The number of weights of a network between these ends, if it is a number.
    pub(crate) fn weights(&self, shape: &NetworkShape) -> Option<usize> {
        let widths = [&[self.features], shape.hidden.as_slice(), &[self.outputs]].concat();
        let bias = usize::from(self.biases);
        widths.windows(2).try_fold(0_usize, |sum, pair| {
            let layer = pair[0].checked_add(bias)?.checked_mul(pair[1])?;
            sum.checked_add(layer)
        })
    }
}

impl Network {
    /// A network with [`first_weights`] of its own for every `noise`.
    pub(crate) fn new(
        shape: &NetworkShape,
        ends: LayerSizes,
        likelihood: Likelihood,
        noise: Noise,
        device: &Device,
    ) -> Self {
        let mut generator = generator(noise);
        let widths = [&[ends.features], shape.hidden.as_slice(), &[ends.outputs]].concat();
        let mut parameters = 0..;
        let layers = widths.windows(2).map(|pair| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let mut first = |count| first_weights(inputs, count, &mut generator);
            // Fixed ids make equal networks equal files.
            let mut id = || ParamId::from(parameters.next().unwrap_or(0));
            let weight = TensorData::new(first(inputs * outputs), [inputs, outputs]);
            let weight = Param::initialized(id(), trained(Tensor::from_data(weight, device)));
            let bias = ends.biases.then(|| {
                let bias = TensorData::new(first(outputs), [outputs]);
                Param::initialized(id(), trained(Tensor::from_data(bias, device)))
            });
            Linear { weight, bias }
        });
        Self {
            layers: layers.collect(),
            likelihood,
        }
    }

    /// Means, `[rows, 1]`, or logits, `[rows, classes]`.
    pub(crate) fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        let mut layers = self.layers.iter();
        let first = layers.next().map(|layer| layer.forward(inputs.clone()));
        layers.fold(first.unwrap_or(inputs), |values, layer| {
            layer.forward(relu(values))
        })
    }
}

/// All that is looked at while a model is trained.
#[derive(Clone, Debug)]
pub struct MeanLoss {
    /// The mean of a batch's losses, `[1]`.
    pub loss: Tensor<1>,
    rows: usize,
}

impl MeanLoss {
    /// Of the losses of every row, `[rows]`.
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
}

impl TrainerModel for Network {}

impl ItemLazy for MeanLoss {
    fn sync(self) -> Result<Self, ExecutionError> {
        Ok(self)
    }
}

impl MixDraws for MeanLoss {
    /// Predictions are averaged elsewhere, by what the model says and not by its loss.
    type Mixture = ();

    fn rows(&self) -> usize {
        self.rows
    }

    fn mix(_draws: Vec<Self>) {}
}

impl Likelihood {
    /// −log p(y | f) of every row, `[rows]`, in nats.
    fn losses(self, outputs: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        match self {
            Self::Gaussian(precision) => losses::gaussian(outputs, targets, precision),
            Self::Categorical => {
                let picked = log_softmax(outputs, 1) * targets;
                picked.sum_dim(1).squeeze_dim::<1>(1).neg()
            }
        }
    }
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

/// Marked for gradients where the device takes any.
fn trained<const R: usize>(value: Tensor<R>) -> Tensor<R> {
    match value.device().is_autodiff() {
        true => value.require_grad(),
        false => value,
    }
}
