//! Small dense algebra in f64 on the host: the K×K matrices of a rank-K Gaussian.
//!
//! Every low-rank formula of this library uses on the host one symmetric positive semi-definite K×K
//! block B (B = F (F ⊘ ψ)ᵀ in covariance form, B = V Vᵀ with V = U/√d in precision form):
//!
//! ```text
//! A   = (I + B)⁻¹                      Woodbury's inner inverse        IdentityPlus::inverse
//! log |I + B|                          matrix determinant lemma        IdentityPlus::log_determinant
//! W,  WᵀW = (I + B)⁻¹                  marginal variances              IdentityPlus::inverse_root
//! M   = R⁻ᵀ (I + R)⁻¹,  R Rᵀ = I + B   draws of the precision form     IdentityPlus::draw_coefficients
//! θ   = μ + d^-½ ⊙ [ε − Vᵀ M V ε]      has covariance (UᵀU + diag d)⁻¹ for ε ~ N(0, I)
//! B   = Σₖ λₖ vₖ vₖᵀ,  λ₁ ≥ λ₂ ≥ …      truncation to the top pairs     SymmetricEigen
//! λ₁, v₁, … of a large matrix          the same for few pairs          SymmetricEigen::leading
//! ```
//!
//! Matrices are row-major. Only the lower triangle of a symmetric argument is read. Up to
//! `LOOP_LIMIT` rows plain loops are used, because the overhead of `faer`'s blocked routines
//! exceeds the cost of the factorisation; above it `faer` is used.
//!
//! Reference: Golub and Van Loan, *Matrix Computations*, 4th ed., §2.1.4 (Woodbury), §4.2
//! (Cholesky), §8.3 (symmetric eigenproblem).

mod cholesky;
mod eigen;
mod error;
mod identity_plus;
mod lbfgs;
mod leading;
mod matrix;

pub use cholesky::{Cholesky, PIVOT_FLOOR};
pub use eigen::SymmetricEigen;
pub use error::AlgebraError;
pub use identity_plus::GRAM_ROUNDING;
pub use leading::EigenPair;
pub use matrix::SquareMatrix;

pub(crate) use error::{check_finite, check_length};
pub(crate) use identity_plus::IdentityPlus;
#[doc(hidden)]
pub use lbfgs::Lbfgs;
#[doc(hidden)]
pub use matrix::{dot, summed};

/// The largest matrix factorised by plain loops instead of `faer`.
const LOOP_LIMIT: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::identity_plus::Root;
    use super::matrix::plus_scaled_identity;
    use super::*;

    /// Rounding of a few K×K products and solves on matrices of this condition number.
    fn rounding(size: usize, condition: f64) -> f64 {
        16.0 * size.max(1) as f64 * f64::EPSILON * condition
    }

    fn matrix<const N: usize>(rows: [[f64; N]; N]) -> SquareMatrix {
        SquareMatrix {
            size: N,
            values: rows.concat(),
        }
    }

    fn largest_difference(left: &SquareMatrix, right: &SquareMatrix) -> f64 {
        assert_eq!(left.size, right.size);
        let pairs = left.values.iter().zip(&right.values);
        pairs.fold(0.0, |max, (l, r)| max.max((l - r).abs()))
    }

    /// A root R of I + B without Cholesky, as used for a clamped B.
    fn symmetric_root(block: &SquareMatrix) -> IdentityPlus {
        let eigen = SymmetricEigen::new(block).unwrap();
        IdentityPlus {
            root: Root::Symmetric(eigen),
        }
    }

    /// K ≤ `limit` rows of length D: V.
    fn rows_up_to(limit: usize) -> impl Strategy<Value = (usize, usize, Vec<f64>)> {
        (0..=limit, 1_usize..=9).prop_flat_map(|(rank, dimension)| {
            let entries = vec(-2.0..2.0, rank * dimension);
            entries.prop_map(move |values| (rank, dimension, values))
        })
    }

    /// Rows with K on both sides of D and of the loop limit.
    fn rows() -> impl Strategy<Value = (usize, usize, Vec<f64>)> {
        rows_up_to(LOOP_LIMIT + 6)
    }

    fn transpose_rows(rank: usize, dimension: usize, rows: &[f64]) -> Vec<f64> {
        let entry = |at: usize| rows[at % rank * dimension + at / rank];
        (0..rank * dimension).map(entry).collect()
    }

    /// VᵀMV for rows V, D×D.
    fn sandwich(dimension: usize, rows: &[f64], middle: &SquareMatrix) -> SquareMatrix {
        let rank = middle.size;
        SquareMatrix::from_fn(dimension, |i, j| {
            let mut sum = 0.0;
            for k in 0..rank {
                for l in 0..rank {
                    sum += rows[k * dimension + i] * middle.get(k, l) * rows[l * dimension + j];
                }
            }
            sum
        })
    }

    #[test]
    fn cholesky_of_a_worked_example() {
        let factor = Cholesky::new(&matrix([
            [4.0, 12.0, -16.0],
            [12.0, 37.0, -43.0],
            [-16.0, -43.0, 98.0],
        ]))
        .unwrap();
        let expected = matrix([[2.0, 0.0, 0.0], [6.0, 1.0, 0.0], [-8.0, 5.0, 3.0]]);
        assert_eq!(factor.lower(), &expected);
        assert_eq!(factor.jitter(), 0.0);
        let logarithm = 2.0 * 6.0_f64.ln();
        assert!((factor.log_determinant() - logarithm).abs() <= rounding(3, logarithm));
    }

    #[test]
    fn identity_plus_a_worked_example() {
        let block = matrix([[1.0, -1.0], [-1.0, 2.0]]);
        let capacitance = IdentityPlus::new(&block).unwrap();
        let expected = matrix([[0.6, 0.2], [0.2, 0.4]]);
        assert!(largest_difference(&capacitance.inverse(), &expected) <= rounding(2, 1.0));
        assert!((capacitance.log_determinant() - 5.0_f64.ln()).abs() <= rounding(2, 1.0));
        assert!(matches!(capacitance.root, Root::Triangular(_)));
    }

    #[test]
    fn one_row_is_the_scalar_formula() {
        for value in [0.0_f64, 1e-9, 0.7, 3.0, 1e12] {
            let root = (1.0 + value).sqrt();
            let capacitance = IdentityPlus::new(&matrix([[value]])).unwrap();
            let relative = |found: f64, expected: f64| (found / expected - 1.0).abs();
            let bound = rounding(1, 1.0);
            assert!(relative(capacitance.inverse().get(0, 0), 1.0 / (1.0 + value)) <= bound);
            assert!(relative(capacitance.inverse_root().get(0, 0), 1.0 / root) <= bound);
            let coefficient = capacitance.draw_coefficients().get(0, 0);
            assert!(relative(coefficient, 1.0 / (root * (1.0 + root))) <= bound);
            let logarithm = value.ln_1p();
            let error = (capacitance.log_determinant() - logarithm).abs();
            assert!(error <= rounding(1, 1.0 + logarithm), "{value}: {error:e}");
        }
    }

    #[test]
    fn no_rows_is_the_empty_matrix() {
        let empty = SquareMatrix::identity(0);
        let capacitance = IdentityPlus::new(&empty).unwrap();
        assert_eq!(capacitance.log_determinant(), 0.0);
        assert_eq!(capacitance.inverse(), empty);
        assert_eq!(capacitance.draw_coefficients(), empty);
        assert_eq!(capacitance.inverse_root(), empty);
        assert_eq!(Cholesky::new(&empty).unwrap().log_determinant(), 0.0);
        assert_eq!(Cholesky::with_floor(&empty).unwrap().jitter(), 0.0);
        assert_eq!(Cholesky::new(&empty).unwrap().solve(&mut []), Ok(()));
        assert_eq!(SymmetricEigen::new(&empty).unwrap().values(), [0.0; 0]);
        assert_eq!(SquareMatrix::gram(0, &[]).unwrap(), empty);
        assert_eq!(empty.multiply(&empty).unwrap(), empty);
        assert_eq!(empty.nearest_orthogonal().unwrap(), empty);
    }

    #[test]
    fn zero_block_halves_the_draw_coefficients() {
        let zero = SquareMatrix::from_fn(3, |_, _| 0.0);
        let half = SquareMatrix::from_fn(3, |i, j| if i == j { 0.5 } else { 0.0 });
        assert_eq!(IdentityPlus::new(&zero).unwrap().draw_coefficients(), half);
        assert_eq!(symmetric_root(&zero).draw_coefficients(), half);
    }

    #[test]
    fn floor_repairs_rounding_and_nothing_else_at_any_scale() {
        for scale in [1e-150, 1.0, 1e150] {
            let rank_one = SquareMatrix::gram(3, &[1.0, -2.0, 3.0]).unwrap();
            let rank_one = SquareMatrix::from_fn(3, |i, j| scale * rank_one.get(i, j));
            assert_eq!(
                Cholesky::new(&rank_one).unwrap_err(),
                AlgebraError::NotPositiveDefinite {
                    what: "Cholesky factorisation",
                    index: 1
                }
            );
            let factor = Cholesky::with_floor(&rank_one).unwrap();
            let floor = PIVOT_FLOOR * rank_one.trace() / 3.0;
            assert_eq!(factor.jitter(), 2.0 * floor);
            let lower = factor.lower();
            let product = lower.multiply(&lower.transpose()).unwrap();
            let error = largest_difference(&product, &rank_one);
            let bound = factor.jitter() + rounding(3, rank_one.trace());
            assert!(error <= bound, "{error:e} > {bound:e} at scale {scale:e}");

            let indefinite = plus_scaled_identity(&rank_one, -4.0 * floor);
            assert!(Cholesky::with_floor(&indefinite).is_err());
        }
    }

    #[test]
    fn floor_applies_to_small_positive_pivots() {
        // The second pivot, 1e-13, lies between rounding and the floor of 1e-12 · ½.
        let small = matrix([[1.0, 0.0], [0.0, 1e-13]]);
        assert_eq!(Cholesky::new(&small).unwrap().jitter(), 0.0);
        let jitter = Cholesky::with_floor(&small).unwrap().jitter();
        assert_eq!(jitter, PIVOT_FLOOR * small.trace());
    }

    #[test]
    fn strict_factorisation_does_not_depend_on_units() {
        let tiny = matrix([[1.0, 1e-15], [1e-15, 1e-29]]);
        assert_eq!(Cholesky::new(&tiny).unwrap().jitter(), 0.0);
    }

    #[test]
    fn eigenvalues_below_zero_by_rounding_are_clamped() {
        // s [[1, 1], [1, 1−η]] has the eigenvalues s (1 − η/2 ± √(1 + η²/4)).
        let (scale, eta) = (1e6_f64, 1e-4_f64);
        let block = matrix([[scale, scale], [scale, scale * (1.0 - eta)]]);
        let capacitance = IdentityPlus::new(&block).unwrap();
        let half_gap = (1.0 + 0.25 * eta * eta).sqrt();
        let largest = scale * (1.0 - 0.5 * eta + half_gap);
        let Root::Symmetric(eigen) = &capacitance.root else {
            panic!("it has a Cholesky factor");
        };
        assert_eq!(eigen.values()[1], 0.0);
        let logarithm = largest.ln_1p();
        assert!((capacitance.log_determinant() - logarithm).abs() <= rounding(2, logarithm));
        let inverse = SymmetricEigen::new(&capacitance.inverse()).unwrap();
        assert!((inverse.values()[0] - 1.0).abs() <= rounding(2, 1.0));
        assert!(inverse.values()[1] > 0.0);
    }

    #[test]
    fn bad_input_is_an_error_that_says_where() {
        let error = IdentityPlus::new(&matrix([[1.0, 0.0], [f64::NAN, 1.0]])).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("B of I + B: entry (1, 0) is NaN; likely cause")
        );
        let infinite = matrix([[f64::INFINITY]]);
        assert!(matches!(
            Cholesky::new(&infinite),
            Err(AlgebraError::NotFinite { .. })
        ));
        assert!(matches!(
            Cholesky::with_floor(&infinite),
            Err(AlgebraError::NotFinite { .. })
        ));
        assert!(matches!(
            SymmetricEigen::new(&infinite),
            Err(AlgebraError::NotFinite { .. })
        ));
        assert!(matches!(
            infinite.nearest_orthogonal(),
            Err(AlgebraError::NotFinite { .. })
        ));

        for indefinite in [
            matrix([[0.0, 2.0], [2.0, 0.0]]),
            matrix([[1.0, 0.0], [0.0, -0.1]]),
        ] {
            let error = IdentityPlus::new(&indefinite).unwrap_err();
            let expected = AlgebraError::NotPositiveDefinite {
                what: "B of I + B",
                index: 1,
            };
            assert_eq!(error, expected);
            assert!(Cholesky::new(&indefinite).is_err());
            assert!(Cholesky::with_floor(&indefinite).is_err());
        }
        assert!(Cholesky::with_floor(&matrix([[0.0]])).is_err());

        assert_eq!(
            SquareMatrix::from_row_major(2, vec![0.0; 3])
                .unwrap_err()
                .to_string(),
            "square matrix: expected length 4, found 3; likely cause: arguments for models or \
             ranks of different sizes, or a matrix not stored row by row"
        );
        assert!(SquareMatrix::gram(2, &[1.0; 3]).is_err());
        assert!(SquareMatrix::gram(0, &[1.0]).is_err());
        let two = SquareMatrix::identity(2);
        assert!(two.multiply(&SquareMatrix::identity(3)).is_err());
        assert!(two.multiply_vector(&[1.0]).is_err());
        assert!(Cholesky::new(&two).unwrap().solve(&mut [1.0; 3]).is_err());
        assert!(
            Cholesky::new(&two)
                .unwrap()
                .solve_lower(&mut [1.0; 3])
                .is_err()
        );
    }

    #[test]
    fn overflow_is_an_error() {
        let huge = SquareMatrix::from_fn(2, |i, j| if i == j { f64::MAX } else { -f64::MAX });
        assert!(Cholesky::new(&huge).is_err());
        assert!(Cholesky::with_floor(&huge).is_err());
    }

    /// `faer` 0.24.4 does not converge on this product H S of a reflection, 15 H = 15 I − 2vvᵀ,
    /// and S = 15 (I + wwᵀ); it does after a change of basis.
    #[test]
    fn nearest_orthogonal_survives_a_failed_iteration() {
        let v = [-2.0, 1.0, -2.0, -1.0, -2.0, 1.0];
        let w = [1.0, 0.0, 0.0, 3.0, -3.0, -2.0];
        let identity = |i: usize, j: usize| if i == j { 1.0 } else { 0.0 };
        let reflection = SquareMatrix::from_fn(6, |i, j| 15.0 * identity(i, j) - 2.0 * v[i] * v[j]);
        let stretch = SquareMatrix::from_fn(6, |i, j| identity(i, j) + w[i] * w[j]);
        let product = reflection.multiply(&stretch).unwrap();
        let expected = SquareMatrix::from_fn(6, |i, j| reflection.get(i, j) / 15.0);
        let found = product.nearest_orthogonal().unwrap();
        assert!(largest_difference(&found, &expected) <= rounding(6, 24.0));
    }

    #[test]
    fn reflections_are_their_own_inverse() {
        let original = matrix([[1.0, 2.0], [3.0, 4.0]]);
        let mut reflected = original.clone();
        // H = [[−3, −4], [−4, 3]]/5 for v = (2, 1).
        reflected.reflect_rows(&[2.0, 1.0]);
        let expected = matrix([[-2.2, 0.4], [-5.0, 0.0]]);
        assert!(largest_difference(&reflected, &expected) <= rounding(2, 5.0));
        reflected.reflect_rows(&[2.0, 1.0]);
        assert!(largest_difference(&reflected, &original) <= rounding(2, 5.0));
    }

    proptest! {
        #[test]
        fn inverse_and_its_root_invert((rank, _, rows) in rows()) {
            let block = SquareMatrix::gram(rank, &rows).unwrap();
            let capacitance = IdentityPlus::new(&block).unwrap();
            let inverse = capacitance.inverse();
            prop_assert_eq!(&inverse, &inverse.transpose());
            let product = inverse.multiply(&plus_scaled_identity(&block, 1.0)).unwrap();
            let bound = rounding(rank, 1.0 + block.trace());
            prop_assert!(largest_difference(&product, &SquareMatrix::identity(rank)) <= bound);
            for either in [capacitance, symmetric_root(&block)] {
                let root = either.inverse_root();
                let product = root.transpose().multiply(&root).unwrap();
                prop_assert!(largest_difference(&product, &inverse) <= bound);
            }
        }

        /// log|I + VVᵀ| = log|I + VᵀV|, by Cholesky and by eigenvalues.
        #[test]
        fn log_determinant_of_either_gram((rank, dimension, rows) in rows()) {
            let small = SquareMatrix::gram(rank, &rows).unwrap();
            let columns = transpose_rows(rank, dimension, &rows);
            let large = SquareMatrix::gram(dimension, &columns).unwrap();
            let expected = IdentityPlus::new(&small).unwrap().log_determinant();
            let bound = rounding(rank + dimension, 1.0 + small.trace());
            for other in [
                IdentityPlus::new(&large).unwrap().log_determinant(),
                symmetric_root(&small).log_determinant(),
            ] {
                prop_assert!((other - expected).abs() <= bound, "{other} {expected}");
            }
        }

        /// (UᵀU + diag d)⁻¹ = d⁻¹ − (U/d)ᵀ (I + U d⁻¹ Uᵀ)⁻¹ (U/d).
        #[test]
        fn woodbury_is_the_dense_inverse(
            (rank, dimension, rows) in rows(),
            logarithms in vec(-1.5..1.5, 9),
        ) {
            let diagonal: Vec<f64> = logarithms[..dimension].iter().map(|l: &f64| l.exp()).collect();
            let at = |index: usize| diagonal[index % dimension];
            let whitened: Vec<f64> = (0..rows.len()).map(|i| rows[i] / at(i).sqrt()).collect();
            let scaled: Vec<f64> = (0..rows.len()).map(|i| rows[i] / at(i)).collect();
            let block = SquareMatrix::gram(rank, &whitened).unwrap();
            let inner = IdentityPlus::new(&block).unwrap().inverse();
            let correction = sandwich(dimension, &scaled, &inner);
            let gram = sandwich(dimension, &rows, &SquareMatrix::identity(rank));
            let precision = SquareMatrix::from_fn(dimension, |i, j| {
                gram.get(i, j) + if i == j { diagonal[i] } else { 0.0 }
            });
            let direct = Cholesky::new(&precision).unwrap().inverse();
            let woodbury = SquareMatrix::from_fn(dimension, |i, j| {
                (if i == j { 1.0 / diagonal[i] } else { 0.0 }) - correction.get(i, j)
            });
            let smallest = diagonal.iter().copied().fold(f64::INFINITY, f64::min);
            let condition = precision.trace() / smallest;
            let bound = rounding(rank + dimension, condition / smallest);
            prop_assert!(largest_difference(&woodbury, &direct) <= bound);
        }

        /// T = I − VᵀMV has T Tᵀ (I + VᵀV) = I for both roots, whatever the rank of V.
        #[test]
        fn draw_coefficients_whiten((rank, dimension, rows) in rows()) {
            let block = SquareMatrix::gram(rank, &rows).unwrap();
            let gram = sandwich(dimension, &rows, &SquareMatrix::identity(rank));
            for either in [IdentityPlus::new(&block).unwrap(), symmetric_root(&block)] {
                let inner = sandwich(dimension, &rows, &either.draw_coefficients());
                let map = SquareMatrix::from_fn(dimension, |i, j| {
                    (if i == j { 1.0 } else { 0.0 }) - inner.get(i, j)
                });
                let product = map
                    .multiply(&map.transpose())
                    .and_then(|covariance| covariance.multiply(&plus_scaled_identity(&gram, 1.0)))
                    .unwrap();
                let condition = 1.0 + block.trace();
                let bound = rounding(rank + dimension, condition * condition);
                let error = largest_difference(&product, &SquareMatrix::identity(dimension));
                prop_assert!(error <= bound, "{error:e} > {bound:e}");
            }
        }

        #[test]
        fn eigenpairs_rebuild_the_matrix((rank, _, rows) in rows()) {
            let gram = SquareMatrix::gram(rank, &rows).unwrap();
            let eigen = SymmetricEigen::new(&gram).unwrap();
            let bound = rounding(rank, gram.frobenius_norm());
            prop_assert!(largest_difference(&eigen.map(|value| value), &gram) <= bound);
            prop_assert!(eigen.values().is_sorted_by(|left, right| left >= right));
            let vectors = eigen.vectors();
            let product = vectors.multiply(&vectors.transpose()).unwrap();
            let identity = SquareMatrix::identity(rank);
            prop_assert!(largest_difference(&product, &identity) <= rounding(rank, 1.0));
            let root = eigen.square_root();
            prop_assert!(largest_difference(&root.multiply(&root).unwrap(), &gram) <= bound);
            for k in 0..rank {
                let largest = vectors.row(k).iter().fold(0.0_f64, |a, b| a.max(b.abs()));
                prop_assert!(vectors.row(k).contains(&largest));
            }
        }

        #[test]
        fn solves_undo_products((rank, _, rows) in rows(), columns in 1_usize..4) {
            let block = SquareMatrix::gram(rank, &rows).unwrap();
            let matrix = plus_scaled_identity(&block, 1.0);
            let factor = Cholesky::new(&matrix).unwrap();
            let right: Vec<f64> = (0..rank * columns).map(|at| (at % 7) as f64 - 3.0).collect();
            let mut whole = right.clone();
            factor.solve(&mut whole).unwrap();
            let mut halves = right.clone();
            factor.solve_lower(&mut halves).unwrap();
            factor.solve_lower_transposed(&mut halves).unwrap();
            prop_assert_eq!(&whole, &halves);
            let bound = rounding(rank, 3.0 * rank as f64 * (1.0 + block.trace()));
            for column in 0..columns {
                let solved: Vec<f64> = (0..rank).map(|k| whole[k * columns + column]).collect();
                for (k, found) in matrix.multiply_vector(&solved).unwrap().iter().enumerate() {
                    prop_assert!((found - right[k * columns + column]).abs() <= bound);
                }
            }
        }

        /// A matrix bordered by an identity goes through `faer` and must give the loops' result.
        #[test]
        fn loops_agree_with_faer((rank, _, rows) in rows_up_to(LOOP_LIMIT)) {
            let block = SquareMatrix::gram(rank, &rows).unwrap();
            let bordered = SquareMatrix::from_fn(LOOP_LIMIT + 1, |i, j| {
                if i < rank && j < rank { block.get(i, j) } else { 0.0 }
            });
            let inside = |matrix: SquareMatrix| SquareMatrix::from_fn(rank, |i, j| matrix.get(i, j));
            let loops = IdentityPlus::new(&block).unwrap();
            let faer = IdentityPlus::new(&bordered).unwrap();
            let bound = rounding(rank, 1.0 + block.trace());
            for (left, right) in [
                (loops.inverse(), faer.inverse()),
                (loops.inverse_root(), faer.inverse_root()),
                (loops.draw_coefficients(), faer.draw_coefficients()),
            ] {
                prop_assert!(largest_difference(&left, &inside(right)) <= bound);
            }
            prop_assert!((loops.log_determinant() - faer.log_determinant()).abs() <= bound);
            let product = inside(bordered.multiply(&bordered).unwrap());
            let bound = rounding(rank, block.trace() * block.trace());
            prop_assert!(largest_difference(&product, &block.multiply(&block).unwrap()) <= bound);
        }

        #[test]
        fn nearest_orthogonal_is_orthogonal_and_fixes_orthogonal((rank, _, rows) in rows()) {
            let gram = SquareMatrix::gram(rank, &rows).unwrap();
            let orthogonal = SymmetricEigen::new(&gram).unwrap().vectors().clone();
            let stretched = orthogonal.multiply(&plus_scaled_identity(&gram, 1.0)).unwrap();
            let found = stretched.nearest_orthogonal().unwrap();
            let bound = rounding(rank, 1.0 + gram.trace());
            prop_assert!(largest_difference(&found, &orthogonal) <= bound);
        }
    }
}
