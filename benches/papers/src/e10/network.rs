//! The network of figures 3.1 and 3.2: two hidden layers.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn::train::{RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::ExampleLoss;
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::likelihood::Likelihood;

/// Units of each hidden layer.
pub(super) const UNITS: usize = 25;
/// The deviation of the noise of the targets.
pub(super) const NOISE_DEVIATION: f64 = 0.1;

#[derive(Module, Debug)]
pub(super) struct Network {
    pub(super) first: Linear,
    second: Linear,
    pub(super) output: Linear,
    /// Whether the units are sines, as in figure 3.2; otherwise they are hyperbolic tangents.
    #[module(skip)]
    is_sine: bool,
}

pub(super) type Batch = (Tensor<2>, Tensor<2>);

impl Network {
    pub(super) fn new(is_sine: bool, device: &Device) -> Self {
        Self {
            first: LinearConfig::new(1, UNITS).init(device),
            second: LinearConfig::new(UNITS, UNITS).init(device),
            output: LinearConfig::new(UNITS, 1).init(device),
            is_sine,
        }
    }
}

impl ModelOutputs for Network {
    type Features = Tensor<2>;

    fn features((inputs, _): Batch) -> Tensor<2> {
        inputs
    }

    fn outputs(&self, inputs: Tensor<2>) -> Tensor<2> {
        let activation = |values: Tensor<2>| match self.is_sine {
            true => values.sin(),
            false => values.tanh(),
        };
        let hidden = activation(self.first.forward(inputs));
        self.output.forward(activation(self.second.forward(hidden)))
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Gaussian {
            noise_precision: NOISE_DEVIATION.powi(-2),
        }
    }
}

impl ExampleLoss for Network {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        self.likelihood().losses(self.outputs(inputs), targets)
    }

    fn example_outputs(&self, (inputs, targets): Batch, losses: Tensor<1>) -> RegressionOutput {
        let outputs = self.clone().no_grad().outputs(inputs);
        RegressionOutput::new(losses.mean(), outputs, targets)
    }
}

impl TrainStep for Network {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        self.mean_loss_step(batch)
    }
}
