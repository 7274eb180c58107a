//! Against formulas by hand, and what tests of other modules compare Gaussians with.

use std::f64::consts::PI;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::algebra::IdentityPlus;

/// Rounding of a few D×D products and solves, for terms of size `scale`.
pub(crate) fn rounding(dimension: usize, scale: f64) -> f64 {
    32.0 * dimension.max(1) as f64 * f64::EPSILON * scale
}

/// A mean, K×D factor rows and a positive diagonal.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) mean: Vec<f64>,
    pub(crate) factors: Vec<f64>,
    pub(crate) diagonal: Vec<f64>,
}

impl Parts {
    fn dimension(&self) -> usize {
        self.mean.len()
    }

    fn rank(&self) -> usize {
        self.factors.len() / self.dimension()
    }

    pub(crate) fn covariance_form(&self) -> DenseGaussian {
        let mean = self.mean.clone();
        DenseGaussian::from_covariance_factors(mean, &self.factors, &self.diagonal).unwrap()
    }

    pub(crate) fn precision_form(&self) -> DenseGaussian {
        let mean = self.mean.clone();
        DenseGaussian::from_precision_factors(mean, &self.factors, &self.diagonal).unwrap()
    }

    /// An upper bound of the condition number of FᵀF + diag.
    fn condition(&self) -> f64 {
        let smallest = self.diagonal.iter().copied().fold(f64::INFINITY, f64::min);
        (dot(&self.factors, &self.factors) + self.diagonal.iter().sum::<f64>()) / smallest
    }

    /// F with column i divided by the square root of entry i of the diagonal.
    fn whitened(&self) -> Vec<f64> {
        let scale = |at: usize| self.diagonal[at % self.dimension()].sqrt();
        (0..self.factors.len())
            .map(|at| self.factors[at] / scale(at))
            .collect()
    }

    fn capacitance(&self) -> IdentityPlus {
        let block = SquareMatrix::gram(self.rank(), &self.whitened()).unwrap();
        IdentityPlus::new(&block).unwrap()
    }

    /// (F/√diag) `vector`, of length K.
    fn whitened_product(&self, vector: &[f64]) -> Vec<f64> {
        self.whitened()
            .chunks(self.dimension())
            .map(|row| dot(row, vector))
            .collect()
    }
}

/// Parts of the given dimension, with any rank from 0 to above the dimension.
pub(crate) fn parts(dimension: usize) -> impl Strategy<Value = Parts> {
    (0..=dimension + 2).prop_flat_map(move |rank| {
        let logarithms = vec(-2.0..2.0, dimension);
        (
            vec(-3.0..3.0, dimension),
            vec(-2.0..2.0, rank * dimension),
            logarithms,
        )
            .prop_map(|(mean, factors, logarithms)| {
                let diagonal = logarithms.iter().map(|l: &f64| l.exp()).collect();
                Parts {
                    mean,
                    factors,
                    diagonal,
                }
            })
    })
}

/// Small dimensions, and one beyond the size limit of the plain loops.
pub(crate) fn dimension() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 1_usize..=6, 1 => Just(19_usize)]
}

pub(crate) fn assert_close(found: &[f64], expected: &[f64], bound: f64) {
    assert_eq!(found.len(), expected.len());
    for (at, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f - e).abs() <= bound,
            "entry {at}: {f} for {e}, bound {bound:e}"
        );
    }
}

#[test]
fn one_dimension_is_the_textbook_formula() {
    let gaussian = DenseGaussian::new(vec![1.0], vec![4.0]).unwrap();
    let log_density = -0.5 * (2.0 * PI).ln() - 2.0_f64.ln() - 0.5;
    assert_close(
        &[gaussian.log_density(&[3.0]).unwrap()],
        &[log_density],
        rounding(1, 2.0),
    );
    let entropy = 0.5 * (2.0 * PI * 4.0).ln() + 0.5;
    assert_close(&[gaussian.entropy()], &[entropy], rounding(1, 2.0));
    assert_eq!(gaussian.draw(&[-1.5]).unwrap(), [-2.0]);
}

#[test]
fn two_dimensions_with_a_negative_correlation() {
    // |S| = 3, S⁻¹ = [[2, 1], [1, 2]]/3; the residual (1, 1) has the quadratic form 2.
    let gaussian = DenseGaussian::new(vec![2.0, -1.0], vec![2.0, -1.0, -1.0, 2.0]).unwrap();
    let log_density = -(2.0 * PI).ln() - 0.5 * 3.0_f64.ln() - 1.0;
    let found = gaussian.log_density(&[3.0, 0.0]).unwrap();
    assert_close(&[found], &[log_density], rounding(2, 3.0));
    assert_close(
        &[gaussian.log_determinant()],
        &[3.0_f64.ln()],
        rounding(2, 1.0),
    );
    let third = 1.0 / 3.0;
    let precision = [2.0 * third, third, third, 2.0 * third];
    assert_close(
        gaussian.precision().as_slice(),
        &precision,
        rounding(2, 3.0),
    );
}

#[test]
fn factor_forms_by_hand() {
    let (factors, diagonal) = ([1.0, -1.0], [1.0, 2.0]);
    let form = DenseGaussian::from_covariance_factors(vec![5.0, 6.0], &factors, &diagonal);
    assert_eq!(
        form.unwrap().covariance().as_slice(),
        [2.0, -1.0, -1.0, 3.0]
    );
    let form = DenseGaussian::from_precision_factors(vec![5.0, 6.0], &factors, &diagonal);
    let form = form.unwrap();
    assert_close(
        form.covariance().as_slice(),
        &[0.6, 0.2, 0.2, 0.4],
        rounding(2, 1.0),
    );
    assert_eq!(form.mean(), [5.0, 6.0]);
}

#[test]
fn zero_factors_are_no_factors() {
    let diagonal = [0.5, 4.0, 2.0];
    let mean = vec![1.0, 2.0, 3.0];
    let zeros = [0.0; 12];
    for factors in [&zeros[..0], &zeros[..3], &zeros[..]] {
        let form = DenseGaussian::from_covariance_factors(mean.clone(), factors, &diagonal);
        assert_eq!(form.unwrap().variances(), diagonal);
        let form = DenseGaussian::from_precision_factors(mean.clone(), factors, &diagonal);
        assert_close(
            &form.unwrap().variances(),
            &[2.0, 0.25, 0.5],
            rounding(3, 2.0),
        );
    }
}

#[test]
fn no_dimension_is_a_certain_point() {
    let point = DenseGaussian::new(vec![], vec![]).unwrap();
    assert_eq!(point.entropy(), 0.0);
    assert_eq!(point.log_density(&[]).unwrap(), 0.0);
    assert!(point.draw(&[]).unwrap().is_empty());
}

#[test]
fn bad_input_is_an_error_that_says_where() {
    let message = |result: Result<DenseGaussian>| result.unwrap_err().to_string();
    let error = message(DenseGaussian::new(vec![0.0; 2], vec![1.0, 0.5, 0.25, 1.0]));
    assert!(error.starts_with("covariance of a dense Gaussian: entries (1, 0) and (0, 1)"));
    let error = message(DenseGaussian::new(vec![0.0; 2], vec![1.0, 2.0, 2.0, 1.0]));
    assert!(error.starts_with("covariance of a dense Gaussian: not positive definite"));
    let error = message(DenseGaussian::new(
        vec![0.0; 2],
        vec![1.0, f64::NAN, 0.0, 1.0],
    ));
    assert!(error.starts_with("covariance of a dense Gaussian: entry (0, 1) is NaN"));
    let error = message(DenseGaussian::new(
        vec![0.0, f64::INFINITY],
        vec![1.0, 0.0, 0.0, 1.0],
    ));
    assert!(error.starts_with("mean of a dense Gaussian: entry (0, 1) is inf"));
    let error = message(DenseGaussian::new(vec![0.0; 2], vec![1.0; 3]));
    assert!(error.starts_with("covariance of a dense Gaussian: expected length 4, found 3"));
    let error = message(DenseGaussian::from_variances(vec![0.0; 2], &[1.0, 0.0]));
    assert!(error.starts_with("ψ: entry 1 is 0, must be above 0"));
    let error = message(DenseGaussian::from_precision_factors(
        vec![0.0],
        &[1.0],
        &[-1.0],
    ));
    assert!(error.starts_with("d: entry 0 is -1, must be above 0"));
    let error = message(DenseGaussian::from_precision_factors(
        vec![0.0; 2],
        &[1.0],
        &[1.0; 2],
    ));
    assert!(error.starts_with("factor rows: expected length 0, found 1"));
    let error = message(DenseGaussian::from_precision(vec![0.0], vec![-1.0]));
    assert!(error.starts_with("precision of a dense Gaussian: not positive definite"));

    let gaussian = DenseGaussian::from_variances(vec![0.0], &[1.0]).unwrap();
    assert!(gaussian.log_density(&[0.0; 2]).is_err());
    assert!(gaussian.draw(&[]).is_err());

    let regression = |inputs: &[f64], targets: &[f64], prior, noise| {
        message(linear_regression_posterior(inputs, targets, prior, noise))
    };
    assert!(regression(&[1.0], &[], 1.0, 1.0).contains("expected length 1, found 0"));
    assert!(regression(&[1.0; 3], &[1.0; 2], 1.0, 1.0).contains("expected length 2, found 3"));
    assert!(regression(&[1.0], &[f64::NAN], 1.0, 1.0).starts_with("targets"));
    assert!(regression(&[1.0], &[1.0], 0.0, 1.0).starts_with("prior precision α"));
    assert!(regression(&[1.0], &[1.0], 1.0, f64::NAN).starts_with("noise precision β"));
}

#[test]
fn linear_regression_by_hand() {
    // XᵀX = [[2, −1], [−1, 2]], Xᵀy = (2, −1); A = I + 2 XᵀX = [[5, −2], [−2, 5]], |A| = 21.
    let inputs = [1.0, 0.0, -1.0, 1.0, 0.0, -1.0];
    let posterior = linear_regression_posterior(&inputs, &[1.0, -1.0, 0.0], 1.0, 2.0).unwrap();
    let covariance = [5.0 / 21.0, 2.0 / 21.0, 2.0 / 21.0, 5.0 / 21.0];
    assert_close(
        posterior.covariance().as_slice(),
        &covariance,
        rounding(2, 1.0),
    );
    assert_close(
        posterior.mean(),
        &[16.0 / 21.0, -2.0 / 21.0],
        rounding(2, 2.0),
    );
}

proptest! {
    /// The formulas of the covariance form at rank K, compared with D×D algebra.
    #[test]
    fn covariance_form_agrees_with_its_low_rank_formulas(
        parts in dimension().prop_flat_map(parts),
    ) {
        let dense = parts.covariance_form();
        let dimension = dense.dimension();
        let capacitance = parts.capacitance();
        let bound = rounding(dimension + parts.rank(), parts.condition());

        let logarithms: f64 = parts.diagonal.iter().map(|d| d.ln()).sum();
        let low_rank = logarithms + capacitance.log_determinant();
        assert_close(&[dense.log_determinant()], &[low_rank], bound);

        // vᵀS⁻¹v = ‖v/√ψ‖² − ‖W (F/√ψ)(v/√ψ)‖² with WᵀW = (I + B)⁻¹.
        let point = vec![0.5; dimension];
        let residual = dense.residual(&point).unwrap();
        let pairs = residual.iter().zip(&parts.diagonal);
        let whitened: Vec<f64> = pairs.map(|(r, d)| r / d.sqrt()).collect();
        let inner = parts.whitened_product(&whitened);
        let inner = capacitance.inverse_root().multiply_vector(&inner).unwrap();
        let square = dot(&whitened, &whitened);
        let form = square - dot(&inner, &inner);
        let log_density = -0.5 * (dimension as f64 * TAU.ln() + low_rank + form);
        let found = dense.log_density(&point).unwrap();
        assert_close(&[found], &[log_density], bound * (1.0 + square));
    }

    /// The formulas of the precision form at rank K, compared with a full inverse.
    #[test]
    fn precision_form_agrees_with_its_low_rank_formulas(
        parts in dimension().prop_flat_map(parts),
    ) {
        let dense = parts.precision_form();
        let dimension = dense.dimension();
        let capacitance = parts.capacitance();
        let bound = rounding(dimension + parts.rank(), parts.condition());

        let logarithms: f64 = parts.diagonal.iter().map(|d| d.ln()).sum();
        let low_rank = -logarithms - capacitance.log_determinant();
        assert_close(&[dense.log_determinant()], &[low_rank], bound);

        // Variance i = [1 − ‖W (U/√d) eᵢ‖²]/dᵢ, and the draw of the unit vectors whitens.
        let coefficients = capacitance.draw_coefficients();
        let mut draws = SquareMatrix::from_fn(dimension, |_, _| 0.0).into_row_major();
        for i in 0..dimension {
            let mut unit = vec![0.0; dimension];
            unit[i] = 1.0;
            let column = parts.whitened_product(&unit);
            let root = capacitance.inverse_root().multiply_vector(&column).unwrap();
            let variance = (1.0 - dot(&root, &root)) / parts.diagonal[i];
            let scale = 1.0 / parts.diagonal[i];
            assert_close(&[dense.variances()[i]], &[variance], bound * scale);

            let inner = coefficients.multiply_vector(&column).unwrap();
            let whitened = parts.whitened();
            for j in 0..dimension {
                let back: f64 =
                    (0..parts.rank()).map(|k| whitened[k * dimension + j] * inner[k]).sum();
                draws[j * dimension + i] = (unit[j] - back) / parts.diagonal[j].sqrt();
            }
        }
        let covariance = SquareMatrix::gram(dimension, &draws).unwrap();
        let scale = parts.diagonal.iter().fold(0.0_f64, |max, d| max.max(1.0 / d));
        let expected = dense.covariance().as_slice();
        assert_close(covariance.as_slice(), expected, bound * scale);
    }

    /// Draws of the unit vectors, less the mean, are the columns of a root of S.
    #[test]
    fn draws_have_the_mean_and_the_covariance(parts in dimension().prop_flat_map(parts)) {
        let dense = parts.covariance_form();
        let dimension = dense.dimension();
        assert_close(&dense.draw(&vec![0.0; dimension]).unwrap(), dense.mean(), 0.0);
        let root = SquareMatrix::from_fn(dimension, |row, column| {
            let mut unit = vec![0.0; dimension];
            unit[column] = 1.0;
            dense.draw(&unit).unwrap()[row] - dense.mean()[row]
        });
        let product = root.multiply(&root.transpose()).unwrap();
        let bound = rounding(dimension, 4.0 + dense.covariance().trace());
        assert_close(product.as_slice(), dense.covariance().as_slice(), bound);
    }

    /// The log density is quadratic, so its mean over m ± √D L eₖ is its expectation, −H.
    #[test]
    fn entropy_is_minus_the_mean_log_density(parts in dimension().prop_flat_map(parts)) {
        let dense = parts.precision_form();
        let dimension = dense.dimension();
        let mut sum = 0.0;
        for k in 0..dimension {
            for sign in [-1.0, 1.0] {
                let mut normals = vec![0.0; dimension];
                normals[k] = sign * (dimension as f64).sqrt();
                sum += dense.log_density(&dense.draw(&normals).unwrap()).unwrap();
            }
        }
        let mean = sum / (2 * dimension) as f64;
        let bound = rounding(dimension, 4.0 * parts.condition());
        assert_close(&[-mean], &[dense.entropy()], bound);
    }

    #[test]
    fn precision_undoes_covariance(parts in dimension().prop_flat_map(parts)) {
        let dense = parts.covariance_form();
        let precision = dense.precision().into_row_major();
        let back = DenseGaussian::from_precision(parts.mean.clone(), precision).unwrap();
        let scale = parts.condition() * dense.covariance().trace();
        let bound = rounding(dense.dimension(), scale);
        assert_close(back.covariance().as_slice(), dense.covariance().as_slice(), bound);
    }

    /// Bayes' rule: log likelihood + log prior − log posterior is the same at every w, also
    /// with fewer data than weights.
    #[test]
    fn linear_regression_obeys_bayes_rule(
        (inputs, targets, points) in (1_usize..=6, 1_usize..=5).prop_flat_map(|(n, d)| {
            (vec(-2.0..2.0, n * d), vec(-2.0..2.0, n), vec(vec(-2.0..2.0, d), 2))
        }),
        prior_precision in 0.1..10.0,
        noise_precision in 0.1..10.0,
    ) {
        let posterior =
            linear_regression_posterior(&inputs, &targets, prior_precision, noise_precision)
                .unwrap();
        let dimension = posterior.dimension();
        let prior = DenseGaussian::from_variances(
            vec![0.0; dimension],
            &vec![1.0 / prior_precision; dimension],
        )
        .unwrap();
        let evidence = |weights: &[f64]| {
            let rows = inputs.chunks(dimension).zip(&targets);
            let squares: f64 = rows.map(|(row, y)| (y - dot(row, weights)).powi(2)).sum();
            let log_likelihood = -0.5 * noise_precision * squares;
            log_likelihood + prior.log_density(weights).unwrap()
                - posterior.log_density(weights).unwrap()
        };
        // Terms up to β Σ (y − xᵀw)², at most 10·6·(2 + 5·2·2)², and the condition of A.
        let gram = noise_precision * dot(&inputs, &inputs);
        let condition = 1.0 + gram / prior_precision;
        let scale = 10.0 * inputs.len() as f64 * 22.0_f64.powi(2) + condition;
        let bound = rounding(dimension, scale);
        assert_close(&[evidence(&points[0])], &[evidence(&points[1])], bound);
    }
}
