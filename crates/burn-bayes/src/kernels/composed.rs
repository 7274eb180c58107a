//! The kernels as Burn tensor operations, for every backend; the reference for the fused kernels.

use std::borrow::Borrow;

use burn::tensor::{Device, Tensor, TensorData, s};

use super::{
    AdamStep, AdamValues, CovarianceGradient, CovarianceParts, Diagonal, DrawGradient, FactorUnits,
    Moments, Objective, Scratch,
};
use crate::noise::Noise;

impl Diagonal {
    /// ψ.
    pub fn variance(&self) -> Tensor<1> {
        match self {
            Self::Variance(variance) => variance.clone(),
            Self::LogVariance(log_variance) => log_variance.clone().exp(),
        }
    }

    /// ψ^½.
    pub fn deviation(&self) -> Tensor<1> {
        match self {
            Self::Variance(variance) => variance.clone().sqrt(),
            Self::LogVariance(log_variance) => log_variance.clone().mul_scalar(0.5).exp(),
        }
    }
}

/// A row of latent normals, `[1, K]`.
fn latent(gaussian: &CovarianceParts, noise: Noise) -> Tensor<2> {
    let rank = gaussian.rank();
    let data = TensorData::new(noise.latent(rank), [1, rank]);
    Tensor::from_data(data, &gaussian.mean.device())
}

pub(crate) fn draw(gaussian: &CovarianceParts, noise: Noise) -> Tensor<1> {
    let [len] = gaussian.mean.dims();
    let normal = noise.normal(len, &gaussian.mean.device());
    let deviation = gaussian.diagonal.deviation();
    let mean = gaussian.mean.clone();
    let combined = gaussian.factors.as_ref().map(|factors| {
        let combined = latent(gaussian, noise).matmul(factors.clone());
        combined.reshape([len])
    });
    match (combined, gaussian.units) {
        (None, _) => mean + deviation * normal,
        (Some(combined), FactorUnits::Weights) => mean + deviation * normal + combined,
        (Some(combined), FactorUnits::Deviations) => mean + deviation * (normal + combined),
    }
}

pub(crate) fn draws(gaussian: &CovarianceParts, noise: Noise, count: usize) -> Tensor<2> {
    let rows = (0..count as u64).map(|row| draw(gaussian, noise.row(row)).unsqueeze::<2>());
    match count {
        0 => Tensor::zeros([0, gaussian.mean.dims()[0]], &gaussian.mean.device()),
        _ => Tensor::cat(rows.collect(), 0),
    }
}

pub(crate) fn gram(gaussian: &CovarianceParts) -> Vec<f64> {
    let Some(factors) = &gaussian.factors else {
        return Vec::new();
    };
    let scaled = match gaussian.units {
        FactorUnits::Weights => factors.clone() / gaussian.diagonal.variance().unsqueeze::<2>(),
        FactorUnits::Deviations => factors.clone(),
    };
    to_host(super::inner_products(factors, &scaled))
}

pub(crate) fn draw_and_gram(
    gaussian: &CovarianceParts,
    noise: Noise,
    _scratch: &Scratch,
) -> (Tensor<1>, Vec<f64>) {
    (super::draw(gaussian, noise), gram(gaussian))
}

pub(crate) fn covariance_gradient(
    gaussian: &CovarianceParts,
    draws: &[DrawGradient],
    objective: Objective<'_>,
) -> CovarianceGradient {
    if gaussian.units == FactorUnits::Deviations {
        return relative_gradient(gaussian, draws, objective);
    }
    let device = gaussian.mean.device();
    let [len] = gaussian.mean.dims();
    let rank = gaussian.rank();
    let deviation = gaussian.diagonal.deviation();
    let variance = gaussian.diagonal.variance();
    let alpha = objective.prior.tensor(&device);

    // Sums over draws of g, h gᵀ and g ⊙ ψ^½ z.
    let mut mean_sum = Tensor::<1>::zeros([len], &device);
    let mut factor_sum = gaussian
        .factors
        .as_ref()
        .map(|_| Tensor::<2>::zeros([rank, len], &device));
    let mut scale_sum = Tensor::<1>::zeros([len], &device);
    for draw in draws {
        let gradient = Tensor::cat(draw.parts.clone(), 0);
        let normal = draw.noise.normal(len, &device);
        scale_sum = scale_sum + gradient.clone() * deviation.clone() * normal;
        factor_sum = factor_sum.map(|sum| {
            sum + latent(gaussian, draw.noise)
                .transpose()
                .matmul(gradient.clone().unsqueeze::<2>())
        });
        mean_sum = mean_sum + gradient;
    }

    // C = (I+B)⁻¹ F/ψ, and Σ_k C_k ⊙ F_k.
    let coefficients = gaussian.factors.clone().map(|factors| {
        let inverse = from_host(objective.inner_inverse, [rank, rank], &device);
        let coefficients = inverse.matmul(factors.clone() / variance.clone().unsqueeze::<2>());
        (factors, coefficients)
    });
    let explained = coefficients.as_ref().map(|(factors, coefficients)| {
        (factors.clone() * coefficients.clone())
            .sum_dim(0)
            .reshape([len])
    });

    let temperature = objective.temperature;
    let mean = mean_sum.clone().mul_scalar(objective.scale)
        + (gaussian.mean.clone() * alpha.clone()).mul_scalar(temperature);
    let factors = factor_sum
        .zip(coefficients)
        .map(|(sum, (factors, coefficients))| {
            sum.mul_scalar(objective.scale)
                + (factors * alpha.clone().unsqueeze::<2>() - coefficients).mul_scalar(temperature)
        });
    let mut divergence = (variance * alpha).sub_scalar(1.0);
    if let Some(explained) = explained {
        divergence = divergence + explained;
    }
    let log_variance = (scale_sum.mul_scalar(objective.scale) + divergence.mul_scalar(temperature))
        .mul_scalar(0.5);

    // All numbers for the host are read together, so that the device is synchronised once.
    let mut sums = vec![
        mean_sum.clone().mul_scalar(0.0).sum(),
        square_sum(&mean),
        square_sum(&log_variance),
    ];
    sums.extend(factors.as_ref().map(square_sum));
    let sums = to_host(Tensor::cat(sums, 0));
    let first_non_finite = match sums[0] == 0.0 {
        true => None,
        false => first_non_finite(mean_sum),
    };
    let squared_norms = [sums[1], sums.get(3).copied().unwrap_or(0.0), sums[2]];
    CovarianceGradient {
        mean,
        factors,
        log_variance,
        squared_norms,
        first_non_finite,
    }
}

/// The first number that is not finite.
pub(super) fn first_non_finite(values: Tensor<1>) -> Option<usize> {
    let values = to_host(values);
    values.iter().position(|value| !value.is_finite())
}

/// The gradient for factors in units of the deviations, by the chain rule: ∇V = ∇F⊙ψ^½, and ∇γ gains
/// ½ Σ_k F_k⊙∇F_k.
fn relative_gradient(
    gaussian: &CovarianceParts,
    draws: &[DrawGradient],
    objective: Objective<'_>,
) -> CovarianceGradient {
    let plain = gaussian.clone().in_units_of_weights();
    let mut gradient = covariance_gradient(&plain, draws, objective);
    let (Some(values), Some(factors)) = (&gradient.factors, plain.factors) else {
        return gradient;
    };
    let [_, len] = factors.dims();
    let shared = (factors * values.clone()).sum_dim(0).reshape([len]);
    let deviation = gaussian.diagonal.deviation().unsqueeze::<2>();
    let values = values.clone() * deviation;
    gradient.log_variance = gradient.log_variance + shared.mul_scalar(0.5);
    let squares = Tensor::cat(
        vec![square_sum(&values), square_sum(&gradient.log_variance)],
        0,
    );
    let squares = to_host(squares);
    gradient.squared_norms[1] = squares[0];
    gradient.squared_norms[2] = squares[1];
    gradient.factors = Some(values);
    gradient
}

/// The sum of the products of pieces. In one product with a small result, a GPU would sum over all weights in few
/// threads.
pub(super) fn inner_products(left: &Tensor<2>, right: &Tensor<2>) -> Tensor<2> {
    const PIECE: usize = 4096;
    let [_, len] = left.dims();
    let pieces = len / PIECE;
    if pieces < 2 {
        return left.clone().matmul(right.clone().transpose());
    }
    let whole = pieces * PIECE;
    let in_pieces = |rows: &Tensor<2>| {
        let [count, _] = rows.dims();
        let rows = rows.clone().slice(s![.., ..whole]);
        rows.reshape([count, pieces, PIECE]).swap_dims(0, 1)
    };
    let products = in_pieces(left).matmul(in_pieces(right).swap_dims(1, 2));
    let products = products.sum_dim(0).squeeze_dim(0);
    if whole == len {
        return products;
    }
    let rest = |rows: &Tensor<2>| rows.clone().slice(s![.., whole..]);
    products + rest(left).matmul(rest(right).transpose())
}

pub(super) fn mix(rows: &Tensor<2>, weights: &[f64], count: usize) -> Tensor<2> {
    let [rank, _] = rows.dims();
    from_host(weights, [count, rank], &rows.device()).matmul(rows.clone())
}

fn square_sum<const R: usize>(tensor: &Tensor<R>) -> Tensor<1> {
    sum(tensor.clone().square())
}

/// A tensor whose elements below `least` are replaced by it. Not `clamp_min`, which may drop NaN, depending on the
/// backend.
pub fn at_least<const R: usize>(tensor: Tensor<R>, least: f32) -> Tensor<R> {
    let is_below = tensor.clone().lower_elem(least);
    tensor.mask_fill(is_below, least)
}

/// The largest piece that is summed at once: Burn's CPU backend sums more numbers by threads, in an order of their own.
const LARGEST_SUM: usize = 1 << 20;

/// The sum of all elements, `[1]`, in an order that depends on their number only.
pub fn sum<const R: usize>(values: Tensor<R>) -> Tensor<1> {
    let len = values.shape().num_elements();
    if len <= LARGEST_SUM {
        return values.sum();
    }
    let values = values.reshape([len]);
    let firsts = (0..len).step_by(LARGEST_SUM);
    let pieces = firsts.map(|first| {
        let piece = LARGEST_SUM.min(len - first);
        values.clone().narrow(0, first, piece).sum()
    });
    Tensor::cat(pieces.collect(), 0).sum()
}

/// The values of a tensor, as `f64` on the host.
pub fn to_host<const R: usize>(tensor: Tensor<R>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// Values of the host as a tensor.
pub fn from_host<const R: usize>(
    values: impl IntoIterator<Item = impl Borrow<f64>>,
    shape: [usize; R],
    device: &Device,
) -> Tensor<R> {
    let values = values.into_iter().map(|value| *value.borrow() as f32);
    Tensor::from_data(TensorData::new(values.collect::<Vec<_>>(), shape), device)
}

pub(crate) fn adam<const R: usize>(
    values: AdamValues<R>,
    gradient: Tensor<R>,
    step: AdamStep,
) -> AdamValues<R> {
    let gradient = decayed(gradient, &values.parameter, step.weight_decay);
    let moment_1 =
        values.moment_1.mul_scalar(step.beta_1) + gradient.clone().mul_scalar(1.0 - step.beta_1);
    let moment_2 =
        values.moment_2.mul_scalar(step.beta_2) + gradient.square().mul_scalar(1.0 - step.beta_2);
    let max_moment_2 = values
        .max_moment_2
        // `max_pair` keeps a first tensor that is not a number.
        .map(|largest| moment_2.clone().max_pair(largest));
    let second = max_moment_2.as_ref().unwrap_or(&moment_2).clone();
    let AdamFactors { gain, epsilon } = step.factors();
    let update = moment_1.clone().mul_scalar(gain) / second.sqrt().add_scalar(epsilon);
    let parameter = values.parameter - update.mul_scalar(step.learning_rate);
    AdamValues {
        parameter,
        moment_1,
        moment_2,
        max_moment_2,
    }
}

/// Adam's bias corrections at one step.
pub(crate) struct AdamFactors {
    /// √(1−β₂ᵗ) / (1−β₁ᵗ).
    pub(crate) gain: f32,
    /// ε √(1−β₂ᵗ).
    pub(crate) epsilon: f32,
}

impl AdamStep {
    pub(crate) fn factors(&self) -> AdamFactors {
        let time = i32::try_from(self.time).unwrap_or(i32::MAX);
        let correction_2 = (1.0 - self.beta_2.powi(time)).sqrt();
        AdamFactors {
            gain: correction_2 / (1.0 - self.beta_1.powi(time)),
            epsilon: self.epsilon * correction_2,
        }
    }
}

fn decayed<const R: usize>(gradient: Tensor<R>, parameter: &Tensor<R>, decay: f32) -> Tensor<R> {
    if decay == 0.0 {
        gradient
    } else {
        gradient + parameter.clone().mul_scalar(decay)
    }
}

pub(crate) fn running_moments(
    moments: Moments,
    iterate: &Tensor<1>,
    count: usize,
) -> (Moments, Tensor<1>) {
    let share = 1.0 / count.max(1) as f64;
    // The first iterate is the mean, without rounding errors from the initial value.
    let before = if count > 1 {
        moments.mean
    } else {
        iterate.clone()
    };
    let gap = iterate.clone() - before.clone();
    let variance = moments.variance + gap.clone().square().mul_scalar(share);
    let variance = variance.mul_scalar(1.0 - share);
    let mean = before + gap.mul_scalar(share);
    let deviation = iterate.clone() - mean.clone();
    (Moments { mean, variance }, deviation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_products_in_pieces_are_those_of_the_whole() {
        let device = Device::default();
        for len in [5, 8192, 10_001] {
            let rows = |count: usize, key: u64| {
                let normals = Noise::new(1).fold(key).normal(count * len, &device);
                normals.reshape([count, len])
            };
            let (left, right) = (rows(2, 1), rows(3, 2));
            let whole = to_host(left.clone().matmul(right.clone().transpose()));
            let sum = inner_products(&left, &right);
            assert_eq!(sum.dims(), [2, 3]);
            for (sum, whole) in to_host(sum).into_iter().zip(whole) {
                assert!((sum - whole).abs() < 1e-6 * len as f64, "{sum} for {whole}");
            }
        }
    }

    #[test]
    fn long_sums_are_those_of_fixed_pieces() {
        let device = Device::default();
        let len = 5 * LARGEST_SUM + 7;
        let values = Noise::new(1).normal(len, &device);
        let total: f64 = to_host(values.clone()).iter().sum();
        let found = to_host(sum(values.clone()))[0];
        assert!((found - total).abs() < 0.1, "{found}, {total}");
        let pieces = (0..6).map(|piece| {
            let first = piece * LARGEST_SUM;
            let piece = values
                .clone()
                .narrow(0, first, LARGEST_SUM.min(len - first));
            piece.sum()
        });
        let pieces = Tensor::cat(pieces.collect(), 0).sum();
        assert_eq!(found, to_host(pieces)[0]);
        let square = values.narrow(0, 0, 4000).reshape([40, 100]);
        assert_eq!(to_host(sum(square.clone())), to_host(square.sum()));
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        let device = Device::default();
        let vector = |values: [f32; 3]| Tensor::<1>::from_floats(values, &device);
        let bounded = to_host(at_least(vector([f32::NAN, -1.0, 2.0]), 0.5));
        assert!(bounded[0].is_nan());
        assert_eq!(bounded[1..], [0.5, 2.0]);
        let step = AdamStep {
            learning_rate: 0.1,
            beta_1: 0.9,
            beta_2: 0.99,
            epsilon: 1e-8,
            weight_decay: 0.0,
            time: 1,
        };
        let values = AdamValues {
            parameter: vector([1.0; 3]),
            moment_1: vector([0.0; 3]),
            moment_2: vector([0.0; 3]),
            max_moment_2: Some(vector([0.5; 3])),
        };
        let moved = adam(values, vector([f32::NAN, 0.1, 100.0]), step);
        let largest = to_host(moved.max_moment_2.unwrap());
        assert!(largest[0].is_nan(), "{largest:?}");
        assert!((largest[1] - 0.5).abs() < 1e-6 && (largest[2] - 100.0).abs() < 1e-3);
        assert!(to_host(moved.parameter)[0].is_nan());
    }
}
