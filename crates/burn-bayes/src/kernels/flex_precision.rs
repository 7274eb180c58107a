//! The fused kernels of the precision form for tensors of Burn's CPU backend.

use burn::backend::Flex;
use burn::tensor::Tensor;
use burn_bayes_graph::cpu::{Contiguous, is_whole, primitive, tensor};
use burn_bayes_kernels as host;

use super::precision_values::{
    MeanStep, MeanValues, PrecisionEvidence, PrecisionStep, PrecisionUpdate, Projections,
};
use super::statistics::PrecisionParts;
use crate::noise::Noise;

/// The parts of a Gaussian as slices.
struct Gaussian {
    mean: Contiguous,
    factors: Option<Contiguous>,
    precision: Contiguous,
}

impl Gaussian {
    fn new(parts: &PrecisionParts) -> Option<Self> {
        Some(Self {
            mean: Contiguous::new(&parts.mean)?,
            factors: match &parts.factors {
                Some(factors) => Some(Contiguous::new(factors)?),
                None => None,
            },
            precision: Contiguous::new(&parts.precision)?,
        })
    }

    fn view(&self) -> host::PrecisionGaussian<'_> {
        host::PrecisionGaussian {
            mean: self.mean.values(),
            factors: self.factors.as_ref().map_or(&[], Contiguous::values),
            precision: self.precision.values(),
        }
    }
}

fn signed(noise: Noise) -> host::SignedNoise {
    host::SignedNoise {
        stream: noise.stream(),
        sign: noise.sign(),
    }
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

pub(super) fn projections(parts: &PrecisionParts, noises: &[Noise]) -> Option<Projections> {
    let signed: Vec<_> = noises.iter().map(|&noise| signed(noise)).collect();
    let rank = parts.rank();
    let gaussian = Gaussian::new(parts)?;
    let mut sums = match rank {
        // Without factors there is no projection, so the noise is not needed.
        0 => Vec::new(),
        _ => host::projections(&gaussian.view(), &signed),
    };
    let products = sums.split_off(2 * rank * rank);
    let scaled_gram = sums.split_off(rank * rank);
    let products = (0..noises.len()).map(|draw| products[draw * rank..(draw + 1) * rank].to_vec());
    Some(Projections {
        scaled_gram,
        gram: sums,
        products: products.collect(),
    })
}

pub(super) fn noise_products(parts: &PrecisionParts, noises: &[Noise]) -> Option<Vec<Vec<f64>>> {
    let signed: Vec<_> = noises.iter().map(|&noise| signed(noise)).collect();
    let gaussian = Gaussian::new(parts)?;
    let rank = parts.rank();
    if rank == 0 {
        return Some(vec![Vec::new(); noises.len()]);
    }
    let products = host::noise_products(&gaussian.view(), &signed);
    Some(products.chunks_exact(rank).map(<[f64]>::to_vec).collect())
}

pub(super) fn precision_draw(
    parts: &PrecisionParts,
    noise: Noise,
    weights: &[f64],
) -> Option<Tensor<1>> {
    let noise = signed(noise);
    let gaussian = Gaussian::new(parts)?;
    let mut theta = vec![0.0; gaussian.mean.values().len()];
    host::precision_draw(&gaussian.view(), noise, &narrow(weights), &mut theta);
    let len = theta.len();
    Some(tensor(theta, [len]))
}

pub(super) fn precision_step(
    parts: &PrecisionParts,
    evidence: PrecisionEvidence,
    step: PrecisionStep<'_>,
) -> Result<PrecisionUpdate, Box<PrecisionEvidence>> {
    let rows_are_whole = evidence.rows.as_ref().is_none_or(is_whole);
    let inputs = Gaussian::new(parts)
        .zip(Contiguous::new(&evidence.squares))
        .zip(Contiguous::new(&evidence.gradient))
        .filter(|_| rows_are_whole && evidence.rows.is_some() == parts.factors.is_some());
    let Some(((gaussian, squares), gradient)) = inputs else {
        return Err(Box::new(evidence));
    };
    let (len, rank) = (squares.values().len(), parts.rank());
    let prior: Vec<_> = step
        .prior
        .segments()
        .iter()
        .map(|&(len, alpha)| (len, alpha as f32))
        .collect();
    let mixing = narrow(step.mixing);
    let host_step = host::PrecisionStep {
        squares: squares.values(),
        gradient: gradient.values(),
        mixing: &mixing,
        rate: step.rate as f32,
        square_scale: step.square_scale as f32,
        gradient_scale: step.gradient_scale as f32,
        prior_precision: &prior,
    };
    let mut rows = evidence.rows.map(primitive);
    let (mut precision, mut gradient_out) = (vec![0.0; len], vec![0.0; len]);
    let out = host::PrecisionOut {
        factors: rows.as_mut().map_or(&mut [], |rows| rows.storage_mut()),
        precision: &mut precision,
        gradient: &mut gradient_out,
    };
    let mut sums = host::precision_step(&gaussian.view(), &host_step, out);
    let totals = sums.split_off(rank * (rank + 1));
    let projection = sums.split_off(rank * rank);
    Ok(PrecisionUpdate {
        factors: rows.map(Tensor::from_primitive::<Flex>),
        precision: tensor(precision, [len]),
        gradient: tensor(gradient_out, [len]),
        scaled_gram: sums,
        projection,
        squared_norm: totals[0],
        precision_sum: totals[1],
    })
}

pub(super) fn mean_step(
    parts: &PrecisionParts,
    velocity: Option<&Tensor<1>>,
    gradient: Tensor<1>,
    step: MeanStep<'_>,
) -> Result<MeanValues, Box<Tensor<1>>> {
    let old_velocity = match velocity {
        Some(velocity) => Contiguous::new(velocity).map(Some),
        None => Some(None),
    };
    let inputs = Gaussian::new(parts)
        .zip(old_velocity)
        .filter(|_| is_whole(&gradient));
    let Some((gaussian, velocity)) = inputs else {
        return Err(gradient.into());
    };
    let mut mean = primitive(gradient);
    let mut velocity = velocity.map(|velocity| velocity.values().to_vec());
    let weights = narrow(step.weights);
    let host_step = host::MeanStep {
        weights: &weights,
        scale: step.scale as f32,
        momentum: step.momentum as f32,
        learning_rate: step.learning_rate as f32,
    };
    host::mean_step(
        &gaussian.view(),
        host_step,
        mean.storage_mut(),
        velocity.as_deref_mut(),
    );
    Ok(MeanValues {
        mean: Tensor::from_primitive::<Flex>(mean),
        velocity: velocity.map(|velocity| {
            let len = velocity.len();
            tensor(velocity, [len])
        }),
    })
}
