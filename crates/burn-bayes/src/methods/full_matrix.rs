//! VON and VOGN with the full precision matrix, in f64 on the host: a reference for the low-rank
//! and diagonal forms, for models with a few hundred weights.
//!
//! With the gradient g of the mean negative log-likelihood and its curvature H at a draw, or their
//! expectations,
//!
//! * P⁺ = (1−β) P + β (N H + diag α)
//! * μ⁺ = μ − η (P⁺)⁻¹ (N g + α⊙μ)
//!
//! H is the Hessian (VON), or the empirical Fisher matrix (1/M) Σ gᵢgᵢᵀ (VOGN). With expectations under
//! q in place of g and H, β = η = 1 is Newton's method on the variational objective.

use crate::algebra::{AlgebraError, Cholesky, SquareMatrix};
use crate::error::{Error, Result};
use crate::posterior::DenseGaussian;

/// A Gaussian N(μ, P⁻¹), updated by natural gradients.
///
/// ```
/// use burn_bayes::algebra::SquareMatrix;
/// use burn_bayes::methods::{FullMatrixStep, FullMatrixVon};
///
/// // Ten observations of a number, with variance 1 and mean 3, and a prior with precision 1.
/// let von = FullMatrixVon::new(vec![0.0], SquareMatrix::identity(1))?;
/// let von = von.stepped(FullMatrixStep {
///     train_len: 10,
///     gradient: &[-3.0],
///     curvature: &SquareMatrix::identity(1),
///     prior: &[1.0],
///     rate: 1.0,
///     learning_rate: 1.0,
/// })?;
/// assert_eq!(von.precision().as_slice(), [11.0]);
/// assert!((von.mean()[0] - 30.0 / 11.0).abs() < 1e-15);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FullMatrixVon {
    mean: Vec<f64>,
    precision: SquareMatrix,
}

/// The inputs of one step.
#[derive(Clone, Copy, Debug)]
pub struct FullMatrixStep<'a> {
    /// N.
    pub train_len: usize,
    /// g, at the draw.
    pub gradient: &'a [f64],
    /// H, at the draw.
    pub curvature: &'a SquareMatrix,
    /// α of every weight.
    pub prior: &'a [f64],
    /// β.
    pub rate: f64,
    /// η.
    pub learning_rate: f64,
}

impl FullMatrixVon {
    /// Starts at N(`mean`, `precision`⁻¹).
    pub fn new(mean: Vec<f64>, precision: SquareMatrix) -> Result<Self> {
        same_length("precision", mean.len(), precision.size())?;
        Ok(Self { mean, precision })
    }

    /// μ.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// P.
    pub fn precision(&self) -> &SquareMatrix {
        &self.precision
    }

    /// The posterior.
    pub fn gaussian(&self) -> Result<DenseGaussian> {
        let precision = self.precision.as_slice().to_vec();
        DenseGaussian::from_precision(self.mean.clone(), precision).map_err(core)
    }

    /// The Gaussian after one step.
    pub fn stepped(self, step: FullMatrixStep<'_>) -> Result<Self> {
        let len = self.mean.len();
        same_length("gradient", len, step.gradient.len())?;
        same_length("curvature", len, step.curvature.size())?;
        same_length("prior", len, step.prior.len())?;
        let scale = step.train_len as f64;
        let precision = SquareMatrix::from_fn(len, |row, column| {
            let prior = if row == column { step.prior[row] } else { 0.0 };
            let target = scale * step.curvature.get(row, column) + prior;
            (1.0 - step.rate) * self.precision.get(row, column) + step.rate * target
        });
        let terms = step.gradient.iter().zip(step.prior).zip(&self.mean);
        let mut direction: Vec<f64> = terms
            .map(|((gradient, prior), mean)| scale * gradient + prior * mean)
            .collect();
        let root = Cholesky::new(&precision).map_err(core)?;
        root.solve(&mut direction).map_err(core)?;
        let moved = self.mean.iter().zip(&direction);
        Ok(Self {
            mean: moved
                .map(|(mean, step_of)| mean - step.learning_rate * step_of)
                .collect(),
            precision,
        })
    }
}

/// (1/M) Σ gᵢgᵢᵀ of the gradients in `rows`, stored one after the other with `len` numbers each.
pub fn empirical_fisher(rows: &[f64], len: usize) -> SquareMatrix {
    let share = len as f64 / rows.len().max(1) as f64;
    SquareMatrix::from_fn(len, |row, column| {
        let products = rows.chunks_exact(len).map(|g| g[row] * g[column]);
        share * products.sum::<f64>()
    })
}

fn same_length(field: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let problem = format!("has {found} weights, the mean has {expected}");
    Err(Error::config(field, problem))
}

fn core(error: AlgebraError) -> Error {
    error.into()
}
