//! Cholesky factors, and solves with triangular matrices.

use faer::MatMut;
use faer::Par;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_upper_triangular_in_place,
};

use super::LOOP_LIMIT;
use super::error::{AlgebraError, check_length};
use super::matrix::{SquareMatrix, add_scaled, dot, mirror_lower, plus_scaled_identity};

/// The smallest pivot [`Cholesky::with_floor`] accepts, as a fraction of the mean diagonal entry.
///
/// Rounding perturbs a pivot by at most about K²·ε times the mean diagonal entry (ε = 2.2e-16), so
/// a pivot below this floor has no correct digits for K up to about 60.
pub const PIVOT_FLOOR: f64 = 1e-12;

/// The lower Cholesky factor of a symmetric positive definite matrix, S = L Lᵀ.
///
/// ```
/// use burn_bayes::algebra::{Cholesky, SquareMatrix};
///
/// let matrix = SquareMatrix::from_row_major(2, vec![4.0, 2.0, 2.0, 10.0])?;
/// let factor = Cholesky::new(&matrix)?;
/// assert_eq!(factor.lower().as_slice(), [2.0, 0.0, 1.0, 3.0]);
/// let mut vector = [8.0, 22.0];
/// factor.solve(&mut vector)?;
/// assert_eq!(vector, [1.0, 2.0]);
/// # Ok::<(), burn_bayes::algebra::AlgebraError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Cholesky {
    pub(super) lower: SquareMatrix,
    pub(super) jitter: f64,
}

impl Cholesky {
    /// Factorises `matrix`; an error if it is not positive definite.
    ///
    /// A pivot must exceed K·ε times its diagonal entry; a smaller pivot is a rounding error. The
    /// rule does not depend on the units of the rows.
    pub fn new(matrix: &SquareMatrix) -> Result<Self, AlgebraError> {
        const WHAT: &str = "Cholesky factorisation";
        matrix.check_finite(WHAT)?;
        let rounding = matrix.size as f64 * f64::EPSILON;
        let lower = factorise(matrix.clone(), |index| rounding * matrix.get(index, index))
            .map_err(|index| AlgebraError::NotPositiveDefinite { what: WHAT, index })?;
        Ok(Self { lower, jitter: 0.0 })
    }

    /// Factorises `matrix`, or `matrix` + [`jitter`](Self::jitter)·I if a pivot is below
    /// [`PIVOT_FLOOR`] times the mean diagonal entry.
    ///
    /// The jitter is twice that floor. A matrix that needs more is not a rounded positive
    /// semi-definite matrix, and is an error.
    pub fn with_floor(matrix: &SquareMatrix) -> Result<Self, AlgebraError> {
        const WHAT: &str = "Cholesky factorisation with a pivot floor";
        matrix.check_finite(WHAT)?;
        let floor = PIVOT_FLOOR * matrix.trace() / matrix.size as f64;
        if let Ok(lower) = factorise(matrix.clone(), |_| floor) {
            return Ok(Self { lower, jitter: 0.0 });
        }
        let jitter = 2.0 * floor;
        let lower = factorise(plus_scaled_identity(matrix, jitter), |_| floor)
            .map_err(|index| AlgebraError::NotPositiveDefinite { what: WHAT, index })?;
        Ok(Self { lower, jitter })
    }

    /// The factor L, zero above the diagonal.
    pub fn lower(&self) -> &SquareMatrix {
        &self.lower
    }

    /// The number added to every diagonal entry before the factorisation; 0 if none was needed.
    pub fn jitter(&self) -> f64 {
        self.jitter
    }

    /// log |S|.
    pub fn log_determinant(&self) -> f64 {
        2.0 * self.lower.diagonal().map(f64::ln).sum::<f64>()
    }

    /// Replaces the K×n block `right` (row-major, n = 1 for a vector) by L⁻¹ `right`.
    pub fn solve_lower(&self, right: &mut [f64]) -> Result<(), AlgebraError> {
        let columns = self.columns(right)?;
        forward(&self.lower, right, columns);
        Ok(())
    }

    /// Replaces the K×n block `right` (row-major, n = 1 for a vector) by L⁻ᵀ `right`.
    pub fn solve_lower_transposed(&self, right: &mut [f64]) -> Result<(), AlgebraError> {
        let columns = self.columns(right)?;
        backward(&self.lower, right, columns);
        Ok(())
    }

    /// Replaces the K×n block `right` (row-major, n = 1 for a vector) by S⁻¹ `right`.
    pub fn solve(&self, right: &mut [f64]) -> Result<(), AlgebraError> {
        let columns = self.columns(right)?;
        forward(&self.lower, right, columns);
        backward(&self.lower, right, columns);
        Ok(())
    }

    /// L⁻¹.
    pub fn inverse_lower(&self) -> SquareMatrix {
        inverse_of_lower(&self.lower)
    }

    /// S⁻¹, exactly symmetric.
    pub fn inverse(&self) -> SquareMatrix {
        inverse_from_root(&inverse_of_lower(&self.lower))
    }

    fn columns(&self, right: &[f64]) -> Result<usize, AlgebraError> {
        let size = self.lower.size;
        let columns = right.len().checked_div(size).unwrap_or(0);
        check_length("right-hand side", size * columns, right.len())?;
        Ok(columns)
    }
}

/// The lower Cholesky factor from the lower triangle of `matrix`, or the index of the first pivot
/// that is not above `floor(index)` (NaN included).
pub(super) fn factorise(
    mut matrix: SquareMatrix,
    floor: impl Fn(usize) -> f64,
) -> Result<SquareMatrix, usize> {
    let size = matrix.size;
    if size <= LOOP_LIMIT {
        for i in 0..size {
            let (above, rest) = matrix.values.split_at_mut(i * size);
            let row = &mut rest[..size];
            for j in 0..i {
                let done = &above[j * size..=j * size + j];
                row[j] = (row[j] - dot(&row[..j], done)) / done[j];
            }
            let pivot = row[i] - dot(&row[..i], &row[..i]);
            if !above_floor(pivot, floor(i)) {
                return Err(i);
            }
            row[i] = pivot.sqrt();
            row[i + 1..].fill(0.0);
        }
        return Ok(matrix);
    }
    let mut memory = MemBuffer::new(cholesky_in_place_scratch::<f64>(
        size,
        Par::Seq,
        Default::default(),
    ));
    cholesky_in_place(
        MatMut::from_row_major_slice_mut(&mut matrix.values, size, size),
        Default::default(),
        Par::Seq,
        MemStack::new(&mut memory),
        Default::default(),
    )
    .map_err(|faer::linalg::cholesky::llt::factor::LltError::NonPositivePivot { index }| index)?;
    for i in 0..size {
        let row = &mut matrix.values[i * size..(i + 1) * size];
        if !above_floor(row[i] * row[i], floor(i)) {
            return Err(i);
        }
        row[i + 1..].fill(0.0);
    }
    Ok(matrix)
}

/// Also requires a pivot above 0, to avoid a division by zero with every floor.
pub(super) fn above_floor(pivot: f64, floor: f64) -> bool {
    pivot > 0.0 && pivot >= floor && pivot.is_finite()
}

/// `right` ← L⁻¹ `right`.
pub(crate) fn forward(lower: &SquareMatrix, right: &mut [f64], columns: usize) {
    let size = lower.size;
    if size > LOOP_LIMIT {
        let right = MatMut::from_row_major_slice_mut(right, size, columns);
        return solve_lower_triangular_in_place(lower.view(), right, Par::Seq);
    }
    for i in 0..size {
        let (solved, rest) = right.split_at_mut(i * columns);
        let row = &mut rest[..columns];
        let coefficients = lower.row(i);
        for (k, &coefficient) in coefficients[..i].iter().enumerate() {
            add_scaled(row, -coefficient, &solved[k * columns..(k + 1) * columns]);
        }
        row.iter_mut().for_each(|entry| *entry /= coefficients[i]);
    }
}

/// `right` ← L⁻ᵀ `right`.
pub(crate) fn backward(lower: &SquareMatrix, right: &mut [f64], columns: usize) {
    let size = lower.size;
    if size > LOOP_LIMIT {
        let right = MatMut::from_row_major_slice_mut(right, size, columns);
        return solve_upper_triangular_in_place(lower.view().transpose(), right, Par::Seq);
    }
    for i in (0..size).rev() {
        let (open, rest) = right.split_at_mut(i * columns);
        let row = &mut rest[..columns];
        let coefficients = lower.row(i);
        row.iter_mut().for_each(|entry| *entry /= coefficients[i]);
        for (k, &coefficient) in coefficients[..i].iter().enumerate() {
            add_scaled(&mut open[k * columns..(k + 1) * columns], -coefficient, row);
        }
    }
}

pub(super) fn inverse_of_lower(lower: &SquareMatrix) -> SquareMatrix {
    let mut inverse = SquareMatrix::identity(lower.size);
    forward(lower, &mut inverse.values, lower.size);
    inverse
}

/// WᵀW, exactly symmetric, for a lower triangular W.
pub(super) fn inverse_from_root(root: &SquareMatrix) -> SquareMatrix {
    let size = root.size;
    let mut values = vec![0.0; size * size];
    for k in 0..size {
        let row = &root.row(k)[..=k];
        for (i, &entry) in row.iter().enumerate() {
            add_scaled(&mut values[i * size..=i * size + i], entry, &row[..=i]);
        }
    }
    mirror_lower(size, &mut values);
    SquareMatrix { size, values }
}
