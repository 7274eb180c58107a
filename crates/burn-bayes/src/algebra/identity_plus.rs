//! I + B for a positive semi-definite B, and the matrices that the low-rank formulas derive from
//! it.

use burn_bayes_eval::Bounded;

use super::cholesky::{backward, factorise, forward, inverse_from_root, inverse_of_lower};
use super::eigen::SymmetricEigen;
use super::error::AlgebraError;
use super::matrix::{SquareMatrix, add_scaled, plus_scaled_identity};

/// The most negative eigenvalue accepted for a Gram matrix, as a fraction of the largest magnitude.
///
/// Gram matrices are computed in the device's precision; half precision (2⁻⁸ for bfloat16) has the
/// largest rounding error. A more negative eigenvalue is not a rounding error.
pub const GRAM_ROUNDING: f64 = 1e-2;

/// I + B for a symmetric positive semi-definite B, factorised.
///
/// In exact arithmetic no pivot of I + B is below 1. A pivot below ½ shows that the rounding error
/// of B, which may be computed in single precision, is not small relative to the identity. Negative
/// eigenvalues of B are then set to 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IdentityPlus {
    pub(super) root: Root,
}

/// R with R Rᵀ = I + B: triangular, or symmetric through the eigenpairs of the clamped B.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Root {
    Triangular(SquareMatrix),
    Symmetric(SymmetricEigen),
}

impl IdentityPlus {
    /// Factorises I + `block`; `block` is B, without the identity.
    pub(crate) fn new(block: &SquareMatrix) -> Result<Self, AlgebraError> {
        const WHAT: &str = "B of I + B";
        block.check_finite(WHAT)?;
        if let Some(index) = block.diagonal().position(|entry| entry < 0.0) {
            return Err(AlgebraError::NotPositiveDefinite { what: WHAT, index });
        }
        if let Ok(lower) = factorise(plus_scaled_identity(block, 1.0), |_| 0.5) {
            return Ok(Self {
                root: Root::Triangular(lower),
            });
        }
        let mut eigen = SymmetricEigen::new(block)?;
        let largest = eigen
            .values
            .iter()
            .fold(0.0_f64, |max, value| max.at_least(value.abs()));
        let lowest = eigen.values.last().copied().unwrap_or(0.0);
        if lowest < -GRAM_ROUNDING * largest {
            let index = block.size - 1;
            return Err(AlgebraError::NotPositiveDefinite { what: WHAT, index });
        }
        eigen
            .values
            .iter_mut()
            .for_each(|value| *value = value.at_least(0.0));
        Ok(Self {
            root: Root::Symmetric(eigen),
        })
    }

    /// A = (I + B)⁻¹, exactly symmetric. With B = U d⁻¹ Uᵀ, Woodbury's inner inverse.
    pub(crate) fn inverse(&self) -> SquareMatrix {
        match &self.root {
            Root::Triangular(lower) => inverse_from_root(&inverse_of_lower(lower)),
            Root::Symmetric(eigen) => eigen.map(|value| 1.0 / (1.0 + value)),
        }
    }

    /// log |I + B|.
    pub(crate) fn log_determinant(&self) -> f64 {
        match &self.root {
            Root::Triangular(lower) => 2.0 * lower.diagonal().map(f64::ln).sum::<f64>(),
            Root::Symmetric(eigen) => eigen.values.iter().map(|value| value.ln_1p()).sum(),
        }
    }

    /// W with WᵀW = (I + B)⁻¹, so that vᵀ (I + B)⁻¹ v = ‖W v‖².
    pub(crate) fn inverse_root(&self) -> SquareMatrix {
        match &self.root {
            Root::Triangular(lower) => inverse_of_lower(lower),
            Root::Symmetric(eigen) => eigen.map(|value| (1.0 + value).sqrt().recip()),
        }
    }

    /// The number of rows.
    pub(crate) fn size(&self) -> usize {
        match &self.root {
            Root::Triangular(lower) => lower.size,
            Root::Symmetric(eigen) => eigen.values.len(),
        }
    }

    /// Replaces a block of K rows, one after the other, by W times the block, with W of
    /// [`inverse_root`](Self::inverse_root).
    pub(crate) fn whiten(&self, rows: &mut [f64]) {
        match &self.root {
            Root::Triangular(lower) => {
                let columns = columns(rows, lower.size);
                forward(lower, rows, columns);
            }
            Root::Symmetric(_) => replace(&self.inverse_root(), rows),
        }
    }

    /// Replaces a block of K rows, one after the other, by (I + B)⁻¹ times the block.
    pub(crate) fn solve(&self, rows: &mut [f64]) {
        match &self.root {
            Root::Triangular(lower) => {
                let columns = columns(rows, lower.size);
                forward(lower, rows, columns);
                backward(lower, rows, columns);
            }
            Root::Symmetric(_) => replace(&self.inverse(), rows),
        }
    }

    /// M = R⁻ᵀ (I + R)⁻¹ with R Rᵀ = I + B, not symmetric in general.
    ///
    /// With V Vᵀ = B, V = U/√d, the map ε ↦ d^-½ ⊙ [ε − Vᵀ M V ε] turns standard normals into
    /// normals of covariance (UᵀU + diag d)⁻¹. Any root R gives the same covariance; U may be
    /// rank-deficient or zero.
    pub(crate) fn draw_coefficients(&self) -> SquareMatrix {
        match &self.root {
            Root::Triangular(lower) => {
                let size = lower.size;
                let mut coefficients = inverse_of_lower(&plus_scaled_identity(lower, 1.0));
                backward(lower, &mut coefficients.values, size);
                coefficients
            }
            // (1 − (1+λ)^-½)/λ = 1/(s(1+s)) with s = √(1+λ), without the quotient 0/0 at λ = 0.
            Root::Symmetric(eigen) => eigen.map(|value| {
                let root = (1.0 + value).sqrt();
                1.0 / (root * (1.0 + root))
            }),
        }
    }
}

fn columns(rows: &[f64], size: usize) -> usize {
    rows.len().checked_div(size).unwrap_or(0)
}

/// Replaces a block of rows by `matrix` times the block.
fn replace(matrix: &SquareMatrix, rows: &mut [f64]) {
    let columns = columns(rows, matrix.size).max(1);
    let block = rows.to_vec();
    rows.fill(0.0);
    for (k, row) in rows.chunks_exact_mut(columns).enumerate() {
        for (factor, source) in matrix.row(k).iter().zip(block.chunks_exact(columns)) {
            add_scaled(row, *factor, source);
        }
    }
}
