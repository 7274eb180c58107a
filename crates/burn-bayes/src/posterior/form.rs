//! The operations that both forms of a low-rank-plus-diagonal Gaussian implement.

use burn::tensor::Tensor;

use super::Sampler;
use crate::error::Result;

/// Mean, marginal variances and log-determinant of the covariance.
pub(super) struct Moments {
    pub(super) mean: Tensor<1>,
    pub(super) variance: Tensor<1>,
    pub(super) log_determinant: f64,
}

/// The operations that each form implements differently.
pub(super) trait GaussianForm {
    /// A sampler; it computes once what all draws share.
    fn sampler(&self) -> Result<Box<dyn Sampler>>;

    /// The diagonal of the covariance, `[D]`.
    fn variance(&self) -> Result<Tensor<1>>;

    /// Σ v.
    fn covariance_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>>;

    /// Σ⁻¹ v.
    fn precision_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>>;

    /// Matrices H, `[R, ·]`, with J Σ Jᵀ = Σ H Hᵀ for a J of `[R, D]`.
    fn covariance_roots(&self, jacobian: Tensor<2>) -> Result<Vec<Tensor<2>>>;

    /// The quantities needed for the entropy and the divergence from a prior.
    fn moments(&self) -> Result<Moments>;

    /// vᵀ Σ⁻¹ v for deviations v from the mean, `[S, D]`.
    fn squared_distances(&self, deviations: &Tensor<2>) -> Result<Vec<f64>>;
}
