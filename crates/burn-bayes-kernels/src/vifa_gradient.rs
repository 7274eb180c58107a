//! The gradient of N·E[mean NLL] + τ·KL in the parameters of a low-rank-plus-diagonal Gaussian,
//! in one pass over them.
//!
//! With g_l the gradient of the mean NLL at draw l, made from (h_l, z_l, sign_l), ψ = exp γ,
//! A = F ⊘ ψ, W = (I + F Aᵀ)⁻¹, C = W A and prior precisions α:
//!
//! ```text
//! ∇c = (N/L) Σ_l g_l + τ α⊙c
//! ∇F = (N/L) Σ_l h_l g_lᵀ + τ (α⊙F − C)
//! ∇γ = ½ [ (N/L) Σ_l sign_l g_l⊙ψ^½⊙z_l + τ (−1 + Σ_k C_k⊙F_k + α⊙ψ) ]
//! ```
//!
//! With factors in units of the deviations, F = V diag(ψ^½), B = V Vᵀ and C = (I + V Vᵀ)⁻¹ V:
//!
//! ```text
//! ∇V = (N/L) Σ_l h_l (g_l⊙ψ^½)ᵀ + τ (α⊙ψ⊙V − C)
//! ∇γ = ½ [ (N/L) Σ_l g_l⊙ψ^½⊙(sign_l z_l + Σ_k h_lk V_k) + τ (−1 + α⊙ψ⊙(1 + Σ_k V_k²)) ]
//! ```
//!
//! "Stochastic variational inference with factor analysis" (VIFA), with the corrections of the
//! book's table of departures: −C replaces the papers' −A + C Bᵀ, which is equal.

use crate::gaussian::{Draw, FactorUnits};
use crate::normal::GROUP;
use crate::parallel::{RowsMut, dispatch, tree_reduce, with_scratch};
use crate::segments::{Concatenation, ConstantRuns};
use crate::vifa_leaf::{Leaf, PANEL, Plan, TILE, panel_height};

/// Target size of the scaled factors in scratch memory, in numbers: half the level-2 cache of a
/// small core.
const SCRATCH: usize = 1 << 15;

/// One draw and the gradient at this draw.
#[derive(Clone, Copy, Debug)]
pub struct DrawGradient<'a> {
    /// The random numbers of the draw.
    pub draw: Draw<'a>,
    /// Gradient of the mean NLL at the draw, in consecutive pieces.
    pub gradient: &'a [&'a [f32]],
}

/// The inputs of the gradient.
#[derive(Clone, Copy, Debug)]
pub struct VifaState<'a> {
    /// c, one number per parameter.
    pub mean: &'a [f32],
    /// γ = ln ψ, one number per parameter.
    pub log_variance: &'a [f32],
    /// F or V, row-major; empty for rank 0.
    pub factors: &'a [f32],
    /// Which of the two they are.
    pub units: FactorUnits,
    /// W = (I + B)⁻¹, [rank, rank].
    pub inner_inverse: &'a [f32],
    /// α as (number of parameters, precision), in the order of the parameters.
    pub prior_precision: &'a [(usize, f32)],
    /// N, the number of training examples.
    pub data_scale: f32,
    /// τ, the weight of the divergence.
    pub temperature: f32,
}

/// The outputs; previous contents are ignored.
#[derive(Debug)]
pub struct VifaGradient<'a> {
    /// ∇c.
    pub mean: &'a mut [f32],
    /// ∇γ.
    pub log_variance: &'a mut [f32],
    /// ∇F or ∇V, with the layout of the factors.
    pub factors: &'a mut [f32],
}

/// Properties of the gradient that a step checks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GradientSummary {
    /// ‖∇c‖².
    pub mean_squared_norm: f64,
    /// ‖∇γ‖².
    pub log_variance_squared_norm: f64,
    /// ‖∇F‖² or ‖∇V‖².
    pub factors_squared_norm: f64,
    /// Lowest parameter index at which any g_l is infinite or NaN.
    pub first_non_finite: Option<usize>,
}

impl GradientSummary {
    fn combine(self, other: Self) -> Self {
        Self {
            mean_squared_norm: self.mean_squared_norm + other.mean_squared_norm,
            log_variance_squared_norm: self.log_variance_squared_norm
                + other.log_variance_squared_norm,
            factors_squared_norm: self.factors_squared_norm + other.factors_squared_norm,
            // Blocks are combined in order, so that the left index is the lower one.
            first_non_finite: self.first_non_finite.or(other.first_non_finite),
        }
    }
}

/// Writes the gradient to `out`.
///
/// # Panics
///
/// If there is no draw or the lengths do not match.
pub fn vifa_gradient(
    state: &VifaState<'_>,
    draws: &[DrawGradient<'_>],
    out: VifaGradient<'_>,
) -> GradientSummary {
    let length = state.mean.len();
    let rank = draws.first().expect("at least one draw").draw.latent.len();
    let tempered: Vec<_> = state
        .prior_precision
        .iter()
        .map(|(count, alpha)| (*count, state.temperature * alpha))
        .collect();
    let prior = ConstantRuns::new(&tempered);
    let gradients: Vec<_> = draws
        .iter()
        .map(|draw| Concatenation::new(draw.gradient))
        .collect();
    assert_eq!(
        state.log_variance.len(),
        length,
        "the log-variances do not match the mean"
    );
    assert_eq!(
        state.factors.len(),
        rank * length,
        "the factors are not [{rank}, {length}]"
    );
    assert_eq!(
        state.inner_inverse.len(),
        rank * rank,
        "the inverse is not [{rank}, {rank}]"
    );
    assert_eq!(
        prior.len(),
        length,
        "the prior has another number of parameters"
    );
    assert_eq!(
        out.mean.len(),
        length,
        "the mean's gradient has another length"
    );
    assert_eq!(
        out.log_variance.len(),
        length,
        "the log-variances' gradient has another length"
    );
    assert_eq!(
        out.factors.len(),
        rank * length,
        "the factors' gradient has another length"
    );
    for (draw, gradient) in draws.iter().zip(&gradients) {
        assert_eq!(draw.draw.latent.len(), rank, "the draws differ in rank");
        assert_eq!(
            gradient.len(),
            length,
            "a gradient has another number of parameters"
        );
    }
    let weights = pack_weights(state.inner_inverse, rank, state.temperature);
    let tile = (SCRATCH / rank.max(1) / GROUP * GROUP).clamp(GROUP, TILE);
    let plan = Plan {
        state,
        draws,
        gradients: &gradients,
        prior: &prior,
        weights: &weights,
        rank,
        tile,
        scale: state.data_scale / draws.len() as f32,
    };
    tree_reduce(
        (
            out.mean,
            out.log_variance,
            RowsMut::new(out.factors, length),
        ),
        length,
        length * (rank + draws.len()),
        &|start, (mean, log_variance, RowsMut(factors))| {
            with_scratch(
                (rank + if rank == 0 { 0 } else { PANEL }) * tile,
                |scratch| {
                    dispatch(Leaf {
                        plan: &plan,
                        start,
                        mean,
                        log_variance,
                        factors,
                        scratch,
                    })
                },
            )
        },
        &GradientSummary::combine,
    )
}

/// τ W, in panels of rows with the layout of [`combine_rows`]; the panel of row r starts at r · K.
fn pack_weights(inverse: &[f32], rank: usize, temperature: f32) -> Vec<f32> {
    let mut packed = Vec::with_capacity(rank * rank);
    let mut first = 0;
    while first < rank {
        let height = panel_height(rank - first);
        for column in 0..rank {
            packed.extend(
                (first..first + height).map(|row| temperature * inverse[row * rank + column]),
            );
        }
        first += height;
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal::{NormalStream, normal};
    use crate::parallel::BLOCK;
    use crate::parallel::tests::{LENGTHS, numbers, on_any_thread_count};

    /// Everything a gradient depends on, owned.
    struct Case {
        mean: Vec<f32>,
        log_variance: Vec<f32>,
        factors: Vec<f32>,
        inner_inverse: Vec<f32>,
        prior: Vec<(usize, f32)>,
        latents: Vec<Vec<f32>>,
        gradients: Vec<Vec<f32>>,
        rank: usize,
        units: FactorUnits,
    }

    const DATA_SCALE: f32 = 50.0;
    const TEMPERATURE: f32 = 0.7;

    fn noise(draw: usize) -> NormalStream {
        NormalStream {
            seed: 21,
            stream: draw as u64,
        }
    }

    fn sign(draw: usize) -> f32 {
        if draw.is_multiple_of(2) { 1.0 } else { -1.0 }
    }

    impl Case {
        fn new(length: usize, rank: usize, draws: usize) -> Self {
            Self::in_units(FactorUnits::Weights, length, rank, draws)
        }

        fn in_units(units: FactorUnits, length: usize, rank: usize, draws: usize) -> Self {
            Self {
                units,
                mean: numbers(1, length),
                log_variance: numbers(2, length).iter().map(|x| 2.0 * x).collect(),
                factors: numbers(3, rank * length),
                inner_inverse: numbers(4, rank * rank),
                prior: vec![(length / 2, 0.5), (0, 9.0), (length - length / 2, 2.0)],
                latents: (0..draws)
                    .map(|draw| numbers(50 + draw as u64, rank))
                    .collect(),
                gradients: (0..draws)
                    .map(|draw| numbers(90 + draw as u64, length))
                    .collect(),
                rank,
            }
        }

        fn compute(&self) -> (GradientSummary, Vec<f32>, Vec<f32>, Vec<f32>) {
            let length = self.mean.len();
            let (mut mean, mut log_variance) = (vec![f32::NAN; length], vec![f32::NAN; length]);
            let mut factors = vec![f32::NAN; self.rank * length];
            // Pieces that align with neither tiles nor blocks.
            let cuts = [length / 7, length / 3, length - length / 5];
            let pieces: Vec<_> = self
                .gradients
                .iter()
                .map(|g| {
                    [
                        &g[..cuts[0]],
                        &g[cuts[0]..cuts[1]],
                        &g[cuts[1]..cuts[2]],
                        &g[cuts[2]..],
                    ]
                })
                .collect();
            let draws: Vec<_> = pieces
                .iter()
                .enumerate()
                .map(|(draw, gradient)| DrawGradient {
                    draw: Draw {
                        latent: &self.latents[draw],
                        noise: noise(draw),
                        sign: sign(draw),
                    },
                    gradient,
                })
                .collect();
            let state = VifaState {
                mean: &self.mean,
                log_variance: &self.log_variance,
                factors: &self.factors,
                units: self.units,
                inner_inverse: &self.inner_inverse,
                prior_precision: &self.prior,
                data_scale: DATA_SCALE,
                temperature: TEMPERATURE,
            };
            let out = VifaGradient {
                mean: &mut mean,
                log_variance: &mut log_variance,
                factors: &mut factors,
            };
            let summary = vifa_gradient(&state, &draws, out);
            (summary, mean, log_variance, factors)
        }

        /// Compares with the formulas of the module documentation in `f64`, element by element.
        fn check(&self) {
            let (summary, mean, log_variance, factors) = on_any_thread_count(|| self.compute());
            let (length, rank, draws) = (self.mean.len(), self.rank, self.latents.len());
            let normals: Vec<Vec<f32>> = (0..draws)
                .map(|draw| {
                    let mut out = vec![0.0; length];
                    normal(noise(draw), &mut out);
                    out
                })
                .collect();
            let (scale, tau) = (f64::from(DATA_SCALE) / draws as f64, f64::from(TEMPERATURE));
            let close = |result: f32, terms: &[f64], what: &str| {
                let exact: f64 = terms.iter().sum();
                let size: f64 = terms.iter().map(|term| term.abs()).sum();
                let error = (f64::from(result) - exact).abs();
                assert!(
                    error <= 8.0 * f64::from(f32::EPSILON) * size,
                    "{what}: {error:e}"
                );
            };
            for i in 0..length {
                let alpha = f64::from(if i < length / 2 { 0.5f32 } else { 2.0 });
                let deviation = f64::from(self.log_variance[i] / 2.0).exp();
                let factor = |k: usize| f64::from(self.factors[k * length + i]);
                let is_scaled = self.units == FactorUnits::Deviations;
                // The unit of the factors, and the precision that A is F times.
                let (unit, precision) = match self.units {
                    FactorUnits::Weights => (1.0, deviation.powi(-2)),
                    FactorUnits::Deviations => (deviation, 1.0),
                };
                let gradient = |draw: usize| scale * f64::from(self.gradients[draw][i]);
                let mut terms: Vec<f64> = (0..draws).map(gradient).collect();
                terms.push(tau * alpha * f64::from(self.mean[i]));
                close(mean[i], &terms, "mean");
                let mut explained = Vec::new();
                for k in 0..rank {
                    let combined: Vec<f64> = (0..rank)
                        .map(|j| {
                            let weight = f64::from(self.inner_inverse[k * rank + j]);
                            -tau * weight * factor(j) * precision
                        })
                        .collect();
                    let mut terms: Vec<f64> = (0..draws)
                        .map(|draw| unit * gradient(draw) * f64::from(self.latents[draw][k]))
                        .collect();
                    terms.push(tau * alpha * unit * unit * factor(k));
                    explained.extend(match is_scaled {
                        true => terms
                            .iter()
                            .map(|part| part * factor(k))
                            .collect::<Vec<_>>(),
                        false => combined.iter().map(|part| -part * factor(k)).collect(),
                    });
                    terms.extend(combined);
                    close(factors[k * length + i], &terms, "factors");
                }
                let mut terms: Vec<f64> = (0..draws)
                    .map(|draw| {
                        gradient(draw) * deviation * f64::from(sign(draw) * normals[draw][i])
                    })
                    .collect();
                terms.extend(explained);
                terms.extend([-tau, tau * alpha * deviation * deviation]);
                terms.iter_mut().for_each(|term| *term *= 0.5);
                close(log_variance[i], &terms, "log-variance");
            }
            let norm = |values: &[f32]| values.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
            for (result, values) in [
                (summary.mean_squared_norm, &mean),
                (summary.log_variance_squared_norm, &log_variance),
                (summary.factors_squared_norm, &factors),
            ] {
                // A tile's sum has at most 32 terms per lane.
                let exact = norm(values);
                assert!((result - exact).abs() <= 4.0 * f64::from(f32::EPSILON) * exact);
            }
            assert_eq!(summary.first_non_finite, None);
        }
    }

    #[test]
    fn gradients_are_those_of_the_formulas_at_any_length() {
        for length in LENGTHS {
            for (rank, draws) in [(0, 1), (1, 1), (3, 2), (4, 3)] {
                Case::new(length, rank, draws).check();
                Case::in_units(FactorUnits::Deviations, length, rank, draws).check();
            }
        }
    }

    #[test]
    fn gradients_are_those_of_the_formulas_at_any_rank() {
        for rank in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 32, 47] {
            Case::new(777, rank, 1).check();
            Case::in_units(FactorUnits::Deviations, 777, rank, 1).check();
            Case::new(BLOCK + 33, rank, 2).check();
        }
        Case::new(130, 600, 1).check();
    }

    #[test]
    fn the_first_bad_element_is_found() {
        let first = |case: &Case| on_any_thread_count(|| case.compute().0.first_non_finite);
        let mut case = Case::new(3 * BLOCK, 2, 3);
        case.gradients[0][2 * BLOCK + 5] = f32::NAN;
        assert_eq!(first(&case), Some(2 * BLOCK + 5));
        case.gradients[2][BLOCK + 700] = f32::INFINITY;
        case.gradients[1][BLOCK + 900] = f32::NEG_INFINITY;
        assert_eq!(first(&case), Some(BLOCK + 700));
        case.gradients[1][0] = f32::NAN;
        assert_eq!(first(&case), Some(0));
        // The largest finite number is fine.
        let mut case = Case::new(10, 0, 1);
        case.gradients[0][9] = f32::MAX;
        assert_eq!(first(&case), None);
    }
}
