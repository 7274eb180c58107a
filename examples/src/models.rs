//! Ordinary Burn models, without Bayesian training.

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{relu, tanh};
use burn::tensor::{Device, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::graph::losses::cross_entropy;
use burn_bayes::graph::{ExampleBatch, TensorMapper};
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::likelihood::Likelihood;
use burn_bayes::{ExampleLoss, GaussianNll};

use crate::batches::{ClassBatch, RealBatch};
use crate::image_net::{Cnn, ImageBatch};

/// A multilayer perceptron with two hidden layers, for classification.
#[derive(Module, Debug)]
pub struct Classifier {
    first: Linear,
    second: Linear,
    head: Linear,
}

impl Classifier {
    /// A classifier with `hidden` units in each hidden layer.
    pub fn new(features: usize, hidden: usize, classes: usize, device: &Device) -> Self {
        Self {
            first: LinearConfig::new(features, hidden).init(device),
            second: LinearConfig::new(hidden, hidden).init(device),
            head: LinearConfig::new(hidden, classes).init(device),
        }
    }

    /// Logits, `[rows, classes]`.
    pub fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        let hidden = relu(self.first.forward(inputs));
        let hidden = relu(self.second.forward(hidden));
        self.head.forward(hidden)
    }

    fn classify(&self, batch: ClassBatch) -> ClassificationOutput {
        let logits = self.forward(batch.inputs);
        let loss = CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits.clone(), batch.targets.clone());
        ClassificationOutput::new(loss, logits, batch.targets)
    }
}

// ANCHOR: step
impl TrainStep for Classifier {
    type Input = ClassBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: ClassBatch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Classifier {
    type Input = ClassBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: ClassBatch) -> ClassificationOutput {
        self.classify(batch)
    }
}
// ANCHOR_END: step

/// An activation function.
#[derive(Clone, Copy, Debug)]
pub enum Activation {
    /// max(0, x).
    Rectifier,
    /// tanh x.
    Tanh,
}

/// A multilayer perceptron with one output, for regression with Gaussian noise of known precision.
#[derive(Module, Debug)]
pub struct Regressor {
    hidden: Vec<Linear>,
    head: Linear,
    #[module(skip)]
    activation: Activation,
    likelihood: GaussianNll,
}

impl Regressor {
    /// A multilayer perceptron with hidden layers of the given widths.
    pub fn new(
        features: usize,
        hidden: &[usize],
        activation: Activation,
        noise_precision: f64,
        device: &Device,
    ) -> Self {
        let mut width = features;
        let layers = hidden.iter().map(|&next| {
            let layer = LinearConfig::new(width, next).init(device);
            width = next;
            layer
        });
        Self {
            hidden: layers.collect(),
            head: LinearConfig::new(hidden.last().copied().unwrap_or(features), 1).init(device),
            activation,
            likelihood: GaussianNll::new(noise_precision),
        }
    }

    /// Predictions, `[rows, 1]`.
    pub fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        let hidden = self.hidden.iter().fold(inputs, |values, layer| {
            let values = layer.forward(values);
            match self.activation {
                Activation::Rectifier => relu(values),
                Activation::Tanh => tanh(values),
            }
        });
        self.head.forward(hidden)
    }

    fn regress(&self, batch: RealBatch) -> RegressionOutput {
        let output = self.forward(batch.inputs);
        let loss = self
            .likelihood
            .forward(output.clone(), batch.targets.clone());
        RegressionOutput::new(loss, output, batch.targets)
    }
}

impl TrainStep for Regressor {
    type Input = RealBatch;
    type Output = RegressionOutput;

    fn step(&self, batch: RealBatch) -> TrainOutput<RegressionOutput> {
        let output = self.regress(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

// ANCHOR: examples
impl ExampleLoss for Regressor {
    fn example_losses(&self, batch: RealBatch) -> Tensor<1> {
        let outputs = self.forward(batch.inputs);
        self.likelihood.per_row(outputs, batch.targets)
    }

    fn example_outputs(&self, batch: RealBatch, losses: Tensor<1>) -> RegressionOutput {
        let outputs = self.clone().no_grad().forward(batch.inputs);
        RegressionOutput::new(losses.mean(), outputs, batch.targets)
    }
}
// ANCHOR_END: examples

// ANCHOR: outputs
impl ModelOutputs for Regressor {
    type Features = Tensor<2>;

    fn features(batch: RealBatch) -> Tensor<2> {
        batch.inputs
    }

    fn outputs(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.forward(inputs)
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Gaussian {
            noise_precision: self.likelihood.noise_precision,
        }
    }
}
// ANCHOR_END: outputs

impl InferenceStep for Regressor {
    type Input = RealBatch;
    type Output = RegressionOutput;

    fn step(&self, batch: RealBatch) -> RegressionOutput {
        self.regress(batch)
    }
}

/// A linear model without intercept, with Gaussian noise of known precision.
#[derive(Module, Debug)]
pub struct LinearRegressor {
    layer: Linear,
    likelihood: GaussianNll,
}

impl LinearRegressor {
    /// A model with `features` inputs.
    pub fn new(features: usize, noise_precision: f64, device: &Device) -> Self {
        Self {
            layer: LinearConfig::new(features, 1).with_bias(false).init(device),
            likelihood: GaussianNll::new(noise_precision),
        }
    }

    fn regress(&self, batch: RealBatch) -> RegressionOutput {
        let output = self.layer.forward(batch.inputs);
        let loss = self
            .likelihood
            .forward(output.clone(), batch.targets.clone());
        RegressionOutput::new(loss, output, batch.targets)
    }
}

impl TrainStep for LinearRegressor {
    type Input = RealBatch;
    type Output = RegressionOutput;

    fn step(&self, batch: RealBatch) -> TrainOutput<RegressionOutput> {
        let output = self.regress(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for LinearRegressor {
    type Input = RealBatch;
    type Output = RegressionOutput;

    fn step(&self, batch: RealBatch) -> RegressionOutput {
        self.regress(batch)
    }
}

/// Logistic regression without intercept; targets are −1 and 1.
#[derive(Module, Debug)]
pub struct LogisticRegressor {
    layer: Linear,
}

impl LogisticRegressor {
    /// A model with `features` inputs.
    pub fn new(features: usize, device: &Device) -> Self {
        Self {
            layer: LinearConfig::new(features, 1).with_bias(false).init(device),
        }
    }

    /// Log-odds of the target 1, `[rows, 1]`.
    pub fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.layer.forward(inputs)
    }
}

impl TrainStep for LogisticRegressor {
    type Input = RealBatch;
    type Output = RegressionOutput;

    fn step(&self, batch: RealBatch) -> TrainOutput<RegressionOutput> {
        self.mean_loss_step(batch)
    }
}

impl ExampleLoss for LogisticRegressor {
    fn example_losses(&self, batch: RealBatch) -> Tensor<1> {
        // log(1 + exp(−t f)), without the overflow.
        let margins = self.forward(batch.inputs) * batch.targets;
        let losses = relu(margins.clone().neg()) + margins.abs().neg().exp().log1p();
        losses.squeeze_dim(1)
    }

    fn example_outputs(&self, batch: RealBatch, losses: Tensor<1>) -> RegressionOutput {
        let outputs = self.clone().no_grad().forward(batch.inputs);
        RegressionOutput::new(losses.mean(), outputs, batch.targets)
    }
}

// ANCHOR: losses
/// The only method that SLANG needs in addition to Burn's two steps.
impl ExampleLoss for Cnn {
    fn example_losses(&self, batch: ImageBatch) -> Tensor<1> {
        cross_entropy(self.forward(batch.images), batch.labels)
    }

    fn example_outputs(&self, batch: ImageBatch, losses: Tensor<1>) -> ClassificationOutput {
        let logits = self.clone().no_grad().forward(batch.images);
        ClassificationOutput::new(losses.mean(), logits, batch.labels)
    }
}

impl ExampleBatch for ImageBatch {
    fn map_tensors<M: TensorMapper>(self, mapper: &mut M) -> Self {
        Self {
            images: mapper.map(self.images),
            labels: mapper.map(self.labels),
        }
    }
}
// ANCHOR_END: losses
