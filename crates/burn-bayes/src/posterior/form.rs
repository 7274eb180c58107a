//! The operations that both forms of a low-rank-plus-diagonal Gaussian implement.

use burn::tensor::Tensor;

use super::Sampler;
use crate::error::Result;
use crate::kernels::inner_products;

/// The map from J, `[R, D]`, to matrices H, `[R, ·]`, with J Σ Jᵀ = Σ H Hᵀ. It holds what all J share.
#[derive(Clone, Debug)]
pub(crate) struct CovarianceRoots {
    /// √ψ, or d^-½.
    pub(super) deviation: Tensor<2>,
    /// F, or V of `precision.rs`.
    pub(super) factors: Option<Tensor<2>>,
    /// A V, in precision form.
    pub(super) mixed: Option<Tensor<2>>,
}

impl CovarianceRoots {
    /// The matrices H: W = J √ψ and J Fᵀ in covariance form; with W = J d^-½, W − Y V and Y = W (A V)ᵀ in
    /// precision form.
    pub(crate) fn of(&self, jacobian: Tensor<2>) -> Vec<Tensor<2>> {
        let scaled = jacobian.clone() * self.deviation.clone();
        match (self.factors.clone(), self.mixed.clone()) {
            (None, _) => vec![scaled],
            (Some(factors), None) => vec![scaled, inner_products(&jacobian, &factors)],
            (Some(factors), Some(mixed)) => {
                let solved = inner_products(&scaled, &mixed);
                vec![scaled - solved.clone().matmul(factors), solved]
            }
        }
    }

    /// The diagonal of J Σ Jᵀ, `[R]`.
    pub(crate) fn variance(&self, jacobian: Tensor<2>) -> Tensor<1> {
        let zeros = Tensor::zeros([jacobian.dims()[0]], &jacobian.device());
        let squares = self.of(jacobian).into_iter();
        let squares = squares.map(|root| root.square().sum_dim(1).squeeze_dim(1));
        squares.fold(zeros, Tensor::add)
    }
}

/// Terms of J Σ Jᵀ = J diag(w) Jᵀ ± (J Vᵀ)(J Vᵀ)ᵀ, for J in factored form.
#[derive(Clone, Debug)]
pub(crate) struct CovarianceTerms {
    /// w: ψ, or 1/d.
    pub(crate) diagonal: Tensor<1>,
    /// V: F, or W U d⁻¹ with WᵀW = (I + U d⁻¹ Uᵀ)⁻¹, `[K, D]`.
    pub(crate) vectors: Option<Tensor<2>>,
    /// Whether the second term is subtracted, as in precision form. Digits are lost where it is nearly the first.
    pub(crate) is_difference: bool,
}

/// The operations that each form implements differently.
pub(super) trait GaussianForm {
    /// A sampler; it computes once what all draws share.
    fn sampler(&self) -> Result<Box<dyn Sampler>>;

    /// The diagonal of the covariance, D numbers.
    fn variance(&self) -> Result<Vec<f64>>;

    /// The diagonal of Σ⁻¹, D numbers.
    fn precision_diagonal(&self) -> Result<Vec<f64>>;

    /// log|Σ|.
    fn log_determinant(&self) -> Result<f64>;

    /// Σ v.
    fn covariance_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>>;

    /// Σ⁻¹ v.
    fn precision_product(&self, vector: &Tensor<1>) -> Result<Tensor<1>>;

    /// The map from J to matrices H with J Σ Jᵀ = Σ H Hᵀ.
    fn covariance_roots(&self) -> Result<CovarianceRoots>;

    /// The terms of J Σ Jᵀ.
    fn covariance_terms(&self) -> Result<CovarianceTerms>;

    /// vᵀ Σ⁻¹ v for deviations v from the mean, `[S, D]`.
    fn squared_distances(&self, deviations: &Tensor<2>) -> Result<Vec<f64>>;
}
