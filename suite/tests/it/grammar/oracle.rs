//! Correct results by ordinary autodiff, with one backward pass per example and one for the batch.

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Tensor, kind};
use burn_bayes::graph::{ExampleBatch, Layout, TensorMapper};

use super::net::{Examples, Net, float};
use super::quiet::caught;
use crate::support::{values, vector};

/// A model, its layout, and a batch.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) net: &'a Net,
    pub(crate) layout: &'a Layout,
    pub(crate) batch: &'a Examples,
}

/// The correct results for one vector of weights.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// The losses of the batch, `[M]`.
    pub(crate) losses: Vec<f64>,
    /// The gradient of the mean loss, `[D]`.
    pub(crate) mean: Vec<f64>,
    /// The gradient per example, `[M, D]`; `None` if an example alone has another loss than in the batch.
    pub(crate) rows: Option<Vec<f64>>,
    /// The outputs of the model in inference mode, `[M, width]`.
    pub(crate) outputs: Vec<f64>,
}

impl Setting<'_> {
    pub(crate) fn expected(&self, weights: &[f32]) -> Expected {
        let (losses, sum) = self.gradient(weights, self.batch.clone());
        let count = losses.len() as f64;
        let net = self.layout.write(self.net.valid(), vector(weights));
        Expected {
            mean: sum.iter().map(|x| x / count).collect(),
            rows: self.alone(weights, &losses, &sum),
            outputs: values(&net.unwrap().forward(self.batch.clone())),
            losses,
        }
    }

    /// The same with perturbed last bits of weights and inputs, which bounds the effect of rounding.
    pub(crate) fn nudged(&self, weights: &[f32]) -> Vec<Expected> {
        let nudged = (0..16).map(|seed| {
            let weights: Tensor<1> = nudge(vector(weights), seed);
            let weights: Vec<f32> = weights.to_data().iter::<f32>().collect();
            let batch = Examples {
                sequence: nudge(self.batch.sequence.clone(), seed),
                flat: nudge(self.batch.flat.clone(), seed),
                ..self.batch.clone()
            };
            let near = Setting {
                batch: &batch,
                ..*self
            };
            near.expected(&weights)
        });
        nudged.collect()
    }

    /// The losses and the gradient of their sum.
    fn gradient(&self, weights: &[f32], batch: Examples) -> (Vec<f64>, Vec<f64>) {
        // Freezing turns dropout off and makes batch norm use its running statistics.
        let net = self.net.clone().freeze();
        let leaves = self.layout.write_leaves(net, vector(weights)).unwrap();
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

    /// The gradient per example, if they agree with the batch's losses and the gradient of their sum.
    fn alone(&self, weights: &[f32], losses: &[f64], sum: &[f64]) -> Option<Vec<f64>> {
        let examples = self.batch.labels.dims()[0];
        let (mut alone, mut rows) = (Vec::new(), Vec::new());
        for example in 0..examples {
            let single = self.batch.clone().map_tensors(&mut Single(example));
            let (loss, row) = caught(|| self.gradient(weights, single)).ok()?;
            alone.extend(loss);
            rows.push(row);
        }
        let total: Vec<f64> = (0..sum.len())
            .map(|place| rows.iter().map(|row| row[place]).sum())
            .collect();
        (agree(&alone, losses) && agree(&total, sum)).then(|| rows.concat())
    }
}

/// Changes every number by a few units in the last place.
fn nudge<const R: usize>(tensor: Tensor<R>, seed: u64) -> Tensor<R> {
    let signs = float(seed, tensor.dims(), &tensor.device()).sign();
    tensor * (signs * (4.0 * f32::EPSILON) + 1.0)
}

/// Equal except for rounding, which a kink may amplify.
fn agree(a: &[f64], b: &[f64]) -> bool {
    let scale = b.iter().fold(1e-3_f64, |max, x| max.max(x.abs()));
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-3 * scale)
}

/// Keeps one example.
struct Single(usize);

impl TensorMapper for Single {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        tensor.narrow(0, self.0, 1)
    }
}
