//! The fused kernels for Burn's CPU backend: conversions between tensors and slices.
//!
//! Each function returns `None`, or its arguments, if it does not apply: for another backend,
//! another element type, or memory that is not contiguous.

use burn::backend::Flex;
use burn::tensor::Tensor;
use burn_bayes_graph::cpu::{Contiguous, is_whole, lent, primitive, tensor};
use burn_bayes_kernels as host;

use super::{
    AdamStep, AdamValues, CovarianceGradient, CovarianceParts, Diagonal, DrawGradient, FactorUnits,
    Moments, Objective, Scratch,
};
use crate::noise::Noise;

/// The parts of a Gaussian as slices.
struct Gaussian {
    mean: Contiguous,
    factors: Option<Contiguous>,
    diagonal: Contiguous,
    is_log: bool,
    units: host::FactorUnits,
    rank: usize,
}

impl Gaussian {
    fn new(parts: &CovarianceParts) -> Option<Self> {
        let (diagonal, is_log) = match &parts.diagonal {
            Diagonal::Variance(variance) => (variance, false),
            Diagonal::LogVariance(log_variance) => (log_variance, true),
        };
        let factors = match &parts.factors {
            Some(factors) => Some(Contiguous::new(factors)?),
            None => None,
        };
        Some(Self {
            mean: Contiguous::new(&parts.mean)?,
            factors,
            diagonal: Contiguous::new(diagonal)?,
            is_log,
            units: match parts.units {
                FactorUnits::Weights => host::FactorUnits::Weights,
                FactorUnits::Deviations => host::FactorUnits::Deviations,
            },
            rank: parts.rank(),
        })
    }

    fn len(&self) -> usize {
        self.mean.values().len()
    }

    fn factors(&self) -> &[f32] {
        self.factors.as_ref().map_or(&[], Contiguous::values)
    }

    fn diagonal(&self) -> host::Diagonal<'_> {
        match self.is_log {
            true => host::Diagonal::LogVariance(self.diagonal.values()),
            false => host::Diagonal::Variance(self.diagonal.values()),
        }
    }

    fn view(&self) -> host::LowRankGaussian<'_> {
        host::LowRankGaussian {
            mean: self.mean.values(),
            factors: self.factors(),
            units: self.units,
            diagonal: self.diagonal(),
        }
    }
}

/// The random numbers of a draw.
struct HostNoise {
    latent: Vec<f32>,
    stream: host::NormalStream,
    sign: f32,
}

impl HostNoise {
    fn new(noise: Noise, rank: usize) -> Self {
        Self {
            latent: noise.latent(rank),
            stream: noise.stream(),
            sign: noise.sign(),
        }
    }

    fn view(&self) -> host::Draw<'_> {
        host::Draw {
            latent: &self.latent,
            noise: self.stream,
            sign: self.sign,
        }
    }
}

pub(super) fn draw(parts: &CovarianceParts, noise: Noise) -> Option<Tensor<1>> {
    let gaussian = Gaussian::new(parts)?;
    let noise = HostNoise::new(noise, parts.rank());
    let mut theta = vec![0.0; gaussian.len()];
    host::draw(&gaussian.view(), &noise.view(), &mut theta);
    let len = theta.len();
    Some(tensor(theta, [len]))
}

pub(super) fn draws(parts: &CovarianceParts, noise: Noise, count: usize) -> Option<Tensor<2>> {
    let gaussian = Gaussian::new(parts)?;
    let rows = (0..count as u64).map(|row| HostNoise::new(noise.row(row), parts.rank()));
    let rows: Vec<_> = rows.collect();
    let mut thetas = vec![0.0; count * gaussian.len()];
    let views: Vec<_> = rows.iter().map(HostNoise::view).collect();
    host::draws(&gaussian.view(), &views, &mut thetas);
    Some(tensor(thetas, [count, gaussian.len()]))
}

pub(super) fn gram(parts: &CovarianceParts) -> Option<Vec<f64>> {
    let gaussian = Gaussian::new(parts)?;
    let mut gram = vec![0.0; gaussian.rank * gaussian.rank];
    host::gram(&gaussian.view(), gaussian.rank, &mut gram);
    Some(gram)
}

pub(super) fn draw_and_gram(
    parts: &CovarianceParts,
    noise: Noise,
    scratch: &Scratch,
) -> Option<(Tensor<1>, Vec<f64>)> {
    let gaussian = Gaussian::new(parts)?;
    let noise = HostNoise::new(noise, parts.rank());
    let (len, rank) = (gaussian.len(), gaussian.rank);
    let (mut theta, mut gram) = (scratch.take(len), vec![0.0; rank * rank]);
    host::draw_and_gram(&gaussian.view(), &noise.view(), &mut theta, &mut gram);
    Some((lent(theta, [len], scratch), gram))
}

pub(super) fn covariance_gradient(
    parts: &CovarianceParts,
    draws: &[DrawGradient],
    objective: Objective<'_>,
) -> Option<CovarianceGradient> {
    let gaussian = Gaussian::new(parts)?;
    let (len, rank) = (gaussian.len(), gaussian.rank);
    let host::Diagonal::LogVariance(log_variance) = gaussian.diagonal() else {
        return None;
    };
    let noises = draws.iter().map(|draw| HostNoise::new(draw.noise, rank));
    let noises: Vec<_> = noises.collect();
    let tensors = draws
        .iter()
        .map(|draw| {
            draw.parts
                .iter()
                .map(Contiguous::new)
                .collect::<Option<Vec<_>>>()
        })
        .collect::<Option<Vec<_>>>()?;
    let pieces: Vec<Vec<&[f32]>> = tensors
        .iter()
        .map(|tensors| tensors.iter().map(Contiguous::values).collect())
        .collect();
    let host_draws: Vec<_> = noises
        .iter()
        .zip(&pieces)
        .map(|(noise, pieces)| host::DrawGradient {
            draw: noise.view(),
            gradient: pieces,
        })
        .collect();
    let inner_inverse: Vec<f32> = objective.inner_inverse.iter().map(|&w| w as f32).collect();
    let prior_precision: Vec<(usize, f32)> = objective
        .prior
        .segments()
        .iter()
        .map(|&(len, alpha)| (len, alpha as f32))
        .collect();
    let state = host::VifaState {
        mean: gaussian.mean.values(),
        log_variance,
        factors: gaussian.factors(),
        units: gaussian.units,
        inner_inverse: &inner_inverse,
        prior_precision: &prior_precision,
        // The kernel averages over the draws; the objective's scale is for their sum.
        data_scale: (objective.scale * draws.len() as f64) as f32,
        temperature: objective.temperature as f32,
    };
    let scratch = objective.scratch;
    let (mut mean, mut log_variance) = (scratch.take(len), scratch.take(len));
    let mut factors = scratch.take(rank * len);
    let out = host::VifaGradient {
        mean: &mut mean,
        log_variance: &mut log_variance,
        factors: &mut factors,
    };
    let summary = host::vifa_gradient(&state, &host_draws, out);
    let vector = |values| lent(values, [len], scratch);
    Some(CovarianceGradient {
        mean: vector(mean),
        factors: parts
            .factors
            .as_ref()
            .map(|_| lent(factors, [rank, len], scratch)),
        log_variance: vector(log_variance),
        squared_norms: [
            summary.mean_squared_norm,
            summary.factors_squared_norm,
            summary.log_variance_squared_norm,
        ],
        first_non_finite: summary.first_non_finite,
    })
}

/// The arguments, if the fused kernel does not apply.
type Refused<V, const R: usize> = Box<(V, Tensor<R>)>;

pub(super) fn adam<const R: usize>(
    values: AdamValues<R>,
    gradient: Tensor<R>,
    step: AdamStep,
) -> Result<AdamValues<R>, Refused<AdamValues<R>, R>> {
    let parameter = Contiguous::new(&values.parameter).filter(|_| {
        let written = [&values.moment_1, &values.moment_2];
        written
            .into_iter()
            .chain(&values.max_moment_2)
            .all(is_whole)
    });
    let (Some(parameter), Some(read)) = (parameter, Contiguous::new(&gradient)) else {
        return Err(Box::new((values, gradient)));
    };
    let mut out = primitive(match is_whole(&gradient) {
        true => gradient,
        // It is a view of other gradients, over which nothing may be written.
        false => tensor(read.values().to_vec(), gradient.dims()),
    });
    drop(read);
    let (mut first, mut second) = (primitive(values.moment_1), primitive(values.moment_2));
    let mut largest = values.max_moment_2.map(primitive);
    let host_step = host::AdamStep::new(
        step.learning_rate,
        step.beta_1,
        step.beta_2,
        step.epsilon,
        (step.weight_decay != 0.0).then_some(step.weight_decay),
        step.time,
    );
    let moments = host::AdamMoments {
        first: first.storage_mut(),
        second: second.storage_mut(),
        largest_second: largest.as_mut().map(|largest| largest.storage_mut()),
    };
    host::adam_step(&host_step, parameter.values(), out.storage_mut(), moments);
    Ok(AdamValues {
        parameter: Tensor::from_primitive::<Flex>(out),
        moment_1: Tensor::from_primitive::<Flex>(first),
        moment_2: Tensor::from_primitive::<Flex>(second),
        max_moment_2: largest.map(Tensor::from_primitive::<Flex>),
    })
}

pub(super) fn running_moments(
    moments: Moments,
    iterate: &Tensor<1>,
    count: usize,
) -> Result<(Moments, Tensor<1>), Box<Moments>> {
    let Some(iterate) =
        Contiguous::new(iterate).filter(|_| is_whole(&moments.mean) && is_whole(&moments.variance))
    else {
        return Err(Box::new(moments));
    };
    let (mut mean, mut variance) = (primitive(moments.mean), primitive(moments.variance));
    let mut deviation = vec![0.0; iterate.values().len()];
    host::update_moments(
        &[iterate.values()],
        count,
        mean.storage_mut(),
        variance.storage_mut(),
        Some(&mut deviation),
    );
    let len = deviation.len();
    let moments = Moments {
        mean: Tensor::from_primitive::<Flex>(mean),
        variance: Tensor::from_primitive::<Flex>(variance),
    };
    Ok((moments, tensor(deviation, [len])))
}

/// One product, in which a CPU sums fast.
pub(super) fn inner_products(left: &Tensor<2>, right: &Tensor<2>) -> Option<Tensor<2>> {
    left.clone().try_into_primitive::<Flex>().ok()?;
    Some(left.clone().matmul(right.clone().transpose()))
}

pub(super) fn scale<const R: usize>(
    values: Tensor<R>,
    factor: f64,
) -> Result<Tensor<R>, Box<Tensor<R>>> {
    if !is_whole(&values) {
        return Err(Box::new(values));
    }
    let mut values = primitive(values);
    host::scale(values.storage_mut(), factor as f32);
    Ok(Tensor::from_primitive::<Flex>(values))
}

pub(super) fn scalar(tensor: &Tensor<1>) -> Option<f32> {
    Contiguous::new(tensor)?.values().first().copied()
}

pub(super) fn approach<const R: usize>(
    values: Tensor<R>,
    current: &Tensor<R>,
    weight: f64,
) -> Result<Tensor<R>, Box<Tensor<R>>> {
    let Some(current) = Contiguous::new(current).filter(|_| is_whole(&values)) else {
        return Err(Box::new(values));
    };
    let mut values = primitive(values);
    host::approach(values.storage_mut(), current.values(), weight as f32);
    Ok(Tensor::from_primitive::<Flex>(values))
}
