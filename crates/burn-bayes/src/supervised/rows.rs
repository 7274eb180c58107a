//! Examples in memory, and shuffled mini-batches of them.

use burn::tensor::{DType, Device, Int, Tensor, TensorData, kind};
use burn_bayes_graph::{ExampleBatch, TensorMapper};

use crate::error::{Error, Result};
use crate::noise::Noise;
use crate::train::Batches;

/// Examples in memory, with as many rows in every tensor.
#[derive(Clone, Debug)]
pub(super) struct Rows<B> {
    batch: B,
    count: usize,
}

impl<B: ExampleBatch> Rows<B> {
    /// # Errors
    ///
    /// If the tensors have different numbers of rows, or a number is not finite.
    pub(super) fn new(batch: B, device: &Device) -> Result<Self> {
        let mut check = Check {
            device: device.clone().inner(),
            tensors: 0,
            count: None,
            problem: None,
        };
        let batch = batch.map_tensors(&mut check);
        match (check.problem, check.count) {
            (Some(problem), _) => Err(Error::config("data", problem)),
            (None, count) => Ok(Self {
                batch,
                count: count.unwrap_or(0),
            }),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// All rows.
    pub(super) fn all(&self) -> B {
        self.batch.clone()
    }

    /// These rows, without autodiff.
    pub(super) fn select(&self, rows: &[usize]) -> B {
        let rows = rows.iter().map(|&row| row as i64).collect();
        let mut selected = Select {
            rows,
            requires_autodiff: false,
        };
        self.batch.clone().map_tensors(&mut selected)
    }

    /// A random permutation of their numbers.
    pub(super) fn order(&self, noise: Noise) -> Vec<usize> {
        noise.shuffled((0..self.count).collect())
    }
}

/// Mini-batches of some of the rows, of at most so many, in another order in every epoch.
#[derive(Debug)]
pub(super) struct Shuffled<'a, B> {
    pub(super) rows: &'a Rows<B>,
    pub(super) training: &'a [usize],
    pub(super) batch_size: usize,
    pub(super) noise: Noise,
}

impl<B: ExampleBatch> Batches for Shuffled<'_, B> {
    type Batch = B;

    fn per_epoch(&self) -> usize {
        self.training.len().div_ceil(self.batch_size)
    }

    fn epoch(&self, epoch: usize, first: usize) -> impl Iterator<Item = B> {
        let order = self
            .noise
            .fold(epoch as u64)
            .shuffled(self.training.to_vec());
        let count = self.per_epoch();
        // Of nearly equal sizes: a last one of a single row would be worth as much as the others.
        let place = move |number: usize| number * self.training.len() / count;
        (first..count).map(move |number| {
            let rows = &order[place(number)..place(number + 1)];
            let mut selected = Select {
                rows: rows.iter().map(|&row| row as i64).collect(),
                requires_autodiff: true,
            };
            self.rows.batch.clone().map_tensors(&mut selected)
        })
    }
}

/// Keeps rows.
struct Select {
    rows: Vec<i64>,
    requires_autodiff: bool,
}

impl TensorMapper for Select {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        let device = tensor.device();
        let rows = TensorData::new(self.rows.clone(), [self.rows.len()]);
        let selected = tensor.select(0, Tensor::<1, Int>::from_data(rows, &device));
        match self.requires_autodiff {
            true => Tensor::from_inner(selected),
            false => selected,
        }
    }
}

/// Moves tensors to a device, and finds what no training can use.
struct Check {
    device: Device,
    tensors: usize,
    count: Option<usize>,
    problem: Option<String>,
}

impl TensorMapper for Check {
    fn map<const R: usize, K: kind::Autodiff>(&mut self, tensor: Tensor<R, K>) -> Tensor<R, K> {
        let tensor = tensor.without_autodiff().to_device(&self.device);
        self.tensors += 1;
        let (number, found) = (self.tensors, tensor.dims().first().copied().unwrap_or(0));
        let expected = *self.count.get_or_insert(found);
        let problem = match found == expected {
            false => Some(format!(
                "its first tensor has {expected} rows, but number {number} has {found}; there must be as many targets as inputs"
            )),
            true => not_finite(&tensor, found).map(|(row, value)| {
                format!(
                    "tensor number {number} has {value} in row {row} (from 0); remove or replace it"
                )
            }),
        };
        self.problem = self.problem.take().or(problem);
        tensor
    }
}

/// The first row with a value that is not finite.
fn not_finite<const R: usize, K: kind::Autodiff>(
    tensor: &Tensor<R, K>,
    rows: usize,
) -> Option<(usize, f64)> {
    let is_float = matches!(
        tensor.dtype(),
        DType::F64 | DType::F32 | DType::F16 | DType::BF16
    );
    if !is_float || rows == 0 {
        return None;
    }
    let width = tensor.shape().num_elements() / rows;
    let values = tensor.to_data();
    let found = values
        .iter::<f64>()
        .enumerate()
        .find(|(_, value)| !value.is_finite());
    found.map(|(at, value)| (at / width, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[f32]) -> Result<Rows<(Tensor<2>, Tensor<1>)>> {
        let device = Device::default();
        let inputs = Tensor::from_data(
            TensorData::new(values.to_vec(), [values.len() / 2, 2]),
            &device,
        );
        Rows::new(
            (inputs, Tensor::from_floats([0.0, 1.0, 2.0], &device)),
            &device,
        )
    }

    #[test]
    fn rows_stay_together_and_each_comes_once_in_an_epoch() {
        let rows = rows(&[0.0, 0.5, 1.0, 1.5, 2.0, 2.5]).unwrap();
        let training = [0, 2];
        let batches = Shuffled {
            rows: &rows,
            training: &training,
            batch_size: 1,
            noise: Noise::new(1),
        };
        assert_eq!(batches.per_epoch(), 2);
        for epoch in 0..4 {
            let mut seen = Vec::new();
            for (inputs, targets) in batches.epoch(epoch, 0) {
                let inputs: Vec<f32> = inputs.into_data().iter().collect();
                let target: f32 = targets.into_scalar();
                assert_eq!(inputs, [target, target + 0.5]);
                seen.push(target);
            }
            seen.sort_by(f32::total_cmp);
            assert_eq!(seen, [0.0, 2.0]);
        }
        let order = |noise| rows.order(noise);
        assert_eq!(order(Noise::new(3)), order(Noise::new(3)));
    }

    #[test]
    fn what_cannot_be_trained_on_is_named() {
        let message = |values: &[f32]| rows(values).unwrap_err().to_string();
        let problem = message(&[0.0; 4]);
        assert!(
            problem.contains("has 2 rows, but number 2 has 3"),
            "{problem}"
        );
        let problem = message(&[0.0, 0.0, 0.0, f32::NAN, 0.0, 0.0]);
        assert!(
            problem.contains("tensor number 1 has NaN in row 1"),
            "{problem}"
        );
    }
}
