//! A model whose posterior is known, for tests of fits.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::softplus;
use burn::tensor::{Device, Tensor};
use burn::train::{RegressionOutput, TrainOutput, TrainStep};

use crate::likelihood::GaussianNll;
use crate::train::ExampleLoss;

#[derive(Clone, Copy, Debug)]
pub(super) enum Likelihood {
    Gaussian(f64),
    Bernoulli,
}

/// A generalised linear model.
#[derive(Module, Debug)]
pub(super) struct Model {
    pub(super) layer: Linear,
    #[module(skip)]
    likelihood: Likelihood,
}

impl Model {
    /// A model with this many weights, and no bias.
    pub(super) fn new(weights: usize, likelihood: Likelihood) -> Self {
        let layer = LinearConfig::new(weights, 1).with_bias(false);
        Self {
            layer: layer.init(&Device::default().autodiff()),
            likelihood,
        }
    }

    fn losses(&self, outputs: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        match self.likelihood {
            Likelihood::Gaussian(precision) => {
                GaussianNll::new(precision).per_row(outputs, targets)
            }
            Likelihood::Bernoulli => {
                (softplus(outputs.clone(), 1.0) - outputs * targets).squeeze_dim(1)
            }
        }
    }
}

impl ExampleLoss for Model {
    fn example_losses(&self, (inputs, targets): Self::Input) -> Tensor<1> {
        self.losses(self.layer.forward(inputs), targets)
    }
}

impl TrainStep for Model {
    type Input = (Tensor<2>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Self::Input) -> TrainOutput<RegressionOutput> {
        let outputs = self.layer.forward(inputs);
        let loss = self.losses(outputs.clone(), targets.clone()).mean();
        let output = RegressionOutput::new(loss.clone(), outputs, targets);
        TrainOutput::new(self, loss.backward(), output)
    }
}
