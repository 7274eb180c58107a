//! Operations on a Gaussian that are not part of every training step: products with the covariance,
//! marginal variances, projections and sums, as Burn tensor operations.
//!
//! Sums over all weights are accumulated in `f64` on the host, because single precision is not
//! accurate enough.

use burn::tensor::Tensor;

use super::CovarianceParts;
use super::composed::to_host;
use super::{inner_products, mix};

/// A Gaussian in precision form, N(mean, (UᵀU + diag d)⁻¹).
#[derive(Clone, Debug)]
pub struct PrecisionParts {
    /// μ, `[D]`.
    pub mean: Tensor<1>,
    /// U, `[K, D]`; absent at rank 0.
    pub factors: Option<Tensor<2>>,
    /// d, `[D]`.
    pub precision: Tensor<1>,
}

impl PrecisionParts {
    /// K.
    pub fn rank(&self) -> usize {
        self.factors.as_ref().map_or(0, |factors| factors.dims()[0])
    }
}

/// Σ vᵢ² of every row.
pub fn row_squares(rows: Tensor<2>) -> Vec<f64> {
    let [_, len] = rows.dims();
    let values = to_host(rows);
    let squares = |row: &[f64]| row.iter().map(|value| value * value).sum();
    values.chunks_exact(len.max(1)).map(squares).collect()
}

/// Rows · v, K numbers on the host.
pub fn project(rows: &Tensor<2>, vector: &Tensor<1>) -> Vec<f64> {
    to_host(inner_products(rows, &vector.clone().unsqueeze()))
}

/// Σ_k w_k row_k.
pub fn combine(rows: &Tensor<2>, weights: &[f64]) -> Tensor<1> {
    let [_, len] = rows.dims();
    mix(rows, weights, 1).reshape([len])
}

/// Σ_k L_k ⊙ R_k, `[D]`.
pub fn column_dot(left: Tensor<2>, right: Tensor<2>) -> Tensor<1> {
    let [_, len] = left.dims();
    (left * right).sum_dim(0).reshape([len])
}

/// ψ + Σ_k F_k², the marginal variances of a covariance form.
pub fn covariance_variance(parts: &CovarianceParts) -> Tensor<1> {
    let variance = parts.diagonal.variance();
    match &parts.factors {
        Some(factors) => variance + column_dot(factors.clone(), factors.clone()),
        None => variance,
    }
}
