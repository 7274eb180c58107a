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

#[cfg(test)]
pub(crate) mod tests;

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
    /// The largest number of weights of which [`FactorPosterior::to_dense`](super::FactorPosterior::to_dense) makes one.
    pub const LIMIT: usize = 4096;

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
