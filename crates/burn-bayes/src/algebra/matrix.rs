//! Square matrices, row by row.

use faer::{MatMut, MatRef, Par};

use super::LOOP_LIMIT;
use super::error::{AlgebraError, check_finite, check_length};

/// Number of bases in which a singular value decomposition is attempted.
pub(super) const SINGULAR_VALUE_ATTEMPTS: usize = 4;

/// A square matrix of f64, row by row.
///
/// ```
/// use burn_bayes::algebra::SquareMatrix;
///
/// let matrix = SquareMatrix::from_row_major(2, vec![1.0, 2.0, 3.0, 4.0])?;
/// assert_eq!(matrix.get(0, 1), 2.0);
/// assert_eq!(matrix.trace(), 5.0);
/// # Ok::<(), burn_bayes::algebra::AlgebraError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SquareMatrix {
    pub(super) size: usize,
    pub(super) values: Vec<f64>,
}

impl SquareMatrix {
    /// The matrix with the rows stored one after the other in `values`.
    pub fn from_row_major(size: usize, values: Vec<f64>) -> Result<Self, AlgebraError> {
        check_length("square matrix", size * size, values.len())?;
        Ok(Self { size, values })
    }

    /// The matrix with entry `entry(row, column)`.
    pub fn from_fn(size: usize, mut entry: impl FnMut(usize, usize) -> f64) -> Self {
        let mut values = Vec::with_capacity(size * size);
        for row in 0..size {
            values.extend((0..size).map(|column| entry(row, column)));
        }
        Self { size, values }
    }

    /// The identity.
    pub fn identity(size: usize) -> Self {
        let mut values = vec![0.0; size * size];
        values.iter_mut().step_by(size + 1).for_each(|v| *v = 1.0);
        Self { size, values }
    }

    /// The Gram matrix R Rᵀ of the `size` rows stored one after the other in `rows`.
    pub fn gram(size: usize, rows: &[f64]) -> Result<Self, AlgebraError> {
        let length = rows.len().checked_div(size).unwrap_or(0);
        check_length("rows of a Gram matrix", size * length, rows.len())?;
        let row = |k: usize| &rows[k * length..(k + 1) * length];
        Ok(Self::from_fn(size, |i, j| dot(row(i), row(j))))
    }

    /// Number of rows, which is the number of columns.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The entries, row by row.
    pub fn as_slice(&self) -> &[f64] {
        &self.values
    }

    /// The entries, row by row, without a copy.
    pub fn into_row_major(self) -> Vec<f64> {
        self.values
    }

    /// The entry at `row` and `column`, counted from 0.
    ///
    /// # Panics
    ///
    /// If either is not below [`size`](Self::size).
    pub fn get(&self, row: usize, column: usize) -> f64 {
        self.row(row)[column]
    }

    /// One row.
    ///
    /// # Panics
    ///
    /// If `row` is not below [`size`](Self::size).
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.size..(row + 1) * self.size]
    }

    /// The diagonal.
    pub fn diagonal(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().step_by(self.size + 1).copied()
    }

    /// Sum of the diagonal.
    pub fn trace(&self) -> f64 {
        self.diagonal().sum()
    }

    /// Square root of the sum of squared entries.
    pub fn frobenius_norm(&self) -> f64 {
        dot(&self.values, &self.values).sqrt()
    }

    /// The transpose.
    pub fn transpose(&self) -> Self {
        Self::from_fn(self.size, |row, column| self.get(column, row))
    }

    /// The product of this matrix and `right`.
    pub fn multiply(&self, right: &Self) -> Result<Self, AlgebraError> {
        check_length("right factor of a matrix product", self.size, right.size)?;
        let size = self.size;
        let mut values = vec![0.0; size * size];
        if size > LOOP_LIMIT {
            faer::linalg::matmul::matmul(
                MatMut::from_row_major_slice_mut(&mut values, size, size),
                faer::Accum::Replace,
                self.view(),
                right.view(),
                1.0,
                Par::Seq,
            );
        } else {
            for row in 0..size {
                let product = &mut values[row * size..(row + 1) * size];
                for (k, &factor) in self.row(row).iter().enumerate() {
                    add_scaled(product, factor, right.row(k));
                }
            }
        }
        Ok(Self { size, values })
    }

    /// The product of this matrix and a vector.
    pub fn multiply_vector(&self, vector: &[f64]) -> Result<Vec<f64>, AlgebraError> {
        check_length("vector of a matrix product", self.size, vector.len())?;
        Ok((0..self.size)
            .map(|row| dot(self.row(row), vector))
            .collect())
    }

    /// The orthogonal matrix nearest to this one in Frobenius norm: P Qᵀ for the singular value
    /// decomposition P Σ Qᵀ. Not unique if a singular value is 0.
    pub fn nearest_orthogonal(&self) -> Result<Self, AlgebraError> {
        const WHAT: &str = "singular value decomposition";
        self.check_finite(WHAT)?;
        // faer 0.24 does not converge for about one matrix in 10⁵ with clustered singular values.
        // Reflections H leave P Qᵀ = (P Qᵀ H) H unchanged but change the iteration.
        for attempt in 0..SINGULAR_VALUE_ATTEMPTS {
            let direction: Vec<f64> = match attempt {
                0 => vec![0.0; self.size],
                _ => (1..=self.size)
                    .map(|i| ((attempt * i) as f64).cos())
                    .collect(),
            };
            let mut matrix = self.clone();
            matrix.reflect_rows(&direction);
            let Ok(factors) = matrix.view().svd() else {
                continue;
            };
            let product = factors.U() * factors.V().transpose();
            let mut nearest = Self::from_fn(self.size, |row, column| product[(row, column)]);
            nearest.reflect_rows(&direction);
            return Ok(nearest);
        }
        Err(AlgebraError::NoConvergence {
            what: WHAT,
            size: self.size,
        })
    }

    /// Adds `scale` v vᵀ.
    pub(crate) fn add_outer(&mut self, scale: f64, vector: &[f64]) {
        let rows = self.values.chunks_exact_mut(self.size.max(1));
        for (row, entry) in rows.zip(vector) {
            add_scaled(row, scale * entry, vector);
        }
    }

    /// Multiplies from the right by H = I − 2 v vᵀ/vᵀv, or by I if v is 0.
    pub(super) fn reflect_rows(&mut self, direction: &[f64]) {
        let square = dot(direction, direction);
        if square == 0.0 {
            return;
        }
        for row in self.values.chunks_exact_mut(self.size) {
            let scale = -2.0 * dot(row, direction) / square;
            add_scaled(row, scale, direction);
        }
    }

    pub(crate) fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.values, self.size, self.size)
    }

    pub(crate) fn check_finite(&self, what: &'static str) -> Result<(), AlgebraError> {
        check_finite(what, self.size, &self.values)
    }
}

/// The inner product over the common length.
pub fn dot(left: &[f64], right: &[f64]) -> f64 {
    summed(left, right, |a, b| a * b)
}

/// The sum of a function of pairs over the common length, with eight partial sums for SIMD.
pub fn summed(left: &[f64], right: &[f64], of: impl Fn(f64, f64) -> f64) -> f64 {
    let len = left.len().min(right.len());
    let (left, left_rest) = left[..len].as_chunks::<8>();
    let (right, right_rest) = right[..len].as_chunks::<8>();
    let mut sum = 0.0;
    // Most rows of small matrices have no chunk.
    if !left.is_empty() {
        let mut sums = [0.0; 8];
        for (left, right) in left.iter().zip(right) {
            for ((sum, a), b) in sums.iter_mut().zip(left).zip(right) {
                *sum += of(*a, *b);
            }
        }
        sum = sums.iter().sum();
    }
    for (a, b) in left_rest.iter().zip(right_rest) {
        sum += of(*a, *b);
    }
    sum
}

pub(super) fn add_scaled(target: &mut [f64], scale: f64, source: &[f64]) {
    for (t, s) in target.iter_mut().zip(source) {
        *t += scale * s;
    }
}

pub(super) fn plus_scaled_identity(matrix: &SquareMatrix, scale: f64) -> SquareMatrix {
    let mut sum = matrix.clone();
    sum.values
        .iter_mut()
        .step_by(matrix.size + 1)
        .for_each(|v| *v += scale);
    sum
}

pub(super) fn mirror_lower(size: usize, values: &mut [f64]) {
    for row in 0..size {
        for column in row + 1..size {
            values[row * size + column] = values[column * size + row];
        }
    }
}
