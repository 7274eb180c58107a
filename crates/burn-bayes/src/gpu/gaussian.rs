//! Draws from a Gaussian in covariance form with factors, and the gradient of the variational objective.
//!
//! Formulas are those of the kernels on slices, `burn_bayes_kernels::{draws, vifa_gradient}`. A unit computes the
//! normals of a counter, which belong to four weights.

use burn::cubecl;
use burn_bayes_kernels::generator::{COUNTERS, GROUP};
use cubecl::prelude::*;

use super::normal::{Stream, counters_of, normals, place_of};

/// What is fixed when a kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub(super) rank: usize,
    /// Whether the diagonal is a log-variance.
    pub(super) is_log: bool,
    /// Whether factors are in units of the deviations.
    pub(super) is_relative: bool,
    /// The draws whose gradients are added.
    pub(super) draws: usize,
    /// Whether the prior's precision is one number.
    pub(super) is_isotropic: bool,
}

/// The latent numbers of a draw, `rank` rounded up to whole groups.
#[cube]
fn write_latents(latents: &mut [f32], stream: &Stream, from: u32, #[comptime] rank: usize) {
    let counters = comptime!((rank.div_ceil(GROUP) * COUNTERS) as u32);
    let mut counter = UNIT_POS;
    while counter < counters {
        let four = normals(stream, counter);
        for which in 0..4u32 {
            latents[(from + place_of(counter, which)) as usize] = four.at(which);
        }
        counter += CUBE_DIM;
    }
}

/// Writes draw `CUBE_POS_Y`, from the stream that many streams further on. With `paired`, draws come as antithetic
/// pairs.
#[cube(launch)]
pub(super) fn draws_kernel(
    mean: &[f32],
    // With rank 0, they are not read.
    factors: &Tensor<f32>,
    diagonal: &[f32],
    out: &mut [f32],
    stream: Stream,
    latent_stream: Stream,
    paired: u32,
    len: u32,
    #[comptime] form: Form,
) {
    let rank = comptime!(form.rank);
    let row = CUBE_POS_Y;
    let further = row / (1 + paired);
    let sign = select(row % (1 + paired) == 1, -1.0f32, 1.0f32);
    let stream = moved(&stream, further, sign);
    let latent_stream = moved(&latent_stream, further, sign);
    let mut latents = Shared::<[f32]>::new_slice(comptime!(rank.div_ceil(GROUP).max(1) * GROUP));
    write_latents(&mut latents, &latent_stream, 0u32, rank);
    sync_cube();

    let counters = counters_of(len);
    let first_of_row = row as usize * len as usize;
    let mut counter = CUBE_POS_X * CUBE_DIM + UNIT_POS;
    while counter < counters {
        let four = normals(&stream, counter);
        for which in 0..4u32 {
            let weight = place_of(counter, which) as usize;
            if weight < len as usize {
                let mut combined = 0.0f32;
                for factor in 0..rank {
                    combined += latents[factor] * factors[factor * factors.stride(0) + weight];
                }
                let deviation = deviation(diagonal[weight], form);
                let normal = four.at(which);
                let shift = if comptime!(form.is_relative) {
                    deviation * (normal + combined)
                } else {
                    deviation * normal + combined
                };
                out[first_of_row + weight] = mean[weight] + shift;
            }
        }
        counter += CUBE_COUNT_X * CUBE_DIM;
    }
}

#[cube]
fn deviation(diagonal: f32, #[comptime] form: Form) -> f32 {
    if comptime!(form.is_log) {
        (0.5f32 * diagonal).exp()
    } else {
        diagonal.sqrt()
    }
}

/// The stream `further` streams on, with another sign.
#[cube]
fn moved(stream: &Stream, further: u32, sign: f32) -> Stream {
    let low = stream.stream_low + further;
    Stream {
        seed_low: stream.seed_low,
        seed_high: stream.seed_high,
        stream_low: low,
        stream_high: stream.stream_high + u32::cast_from(low < further),
        sign: stream.sign * sign,
    }
}

/// The numbers for each draw of a gradient: seed and stream of the normals, those of the latent numbers (of which
/// only the seed differs), and the sign bit.
pub(super) const WORDS_OF_DRAW: usize = 7;

#[cube]
fn stream_of(words: &[i32], draw: u32, is_latent: bool) -> Stream {
    let first = (draw * comptime!(WORDS_OF_DRAW as u32)) as usize;
    let seed = first + select(is_latent, 2usize, 0usize);
    Stream {
        seed_low: u32::reinterpret(words[seed]),
        seed_high: u32::reinterpret(words[seed + 1]),
        stream_low: u32::reinterpret(words[first + 4]),
        stream_high: u32::reinterpret(words[first + 5]),
        sign: select(words[first + 6] == 1, -1.0f32, 1.0f32),
    }
}

/// Units of a cube that computes gradients.
pub(super) const UNITS: usize = 128;

/// Numbers for the host from each cube: the squared norms of the gradients of mean, factors and log-variances, and
/// how many sums of data gradients are not finite.
pub(super) const SUMS: usize = 4;

/// Gradients with respect to a Gaussian whose diagonal is a log-variance.
#[cube(launch)]
pub(super) fn gradient_kernel(
    mean: &[f32],
    factors: &Tensor<f32>,
    log_variance: &[f32],
    gradients: &Tensor<f32>,
    inner_inverse: &[f32],
    prior: &[f32],
    words: &[i32],
    mean_out: &mut [f32],
    factors_out: &mut [f32],
    log_variance_out: &mut [f32],
    sums_out: &mut [f32],
    scale: f32,
    temperature: f32,
    len: u32,
    #[comptime] form: Form,
) {
    let rank = comptime!(form.rank);
    let padded = comptime!(rank.div_ceil(GROUP) * GROUP);
    let mut latents = Shared::<[f32]>::new_slice(comptime!(form.draws * padded));
    for draw in 0..comptime!(form.draws as u32) {
        let stream = stream_of(words, draw, true);
        write_latents(&mut latents, &stream, draw * comptime!(padded as u32), rank);
    }
    sync_cube();

    let mut mean_squares = 0.0f32;
    let mut factor_squares = 0.0f32;
    let mut log_variance_squares = 0.0f32;
    let mut not_finite = 0.0f32;
    // The factors of one weight.
    let mut values = Array::<f32>::new(rank);
    // z-weighted sums of the gradients of the four weights of a counter.
    let mut noise_sums = Array::<f32>::new(4usize);

    let counters = counters_of(len);
    let mut counter = ABSOLUTE_POS as u32;
    while counter < counters {
        for which in 0..4usize {
            noise_sums[which] = 0.0f32;
        }
        for draw in 0..comptime!(form.draws as u32) {
            let stream = stream_of(words, draw, false);
            let four = normals(&stream, counter);
            for which in 0..4u32 {
                let weight = place_of(counter, which) as usize;
                if weight < len as usize {
                    noise_sums[which as usize] +=
                        four.at(which) * gradients[draw as usize * gradients.stride(0) + weight];
                }
            }
        }
        for which in 0..4u32 {
            let weight = place_of(counter, which) as usize;
            if weight < len as usize {
                let deviation = deviation(log_variance[weight], form);
                let variance = deviation * deviation;
                let alpha = if comptime!(form.is_isotropic) {
                    prior[0]
                } else {
                    prior[weight]
                };
                for factor in 0..rank {
                    values[factor] = factors[factor * factors.stride(0) + weight];
                }
                let mut gradient_sum = 0.0f32;
                for draw in 0..comptime!(form.draws) {
                    gradient_sum += gradients[draw * gradients.stride(0) + weight];
                }
                let mut noise_sum = noise_sums[which as usize];
                // Σ C_k F_k, or Σ V_k².
                let mut explained = 0.0f32;
                let unit = if comptime!(form.is_relative) {
                    1.0f32.runtime()
                } else {
                    1.0f32 / variance
                };
                for factor in 0..rank {
                    let mut coefficient = 0.0f32;
                    for other in 0..rank {
                        coefficient += inner_inverse[factor * rank + other] * values[other];
                    }
                    let coefficient = coefficient * unit;
                    let mut data = 0.0f32;
                    for draw in 0..comptime!(form.draws) {
                        data += latents[draw * padded + factor]
                            * gradients[draw * gradients.stride(0) + weight];
                    }
                    let value = values[factor];
                    let out = if comptime!(form.is_relative) {
                        noise_sum += data * value;
                        explained += value * value;
                        scale * deviation * data
                            + temperature * (alpha * variance * value - coefficient)
                    } else {
                        explained += coefficient * value;
                        scale * data + temperature * (alpha * value - coefficient)
                    };
                    factors_out[factor * len as usize + weight] = out;
                    factor_squares += out * out;
                }
                let divergence = if comptime!(form.is_relative) {
                    alpha * variance * (1.0f32 + explained) - 1.0f32
                } else {
                    alpha * variance + explained - 1.0f32
                };
                let of_mean = scale * gradient_sum + temperature * alpha * mean[weight];
                let of_log_variance =
                    0.5f32 * (scale * deviation * noise_sum + temperature * divergence);
                mean_out[weight] = of_mean;
                log_variance_out[weight] = of_log_variance;
                mean_squares += of_mean * of_mean;
                log_variance_squares += of_log_variance * of_log_variance;
                // A comparison of numbers may be compiled as if there were no NaN.
                let is_finite = gradient_sum.to_bits() & 0x7f80_0000u32 != 0x7f80_0000u32;
                not_finite += select(is_finite, 0.0f32, 1.0f32);
            }
        }
        counter += (CUBE_COUNT * (CUBE_DIM as usize)) as u32;
    }

    let mean_squares = sum_over_cube(mean_squares);
    let factor_squares = sum_over_cube(factor_squares);
    let log_variance_squares = sum_over_cube(log_variance_squares);
    let not_finite = sum_over_cube(not_finite);
    if UNIT_POS == 0 {
        let first = CUBE_POS * comptime!(SUMS);
        sums_out[first] = mean_squares;
        sums_out[first + 1] = factor_squares;
        sums_out[first + 2] = log_variance_squares;
        sums_out[first + 3] = not_finite;
    }
}

/// The sum of a number over the units of a cube, in a fixed order.
#[cube]
fn sum_over_cube(value: f32) -> f32 {
    let mut values = Shared::<[f32]>::new_slice(UNITS);
    values[UNIT_POS as usize] = value;
    sync_cube();
    let mut half = comptime!(UNITS as u32 / 2).runtime();
    while half > 0 {
        if UNIT_POS < half {
            let other = values[(UNIT_POS + half) as usize];
            values[UNIT_POS as usize] += other;
        }
        sync_cube();
        half /= 2;
    }
    values[0]
}
