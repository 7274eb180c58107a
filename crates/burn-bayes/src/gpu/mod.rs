//! Kernels for GPUs, in CubeCL, as an extension of Burn's backends: tensors in, tensors out.
//!
//! They are for what Burn's operations do badly: normals that are a function of seed, stream and index, inner products
//! over all weights in full single precision, and passes over all factors of a Gaussian. What is a formula of each
//! weight is left to Burn, which fuses it.

mod extension;
mod gaussian;
mod inner_products;
mod mix;
mod normal;

use burn::backend::{Dispatch, DispatchDevice};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_bayes_kernels::generator::GROUP;

use self::extension::{Gradient, KernelOps};

/// A stream of normals, and whether its rows come as antithetic pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) seed: u64,
    /// The seed of the latent numbers.
    pub(crate) latent_seed: u64,
    pub(crate) stream: u64,
    pub(crate) is_negated: bool,
    pub(crate) is_paired: bool,
}

/// A Gaussian in covariance form.
#[derive(Clone, Debug)]
pub(crate) struct Gaussian {
    /// `[D]`
    pub(crate) mean: Tensor<1>,
    /// `[K, D]`; absent at rank 0.
    pub(crate) factors: Option<Tensor<2>>,
    /// `[D]`
    pub(crate) diagonal: Tensor<1>,
    /// Whether the diagonal is a log-variance.
    pub(crate) is_log: bool,
    /// Whether the factors are in units of the deviations.
    pub(crate) is_relative: bool,
}

/// The gradient of the variational objective.
#[derive(Clone, Debug)]
pub(crate) struct ObjectiveGradient {
    pub(crate) mean: Tensor<1>,
    pub(crate) factors: Tensor<2>,
    pub(crate) log_variance: Tensor<1>,
    /// The squared norms of the gradients of mean, factors and log-variances, and how many sums of data gradients
    /// are not finite.
    pub(crate) sums: [f64; 4],
}

/// The most draws of one launch: a limit of WebGPU.
const MOST_DRAWS: usize = 65_535;
/// The most latent numbers, of all draws, in the memory of a cube.
const MOST_LATENTS: usize = 2048;
/// The most factors whose numbers of one weight a unit holds.
const MOST_FACTORS: usize = 256;

/// Whether kernels, which count with 32 bits, reach all elements of a matrix.
fn is_counted(rows: usize, len: usize) -> bool {
    u32::try_from(rows.saturating_mul(len)).is_ok()
}

/// The latent numbers of draws, in whole groups.
fn latents(draws: usize, rank: usize) -> usize {
    draws * rank.div_ceil(GROUP) * GROUP
}

/// Whether these kernels run on a device.
pub(crate) fn runs_on(device: &Device) -> bool {
    matches!(device.as_dispatch(), DispatchDevice::Cube(_))
}

/// The first `len` normals of a stream; `None` if they are too many, or on another device.
pub(crate) fn normal(stream: Stream, len: usize, device: &Device) -> Option<Tensor<1>> {
    if !(runs_on(device) && is_counted(1, len)) {
        return None;
    }
    let like = Tensor::<1>::empty([1], device);
    let dtype = like.dtype();
    let normals = Dispatch::normal(like.cast(DType::F32).into_dispatch(), stream, len);
    Some(Tensor::<1>::from_dispatch(normals).cast(dtype))
}

/// Draws from the rows of a stream, `[count, D]`; `None` if they are too many.
pub(crate) fn draws(gaussian: &Gaussian, stream: Stream, count: usize) -> Option<Tensor<2>> {
    let Gaussian {
        mean,
        factors,
        diagonal,
        is_log,
        is_relative,
    } = gaussian.clone();
    let [len] = mean.dims();
    let rank = factors.as_ref().map_or(0, |factors| factors.dims()[0]);
    let is_possible =
        count <= MOST_DRAWS && latents(1, rank) <= MOST_LATENTS && is_counted(rank.max(count), len);
    if !is_possible {
        return None;
    }
    let factors = factors.unwrap_or_else(|| mean.clone().unsqueeze());
    let draws = Dispatch::draws(
        mean.into_dispatch(),
        factors.into_dispatch(),
        diagonal.into_dispatch(),
        rank,
        stream,
        count,
        [is_log, is_relative],
    );
    Some(Tensor::<1>::from_dispatch(draws).reshape([count, len]))
}

/// Left · Rightᵀ of `[A, D]` and `[B, D]`; `None` if there are too many rows.
pub(crate) fn inner_products(left: &Tensor<2>, right: &Tensor<2>) -> Option<Tensor<2>> {
    let ([rows, len], [columns, _]) = (left.dims(), right.dims());
    inner_products::Form::new(rows, columns).filter(|_| is_counted(rows.max(columns), len))?;
    let products =
        Dispatch::inner_products(left.clone().into_dispatch(), right.clone().into_dispatch());
    Some(Tensor::<1>::from_dispatch(products).reshape([rows, columns]))
}

/// W · rows, with W `[count, K]` row-major from the host; `None` if there are too many rows.
pub(crate) fn mix(rows: &Tensor<2>, weights: &[f64], count: usize) -> Option<Tensor<2>> {
    let [rank, len] = rows.dims();
    if rank > MOST_FACTORS || !is_counted(rank.max(count), len) {
        return None;
    }
    let weights = narrowed(weights, &rows.device());
    let mixed = Dispatch::mix(rows.clone().into_dispatch(), weights.into_dispatch(), count);
    Some(Tensor::<1>::from_dispatch(mixed).reshape([count, len]))
}

fn narrowed(values: &[f64], device: &Device) -> Tensor<1> {
    let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
    Tensor::from_data(TensorData::from(values.as_slice()), (device, DType::F32))
}

/// The gradient of `scale · Σ_draws NLL + temperature · KL` for a Gaussian with factors; `None` without them, or if they or
/// the draws are too many. `gradients` is `[draws, D]`, of the mean NLL at the draws from `streams`. `prior` has one
/// precision, or one for each weight.
pub(crate) fn objective_gradient(
    gaussian: &Gaussian,
    streams: &[Stream],
    gradients: Tensor<2>,
    inner_inverse: &[f64],
    prior: Tensor<1>,
    [scale, temperature]: [f64; 2],
) -> Option<ObjectiveGradient> {
    let factors = gaussian.factors.clone()?;
    let shape = factors.dims();
    let [rank, len] = shape;
    let is_possible = rank <= MOST_FACTORS
        && latents(streams.len(), rank) <= MOST_LATENTS
        && is_counted(rank.max(streams.len()), len);
    if !is_possible {
        return None;
    }
    let device = gaussian.mean.device();
    let words: Vec<i32> = streams.iter().flat_map(|stream| stream.words()).collect();
    let words = TensorData::from(words.as_slice());
    let words = Tensor::<1, Int>::from_data(words, (&device, DType::I32));
    let inverse = narrowed(inner_inverse, &device);
    let Gradient {
        mean,
        factors,
        log_variance,
        sums,
    } = Dispatch::objective_gradient(
        gaussian.mean.clone().into_dispatch(),
        factors.into_dispatch(),
        gaussian.diagonal.clone().into_dispatch(),
        gradients.cast(DType::F32).into_dispatch(),
        inverse.into_dispatch(),
        prior.cast(DType::F32).into_dispatch(),
        words.into_dispatch(),
        [scale as f32, temperature as f32],
        gaussian.is_relative,
    );
    let mut totals = [0.0; gaussian::SUMS];
    let sums = Tensor::<1>::from_dispatch(sums).into_data();
    for (number, value) in sums.iter::<f64>().enumerate() {
        totals[number % gaussian::SUMS] += value;
    }
    Some(ObjectiveGradient {
        mean: Tensor::from_dispatch(mean),
        factors: Tensor::<1>::from_dispatch(factors).reshape(shape),
        log_variance: Tensor::from_dispatch(log_variance),
        sums: totals,
    })
}
