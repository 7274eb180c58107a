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
use burn::tensor::{Device, Int, Tensor, TensorData};

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

/// Whether these kernels run on a device.
pub(crate) fn runs_on(device: &Device) -> bool {
    matches!(device.as_dispatch(), DispatchDevice::Cube(_))
}

/// The first `len` normals of a stream.
pub(crate) fn normal(stream: Stream, len: usize, device: &Device) -> Tensor<1> {
    let like = Tensor::<1>::empty([1], device).into_dispatch();
    Tensor::from_dispatch(Dispatch::normal(like, stream, len))
}

/// Draws from the rows of a stream, `[count, D]`.
pub(crate) fn draws(gaussian: &Gaussian, stream: Stream, count: usize) -> Tensor<2> {
    let Gaussian {
        mean,
        factors,
        diagonal,
        is_log,
        is_relative,
    } = gaussian.clone();
    let [len] = mean.dims();
    let rank = factors.as_ref().map_or(0, |factors| factors.dims()[0]);
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
    Tensor::<1>::from_dispatch(draws).reshape([count, len])
}

/// Left · Rightᵀ of `[A, D]` and `[B, D]`; `None` if there are too many rows.
pub(crate) fn inner_products(left: &Tensor<2>, right: &Tensor<2>) -> Option<Tensor<2>> {
    let ([rows, _], [columns, _]) = (left.dims(), right.dims());
    inner_products::Form::new(rows, columns)?;
    let products =
        Dispatch::inner_products(left.clone().into_dispatch(), right.clone().into_dispatch());
    Some(Tensor::<1>::from_dispatch(products).reshape([rows, columns]))
}

/// W · rows, with W `[count, K]` row-major from the host.
pub(crate) fn mix(rows: &Tensor<2>, weights: &[f64], count: usize) -> Tensor<2> {
    let [_, len] = rows.dims();
    let weights = narrowed(weights, &rows.device());
    let mixed = Dispatch::mix(rows.clone().into_dispatch(), weights.into_dispatch(), count);
    Tensor::<1>::from_dispatch(mixed).reshape([count, len])
}

fn narrowed(values: &[f64], device: &Device) -> Tensor<1> {
    let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
    Tensor::from_data(TensorData::from(values.as_slice()), device)
}

/// The gradient of `scale · Σ_draws NLL + temperature · KL` for a Gaussian with factors; `None` without. `gradients` is `[draws, D]`, of the mean NLL at the draws
/// from `streams`. `prior` has one precision, or one for each weight.
pub(crate) fn objective_gradient(
    gaussian: &Gaussian,
    streams: &[Stream],
    gradients: Tensor<2>,
    inner_inverse: &[f64],
    prior: Tensor<1>,
    [scale, temperature]: [f64; 2],
) -> Option<ObjectiveGradient> {
    let at = gaussian.factors.clone()?;
    let shape = at.dims();
    let device = gaussian.mean.device();
    let words: Vec<i32> = streams.iter().flat_map(|stream| stream.words()).collect();
    let words = Tensor::<1, Int>::from_data(TensorData::from(words.as_slice()), &device);
    let inverse = narrowed(inner_inverse, &device);
    let Gradient {
        mean,
        factors,
        log_variance,
        sums,
    } = Dispatch::objective_gradient(
        gaussian.mean.clone().into_dispatch(),
        at.into_dispatch(),
        gaussian.diagonal.clone().into_dispatch(),
        gradients.into_dispatch(),
        inverse.into_dispatch(),
        prior.into_dispatch(),
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
