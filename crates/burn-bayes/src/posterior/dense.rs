//! A Gaussian with a full covariance matrix, in f64, for small dimensions.
//!
//! The low-rank forms never build a D×D matrix. This type does, as an independent reference for
//! each of their formulas, and for posteriors that are known in closed form:
//!
//! ```text
//! covariance form    S = FᵀF + diag ψ                       F is K×D
//! precision form     S = (UᵀU + diag d)⁻¹                   U is K×D, inverted whole, no Woodbury
//! linear regression  S = A⁻¹,  m = A⁻¹ β Xᵀy,  A = αI + βXᵀX
//! log density        −½ [D log 2π + log|S| + ‖L⁻¹(θ − m)‖²]    S = L Lᵀ
//! entropy            ½ [D log 2πe + log|S|]
//! draw               θ = m + L z,  z ~ N(0, I)
//! ```
//!
//! | symbol | here |
//! |---|---|
//! | m | [`DenseGaussian::mean`] |
//! | S | [`DenseGaussian::covariance`] |
//! | L | [`DenseGaussian::cholesky`] |
//!
//! Comparisons between two such Gaussians are in `divergence.rs`.
//!
//! Reference: Bishop, *Pattern Recognition and Machine Learning*, §2.3 (Gaussians) and §3.3
//! (Bayesian linear regression).

use std::f64::consts::TAU;

use crate::algebra::{AlgebraError, Cholesky, SquareMatrix, check_finite, check_length, dot};
use crate::error::Result;

/// Tolerance of the symmetry check of a covariance, in units of D·ε·√(Sᵢᵢ Sⱼⱼ).
///
/// D·ε bounds the rounding error of an inner product of length D; the factor allows for the few
/// products and solves from which a covariance is usually computed.
const SYMMETRY_TOLERANCE: f64 = 64.0;

/// A Gaussian N(m, S) with a positive definite covariance, factorised once when it is built.
///
/// ```
/// use burn_bayes::posterior::DenseGaussian;
///
/// let gaussian = DenseGaussian::new(vec![1.0, 0.0], vec![4.0, 2.0, 2.0, 10.0])?;
/// assert_eq!(gaussian.draw(&[1.0, 1.0])?, [3.0, 4.0]);
/// assert_eq!(gaussian.variances(), [4.0, 10.0]);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DenseGaussian {
    mean: Vec<f64>,
    covariance: SquareMatrix,
    cholesky: Cholesky,
}

impl DenseGaussian {
    /// N(`mean`, `covariance`), the covariance row by row.
    ///
    /// Both must be finite, the covariance symmetric up to rounding and positive
    /// definite. The mean of the two triangles is used.
    pub fn new(mean: Vec<f64>, covariance: Vec<f64>) -> Result<Self> {
        const WHAT: &str = "covariance of a dense Gaussian";
        let dimension = mean.len();
        check_length(WHAT, dimension * dimension, covariance.len())?;
        check_finite(WHAT, dimension, &covariance)?;
        let covariance = SquareMatrix::from_row_major(dimension, covariance)?;
        check_symmetric(WHAT, &covariance)?;
        Self::from_symmetric(WHAT, mean, symmetrised(&covariance))
    }

    /// N(`mean`, diag `variances`).
    pub fn from_variances(mean: Vec<f64>, variances: &[f64]) -> Result<Self> {
        Self::from_covariance_factors(mean, &[], variances)
    }

    /// Covariance form, N(`mean`, FᵀF + diag ψ): `factors` is F, K×D row by row with any K ≥ 0,
    /// and `diagonal` is ψ > 0.
    pub fn from_covariance_factors(
        mean: Vec<f64>,
        factors: &[f64],
        diagonal: &[f64],
    ) -> Result<Self> {
        const WHAT: &str = "covariance FᵀF + diag ψ";
        let covariance = gram_plus_diagonal(mean.len(), factors, 1.0, "ψ", diagonal)?;
        Self::from_symmetric(WHAT, mean, covariance)
    }

    /// Precision form, N(`mean`, (UᵀU + diag d)⁻¹): `factors` is U, K×D row by row with any
    /// K ≥ 0, and `diagonal` is d > 0.
    pub fn from_precision_factors(
        mean: Vec<f64>,
        factors: &[f64],
        diagonal: &[f64],
    ) -> Result<Self> {
        let precision = gram_plus_diagonal(mean.len(), factors, 1.0, "d", diagonal)?;
        Self::from_symmetric_precision("precision UᵀU + diag d", mean, &precision)
    }

    /// N(`mean`, `precision`⁻¹), the precision row by row, under the conditions of
    /// [`new`](Self::new).
    pub fn from_precision(mean: Vec<f64>, precision: Vec<f64>) -> Result<Self> {
        const WHAT: &str = "precision of a dense Gaussian";
        let dimension = mean.len();
        check_length(WHAT, dimension * dimension, precision.len())?;
        check_finite(WHAT, dimension, &precision)?;
        let precision = SquareMatrix::from_row_major(dimension, precision)?;
        check_symmetric(WHAT, &precision)?;
        Self::from_symmetric_precision(WHAT, mean, &symmetrised(&precision))
    }

    fn from_symmetric_precision(
        what: &'static str,
        mean: Vec<f64>,
        precision: &SquareMatrix,
    ) -> Result<Self> {
        let covariance = factorised(what, precision)?.inverse();
        Self::from_symmetric(what, mean, covariance)
    }

    fn from_symmetric(
        what: &'static str,
        mean: Vec<f64>,
        covariance: SquareMatrix,
    ) -> Result<Self> {
        check_finite("mean of a dense Gaussian", mean.len(), &mean)?;
        let cholesky = factorised(what, &covariance)?;
        Ok(Self {
            mean,
            covariance,
            cholesky,
        })
    }

    /// D, the number of coordinates.
    pub fn dimension(&self) -> usize {
        self.mean.len()
    }

    /// m.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// S, exactly symmetric.
    pub fn covariance(&self) -> &SquareMatrix {
        &self.covariance
    }

    /// The lower Cholesky factor L of S.
    pub fn cholesky(&self) -> &Cholesky {
        &self.cholesky
    }

    /// S⁻¹.
    pub fn precision(&self) -> SquareMatrix {
        self.cholesky.inverse()
    }

    /// The diagonal of S.
    pub fn variances(&self) -> Vec<f64> {
        self.covariance.diagonal().collect()
    }

    /// log |S|.
    pub fn log_determinant(&self) -> f64 {
        self.cholesky.log_determinant()
    }

    /// log N(`point`; m, S), nats.
    pub fn log_density(&self, point: &[f64]) -> Result<f64> {
        let mut residual = self.residual(point)?;
        self.cholesky.solve_lower(&mut residual)?;
        let constant = self.dimension() as f64 * TAU.ln() + self.log_determinant();
        Ok(-0.5 * (constant + dot(&residual, &residual)))
    }

    /// −E log N(θ; m, S), nats.
    pub fn entropy(&self) -> f64 {
        0.5 * (self.dimension() as f64 * (1.0 + TAU.ln()) + self.log_determinant())
    }

    /// m + L z, which is a draw if `normals` z are independent standard normals.
    pub fn draw(&self, normals: &[f64]) -> Result<Vec<f64>> {
        let mut point = self.cholesky.lower().multiply_vector(normals)?;
        point.iter_mut().zip(&self.mean).for_each(|(p, m)| *p += m);
        Ok(point)
    }

    /// `point` − m.
    pub(crate) fn residual(&self, point: &[f64]) -> Result<Vec<f64>> {
        check_length("point of a dense Gaussian", self.dimension(), point.len())?;
        Ok(point.iter().zip(&self.mean).map(|(p, m)| p - m).collect())
    }
}

/// The exact posterior over the weights of a linear regression without intercept.
///
/// The model is y = X w + noise of precision β, with the prior w ~ N(0, I/α). `inputs` is X, N×D
/// row by row, and `targets` is y of length N ≥ 1. An intercept is a column of ones.
///
/// ```
/// use burn_bayes::posterior::linear_regression_posterior;
///
/// // One weight, two data: A = 1 + 2·(1² + 2²) = 11 and m = 2·(1·3 + 2·4)/11.
/// let posterior = linear_regression_posterior(&[1.0, 2.0], &[3.0, 4.0], 1.0, 2.0)?;
/// assert!((posterior.mean()[0] - 2.0).abs() < 4.0 * f64::EPSILON);
/// assert!((posterior.variances()[0] - 1.0 / 11.0).abs() < f64::EPSILON);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
pub fn linear_regression_posterior(
    inputs: &[f64],
    targets: &[f64],
    prior_precision: f64,
    noise_precision: f64,
) -> Result<DenseGaussian> {
    check_positive("prior precision α", &[prior_precision])?;
    check_positive("noise precision β", &[noise_precision])?;
    if targets.is_empty() {
        let what = "targets of a linear regression";
        return Err(AlgebraError::DimensionMismatch {
            what,
            expected: 1,
            found: 0,
        }
        .into());
    }
    let dimension = inputs.len() / targets.len();
    check_length(
        "inputs of a linear regression",
        targets.len() * dimension,
        inputs.len(),
    )?;
    check_finite("targets of a linear regression", 1, targets)?;
    let prior = vec![prior_precision; dimension];
    let precision = gram_plus_diagonal(dimension, inputs, noise_precision, "α", &prior)?;
    let mut mean = vec![0.0; dimension];
    for (row, target) in inputs.chunks_exact(dimension.max(1)).zip(targets) {
        for (sum, input) in mean.iter_mut().zip(row) {
            *sum += noise_precision * target * input;
        }
    }
    const WHAT: &str = "precision αI + βXᵀX";
    factorised(WHAT, &precision)?.solve(&mut mean)?;
    DenseGaussian::from_symmetric_precision(WHAT, mean, &precision)
}

/// `scale`·RᵀR + diag `diagonal` for the rows R of length `dimension`.
fn gram_plus_diagonal(
    dimension: usize,
    rows: &[f64],
    scale: f64,
    diagonal_name: &'static str,
    diagonal: &[f64],
) -> std::result::Result<SquareMatrix, AlgebraError> {
    const WHAT: &str = "factor rows";
    check_length(diagonal_name, dimension, diagonal.len())?;
    check_positive(diagonal_name, diagonal)?;
    let count = rows.len().checked_div(dimension).unwrap_or(0);
    check_length(WHAT, count * dimension, rows.len())?;
    check_finite(WHAT, dimension, rows)?;
    // The order of the sum is the same in both triangles, so the result is exactly symmetric.
    Ok(SquareMatrix::from_fn(dimension, |i, j| {
        let products = (0..count).map(|k| rows[k * dimension + i] * rows[k * dimension + j]);
        let gram = scale * products.sum::<f64>();
        if i == j { gram + diagonal[i] } else { gram }
    }))
}

/// [`Cholesky::new`] with the name of the matrix in the error.
fn factorised(
    name: &'static str,
    matrix: &SquareMatrix,
) -> std::result::Result<Cholesky, AlgebraError> {
    Cholesky::new(matrix).map_err(|error| match error {
        AlgebraError::NotPositiveDefinite { index, .. } => {
            AlgebraError::NotPositiveDefinite { what: name, index }
        }
        AlgebraError::NotFinite {
            row, column, value, ..
        } => AlgebraError::NotFinite {
            what: name,
            row,
            column,
            value,
        },
        other => other,
    })
}

fn check_positive(what: &'static str, values: &[f64]) -> std::result::Result<(), AlgebraError> {
    check_finite(what, values.len(), values)?;
    match values.iter().position(|&value| value <= 0.0) {
        None => Ok(()),
        Some(index) => Err(AlgebraError::NotPositive {
            what,
            index,
            value: values[index],
        }),
    }
}

fn check_symmetric(
    what: &'static str,
    matrix: &SquareMatrix,
) -> std::result::Result<(), AlgebraError> {
    let size = matrix.size();
    let rounding = SYMMETRY_TOLERANCE * size as f64 * f64::EPSILON;
    for row in 0..size {
        for column in 0..row {
            let difference = (matrix.get(row, column) - matrix.get(column, row)).abs();
            let scale = (matrix.get(row, row) * matrix.get(column, column))
                .abs()
                .sqrt();
            if difference > rounding * scale {
                return Err(AlgebraError::NotSymmetric {
                    what,
                    row,
                    column,
                    difference,
                });
            }
        }
    }
    Ok(())
}

fn symmetrised(matrix: &SquareMatrix) -> SquareMatrix {
    SquareMatrix::from_fn(matrix.size(), |i, j| {
        0.5 * (matrix.get(i, j) + matrix.get(j, i))
    })
}

#[cfg(test)]
pub(crate) mod tests {
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
}
