//! The K×K part of one step of expectation-maximisation for factor analysis.
//!
//! The statistics are X = mean of E[h] dᵀ, K×D, and H = mean of E[h hᵀ], K×K, over the latent variables h of all
//! vectors so far. B = X ψ⁻¹ Xᵀ, and u = X ψ⁻¹ d for a deviation d. The E step for d is
//!
//! ```text
//! textbook:             h ~ N(0, I),  loadings H⁻¹X     Σ = (I + H⁻¹BH⁻¹)⁻¹      m = Σ H⁻¹ u
//! parameter expansion:  h ~ N(0, H),  loadings H⁻¹X     Σ = H (H + B)⁻¹ H        m = H (H + B)⁻¹ u
//! ```
//!
//! and the loadings of unit latent variables are F = H⁻¹X in the first case and F = L⁻¹X with H = L Lᵀ in the second.
//! The second may be expressed in any coordinates of h. In those of F, H is I and X is F itself, so that nothing
//! else needs to be kept.

use burn_bayes::algebra::{AlgebraError, Cholesky, SquareMatrix};

/// The rule by which online factor analysis learns.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FactorRule {
    /// Expectation-maximisation with parameter expansion: the covariance of the latent variables is free in the M
    /// step, and its Cholesky factor is multiplied into the loadings.
    ParameterExpansion,
    /// Textbook expectation-maximisation (the thesis, Algorithm 2). It converges slowly if the noise is small.
    Textbook,
    /// Stochastic gradient ascent on the log-likelihood (the thesis, Algorithm 1).
    GradientAscent {
        /// The learning rate, for F and log ψ. Thesis: .001.
        rate: f64,
    },
}

/// The mean and the covariance of the latent variables, given a vector.
#[derive(Clone, Debug)]
pub(super) struct Latent {
    pub(super) mean: Vec<f64>,
    pub(super) covariance: SquareMatrix,
}

impl Latent {
    /// For unit latent variables, in coordinates in which H is I: (I + B)⁻¹ and (I + B)⁻¹ u.
    pub(super) fn unit(gram: &SquareMatrix, projections: &[f64]) -> Result<Self, AlgebraError> {
        let sum = sum(&SquareMatrix::identity(gram.size()), gram);
        let covariance = Cholesky::with_floor(&sum)?.inverse();
        let mean = covariance.multiply_vector(projections)?;
        Ok(Self { mean, covariance })
    }

    /// E[h hᵀ] = Σ + m mᵀ.
    pub(super) fn second_moment(&self) -> SquareMatrix {
        sum(&self.covariance, &outer(&self.mean))
    }
}

/// The mean for latent variables of covariance H, H (H + B)⁻¹ u.
pub(super) fn expanded_mean(
    moment: &SquareMatrix,
    gram: &SquareMatrix,
    projections: &[f64],
) -> Result<Vec<f64>, AlgebraError> {
    let mut solved = projections.to_vec();
    Cholesky::with_floor(&sum(moment, gram))?.solve(&mut solved)?;
    moment.multiply_vector(&solved)
}

/// left + right.
pub(super) fn sum(left: &SquareMatrix, right: &SquareMatrix) -> SquareMatrix {
    SquareMatrix::from_fn(left.size(), |i, j| left.get(i, j) + right.get(i, j))
}

/// v vᵀ.
pub(super) fn outer(vector: &[f64]) -> SquareMatrix {
    SquareMatrix::from_fn(vector.len(), |i, j| vector[i] * vector[j])
}

/// (1 − ρ) old + ρ new.
pub(super) fn blend(share: f64, old: &SquareMatrix, new: &SquareMatrix) -> SquareMatrix {
    let value = |i, j| (1.0 - share) * old.get(i, j) + share * new.get(i, j);
    SquareMatrix::from_fn(old.size(), value)
}
