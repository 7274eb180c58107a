//! Eigenvalues and eigenvectors of symmetric matrices.

use faer::Side;

use super::error::AlgebraError;
use super::matrix::{SquareMatrix, add_scaled, mirror_lower};

/// The eigenpairs of a symmetric matrix, largest eigenvalue first.
///
/// ```
/// use burn_bayes::algebra::{SquareMatrix, SymmetricEigen};
///
/// let matrix = SquareMatrix::from_row_major(2, vec![1.0, 0.0, 0.0, 3.0])?;
/// let eigen = SymmetricEigen::new(&matrix)?;
/// assert_eq!(eigen.values(), [3.0, 1.0]);
/// assert_eq!(eigen.vectors().row(0), [0.0, 1.0]);
/// # Ok::<(), burn_bayes::algebra::AlgebraError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SymmetricEigen {
    pub(super) values: Vec<f64>,
    pub(super) vectors: SquareMatrix,
}

impl SymmetricEigen {
    /// Decomposes the symmetric `matrix`.
    pub fn new(matrix: &SquareMatrix) -> Result<Self, AlgebraError> {
        const WHAT: &str = "symmetric eigen-decomposition";
        matrix.check_finite(WHAT)?;
        let size = matrix.size;
        if size <= 1 {
            let vectors = SquareMatrix::identity(size);
            return Ok(Self {
                values: matrix.values.clone(),
                vectors,
            });
        }
        let eigen = matrix
            .view()
            .self_adjoint_eigen(Side::Lower)
            .map_err(|_| AlgebraError::NoConvergence { what: WHAT, size })?;
        let ascending = eigen.S().column_vector();
        let columns = eigen.U();
        let values: Vec<f64> = (0..size).rev().map(|k| ascending[k]).collect();
        if values.iter().any(|value| !value.is_finite()) {
            return Err(AlgebraError::NoConvergence { what: WHAT, size });
        }
        let mut vectors = SquareMatrix::from_fn(size, |k, entry| columns[(entry, size - 1 - k)]);
        for vector in vectors.values.chunks_exact_mut(size) {
            point_to_positive_side(vector);
        }
        Ok(Self { values, vectors })
    }

    /// The eigenvalues, largest first.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The eigenvectors as rows: row k belongs to value k and has norm 1.
    ///
    /// The sign is chosen so that the entry of largest magnitude is positive.
    pub fn vectors(&self) -> &SquareMatrix {
        &self.vectors
    }

    /// Σₖ f(λₖ) vₖ vₖᵀ, exactly symmetric.
    pub fn map(&self, mut function: impl FnMut(f64) -> f64) -> SquareMatrix {
        let size = self.values.len();
        let mut values = vec![0.0; size * size];
        for (k, &value) in self.values.iter().enumerate() {
            let (scale, vector) = (function(value), self.vectors.row(k));
            for (row, &entry) in vector.iter().enumerate() {
                let target = &mut values[row * size..row * size + row + 1];
                add_scaled(target, scale * entry, &vector[..=row]);
            }
        }
        mirror_lower(size, &mut values);
        SquareMatrix { size, values }
    }

    /// The symmetric square root; eigenvalues that rounding made negative count as 0.
    #[cfg(test)]
    pub(crate) fn square_root(&self) -> SquareMatrix {
        self.map(|value| if value < 0.0 { 0.0 } else { value.sqrt() })
    }
}

pub(super) fn point_to_positive_side(vector: &mut [f64]) {
    let largest = vector
        .iter()
        .fold(0.0_f64, |a, &b| if b.abs() > a.abs() { b } else { a });
    if largest < 0.0 {
        vector.iter_mut().for_each(|entry| *entry = -*entry);
    }
}
