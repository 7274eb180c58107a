//! Rows of data, and the mini-batches that models take as input.

use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_bayes::Noise;
use burn_bayes::graph::ExampleBatch;

/// An example with a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassRow {
    /// The features.
    pub features: Vec<f32>,
    /// The class, from 0.
    pub class: usize,
}

/// Examples with classes.
#[derive(Clone, Debug, ExampleBatch)]
pub struct ClassBatch {
    /// `[rows, features]`.
    pub inputs: Tensor<2>,
    /// `[rows]`.
    pub targets: Tensor<1, Int>,
}

impl ClassBatch {
    /// One batch of all rows.
    pub fn new(rows: &[ClassRow], device: &Device) -> Self {
        let width = rows.first().map_or(0, |row| row.features.len());
        let features = rows.iter().flat_map(|row| row.features.iter().copied());
        let classes = rows.iter().map(|row| row.class as i64);
        Self {
            inputs: matrix(features.collect(), width, device),
            targets: Tensor::from_data(
                TensorData::new(classes.collect::<Vec<_>>(), [rows.len()]),
                device,
            ),
        }
    }
}

/// Makes [`ClassBatch`]es for Burn's data loaders.
#[derive(Clone, Copy, Debug)]
pub struct ClassBatcher;

impl Batcher<ClassRow, ClassBatch> for ClassBatcher {
    fn batch(&self, rows: Vec<ClassRow>, device: &Device) -> ClassBatch {
        ClassBatch::new(&rows, device)
    }
}

/// A loader of `rows` in mini-batches, shuffled in every epoch if a seed is given.
pub fn class_loader(
    rows: Vec<ClassRow>,
    batch_size: usize,
    shuffle: Option<u64>,
    device: &Device,
) -> Arc<dyn DataLoader<ClassBatch>> {
    let builder = DataLoaderBuilder::new(ClassBatcher)
        .batch_size(batch_size)
        .set_device(device.clone());
    let builder = match shuffle {
        Some(seed) => builder.shuffle(seed),
        None => builder,
    };
    builder.build(InMemDataset::new(rows))
}

// ANCHOR: batch
/// Examples with a real target.
#[derive(Clone, Debug, ExampleBatch)]
pub struct RealBatch {
    /// `[rows, features]`.
    pub inputs: Tensor<2>,
    /// `[rows, 1]`.
    pub targets: Tensor<2>,
}
// ANCHOR_END: batch

/// Rows that become [`RealBatch`]es.
#[derive(Clone, Copy, Debug)]
pub struct ToBatch<'a> {
    /// Features, row by row.
    pub inputs: &'a [f32],
    /// One target per row.
    pub targets: &'a [f32],
}

impl ToBatch<'_> {
    fn width(&self) -> usize {
        self.inputs.len() / self.targets.len().max(1)
    }

    /// One batch of all rows.
    pub fn all(&self, device: &Device) -> RealBatch {
        RealBatch {
            inputs: matrix(self.inputs.to_vec(), self.width(), device),
            targets: matrix(self.targets.to_vec(), 1, device),
        }
    }

    /// All rows in mini-batches, in a random order given by `noise`; the last mini-batch may be
    /// smaller.
    pub fn shuffled(&self, batch_size: usize, noise: Noise, device: &Device) -> Vec<RealBatch> {
        let order = shuffled_order(self.targets.len(), noise);
        order
            .chunks(batch_size.max(1))
            .map(|rows| {
                let width = self.width();
                let inputs = rows
                    .iter()
                    .flat_map(|&row| &self.inputs[row * width..][..width]);
                RealBatch {
                    inputs: matrix(inputs.copied().collect(), width, device),
                    targets: matrix(
                        rows.iter().map(|&row| self.targets[row]).collect(),
                        1,
                        device,
                    ),
                }
            })
            .collect()
    }
}

/// The numbers 0..count in random order.
fn shuffled_order(count: usize, noise: Noise) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let uniform = noise.fold(last as u64).uniform();
        order.swap(last, (uniform * (last + 1) as f64) as usize);
    }
    order
}

fn matrix(values: Vec<f32>, width: usize, device: &Device) -> Tensor<2> {
    let rows = values.len() / width.max(1);
    Tensor::from_data(TensorData::new(values, [rows, width]), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_visits_every_row_once() {
        let mut order = shuffled_order(50, Noise::new(1));
        assert_ne!(order, (0..50).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }
}
