//! What is right: ordinary autodiff, one backward pass for each example and one for the batch.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, kind};
use burn_bayes::Layout;
use burn_bayes::graph::{ExampleBatch, TensorMapper};

use super::net::{Examples, Net};
use super::random::Random;
use crate::support::{values, vector};

/// Losses and gradients at one vector of weights.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// The losses of the batch.
    pub(crate) losses: Vec<f64>,
    /// The gradient of the mean of these.
    pub(crate) mean: Vec<f64>,
    /// The gradient of each example alone, one row behind the other; none if an example alone has
    /// another loss than in the batch.
    pub(crate) rows: Option<Vec<f64>>,
}

/// A model, a batch and where its weights lie.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) net: &'a Net,
    pub(crate) layout: &'a Layout,
    pub(crate) batch: &'a Examples,
}

impl Setting<'_> {
    /// The losses and their gradient at these weights.
    fn gradient(&self, weights: &[f32], batch: Examples) -> (Vec<f64>, Vec<f64>) {
        let leaves = self.net.clone().freeze();
        let leaves = self.layout.write_leaves(leaves, vector(weights)).unwrap();
        let losses = leaves.losses(batch);
        let sum = losses.clone().sum();
        let gradient = if sum.is_tracked() {
            let mut gradients = GradientsParams::from_grads(sum.backward(), &leaves);
            let flat = self.layout.flatten_gradients(&leaves, &mut gradients);
            values(&flat.unwrap())
        } else {
            vec![0.0; weights.len()]
        };
        (values(&losses), gradient)
    }

    pub(crate) fn expected(&self, weights: &[f32]) -> Expected {
        let (losses, sum) = self.gradient(weights, self.batch.clone());
        let examples = self.batch.labels.dims()[0];
        let count = losses.len() as f64;
        Expected {
            mean: sum.iter().map(|x| x / count).collect(),
            rows: self.alone(weights, examples, &losses, &sum),
            losses,
        }
    }

    /// The gradient of each example alone, if that has a meaning.
    fn alone(
        &self,
        weights: &[f32],
        examples: usize,
        losses: &[f64],
        sum: &[f64],
    ) -> Option<Vec<f64>> {
        let mut rows = Vec::new();
        let mut total = vec![0.0; sum.len()];
        let mut alone = Vec::new();
        for example in 0..examples {
            let single = self.batch.clone().map_tensors(&mut Single(example));
            let run = || self.gradient(weights, single);
            let (loss, row) = catch_unwind(AssertUnwindSafe(run)).ok()?;
            alone.extend(loss);
            total
                .iter_mut()
                .zip(&row)
                .for_each(|(total, x)| *total += x);
            rows.extend(row);
        }
        let agree = |a: &[f64], b: &[f64]| {
            let scale = b.iter().fold(1e-3_f64, |max, x| max.max(x.abs()));
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-3 * scale)
        };
        (agree(&alone, losses) && agree(&total, sum)).then_some(rows)
    }

    /// The model's output at these weights, in inference.
    pub(crate) fn outputs(&self, weights: &[f32]) -> Vec<f64> {
        let net = self
            .layout
            .write(self.net.valid(), vector(weights))
            .unwrap();
        values(&net.forward(self.batch.clone()))
    }

    /// How much weights that differ in their last bits change a result: what rounding explains.
    pub(crate) fn rounding(
        &self,
        weights: &[f32],
        result: impl Fn(&Self, &[f32]) -> Vec<f64>,
    ) -> f64 {
        let exact = result(self, weights);
        let mut random = Random::new(17);
        let mut nudge = |x: &f32| match random.chance(50) {
            true => x * (1.0 + 4.0 * f32::EPSILON),
            false => x * (1.0 - 4.0 * f32::EPSILON),
        };
        let mut change = 0.0_f64;
        for _ in 0..3 {
            let near: Vec<f32> = weights.iter().map(&mut nudge).collect();
            let near = result(self, &near);
            let differences = near.iter().zip(&exact).map(|(a, b)| (a - b).abs());
            change = differences.fold(change, f64::max);
        }
        change
    }
}

/// Keeps one example.
struct Single(usize);

impl TensorMapper for Single {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        tensor.narrow(0, self.0, 1)
    }
}
