//! The model that runs a program, and its batches.

use std::sync::Arc;

use burn::module::{Module, Param, RunningState};
use burn::nn::conv::{Conv1d, Conv1dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Embedding, EmbeddingConfig, GaussianNoise,
    GaussianNoiseConfig, GroupNorm, GroupNormConfig, LayerNorm, LayerNormConfig, Linear,
    LinearConfig,
};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use burn_bayes::graph::ExampleBatch;

use super::program::{Program, Sizes, VOCABULARY};
use crate::support::{device, filled, normals};

/// Runs a program with its own parameters.
#[derive(Module, Debug)]
pub(crate) struct Net {
    pub(crate) vectors: Vec<Param<Tensor<1>>>,
    pub(crate) matrices: Vec<Param<Tensor<2>>>,
    pub(crate) cubes: Vec<Param<Tensor<3>>>,
    pub(crate) linears: Vec<Linear>,
    pub(crate) convolutions: Vec<Conv1d>,
    pub(crate) layer_norms: Vec<LayerNorm>,
    pub(crate) group_norms: Vec<GroupNorm>,
    pub(crate) batch_norms: Vec<BatchNorm>,
    pub(crate) embeddings: Vec<Embedding>,
    pub(crate) dropout: Dropout,
    pub(crate) noise: GaussianNoise,
    /// A number that is not a parameter.
    pub(crate) number: f64,
    /// A tensor `[1]` that is not a parameter.
    pub(crate) tensor: Tensor<1>,
    #[module(skip)]
    pub(crate) program: Arc<Program>,
}

/// The tensors of a program.
pub(crate) fn place(program: &Program) -> Device {
    match program.is_training {
        true => device().autodiff(),
        false => device(),
    }
}

impl Net {
    pub(crate) fn new(program: Arc<Program>) -> Self {
        let device = place(&program);
        let pools = &program.pools;
        let mut matrices: Vec<_> = pools
            .matrices
            .iter()
            .map(|&dims| zeros(dims, &device))
            .collect();
        for &(first, second) in &pools.tied {
            matrices[second] = matrices[first].clone();
        }
        let linear = |&(from, to, has_bias): &(usize, usize, bool)| {
            LinearConfig::new(from, to)
                .with_bias(has_bias)
                .init(&device)
        };
        let batch_norm = |&features: &usize| {
            let mut norm: BatchNorm = BatchNormConfig::new(features).init(&device);
            norm.running_mean = RunningState::new(float(1, [features], &device));
            let variance = float::<1>(2, [features], &device).square() + 0.5;
            norm.running_var = RunningState::new(variance);
            norm
        };
        let net = Self {
            vectors: pools
                .vectors
                .iter()
                .map(|&len| zeros([len], &device))
                .collect(),
            matrices,
            cubes: pools
                .cubes
                .iter()
                .map(|&dims| zeros(dims, &device))
                .collect(),
            linears: pools.linears.iter().map(linear).collect(),
            convolutions: pools
                .convolutions
                .iter()
                .map(|&[from, to, kernel]| Conv1dConfig::new(from, to, kernel).init(&device))
                .collect(),
            layer_norms: pools
                .layer_norms
                .iter()
                .map(|&features| LayerNormConfig::new(features).init(&device))
                .collect(),
            group_norms: pools
                .group_norms
                .iter()
                .map(|&[groups, channels]| GroupNormConfig::new(groups, channels).init(&device))
                .collect(),
            batch_norms: pools.batch_norms.iter().map(batch_norm).collect(),
            embeddings: pools
                .embeddings
                .iter()
                .map(|&[rows, features]| EmbeddingConfig::new(rows, features).init(&device))
                .collect(),
            dropout: DropoutConfig::new(0.5).init(),
            noise: GaussianNoiseConfig::new(0.5).init(),
            number: 1.5,
            tensor: Tensor::from_data([0.5], &device),
            program: program.clone(),
        };
        filled(net, program.seed, 0.5)
    }

    /// The same model with other values in fields that are not parameters.
    pub(crate) fn with_other_fields(mut self) -> Self {
        self.number = -0.5;
        self.tensor = self.tensor + 1.0;
        self
    }
}

fn zeros<const R: usize>(dims: [usize; R], device: &Device) -> Param<Tensor<R>> {
    Param::from_tensor(Tensor::zeros(dims, device))
}

/// Standard normals that depend only on the seed.
pub(crate) fn float<const R: usize>(seed: u64, dims: [usize; R], device: &Device) -> Tensor<R> {
    let values = normals(seed, dims.iter().product());
    Tensor::from_data(TensorData::new(values, dims), device)
}

/// A batch of examples with all that a program may read.
#[derive(Clone, Debug, ExampleBatch)]
pub(crate) struct Examples {
    /// `[M, T, F]`
    pub(crate) sequence: Tensor<3>,
    /// `[M, F]`
    pub(crate) flat: Tensor<2>,
    /// `[M, T]`
    pub(crate) tokens: Tensor<2, Int>,
    /// `[M]`
    pub(crate) labels: Tensor<1, Int>,
    /// `[M, 1]`
    pub(crate) targets: Tensor<2>,
    /// `[M, T]`
    pub(crate) mask: Tensor<2, Bool>,
    /// One per example; not mapped.
    #[batch(shared)]
    pub(crate) lengths: Vec<usize>,
    /// `[M, 1]`; not mapped.
    #[batch(shared)]
    pub(crate) unmapped_rows: Tensor<2>,
    /// `[1]`; not mapped.
    #[batch(shared)]
    pub(crate) unmapped_shared: Tensor<1>,
}

impl Examples {
    pub(crate) fn new(seed: u64, sizes: Sizes, device: &Device) -> Self {
        let Sizes {
            examples,
            time,
            features,
        } = sizes;
        let below = |seed, len, bound: usize| -> Vec<i64> {
            let numbers = normals(seed, len).into_iter();
            numbers
                .map(|x| (x.abs() * 1000.0) as i64 % bound as i64)
                .collect()
        };
        let part = |number: u64| seed.wrapping_mul(16).wrapping_add(number);
        let tokens = TensorData::new(
            below(part(0), examples * time, VOCABULARY),
            [examples, time],
        );
        let labels = TensorData::new(below(part(1), examples, VOCABULARY), [examples]);
        let lengths = below(part(2), examples, time);
        Self {
            sequence: float(part(3), [examples, time, features], device),
            flat: float(part(4), [examples, features], device),
            tokens: Tensor::from_data(tokens, device),
            labels: Tensor::from_data(labels, device),
            targets: float(part(5), [examples, 1], device),
            mask: float::<2>(part(6), [examples, time], device).greater_elem(0.5),
            lengths: lengths
                .into_iter()
                .map(|length| 1 + length as usize)
                .collect(),
            unmapped_rows: float(part(7), [examples, 1], device),
            unmapped_shared: float(part(8), [1], device),
        }
    }

    /// With the fields that are not mapped from another batch of the same size.
    pub(crate) fn with_unmapped_of(self, other: &Self) -> Self {
        Self {
            lengths: other.lengths.clone(),
            unmapped_rows: other.unmapped_rows.clone(),
            unmapped_shared: other.unmapped_shared.clone(),
            ..self
        }
    }
}
