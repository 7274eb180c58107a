//! What both forms of a low-rank-plus-diagonal Gaussian can do.

use burn::tensor::Tensor;

use super::Sampler;
use crate::error::Result;

/// Mean, marginal variances and log-determinant of the covariance.
pub(super) struct Moments {
    pub(super) mean: Tensor<1>,
    pub(super) variance: Tensor<1>,
    pub(super) log_determinant: f64,
}

/// The operations in which the two forms differ.
pub(super) trait GaussianForm {
    /// Draws, with what they share computed once.
    fn sampler(&self) -> Result<Box<dyn Sampler>>;

    /// The diagonal of the covariance, `[D]`.
    fn variance(&self) -> Result<Tensor<1>>;

    /// Σ v.
    fn covariance_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>>;

    /// Matrices H, `[R, ·]`, with J Σ Jᵀ = Σ H Hᵀ for a J of `[R, D]`.
    fn covariance_roots(&self, jacobian: Tensor<2>) -> Result<Vec<Tensor<2>>>;

    /// Everything the entropy and the divergence from a prior need.
    fn moments(&self) -> Result<Moments>;

    /// vᵀ Σ⁻¹ v for a deviation v from the mean.
    fn squared_distance(&self, deviation: &Tensor<1>) -> Result<f64>;
}
