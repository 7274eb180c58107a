//! The passes over D numbers of online factor analysis, with K rows X, a deviation d and the diagonal ψ:
//!
//! ```text
//! u = X (d/ψ),   q = Σ d²/ψ            weighted_projections
//! X ← a X + w dᵀ                       decay_and_add
//! X ← L X,   ψ = v − Σₖ Xₖ²            fold, L lower triangular
//! ```
//!
//! The first two cost O(KD) and are made for every vector; the third costs O(K²D).

use crate::parallel::{LANES, Tile, sum_lanes, vectorise};

/// Number of elements per tile, a multiple of the number of lanes.
const TILE: usize = 512;

/// Writes X (d/ψ) to `products` and returns Σ d²/ψ.
///
/// # Panics
///
/// If the lengths do not match.
pub fn weighted_projections(
    rows: &[f32],
    vector: &[f32],
    variance: &[f32],
    products: &mut [f64],
) -> f64 {
    let length = vector.len();
    assert_eq!(variance.len(), length, "the variance has another length");
    assert_eq!(rows.len(), products.len() * length, "the rows of a matrix");
    products.fill(0.0);
    vectorise(
        #[inline(always)]
        || {
            let mut scaled = Tile::<TILE>::zeros();
            let mut square = 0.0;
            for start in (0..length).step_by(TILE) {
                let end = length.min(start + TILE);
                let scaled = &mut scaled.0[..end - start];
                let pairs = vector[start..end].iter().zip(&variance[start..end]);
                for (scaled, (value, variance)) in scaled.iter_mut().zip(pairs) {
                    *scaled = value / variance;
                }
                square += dot(scaled, &vector[start..end]);
                for (product, row) in products.iter_mut().zip(rows.chunks_exact(length)) {
                    *product += dot(scaled, &row[start..end]);
                }
            }
            square
        },
    )
}

/// Σ aᵢ bᵢ of a tile.
#[inline(always)]
fn dot(left: &[f32], right: &[f32]) -> f64 {
    let mut lanes = [0.0_f32; LANES];
    let (lefts, left_rest) = left.as_chunks::<LANES>();
    let (rights, right_rest) = right.as_chunks::<LANES>();
    for (left, right) in lefts.iter().zip(rights) {
        for lane in 0..LANES {
            lanes[lane] = left[lane].mul_add(right[lane], lanes[lane]);
        }
    }
    for ((lane, left), right) in lanes.iter_mut().zip(left_rest).zip(right_rest) {
        *lane = left.mul_add(*right, *lane);
    }
    sum_lanes(&lanes)
}

/// X ← `decay` X + `weights` `vector`ᵀ.
///
/// # Panics
///
/// If the lengths do not match.
pub fn decay_and_add(rows: &mut [f32], decay: f32, weights: &[f32], vector: &[f32]) {
    let length = vector.len();
    assert_eq!(rows.len(), weights.len() * length, "the rows of a matrix");
    vectorise(
        #[inline(always)]
        || {
            for (row, &weight) in rows.chunks_exact_mut(length).zip(weights) {
                for (entry, value) in row.iter_mut().zip(vector) {
                    *entry = weight.mul_add(*value, decay * *entry);
                }
            }
        },
    );
}

/// X ← L X for a lower triangular L, then ψ ← v − Σₖ Xₖ², at least `floor` times v and positive.
///
/// # Panics
///
/// If the lengths do not match.
pub fn fold(rows: &mut [f32], lower: &[f32], variance: &[f32], floor: f32, residual: &mut [f32]) {
    let length = variance.len();
    let rank = rows.len() / length.max(1);
    assert_eq!(rows.len(), rank * length, "the rows of a matrix");
    assert_eq!(lower.len(), rank * rank, "the triangular matrix");
    assert_eq!(residual.len(), length, "the residual has another length");
    vectorise(
        #[inline(always)]
        || {
            for start in (0..length).step_by(TILE) {
                let end = length.min(start + TILE);
                let residual = &mut residual[start..end];
                residual.copy_from_slice(&variance[start..end]);
                // Row k depends on the rows up to k only, so the last comes first.
                for k in (0..rank).rev() {
                    let (above, rest) = rows.split_at_mut(k * length);
                    let row = &mut rest[start..end];
                    let scale = lower[k * rank + k];
                    row.iter_mut().for_each(|entry| *entry *= scale);
                    for (j, above) in above.chunks_exact(length).enumerate() {
                        let weight = lower[k * rank + j];
                        for (entry, value) in row.iter_mut().zip(&above[start..end]) {
                            *entry = weight.mul_add(*value, *entry);
                        }
                    }
                    for (residual, entry) in residual.iter_mut().zip(row) {
                        *residual = (-*entry).mul_add(*entry, *residual);
                    }
                }
                for (residual, variance) in residual.iter_mut().zip(&variance[start..end]) {
                    *residual = residual.max(floor * variance).max(f32::MIN_POSITIVE);
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::numbers;

    const RANK: usize = 3;

    #[test]
    fn every_pass_is_its_formula() {
        for length in [1, 63, 700, 1103] {
            let (rows, vector) = (numbers(1, RANK * length), numbers(2, length));
            let variance: Vec<f32> = numbers(3, length).iter().map(|x| 9.0 + x * x).collect();
            let entry = |k: usize, i: usize| f64::from(rows[k * length + i]);
            let d = |i: usize| f64::from(vector[i]);
            let v = |i: usize| f64::from(variance[i]);
            let bound = 8.0 * f64::from(f32::EPSILON) * 4.0 * length as f64;

            let mut products = [0.0; RANK];
            let square = weighted_projections(&rows, &vector, &variance, &mut products);
            let expected: f64 = (0..length).map(|i| d(i) * d(i) / v(i)).sum();
            assert!((square - expected).abs() < bound);
            for (k, product) in products.iter().enumerate() {
                let expected: f64 = (0..length).map(|i| entry(k, i) * d(i) / v(i)).sum();
                assert!((product - expected).abs() < bound);
            }

            let mut updated = rows.clone();
            decay_and_add(&mut updated, 0.75, &[1.0, -2.0, 0.5], &vector);
            let mut folded = rows.clone();
            let lower = [0.5, 0.0, 0.0, 0.25, 1.0, 0.0, -0.5, 2.0, 0.75];
            let mut residual = vec![0.0; length];
            fold(&mut folded, &lower, &variance, 0.01, &mut residual);
            for (i, &residual) in residual.iter().enumerate() {
                let mut rest = v(i);
                for k in 0..RANK {
                    let at = k * length + i;
                    let expected = 0.75 * entry(k, i) + [1.0, -2.0, 0.5][k] * d(i);
                    assert!((f64::from(updated[at]) - expected).abs() < 1e-5);
                    let expected: f64 = (0..RANK)
                        .map(|j| f64::from(lower[k * RANK + j]) * entry(j, i))
                        .sum();
                    assert!((f64::from(folded[at]) - expected).abs() < 1e-5);
                    rest -= expected * expected;
                }
                let expected = rest.max(0.01 * v(i));
                assert!((f64::from(residual) - expected).abs() < 1e-4);
            }
        }
    }
}
