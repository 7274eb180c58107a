//! What a prior over functions adds to a step.

use burn::tensor::Tensor;

/// What a prior over functions adds to a step: with the kernel's matrix K and the Jacobian J of the outputs f at the
/// measurement points, the curvature and the gradient of ½ fᵀK⁻¹f.
#[derive(Clone, Debug)]
pub struct FunctionTerms {
    /// R with RᵀR = JᵀK⁻¹J, averaged over the draws, or equal to it on average, `[rows, D]`. Absent if unused.
    pub rows: Option<Tensor<2>>,
    /// JᵀK⁻¹f at every draw, `[D]`; empty with a divergence between Gaussians.
    pub gradients: Vec<Tensor<1>>,
    /// The gradient of a divergence between Gaussians.
    pub divergence: Option<DivergenceGradient>,
    /// Whether the divergence of the functions takes the place of that of the weights.
    pub replaces_weights: bool,
}

/// The gradient of a divergence between Gaussians over function values, with outputs that are linear in the weights: that
/// of the mean, and G = JᵀWJ, twice that of the covariance of the weights.
#[derive(Clone, Debug)]
pub struct DivergenceGradient {
    /// That of the mean of the weights, `[D]`.
    pub mean: Tensor<1>,
    /// J, `[rows, D]`.
    pub rows: Tensor<2>,
    /// W, symmetric, `[rows, rows]`.
    pub weights: Tensor<2>,
}

impl FunctionTerms {
    /// The gradient, averaged over the draws.
    pub fn mean_gradient(&self) -> Option<Tensor<1>> {
        let sum = self
            .gradients
            .iter()
            .cloned()
            .reduce(|sum, next| sum + next);
        sum.map(|sum| sum.div_scalar(self.gradients.len() as f64))
    }
}
