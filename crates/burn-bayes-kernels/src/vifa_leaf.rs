//! One block of the gradient of `vifa_gradient.rs`, tile by tile.
//!
//! Per tile: the sums over draws, ∇c, then A (or V) packed into strips, C = W A (or W V) panel by panel,
//! with ∇F (or ∇V) and the factors' share of ∇γ as soon as a panel of C is available, and ∇γ last. All data except F, the
//! gradients and the outputs stay in the level-2 cache.

use crate::elementary::exponential_pair;
use crate::gaussian::{Draw, FactorUnits};
use crate::normal::{GROUP, fill_groups};
use crate::parallel::Tile;
use crate::register_tiles::{STRIP, combine_rows, pack_scaled_row};
use crate::segments::{Concatenation, ConstantRuns};
use crate::tile_sums::inner_product;
use crate::vifa_gradient::{DrawGradient, GradientSummary, VifaState};
use pulp::{Simd, WithSimd};

/// Number of elements per tile for small ranks; a multiple of the group size of the normals.
pub(crate) const TILE: usize = 256;

/// Number of rows of C per panel.
pub(crate) const PANEL: usize = 8;

/// The inputs that are the same for all blocks.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub state: &'a VifaState<'a>,
    pub draws: &'a [DrawGradient<'a>],
    pub gradients: &'a [Concatenation<'a>],
    /// τ α.
    pub prior: &'a ConstantRuns<'a>,
    pub weights: &'a [f32],
    pub rank: usize,
    pub tile: usize,
    /// N / L.
    pub scale: f32,
}

/// The part of the result that one block writes, and its scratch memory.
#[derive(Debug)]
pub(crate) struct Leaf<'a> {
    pub plan: &'a Plan<'a>,
    pub start: usize,
    pub mean: &'a mut [f32],
    pub log_variance: &'a mut [f32],
    pub factors: Vec<&'a mut [f32]>,
    pub scratch: &'a mut [f32],
}

/// Values per element of a tile that several steps use.
struct Columns {
    deviations: Tile<TILE>,
    /// What A is F times: 1/ψ, or 1 in units of the deviations.
    inverses: Tile<TILE>,
    /// τ α.
    prior: Tile<TILE>,
    /// g_l, from the second draw on.
    gradient: Tile<TILE>,
    normals: Tile<TILE>,
    /// Σ_l g_l.
    gradient_sum: Tile<TILE>,
    /// Σ_l sign_l g_l ⊙ z_l.
    noise_sum: Tile<TILE>,
    /// τ Σ_k C_k ⊙ F_k, or Σ_k V_k ⊙ (∇V_k + τ C_k).
    explained: Tile<TILE>,
}

impl WithSimd for Leaf<'_> {
    type Output = GradientSummary;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> GradientSummary {
        let Self {
            plan,
            start,
            mean,
            log_variance,
            mut factors,
            scratch,
        } = self;
        let length = mean.len();
        let mut columns = Columns {
            deviations: Tile::zeros(),
            inverses: Tile::zeros(),
            prior: Tile::zeros(),
            gradient: Tile::zeros(),
            normals: Tile::zeros(),
            gradient_sum: Tile::zeros(),
            noise_sum: Tile::zeros(),
            explained: Tile::zeros(),
        };
        let mut summary = GradientSummary::default();
        for offset in (0..length).step_by(plan.tile) {
            let width = plan.tile.min(length - offset);
            let first = start + offset;
            prepare(plan, first, width, &mut columns);
            let bad = add_draws(plan, first, offset, width, &mut columns, &mut factors);
            summary.first_non_finite = summary.first_non_finite.or(bad);
            let mean = &mut mean[offset..offset + width];
            mean_gradient(plan, first, &columns, mean);
            summary.mean_squared_norm += inner_product(mean, mean);
            if plan.rank > 0 {
                summary.factors_squared_norm += factors_gradient(
                    simd,
                    plan,
                    first,
                    offset,
                    width,
                    &mut columns,
                    &mut factors,
                    scratch,
                );
            }
            let log_variance = &mut log_variance[offset..offset + width];
            log_variance_gradient(plan, &columns, log_variance);
            summary.log_variance_squared_norm += inner_product(log_variance, log_variance);
        }
        summary
    }
}

/// ψ^½, the scale of A and τ α, and zero for the sum over factors.
#[inline(always)]
fn prepare(plan: &Plan<'_>, first: usize, width: usize, columns: &mut Columns) {
    let deviations = &mut columns.deviations.0[..width];
    let inverses = &mut columns.inverses.0[..width];
    let log_variance = &plan.state.log_variance[first..first + width];
    for i in 0..width {
        let (deviation, inverse) = exponential_pair(0.5 * log_variance[i]);
        deviations[i] = deviation;
        inverses[i] = inverse * inverse;
    }
    if plan.state.units == FactorUnits::Deviations {
        inverses.fill(1.0);
    }
    plan.prior.copy_to(first, &mut columns.prior.0[..width]);
    columns.explained.0[..width].fill(0.0);
}

/// The sums over draws; for several draws also Σ_l h_l g_lᵀ, written to the gradient of the
/// factors.
///
/// Returns the first element that is not finite.
#[inline(always)]
fn add_draws(
    plan: &Plan<'_>,
    first: usize,
    offset: usize,
    width: usize,
    columns: &mut Columns,
    factors: &mut [&mut [f32]],
) -> Option<usize> {
    let gradient_sum = &mut columns.gradient_sum.0[..width];
    let noise_sum = &mut columns.noise_sum.0[..width];
    let mut bad = read_draw(plan, 0, first, gradient_sum, &mut columns.normals);
    let (sign, normals) = (plan.draws[0].draw.sign, &columns.normals.0[..width]);
    for i in 0..width {
        noise_sum[i] = gradient_sum[i] * (sign * normals[i]);
    }
    if plan.draws.len() == 1 {
        return bad;
    }
    for (row, h) in factors.iter_mut().zip(plan.draws[0].draw.latent) {
        for (out, gradient) in row[offset..offset + width].iter_mut().zip(&*gradient_sum) {
            *out = h * gradient;
        }
    }
    for index in 1..plan.draws.len() {
        let Draw { latent, sign, .. } = plan.draws[index].draw;
        let gradient = &mut columns.gradient.0[..width];
        let bad_here = read_draw(plan, index, first, gradient, &mut columns.normals);
        bad = [bad, bad_here].into_iter().flatten().min();
        let normals = &columns.normals.0[..width];
        for i in 0..width {
            gradient_sum[i] += gradient[i];
            noise_sum[i] = gradient[i].mul_add(sign * normals[i], noise_sum[i]);
        }
        for (row, h) in factors.iter_mut().zip(latent) {
            for (out, gradient) in row[offset..offset + width].iter_mut().zip(&*gradient) {
                *out = h.mul_add(*gradient, *out);
            }
        }
    }
    bad
}

/// The gradient and the normals of a draw; returns the first element that is not finite.
#[inline(always)]
fn read_draw(
    plan: &Plan<'_>,
    index: usize,
    first: usize,
    gradient: &mut [f32],
    normals: &mut Tile<TILE>,
) -> Option<usize> {
    plan.gradients[index].copy_to(first, gradient);
    let normals = &mut normals.0[..gradient.len().next_multiple_of(GROUP)];
    fill_groups(plan.draws[index].draw.noise, first, normals);
    first_non_finite(gradient).map(|bad| first + bad)
}

/// Index of the first infinity or NaN.
#[inline(always)]
fn first_non_finite(values: &[f32]) -> Option<usize> {
    const EXPONENT: u32 = 0x7f80_0000;
    let mut bad = 0;
    for value in values {
        bad |= u32::from(value.to_bits() & EXPONENT == EXPONENT);
    }
    if bad == 0 {
        None
    } else {
        values.iter().position(|value| !value.is_finite())
    }
}

#[inline(always)]
fn mean_gradient(plan: &Plan<'_>, first: usize, columns: &Columns, out: &mut [f32]) {
    let width = out.len();
    let mean = &plan.state.mean[first..first + width];
    let (prior, sum) = (&columns.prior.0[..width], &columns.gradient_sum.0[..width]);
    for i in 0..width {
        out[i] = plan.scale.mul_add(sum[i], prior[i] * mean[i]);
    }
}

#[inline(always)]
fn log_variance_gradient(plan: &Plan<'_>, columns: &Columns, out: &mut [f32]) {
    let width = out.len();
    let deviations = &columns.deviations.0[..width];
    let noise_sum = &columns.noise_sum.0[..width];
    let explained = &columns.explained.0[..width];
    let prior = &columns.prior.0[..width];
    for i in 0..width {
        let prior = (prior[i] * deviations[i]).mul_add(deviations[i], explained[i]);
        let data = (plan.scale * deviations[i]).mul_add(noise_sum[i], prior);
        out[i] = 0.5 * (data - plan.state.temperature);
    }
}

/// The factors' gradient of a tile and their share of ∇γ; returns the squared norm.
#[inline(always)]
#[allow(
    clippy::too_many_arguments,
    reason = "the parts of a leaf, of which it needs all"
)]
fn factors_gradient<S: Simd>(
    simd: S,
    plan: &Plan<'_>,
    first: usize,
    offset: usize,
    width: usize,
    columns: &mut Columns,
    factors: &mut [&mut [f32]],
    scratch: &mut [f32],
) -> f64 {
    let (scaled, combined) = scratch.split_at_mut(plan.rank * plan.tile);
    let stride = plan.state.mean.len();
    let inverses = &columns.inverses.0[..width];
    for k in 0..plan.rank {
        let row = &plan.state.factors[k * stride + first..][..width];
        pack_scaled_row::<STRIP, S>(simd, row, inverses, k, plan.rank, scaled);
    }
    let mut squared = 0.0;
    let mut row = 0;
    while row < plan.rank {
        let height = panel_height(plan.rank - row);
        let weights = &plan.weights[row * plan.rank..][..height * plan.rank];
        let strips = width.div_ceil(STRIP);
        for (index, strip) in scaled
            .chunks_exact(plan.rank * STRIP)
            .take(strips)
            .enumerate()
        {
            let out = &mut combined[index * STRIP..];
            match height {
                PANEL => combine_rows::<PANEL, S>(simd, weights, strip, out, plan.tile),
                4 => combine_rows::<4, S>(simd, weights, strip, out, plan.tile),
                2 => combine_rows::<2, S>(simd, weights, strip, out, plan.tile),
                _ => combine_rows::<1, S>(simd, weights, strip, out, plan.tile),
            }
        }
        for k in row..row + height {
            let combined = &combined[(k - row) * plan.tile..][..width];
            let out = &mut factors[k][offset..offset + width];
            squared += factor_gradient(plan, k, first, combined, columns, out);
        }
        row += height;
    }
    squared
}

/// The gradient of one factor.
#[inline(always)]
fn factor_gradient(
    plan: &Plan<'_>,
    k: usize,
    first: usize,
    combined: &[f32],
    columns: &mut Columns,
    out: &mut [f32],
) -> f64 {
    let width = out.len();
    let combined = &combined[..width];
    let factor = &plan.state.factors[k * plan.state.mean.len() + first..][..width];
    let prior = &columns.prior.0[..width];
    let explained = &mut columns.explained.0[..width];
    let gradient = &columns.gradient_sum.0[..width];
    if plan.state.units == FactorUnits::Deviations {
        let deviations = &columns.deviations.0[..width];
        if let [only] = plan.draws {
            for i in 0..width {
                out[i] = only.draw.latent[k] * gradient[i];
            }
        }
        for i in 0..width {
            let pull = (prior[i] * deviations[i]) * (deviations[i] * factor[i]);
            let drive = (plan.scale * deviations[i]).mul_add(out[i], pull);
            out[i] = drive - combined[i];
            explained[i] = drive.mul_add(factor[i], explained[i]);
        }
    } else if let [only] = plan.draws {
        let scale = plan.scale * only.draw.latent[k];
        for i in 0..width {
            let divergence = prior[i].mul_add(factor[i], -combined[i]);
            out[i] = scale.mul_add(gradient[i], divergence);
            explained[i] = combined[i].mul_add(factor[i], explained[i]);
        }
    } else {
        for i in 0..width {
            let divergence = prior[i].mul_add(factor[i], -combined[i]);
            out[i] = plan.scale.mul_add(out[i], divergence);
            explained[i] = combined[i].mul_add(factor[i], explained[i]);
        }
    }
    inner_product(out, out)
}

/// Number of rows of the next panel if `rows` remain.
#[inline(always)]
pub(crate) fn panel_height(rows: usize) -> usize {
    match rows {
        PANEL.. => PANEL,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}
