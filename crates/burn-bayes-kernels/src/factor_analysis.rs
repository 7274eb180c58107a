//! The passes over D numbers of online factor analysis, with K rows X, a deviation d and the diagonal ψ:
//!
//! ```text
//! u = X (d/ψ)                          weighted_projections
//! X ← C R,   ψ = v − Σₖ Xₖ²            fold, for rows R that begin with X
//! ```
//!
//! The first costs O(KD), the second O(K²D) for O(K) rows R.

use crate::parallel::{LANES, Tile, dispatch, sum_lanes, vectorise, with_scratch};
use crate::register_tiles::{STRIP, combine_rows};
use pulp::{Simd, WithSimd};

/// Number of elements per tile, a multiple of the number of lanes.
const TILE: usize = 512;

/// Writes X (d/ψ) to `products`.
///
/// # Panics
///
/// If the lengths do not match.
pub fn weighted_projections(rows: &[f32], vector: &[f32], variance: &[f32], products: &mut [f64]) {
    let length = vector.len();
    assert_eq!(variance.len(), length, "the variance has another length");
    assert_eq!(rows.len(), products.len() * length, "the rows of a matrix");
    products.fill(0.0);
    vectorise(
        #[inline(always)]
        || {
            let mut scaled = Tile::<TILE>::zeros();
            for start in (0..length).step_by(TILE) {
                let end = length.min(start + TILE);
                let scaled = &mut scaled.0[..end - start];
                let pairs = vector[start..end].iter().zip(&variance[start..end]);
                for (scaled, (value, variance)) in scaled.iter_mut().zip(pairs) {
                    *scaled = value / variance;
                }
                for (product, row) in products.iter_mut().zip(rows.chunks_exact(length)) {
                    *product += dot(scaled, &row[start..end]);
                }
            }
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

/// X ← C R for rows R that begin with the K rows of X, then ψ ← v − Σₖ Xₖ², at least `floor` times v and positive.
///
/// `coefficients` is C, with K rows.
///
/// # Panics
///
/// If the lengths do not match.
pub fn fold(
    rows: &mut [f32],
    coefficients: &[f32],
    variance: &[f32],
    floor: f32,
    residual: &mut [f32],
) {
    let length = variance.len();
    assert_eq!(residual.len(), length, "the residual has another length");
    if length == 0 {
        // The number of rows is not known, and they have no elements.
        return assert_eq!(rows.len(), 0, "the rows of a matrix");
    }
    let terms = rows.len() / length;
    let rank = coefficients.len() / terms.max(1);
    assert_eq!(rows.len(), terms * length, "the rows of a matrix");
    assert!(rank <= terms, "more rows than before");
    assert_eq!(coefficients.len(), rank * terms, "the coefficients");
    let padded = rank.next_multiple_of(PANEL);
    let mut panels = vec![0.0; padded * terms];
    for (row, coefficients) in coefficients.chunks_exact(terms.max(1)).enumerate() {
        let panel = &mut panels[row / PANEL * PANEL * terms..];
        for (term, coefficient) in coefficients.iter().enumerate() {
            panel[term * PANEL + row % PANEL] = *coefficient;
        }
    }
    with_scratch((terms + padded) * STRIP, |scratch| {
        dispatch(Fold {
            rows,
            panels: &panels,
            rank,
            terms,
            variance,
            floor,
            residual,
            scratch,
        });
    });
}

/// Rows of C R that are computed together.
const PANEL: usize = 4;

struct Fold<'a> {
    rows: &'a mut [f32],
    /// C in panels of rows, each with the layout of [`combine_rows`].
    panels: &'a [f32],
    rank: usize,
    terms: usize,
    variance: &'a [f32],
    floor: f32,
    residual: &'a mut [f32],
    scratch: &'a mut [f32],
}

impl WithSimd for Fold<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rank, terms, .. } = self;
        let length = self.variance.len();
        let (strip, combined) = self.scratch.split_at_mut(terms * STRIP);
        for start in (0..length).step_by(STRIP) {
            let width = STRIP.min(length - start);
            let parts = strip.chunks_exact_mut(STRIP);
            for (part, row) in parts.zip(self.rows.chunks_exact(length)) {
                part[..width].copy_from_slice(&row[start..start + width]);
            }
            let panels = self.panels.chunks_exact((PANEL * terms).max(1));
            for (panel, out) in panels.zip(combined.chunks_exact_mut(PANEL * STRIP)) {
                combine_rows::<PANEL, S>(simd, panel, strip, out, STRIP);
            }
            let residual = &mut self.residual[start..start + width];
            let variance = &self.variance[start..start + width];
            residual.copy_from_slice(variance);
            let rows = self.rows.chunks_exact_mut(length).take(rank);
            for (row, combined) in rows.zip(combined.chunks_exact(STRIP)) {
                let (row, combined) = (&mut row[start..start + width], &combined[..width]);
                row.copy_from_slice(combined);
                for (residual, entry) in residual.iter_mut().zip(combined) {
                    *residual = (-*entry).mul_add(*entry, *residual);
                }
            }
            for (residual, variance) in residual.iter_mut().zip(variance) {
                // Not `max`, which drops NaN.
                let least = self.floor * variance;
                let least = if least < f32::MIN_POSITIVE {
                    f32::MIN_POSITIVE
                } else {
                    least
                };
                *residual = if *residual < least { least } else { *residual };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::tests::numbers;

    const RANK: usize = 3;

    #[test]
    fn no_rows_and_no_elements_are_allowed() {
        let mut residual = [0.0; 3];
        fold(&mut [], &[], &[1.0, 2.0, 0.0], 0.5, &mut residual);
        assert_eq!(residual, [1.0, 2.0, f32::MIN_POSITIVE]);
        fold(&mut [], &[1.0; 6], &[], 0.5, &mut []);
        weighted_projections(&[], &[1.0], &[1.0], &mut []);
        let mut products = [f64::NAN; 2];
        weighted_projections(&[], &[], &[], &mut products);
        assert_eq!(products, [0.0; 2]);
    }

    #[test]
    fn what_is_not_a_number_stays_so() {
        let (mut rows, mut residual) = ([f32::NAN, 1.0], [0.0; 2]);
        fold(&mut rows, &[1.0], &[4.0, 4.0], 0.5, &mut residual);
        assert!(residual[0].is_nan() && residual[1] == 3.0, "{residual:?}");
        fold(&mut [], &[], &[f32::NAN], 0.5, &mut residual[..1]);
        assert!(residual[0].is_nan());
    }

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
            weighted_projections(&rows, &vector, &variance, &mut products);
            for (k, product) in products.iter().enumerate() {
                let expected: f64 = (0..length).map(|i| entry(k, i) * d(i) / v(i)).sum();
                assert!((product - expected).abs() < bound);
            }

            // The vector is one row more, and two of the four rows are combined.
            let mut folded = [&rows[..], &vector].concat();
            let coefficients = [0.5, 0.0, -1.0, 0.25, -0.5, 2.0, 0.75, 1.0];
            let mut residual = vec![f32::NAN; length];
            fold(&mut folded, &coefficients, &variance, 0.01, &mut residual);
            assert_eq!(folded[2 * length..3 * length], rows[2 * length..]);
            for (i, &residual) in residual.iter().enumerate() {
                let mut rest = v(i);
                for (k, weights) in coefficients.chunks_exact(4).enumerate() {
                    let terms = weights
                        .iter()
                        .zip([entry(0, i), entry(1, i), entry(2, i), d(i)]);
                    let expected: f64 = terms.map(|(w, entry)| f64::from(*w) * entry).sum();
                    assert!((f64::from(folded[k * length + i]) - expected).abs() < 1e-5);
                    rest -= expected * expected;
                }
                let expected = rest.max(0.01 * v(i));
                assert!((f64::from(residual) - expected).abs() < 1e-4);
            }
        }
    }
}
