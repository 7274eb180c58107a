//! Linear models as ordinary Burn models, their data, and batches of it.

use std::iter;

use burn::module::Module;
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::{TrainOutput, TrainStep};
use burn_bayes::graph::ExampleBatch;
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::likelihood::Likelihood as OutputLikelihood;
use burn_bayes::{ExampleLoss, GaussianNll};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use burn_bayes_tabular::network::MeanLoss;

/// A linear function without intercept, and what its value says about the target.
#[derive(Module, Debug)]
pub(crate) struct LinearModel {
    layer: Linear,
    #[module(skip)]
    likelihood: Likelihood,
}

/// The law of a target given the linear function's value f.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Likelihood {
    /// N(f, β⁻¹) with this β.
    Gaussian(f64),
    /// 1 with probability σ(f), else −1.
    Logistic,
}

impl LinearModel {
    /// A model whose weights are zero.
    pub(crate) fn new(features: usize, likelihood: Likelihood, device: &Device) -> Self {
        let layer = LinearConfig::new(features, 1)
            .with_bias(false)
            .with_initializer(Initializer::Zeros);
        Self {
            layer: layer.init(device),
            likelihood,
        }
    }

    /// −log p(target | output) of every row, `[rows]`.
    fn losses(&self, outputs: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        match self.likelihood {
            Likelihood::Gaussian(precision) => {
                GaussianNll::new(precision).per_row(outputs, targets)
            }
            Likelihood::Logistic => {
                // log(1 + exp(−t f)), without the overflow.
                let margins = outputs * targets;
                let losses = relu(margins.clone().neg()) + margins.abs().neg().exp().log1p();
                losses.squeeze_dim(1)
            }
        }
    }
}

impl TrainStep for LinearModel {
    type Input = Batch;
    type Output = MeanLoss;

    fn step(&self, batch: Batch) -> TrainOutput<MeanLoss> {
        self.mean_loss_step(batch)
    }
}

impl ExampleLoss for LinearModel {
    fn example_losses(&self, batch: Batch) -> Tensor<1> {
        self.losses(self.layer.forward(batch.inputs), batch.targets)
    }

    fn example_outputs(&self, _batch: Batch, losses: Tensor<1>) -> MeanLoss {
        MeanLoss::of(losses)
    }
}

/// For the curvature, which is the same for targets of ±1 as for those of 0 and 1 that the likelihood of the library has.
impl ModelOutputs for LinearModel {
    type Features = Tensor<2>;

    fn features(batch: Batch) -> Tensor<2> {
        batch.inputs
    }

    fn outputs(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.layer.forward(inputs)
    }

    fn likelihood(&self) -> OutputLikelihood {
        match self.likelihood {
            Likelihood::Gaussian(noise_precision) => OutputLikelihood::Gaussian { noise_precision },
            Likelihood::Logistic => OutputLikelihood::Bernoulli,
        }
    }
}

/// Rows that a step takes.
#[derive(Clone, Debug, ExampleBatch)]
pub(crate) struct Batch {
    /// `[rows, features]`.
    pub(crate) inputs: Tensor<2>,
    /// `[rows, 1]`.
    pub(crate) targets: Tensor<2>,
}

/// Data of a linear model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rows {
    /// Features, row by row.
    pub(crate) inputs: Vec<f64>,
    /// One target for each row.
    pub(crate) targets: Vec<f64>,
    /// Features in a row.
    pub(crate) width: usize,
}

impl Rows {
    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Every row's features with its target.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[f64], f64)> {
        let inputs = self.inputs.chunks_exact(self.width);
        inputs.zip(self.targets.iter().copied())
    }

    /// Batches of `batch_size` rows without end. The rows come in epochs, each of all rows in an order of
    /// its own; a batch that an epoch does not fill goes on with the next.
    pub(crate) fn batches(
        &self,
        batch_size: usize,
        seed: u64,
        device: &Device,
    ) -> impl Iterator<Item = Batch> {
        let mut generator = StdRng::seed_from_u64(seed);
        let epochs = iter::repeat_with(move || {
            let mut order: Vec<usize> = (0..self.len()).collect();
            order.shuffle(&mut generator);
            order
        });
        let mut rows = epochs.flatten();
        let device = device.clone();
        iter::repeat_with(move || {
            let chosen: Vec<usize> = rows.by_ref().take(batch_size).collect();
            self.batch(&chosen, &device)
        })
    }

    /// All rows.
    pub(crate) fn all(&self, device: &Device) -> Batch {
        let rows: Vec<usize> = (0..self.len()).collect();
        self.batch(&rows, device)
    }

    fn batch(&self, chosen: &[usize], device: &Device) -> Batch {
        let features = chosen
            .iter()
            .flat_map(|&row| &self.inputs[row * self.width..][..self.width]);
        let targets = chosen.iter().map(|&row| &self.targets[row]);
        Batch {
            inputs: matrix(features, [chosen.len(), self.width], device),
            targets: matrix(targets, [chosen.len(), 1], device),
        }
    }

    /// The number of batches in this many epochs.
    pub(crate) fn batches_in(&self, epochs: u64, batch_size: usize) -> u64 {
        epochs * self.len() as u64 / batch_size as u64
    }
}

fn matrix<'a>(
    values: impl Iterator<Item = &'a f64>,
    shape: [usize; 2],
    device: &Device,
) -> Tensor<2> {
    let values: Vec<f32> = values.map(|&value| value as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_comes_once_in_an_epoch_and_in_another_order_in_the_next() {
        let count = 50;
        let rows = Rows {
            inputs: (0..count).map(f64::from).collect(),
            targets: (0..count).map(|row| f64::from(row) + 0.5).collect(),
            width: 1,
        };
        let device = Device::default();
        // Batches of 8 fill two epochs of 50 but for four rows.
        let visited = |seed| {
            let batches = rows.batches(8, seed, &device).take(12);
            let pairs = batches.flat_map(|batch| {
                let inputs: Vec<f64> = batch.inputs.into_data().iter::<f64>().collect();
                let targets: Vec<f64> = batch.targets.into_data().iter::<f64>().collect();
                inputs.into_iter().zip(targets)
            });
            pairs.collect::<Vec<_>>()
        };
        let found = visited(3);
        assert_eq!(found, visited(3));
        assert_ne!(found, visited(4));
        assert!(found.iter().all(|(input, target)| target - input == 0.5));
        let (first, second) = found.split_at(50);
        assert_ne!(first[..46], *second);
        let sorted = |part: &[(f64, f64)]| {
            let mut inputs: Vec<u32> = part.iter().map(|(input, _)| *input as u32).collect();
            inputs.sort_unstable();
            inputs
        };
        assert!(sorted(first).into_iter().eq(0..50));
        let mut second = sorted(second);
        second.dedup();
        assert_eq!(second.len(), 46);
        assert_eq!((rows.batches_in(2, 8), rows.batches_in(1, 8)), (12, 6));
    }
}
