//! Linear models as ordinary Burn models, their data, and epochs of shuffled batches.

use burn::module::Module;
use burn::nn::{Initializer, Linear, LinearConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::{RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::graph::{ExampleBatch, TensorMapper};
use burn_bayes::{ExampleLoss, GaussianNll};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

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
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        let output = self.example_outputs(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl ExampleLoss for LinearModel {
    fn example_losses(&self, batch: Batch) -> Tensor<1> {
        self.losses(self.layer.forward(batch.inputs), batch.targets)
    }

    fn example_outputs(&self, batch: Batch) -> RegressionOutput {
        let outputs = self.layer.forward(batch.inputs);
        let loss = self.losses(outputs.clone(), batch.targets.clone()).mean();
        RegressionOutput::new(loss, outputs, batch.targets)
    }
}

/// Rows that a step takes.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// `[rows, features]`.
    inputs: Tensor<2>,
    /// `[rows, 1]`.
    targets: Tensor<2>,
}

impl ExampleBatch for Batch {
    fn map_tensors<M: TensorMapper>(self, mapper: &mut M) -> Self {
        Self {
            inputs: mapper.map(self.inputs),
            targets: mapper.map(self.targets),
        }
    }
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

    /// Epochs without end, each of all rows in an order of its own.
    pub(crate) fn epochs(&self, batch_size: usize, seed: u64, device: &Device) -> Epochs<'_> {
        Epochs {
            rows: self,
            batch_size,
            order: (0..self.len()).collect(),
            generator: StdRng::seed_from_u64(seed),
            device: device.clone(),
        }
    }
}

/// See [`Rows::epochs`].
#[derive(Debug)]
pub(crate) struct Epochs<'a> {
    rows: &'a Rows,
    batch_size: usize,
    order: Vec<usize>,
    generator: StdRng,
    device: Device,
}

impl Iterator for Epochs<'_> {
    type Item = Vec<Batch>;

    /// All rows once, in batches, the last of which may be smaller.
    fn next(&mut self) -> Option<Vec<Batch>> {
        self.order.shuffle(&mut self.generator);
        let batch = |rows: &[usize]| {
            let width = self.rows.width;
            let features = rows
                .iter()
                .flat_map(|&row| &self.rows.inputs[row * width..][..width]);
            let targets = rows.iter().map(|&row| &self.rows.targets[row]);
            Batch {
                inputs: self.matrix(features, rows.len()),
                targets: self.matrix(targets, rows.len()),
            }
        };
        Some(self.order.chunks(self.batch_size).map(batch).collect())
    }
}

impl Epochs<'_> {
    fn matrix<'a>(&self, values: impl Iterator<Item = &'a f64>, rows: usize) -> Tensor<2> {
        let values: Vec<f32> = values.map(|&value| value as f32).collect();
        let width = values.len() / rows;
        Tensor::from_data(TensorData::new(values, [rows, width]), &self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_visits_every_row_once_and_the_next_in_another_order() {
        let count = 50;
        let rows = Rows {
            inputs: (0..count).map(f64::from).collect(),
            targets: (0..count).map(|row| f64::from(row) + 0.5).collect(),
            width: 1,
        };
        let device = Device::default();
        let visited = |seed| {
            let epochs = rows.epochs(8, seed, &device).take(2);
            epochs
                .map(|batches| {
                    let pairs = batches.into_iter().flat_map(|batch| {
                        let inputs: Vec<f64> = batch.inputs.into_data().iter::<f64>().collect();
                        let targets: Vec<f64> = batch.targets.into_data().iter::<f64>().collect();
                        inputs.into_iter().zip(targets)
                    });
                    pairs.collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        };
        let [first, second]: [Vec<_>; 2] = visited(3).try_into().unwrap();
        assert_ne!(first, second);
        assert_eq!(visited(3), [first.clone(), second.clone()]);
        for epoch in [first, second] {
            assert!(epoch.iter().all(|(input, target)| target - input == 0.5));
            let mut inputs: Vec<_> = epoch.into_iter().map(|(input, _)| input as u32).collect();
            inputs.sort_unstable();
            assert!(inputs.into_iter().eq(0..50));
        }
    }
}
