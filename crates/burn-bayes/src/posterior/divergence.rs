//! Divergences and distances between Gaussians.
//!
//! For p = N(m₁, S₁) and q = N(m₂, S₂) with S = L Lᵀ and W = L₂⁻¹ L₁ (lower triangular):
//!
//! ```text
//! KL(p‖q)   = ½ [tr(S₂⁻¹S₁) − D + log|S₂| − log|S₁| + (m₁−m₂)ᵀ S₂⁻¹ (m₁−m₂)]
//!           = ½ [Σ_{i>j} W²ᵢⱼ + Σⱼ (W²ⱼⱼ − 1 − 2 log Wⱼⱼ) + ‖L₂⁻¹(m₁−m₂)‖²]
//! W₂(p,q)²  = ‖m₁−m₂‖² + tr(S₁ + S₂ − 2 (S₂^½ S₁ S₂^½)^½)
//!           = ‖m₁−m₂‖² + ‖L₁ − L₂ P Qᵀ‖²,   L₂ᵀ L₁ = P Σ Qᵀ (singular values)
//! relative mean        ‖m₁−m₂‖ / ‖m₁‖             the truth first
//! relative covariance  ‖S₁−S₂‖_F / ‖S₁‖_F
//! ```
//!
//! The second line of each formula is used: it is a sum of non-negative terms, whereas the first
//! line subtracts numbers of the size of tr S. Near p = q the trace form would lose half of the
//! digits of W₂.
//!
//! References: Kullback and Leibler (1951); Givens and Shortt (1984), "A class of Wasserstein
//! metrics for probability distributions"; Bhatia, Jain and Lim (2019), "On the Bures–Wasserstein
//! distance between positive definite matrices", for the orthogonal Procrustes form.

use burn_bayes_eval::Bounded;

use super::dense::DenseGaussian;
use crate::algebra::{SquareMatrix, check_length, dot};
use crate::error::Result;

/// The distances between a true Gaussian and its approximation that the papers report.
///
/// ```
/// use burn_bayes::posterior::{DenseGaussian, GaussianDistance};
///
/// let truth = DenseGaussian::from_variances(vec![3.0, 4.0], &[1.0, 1.0])?;
/// let approximation = DenseGaussian::from_variances(vec![3.0, 3.0], &[1.0, 1.0])?;
/// let distance = GaussianDistance::between(&truth, &approximation)?;
/// assert_eq!(distance.relative_mean, 0.2);
/// assert_eq!(distance.kl, 0.5);
/// assert_eq!(distance.wasserstein, 1.0);
/// assert_eq!(distance.scaled_wasserstein, 0.5);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct GaussianDistance {
    /// ‖m − m̂‖ / ‖m‖; 0 where both means are 0, infinite where only the true mean is 0.
    pub relative_mean: f64,
    /// ‖S − Ŝ‖_F / ‖S‖_F.
    pub relative_covariance: f64,
    /// KL(truth ‖ approximation), nats.
    pub kl: f64,
    /// KL(approximation ‖ truth), nats; variational inference minimises this divergence.
    pub reverse_kl: f64,
    /// 2-Wasserstein distance, in the units of the weights (not squared).
    pub wasserstein: f64,
    /// The 2-Wasserstein distance divided by D.
    pub scaled_wasserstein: f64,
}

impl GaussianDistance {
    /// Compares `approximation` with `truth`, which must have the same dimension.
    pub fn between(truth: &DenseGaussian, approximation: &DenseGaussian) -> Result<Self> {
        let wasserstein = truth.wasserstein_distance(approximation)?;
        Ok(Self {
            relative_mean: truth.relative_mean_distance(approximation)?,
            relative_covariance: truth.relative_covariance_distance(approximation)?,
            kl: truth.kl_divergence(approximation)?,
            reverse_kl: approximation.kl_divergence(truth)?,
            wasserstein,
            scaled_wasserstein: wasserstein / truth.dimension().max(1) as f64,
        })
    }
}

/// Comparisons.
impl DenseGaussian {
    /// KL(self ‖ `other`), nats; never negative, and 0 for two equal Gaussians.
    pub fn kl_divergence(&self, other: &Self) -> Result<f64> {
        let mut difference = other.residual(self.mean())?;
        other.cholesky().solve_lower(&mut difference)?;
        let mut ratio = self.cholesky().lower().clone().into_row_major();
        other.cholesky().solve_lower(&mut ratio)?;
        let ratio = SquareMatrix::from_row_major(self.dimension(), ratio)?;
        let scales: f64 = ratio.diagonal().map(excess_of_scale).sum();
        let shears: f64 = (0..ratio.size())
            .map(|i| squared_norm(&ratio.row(i)[..i]))
            .sum();
        Ok(0.5 * (scales + shears + squared_norm(&difference)))
    }

    /// The 2-Wasserstein distance (not squared); 0 for two equal Gaussians up to rounding.
    fn wasserstein_distance(&self, other: &Self) -> Result<f64> {
        let mean = squared_norm(&other.residual(self.mean())?);
        let (left, right) = (self.cholesky().lower(), other.cholesky().lower());
        let rotation = right.transpose().multiply(left)?.nearest_orthogonal()?;
        let aligned = right.multiply(&rotation)?;
        Ok((mean + squared_distance(left, &aligned)).sqrt())
    }

    /// ‖m − m̂‖ / ‖m‖ with self the truth; 0 where both means are 0, infinite where only m is.
    fn relative_mean_distance(&self, approximation: &Self) -> Result<f64> {
        let distance = squared_norm(&approximation.residual(self.mean())?).sqrt();
        let scale = squared_norm(self.mean()).sqrt();
        Ok(if distance == 0.0 {
            0.0
        } else {
            distance / scale
        })
    }

    /// ‖S − Ŝ‖_F / ‖S‖_F with self the truth.
    pub fn relative_covariance_distance(&self, approximation: &Self) -> Result<f64> {
        check_length(
            "dimension of the approximation",
            self.dimension(),
            approximation.dimension(),
        )?;
        let distance = squared_distance(self.covariance(), approximation.covariance()).sqrt();
        let scale = self.covariance().frobenius_norm();
        Ok(if distance == 0.0 {
            0.0
        } else {
            distance / scale
        })
    }
}

/// w² − 1 − 2 log w = u² + 2 (u − log w) with u = w − 1, which does not cancel near w = 1.
fn excess_of_scale(scale: f64) -> f64 {
    let excess = scale - 1.0;
    // log w ≤ u; rounding of the logarithm must not take the sum below 0.
    excess * excess + 2.0 * (excess - scale.ln()).at_least(0.0)
}

fn squared_norm(vector: &[f64]) -> f64 {
    dot(vector, vector)
}

fn squared_distance(left: &SquareMatrix, right: &SquareMatrix) -> f64 {
    let pairs = left.as_slice().iter().zip(right.as_slice());
    pairs.map(|(l, r)| (l - r) * (l - r)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::algebra::SymmetricEigen;
    use crate::error::Error;
    use crate::posterior::dense::tests::{Parts, assert_close, dimension, parts, rounding};

    /// Two Gaussians of the same dimension, one from each form.
    fn pair() -> impl Strategy<Value = (DenseGaussian, DenseGaussian)> {
        dimension()
            .prop_flat_map(|dimension| (parts(dimension), parts(dimension)))
            .prop_map(|(left, right)| (left.covariance_form(), right.precision_form()))
    }

    fn orthogonal(dimension: usize, entries: &[f64]) -> SquareMatrix {
        let matrix = SquareMatrix::from_row_major(dimension, entries.to_vec()).unwrap();
        matrix.nearest_orthogonal().unwrap()
    }

    /// The Gaussian of Q θ.
    fn transformed(gaussian: &DenseGaussian, rotation: &SquareMatrix) -> DenseGaussian {
        let mean = rotation.multiply_vector(gaussian.mean()).unwrap();
        let root = rotation.multiply(gaussian.cholesky().lower()).unwrap();
        let covariance = SquareMatrix::gram(gaussian.dimension(), root.as_slice()).unwrap();
        DenseGaussian::new(mean, covariance.into_row_major()).unwrap()
    }

    /// Largest over smallest eigenvalue.
    fn condition(gaussian: &DenseGaussian) -> f64 {
        let eigen = SymmetricEigen::new(gaussian.covariance()).unwrap();
        eigen.values()[0] / eigen.values()[gaussian.dimension() - 1]
    }

    /// Size of W₂'s rounding: ε·√(tr S · condition) for both, and ε times the means.
    fn wasserstein_rounding(gaussians: &[&DenseGaussian]) -> f64 {
        let one = |g: &&DenseGaussian| {
            squared_norm(g.mean()).sqrt() + (g.covariance().trace() * condition(g)).sqrt()
        };
        // The middle matrix of the Procrustes problem has the product of the two conditions.
        let scale: f64 = gaussians.iter().map(one).sum();
        let worst = gaussians.iter().map(|g| condition(g)).fold(1.0, f64::max);
        rounding(gaussians[0].dimension(), scale * worst)
    }

    /// The papers' formula: tr(S₁ + S₂ − 2 (S₂^½ S₁ S₂^½)^½) + ‖m₁−m₂‖².
    fn trace_formula(left: &DenseGaussian, right: &DenseGaussian) -> f64 {
        let root = SymmetricEigen::new(right.covariance())
            .unwrap()
            .square_root();
        let inner = root
            .multiply(left.covariance())
            .unwrap()
            .multiply(&root)
            .unwrap();
        let cross = SymmetricEigen::new(&inner).unwrap().square_root().trace();
        let traces = left.covariance().trace() + right.covariance().trace();
        squared_norm(&right.residual(left.mean()).unwrap()) + traces - 2.0 * cross
    }

    /// The textbook formula, by inverse, trace and determinants.
    fn textbook_kl(left: &DenseGaussian, right: &DenseGaussian) -> f64 {
        let precision = right.precision();
        let trace = precision.multiply(left.covariance()).unwrap().trace();
        let residual = right.residual(left.mean()).unwrap();
        let form = dot(&residual, &precision.multiply_vector(&residual).unwrap());
        let logarithms = right.log_determinant() - left.log_determinant();
        0.5 * (trace + form - left.dimension() as f64 + logarithms)
    }

    #[test]
    fn one_dimension_is_the_textbook_formula() {
        // p = N(1, 4), q = N(3, 9).
        let left = DenseGaussian::from_variances(vec![1.0], &[4.0]).unwrap();
        let right = DenseGaussian::from_variances(vec![3.0], &[9.0]).unwrap();
        let distance = GaussianDistance::between(&left, &right).unwrap();
        let kl = 1.5_f64.ln() + (4.0 + 4.0) / 18.0 - 0.5;
        let reverse_kl = -1.5_f64.ln() + (9.0 + 4.0) / 8.0 - 0.5;
        let wasserstein = (4.0_f64 + 1.0).sqrt();
        let found = [
            distance.relative_mean,
            distance.relative_covariance,
            distance.kl,
            distance.reverse_kl,
            distance.wasserstein,
            distance.scaled_wasserstein,
        ];
        let expected = [2.0, 1.25, kl, reverse_kl, wasserstein, wasserstein];
        assert_close(&found, &expected, rounding(1, wasserstein));
    }

    #[test]
    fn two_dimensions_by_hand() {
        // S₁ has the eigenvalues 1 and 3; q is N((1, −1), I); p has mean (2, −2).
        let left = DenseGaussian::new(vec![2.0, -2.0], vec![2.0, -1.0, -1.0, 2.0]).unwrap();
        let right = DenseGaussian::from_variances(vec![1.0, -1.0], &[1.0, 1.0]).unwrap();
        let distance = GaussianDistance::between(&left, &right).unwrap();
        // KL(p‖q) = ½ [4 − 2 − log 3 + 2]; KL(q‖p) = ½ [4/3 − 2 + log 3 + (2+2−2)/3·1].
        let kl = 0.5 * (4.0 - 3.0_f64.ln());
        // The difference (−1, 1) is the eigenvector of 3: its form under S₁⁻¹ is 2/3.
        let reverse_kl = 0.5 * (4.0 / 3.0 - 2.0 + 3.0_f64.ln() + 2.0 / 3.0);
        let wasserstein = (2.0 + (3.0_f64.sqrt() - 1.0).powi(2)).sqrt();
        // S₁ − I has four entries of magnitude 1; ‖S₁‖² = 10.
        let relative_covariance = 2.0 / 10.0_f64.sqrt();
        let found = [
            distance.relative_mean,
            distance.relative_covariance,
            distance.kl,
            distance.reverse_kl,
            distance.wasserstein,
            distance.scaled_wasserstein,
        ];
        let expected = [
            0.5,
            relative_covariance,
            kl,
            reverse_kl,
            wasserstein,
            0.5 * wasserstein,
        ];
        assert_close(&found, &expected, rounding(2, 3.0));
    }

    #[test]
    fn small_wasserstein_distances_keep_their_digits() {
        // √(1 + δ) − 1 = δ/2 − δ²/8: the trace formula would give 0 or noise near √ε = 1.5e-8.
        let delta = 2.0_f64.powi(-40);
        let left = DenseGaussian::from_variances(vec![0.0; 2], &[1.0, 1.0]).unwrap();
        let right = DenseGaussian::from_variances(vec![0.0; 2], &[1.0 + delta, 1.0]).unwrap();
        let found = left.wasserstein_distance(&right).unwrap();
        assert_close(&[found], &[0.5 * delta], rounding(2, 1.0));
    }

    #[test]
    fn a_degenerate_scale_gives_a_finite_divergence() {
        let left = DenseGaussian::from_variances(vec![0.0], &[1e-60]).unwrap();
        let right = DenseGaussian::from_variances(vec![0.0], &[1.0]).unwrap();
        let expected = 0.5 * (60.0 * 10.0_f64.ln() - 1.0);
        let found = left.kl_divergence(&right).unwrap();
        assert_close(&[found], &[expected], rounding(1, expected));
    }

    #[test]
    fn zero_mean_truth_has_no_relative_error_of_the_mean() {
        let truth = DenseGaussian::from_variances(vec![0.0], &[1.0]).unwrap();
        let shifted = DenseGaussian::from_variances(vec![0.1], &[1.0]).unwrap();
        assert_eq!(truth.relative_mean_distance(&truth).unwrap(), 0.0);
        assert_eq!(
            truth.relative_mean_distance(&shifted).unwrap(),
            f64::INFINITY
        );
    }

    #[test]
    fn different_dimensions_are_an_error() {
        let one = DenseGaussian::from_variances(vec![0.0], &[1.0]).unwrap();
        let two = DenseGaussian::from_variances(vec![0.0; 2], &[1.0; 2]).unwrap();
        let mismatch = |error: Error| error.to_string().contains("expected length");
        assert!(mismatch(GaussianDistance::between(&one, &two).unwrap_err()));
        assert!(mismatch(two.kl_divergence(&one).unwrap_err()));
        assert!(mismatch(two.wasserstein_distance(&one).unwrap_err()));
        assert!(mismatch(
            two.relative_covariance_distance(&one).unwrap_err()
        ));
    }

    #[test]
    fn no_dimension_has_no_distance() {
        let point = DenseGaussian::new(vec![], vec![]).unwrap();
        let distance = GaussianDistance::between(&point, &point).unwrap();
        assert_eq!(
            (
                distance.kl,
                distance.wasserstein,
                distance.scaled_wasserstein
            ),
            (0.0, 0.0, 0.0)
        );
    }

    proptest! {
        #[test]
        fn divergence_is_the_textbook_formula_and_never_negative((left, right) in pair()) {
            let found = left.kl_divergence(&right).unwrap();
            prop_assert!(found >= 0.0);
            let expected = textbook_kl(&left, &right);
            let size = left.covariance().trace() + squared_norm(&right.residual(left.mean()).unwrap());
            let scale = condition(&left) + condition(&right) * (1.0 + size * right.precision().trace());
            assert_close(&[found], &[expected], rounding(left.dimension(), scale));
        }

        #[test]
        fn wasserstein_is_the_trace_formula((left, right) in pair()) {
            let found = left.wasserstein_distance(&right).unwrap();
            let expected = trace_formula(&left, &right);
            // A rounded eigenvalue λ + δ has the root √λ + δ/(2√λ).
            let traces = left.covariance().trace() + right.covariance().trace();
            let means = squared_norm(left.mean()) + squared_norm(right.mean());
            let root = (condition(&left) * condition(&right)).sqrt();
            let bound = rounding(left.dimension(), means + traces * root);
            assert_close(&[found * found], &[expected], bound);
        }

        #[test]
        fn equal_gaussians_have_no_distance((left, right) in pair()) {
            for gaussian in [left, right] {
                let distance = GaussianDistance::between(&gaussian, &gaussian).unwrap();
                prop_assert_eq!(distance.relative_mean, 0.0);
                prop_assert_eq!(distance.relative_covariance, 0.0);
                let bound = rounding(gaussian.dimension(), condition(&gaussian)).powi(2);
                assert_close(&[distance.kl, distance.reverse_kl], &[0.0; 2], bound);
                let bound = wasserstein_rounding(&[&gaussian]);
                assert_close(&[distance.wasserstein], &[0.0], bound);
            }
        }

        #[test]
        fn wasserstein_is_symmetric((left, right) in pair()) {
            let there = left.wasserstein_distance(&right).unwrap();
            let back = right.wasserstein_distance(&left).unwrap();
            assert_close(&[there], &[back], wasserstein_rounding(&[&left, &right]));
        }

        #[test]
        fn wasserstein_obeys_the_triangle_inequality(
            (a, b, c) in (1_usize..=5).prop_flat_map(|d| (parts(d), parts(d), parts(d))),
        ) {
            let (a, b, c) = (a.covariance_form(), b.precision_form(), c.covariance_form());
            let direct = a.wasserstein_distance(&c).unwrap();
            let detour = a.wasserstein_distance(&b).unwrap() + b.wasserstein_distance(&c).unwrap();
            prop_assert!(direct <= detour + wasserstein_rounding(&[&a, &b, &c]));
        }

        /// For one basis of eigenvectors, W² = ‖m₁−m₂‖² + ‖√S₁ − √S₂‖²_F.
        #[test]
        fn commuting_covariances_differ_by_their_roots(
            (left, right, entries) in dimension()
                .prop_flat_map(|d| (parts(d), parts(d), vec(-1.0..1.0, d * d))),
        ) {
            let rotation = orthogonal(left.mean.len(), &entries);
            let diagonal = |parts: &Parts| {
                DenseGaussian::from_variances(parts.mean.clone(), &parts.diagonal).unwrap()
            };
            let (axis_left, axis_right) = (diagonal(&left), diagonal(&right));
            let residual = axis_right.residual(&left.mean).unwrap();
            let pairs = left.diagonal.iter().zip(&right.diagonal);
            let roots: f64 = pairs.map(|(l, r)| (l.sqrt() - r.sqrt()).powi(2)).sum();
            let expected = (squared_norm(&residual) + roots).sqrt();
            let (left, right) = (transformed(&axis_left, &rotation), transformed(&axis_right, &rotation));
            let found = left.wasserstein_distance(&right).unwrap();
            assert_close(&[found], &[expected], wasserstein_rounding(&[&left, &right]));
        }

        #[test]
        fn distances_do_not_depend_on_the_axes(
            ((left, right), entries) in dimension().prop_flat_map(|d| {
                ((parts(d), parts(d)), vec(-1.0..1.0, d * d))
            }),
        ) {
            let (left, right) = (left.covariance_form(), right.precision_form());
            let rotation = orthogonal(left.dimension(), &entries);
            let before = GaussianDistance::between(&left, &right).unwrap();
            let (turned_left, turned_right) =
                (transformed(&left, &rotation), transformed(&right, &rotation));
            let after = GaussianDistance::between(&turned_left, &turned_right).unwrap();
            let dimension = left.dimension();
            let bound = wasserstein_rounding(&[&left, &right]);
            assert_close(&[after.wasserstein], &[before.wasserstein], bound);
            let conditions = condition(&left) + condition(&right);
            for (after, before) in [
                (after.relative_mean, before.relative_mean),
                (after.relative_covariance, before.relative_covariance),
                (after.kl, before.kl),
                (after.reverse_kl, before.reverse_kl),
            ] {
                assert_close(&[after], &[before], rounding(dimension, conditions * (1.0 + before)));
            }
        }
    }
}
