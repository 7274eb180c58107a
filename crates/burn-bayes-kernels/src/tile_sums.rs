//! Sums over tiles of rows that stay in the cache.

use crate::parallel::{LANES, sum_lanes};

/// Number of elements per tile.
pub(crate) const TILE: usize = 512;

/// target += scale · source.
#[inline(always)]
pub(crate) fn add_scaled(target: &mut [f32], scale: f32, source: &[f32]) {
    let pairs = target.iter_mut().zip(source);
    pairs.for_each(|(target, source)| *target = scale.mul_add(*source, *target));
}

/// target += scale · source².
#[inline(always)]
pub(crate) fn add_squares(target: &mut [f32], scale: f32, source: &[f32]) {
    let pairs = target.iter_mut().zip(source);
    pairs.for_each(|(target, source)| *target = (scale * source).mul_add(*source, *target));
}

/// Σ left · right, in 64 separate `f32` sums that are combined in a fixed order.
#[inline(always)]
pub(crate) fn inner_product(left: &[f32], right: &[f32]) -> f64 {
    let mut sums = [[0.0f32; LANES]; 4];
    let (left_chunks, left_rest) = left.as_chunks::<{ 4 * LANES }>();
    let (right_chunks, right_rest) = right.as_chunks::<{ 4 * LANES }>();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        let lanes = sums.as_flattened_mut().iter_mut();
        lanes
            .zip(left.iter().zip(right))
            .for_each(|(sum, (l, r))| *sum = l.mul_add(*r, *sum));
    }
    let lanes = sums.as_flattened_mut().iter_mut();
    lanes
        .zip(left_rest.iter().zip(right_rest))
        .for_each(|(sum, (l, r))| *sum = l.mul_add(*r, *sum));
    let mut lanes = [0.0; LANES];
    for lane in 0..LANES {
        lanes[lane] = (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
    }
    sum_lanes(&lanes)
}

/// The sum of two vectors.
pub(crate) fn added(mut left: Vec<f64>, right: Vec<f64>) -> Vec<f64> {
    left.iter_mut()
        .zip(right)
        .for_each(|(left, right)| *left += right);
    left
}
