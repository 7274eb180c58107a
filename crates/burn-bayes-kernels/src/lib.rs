//! Fused kernels on plain slices of `f32`, for parameters in main memory.
//!
//! Every kernel makes one pass over its arguments of size D, regenerates noise instead of storing
//! it, allocates no memory of size D, and gives identical results for any number of threads and on
//! any CPU; `parallel.rs` describes how. The kernels do not use tensors.

mod adam;
mod draw;
mod elementary;
mod factor_analysis;
mod formula;
mod gaussian;
mod gram;
mod matmul;
mod moments;
mod normal;
mod parallel;
mod precision;
mod precision_step;
mod product;
mod register_tiles;
mod scale;
mod segments;
mod strided;
mod tile_sums;
mod vifa_gradient;
mod vifa_leaf;

pub use adam::{AdamMoments, AdamStep, adam_step};
pub use draw::{draw, draws};
pub use factor_analysis::{fold, weighted_projections};
pub use formula::{Binary, Input, Step, Unary};
pub use gaussian::{Diagonal, Draw, FactorUnits, LowRankGaussian};
pub use gram::{draw_and_gram, gram};
pub use matmul::{Matrix, matmul};
pub use moments::update_moments;
pub use normal::{NormalStream, normal};
pub use precision::{PrecisionGaussian, SignedNoise, noise_products, precision_draw, projections};
pub use precision_step::{MeanStep, PrecisionOut, PrecisionStep, mean_step, precision_step};
pub use product::weighted_product;
pub use scale::{approach, scale};
pub use strided::{Route, Strided, Target, add_picked, arg_extreme, map_strided, pick};
pub use vifa_gradient::{DrawGradient, GradientSummary, VifaGradient, VifaState, vifa_gradient};

/// The constants of the generator of normals, for implementations on other devices.
pub mod generator {
    pub use crate::elementary::{COSINE, HALF_ROOT, LOGARITHM_TAIL, QUARTERS, SINE};
    pub use crate::normal::{COUNTERS, GROUP, KEY_INCREMENTS, MULTIPLIERS, ROUNDS};
}

#[cfg(test)]
mod total;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::{numbers, on_any_instruction_set};

    #[test]
    fn kernels_give_the_same_numbers_with_any_instructions() {
        const LENGTH: usize = 1103;
        for (rank, units) in [0, 1, 2, 7, 21]
            .into_iter()
            .flat_map(|rank| [FactorUnits::Weights, FactorUnits::Deviations].map(|u| (rank, u)))
        {
            let (mean, log_variance) = (numbers(1, LENGTH), numbers(2, LENGTH));
            let (factors, inverse) = (numbers(3, rank * LENGTH), numbers(4, rank * rank));
            let latents = [numbers(5, rank), numbers(6, rank)];
            let [first, second] = [0, 1].map(|stream| Draw {
                latent: &latents[stream],
                noise: NormalStream {
                    seed: 7,
                    stream: stream as u64,
                },
                sign: 1.0,
            });
            let diagonal = Diagonal::LogVariance(&log_variance);
            let gaussian = LowRankGaussian {
                mean: &mean,
                factors: &factors,
                units,
                diagonal,
            };
            let pieces = [&mean[..100], &mean[100..]];
            let state = VifaState {
                mean: &mean,
                log_variance: &log_variance,
                factors: &factors,
                units,
                inner_inverse: &inverse,
                prior_precision: &[(LENGTH, 0.1)],
                data_scale: 100.0,
                temperature: 0.5,
            };
            on_any_instruction_set(|| {
                let (mut theta, mut matrix) = (vec![0.0; LENGTH], vec![0.0; rank * rank]);
                draw_and_gram(&gaussian, &first, &mut theta, &mut matrix);
                let mut thetas = vec![0.0; 2 * LENGTH];
                draws(&gaussian, &[first, second], &mut thetas);
                let [mut c, mut gamma] = [vec![0.0; LENGTH], vec![0.0; LENGTH]];
                let mut f = vec![0.0; rank * LENGTH];
                let gradients = [first, second].map(|draw| DrawGradient {
                    draw,
                    gradient: &pieces,
                });
                let out = VifaGradient {
                    mean: &mut c,
                    log_variance: &mut gamma,
                    factors: &mut f,
                };
                let summary = vifa_gradient(&state, &gradients, out);
                let (mut m, mut v, mut largest) = (c.clone(), vec![0.2; LENGTH], vec![0.1; LENGTH]);
                let moments = AdamMoments {
                    first: &mut m,
                    second: &mut v,
                    largest_second: Some(&mut largest),
                };
                let step = AdamStep::new(0.1, 0.9, 0.99, 1e-8, Some(0.1), 3);
                adam_step(&step, &mean, &mut gamma, moments);
                update_moments(&[&theta], 3, &mut m, &mut v, Some(&mut largest));
                scale(&mut f, 0.3);
                (theta, matrix, thetas, summary, c, gamma, (f, m, v, largest))
            });
        }
    }
}
