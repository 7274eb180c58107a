//! Small dense algebra in f64 on the host: what a rank-K Gaussian needs of K×K matrices.
//!
//! Every low-rank formula of this library meets the host in one symmetric positive semi-definite
//! K×K block B (B = F (F ⊘ ψ)ᵀ in covariance form, B = V Vᵀ with V = U/√d in precision form):
//!
//! ```text
//! A   = (I + B)⁻¹                      Woodbury's inner inverse        IdentityPlus::inverse
//! log |I + B|                          matrix determinant lemma        IdentityPlus::log_determinant
//! W,  WᵀW = (I + B)⁻¹                  marginal variances              IdentityPlus::inverse_root
//! M   = R⁻ᵀ (I + R)⁻¹,  R Rᵀ = I + B   draws of the precision form     IdentityPlus::draw_coefficients
//! θ   = μ + d^-½ ⊙ [ε − Vᵀ M V ε]      has covariance (UᵀU + diag d)⁻¹ for ε ~ N(0, I)
//! B   = Σₖ λₖ vₖ vₖᵀ,  λ₁ ≥ λ₂ ≥ …      truncation to the top pairs     SymmetricEigen
//! ```
//!
//! Matrices are row-major. A symmetric argument is read from its lower triangle. Up to
//! [`LOOP_LIMIT`] rows plain loops are used, because the blocked routines of `faer` cost more to
//! enter than such a matrix costs to factorise; above it `faer` does the work.
//!
//! Reference: Golub and Van Loan, *Matrix Computations*, 4th ed., §2.1.4 (Woodbury), §4.2
//! (Cholesky), §8.3 (symmetric eigenproblem).

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::factor::{cholesky_in_place, cholesky_in_place_scratch};
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_upper_triangular_in_place,
};
use faer::{MatMut, MatRef, Par, Side};
use thiserror::Error;

/// The smallest pivot [`Cholesky::with_floor`] accepts, as a fraction of the mean diagonal entry.
///
/// Rounding perturbs a pivot by at most about K²·ε times the mean diagonal entry (ε = 2.2e-16), so
/// a pivot under this floor carries no digits for any K up to about 60.
pub const PIVOT_FLOOR: f64 = 1e-12;

/// How negative an eigenvalue of a Gram matrix may be, as a fraction of the largest magnitude.
///
/// Gram matrices come from the device in its own precision; half-precision rounding (2⁻⁸ for
/// bfloat16) is the largest that occurs. What lies below is not rounding and is refused.
pub const GRAM_ROUNDING: f64 = 1e-2;

/// The largest matrix factorised by plain loops instead of `faer`.
const LOOP_LIMIT: usize = 16;

/// Why a K×K computation could not be done.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum AlgebraError {
    /// An entry is NaN or infinite.
    #[error(
        "{what}: entry ({row}, {column}) is {value}; likely cause: a loss, gradient or factor \
         diverged before this computation"
    )]
    NotFinite {
        /// The argument that holds the entry.
        what: &'static str,
        /// Row of the entry, counted from 0.
        row: usize,
        /// Column of the entry, counted from 0.
        column: usize,
        /// The entry.
        value: f64,
    },
    /// A matrix that must be positive (semi-)definite is not.
    #[error(
        "{what}: not positive definite, found at pivot or eigenvalue {index}; likely cause: \
         linearly dependent rows, a variance of zero or below, or a covariance that was not \
         computed as a Gram matrix"
    )]
    NotPositiveDefinite {
        /// The matrix.
        what: &'static str,
        /// The pivot (or eigenvalue) that is too small, counted from 0.
        index: usize,
    },
    /// A matrix that must be symmetric is not, by more than rounding.
    #[error(
        "{what}: entries ({row}, {column}) and ({column}, {row}) differ by {difference:e}; likely \
         cause: the matrix was filled in one triangle only, or is no covariance"
    )]
    NotSymmetric {
        /// The matrix.
        what: &'static str,
        /// Row of the entry, counted from 0.
        row: usize,
        /// Column of the entry, counted from 0.
        column: usize,
        /// Absolute difference of the two entries.
        difference: f64,
    },
    /// A number that must be positive is not.
    #[error(
        "{what}: entry {index} is {value}, must be above 0; likely cause: a variance or precision \
         was passed without its exponential, or underflowed"
    )]
    NotPositive {
        /// The argument.
        what: &'static str,
        /// Index of the entry, counted from 0.
        index: usize,
        /// The entry.
        value: f64,
    },
    /// Two arguments disagree about a dimension.
    #[error(
        "{what}: expected length {expected}, found {found}; likely cause: arguments of models or \
         ranks of different sizes, or a matrix not stored row by row"
    )]
    DimensionMismatch {
        /// The argument.
        what: &'static str,
        /// The length it should have.
        expected: usize,
        /// The length it has.
        found: usize,
    },
    /// An iterative decomposition did not converge.
    #[error(
        "{what}: the decomposition of a {size}×{size} matrix did not converge; likely cause: \
         entries near the largest number f64 can hold"
    )]
    NoConvergence {
        /// The decomposition.
        what: &'static str,
        /// Number of rows.
        size: usize,
    },
}

/// A square matrix of f64, row by row.
///
/// ```
/// use burn_bayes_core::SquareMatrix;
///
/// let matrix = SquareMatrix::from_row_major(2, vec![1.0, 2.0, 3.0, 4.0])?;
/// assert_eq!(matrix.get(0, 1), 2.0);
/// assert_eq!(matrix.trace(), 5.0);
/// # Ok::<(), burn_bayes_core::AlgebraError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SquareMatrix {
    size: usize,
    values: Vec<f64>,
}

impl SquareMatrix {
    /// The matrix whose rows are laid one after the other in `values`.
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

    /// The Gram matrix R Rᵀ of the `size` rows laid one after the other in `rows`.
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

    pub(crate) fn view(&self) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(&self.values, self.size, self.size)
    }

    pub(crate) fn check_finite(&self, what: &'static str) -> Result<(), AlgebraError> {
        check_finite(what, self.size, &self.values)
    }
}

/// The lower Cholesky factor of a symmetric positive definite matrix, S = L Lᵀ.
///
/// ```
/// use burn_bayes_core::{Cholesky, SquareMatrix};
///
/// let matrix = SquareMatrix::from_row_major(2, vec![4.0, 2.0, 2.0, 10.0])?;
/// let factor = Cholesky::new(&matrix)?;
/// assert_eq!(factor.lower().as_slice(), [2.0, 0.0, 1.0, 3.0]);
/// let mut vector = [8.0, 22.0];
/// factor.solve(&mut vector)?;
/// assert_eq!(vector, [1.0, 2.0]);
/// # Ok::<(), burn_bayes_core::AlgebraError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Cholesky {
    lower: SquareMatrix,
    jitter: f64,
}

impl Cholesky {
    /// Factorises `matrix` as it is, or says that it is not positive definite.
    ///
    /// A pivot must exceed K·ε times the diagonal entry it came from: below that it is rounding.
    /// The rule does not depend on the units of the rows.
    pub fn new(matrix: &SquareMatrix) -> Result<Self, AlgebraError> {
        const WHAT: &str = "Cholesky factorisation";
        matrix.check_finite(WHAT)?;
        let rounding = matrix.size as f64 * f64::EPSILON;
        let lower = factorise(matrix.clone(), |index| rounding * matrix.get(index, index))
            .map_err(|index| AlgebraError::NotPositiveDefinite { what: WHAT, index })?;
        Ok(Self { lower, jitter: 0.0 })
    }

    /// Factorises `matrix`, or `matrix` + [`jitter`](Self::jitter)·I where a pivot falls below
    /// [`PIVOT_FLOOR`] times the mean diagonal entry.
    ///
    /// The jitter is twice that floor. A matrix that needs more of it than that is not a rounded
    /// positive semi-definite matrix, and is refused.
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

    /// What was added to every diagonal entry before factorising; 0 when nothing was.
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

/// I + B for a symmetric positive semi-definite B, factorised.
///
/// No pivot of I + B is below 1. One below ½ shows that B, which may come from a device in single
/// precision, was rounded by more than the identity adds; the eigenvalues of B that rounding made
/// negative are then set to 0, and [`clamped`](Self::clamped) reports the largest of them.
///
/// ```
/// use burn_bayes_core::{IdentityPlus, SquareMatrix};
///
/// let block = SquareMatrix::from_row_major(1, vec![3.0])?;
/// let capacitance = IdentityPlus::new(&block)?;
/// assert_eq!(capacitance.inverse().get(0, 0), 0.25);
/// assert_eq!(capacitance.log_determinant(), 4.0_f64.ln());
/// # Ok::<(), burn_bayes_core::AlgebraError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct IdentityPlus {
    root: Root,
}

/// R with R Rᵀ = I + B: triangular, or symmetric through the eigenpairs of the clamped B.
#[derive(Debug, Clone, PartialEq)]
enum Root {
    Triangular(SquareMatrix),
    Symmetric { eigen: SymmetricEigen, clamped: f64 },
}

impl IdentityPlus {
    /// Factorises I + `block`; `block` is B, without the identity.
    pub fn new(block: &SquareMatrix) -> Result<Self, AlgebraError> {
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
            .fold(0.0_f64, |max, value| max.max(value.abs()));
        let lowest = eigen.values.last().copied().unwrap_or(0.0);
        if lowest < -GRAM_ROUNDING * largest {
            let index = block.size - 1;
            return Err(AlgebraError::NotPositiveDefinite { what: WHAT, index });
        }
        eigen
            .values
            .iter_mut()
            .for_each(|value| *value = value.max(0.0));
        let clamped = (-lowest).max(0.0);
        Ok(Self {
            root: Root::Symmetric { eigen, clamped },
        })
    }

    /// A = (I + B)⁻¹, exactly symmetric. With B = U d⁻¹ Uᵀ, Woodbury's inner inverse.
    pub fn inverse(&self) -> SquareMatrix {
        match &self.root {
            Root::Triangular(lower) => inverse_from_root(&inverse_of_lower(lower)),
            Root::Symmetric { eigen, .. } => eigen.map(|value| 1.0 / (1.0 + value)),
        }
    }

    /// log |I + B|.
    pub fn log_determinant(&self) -> f64 {
        match &self.root {
            Root::Triangular(lower) => 2.0 * lower.diagonal().map(f64::ln).sum::<f64>(),
            Root::Symmetric { eigen, .. } => eigen.values.iter().map(|value| value.ln_1p()).sum(),
        }
    }

    /// W with WᵀW = (I + B)⁻¹, so that vᵀ (I + B)⁻¹ v = ‖W v‖².
    pub fn inverse_root(&self) -> SquareMatrix {
        match &self.root {
            Root::Triangular(lower) => inverse_of_lower(lower),
            Root::Symmetric { eigen, .. } => eigen.map(|value| (1.0 + value).sqrt().recip()),
        }
    }

    /// M = R⁻ᵀ (I + R)⁻¹ with R Rᵀ = I + B, not symmetric in general.
    ///
    /// With V Vᵀ = B, V = U/√d, the map ε ↦ d^-½ ⊙ [ε − Vᵀ M V ε] turns standard normals into
    /// normals of covariance (UᵀU + diag d)⁻¹. Any root R gives the same covariance; U may be
    /// rank-deficient or zero.
    pub fn draw_coefficients(&self) -> SquareMatrix {
        match &self.root {
            Root::Triangular(lower) => {
                let size = lower.size;
                let mut coefficients = inverse_of_lower(&plus_scaled_identity(lower, 1.0));
                backward(lower, &mut coefficients.values, size);
                coefficients
            }
            // (1 − (1+λ)^-½)/λ = 1/(s(1+s)) with s = √(1+λ), without the quotient 0/0 at λ = 0.
            Root::Symmetric { eigen, .. } => eigen.map(|value| {
                let root = (1.0 + value).sqrt();
                1.0 / (root * (1.0 + root))
            }),
        }
    }

    /// The magnitude of the most negative eigenvalue of B that was set to 0; 0 when none was.
    pub fn clamped(&self) -> f64 {
        match &self.root {
            Root::Triangular(_) => 0.0,
            Root::Symmetric { clamped, .. } => *clamped,
        }
    }
}

/// The eigenpairs of a symmetric matrix, largest eigenvalue first.
///
/// ```
/// use burn_bayes_core::{SquareMatrix, SymmetricEigen};
///
/// let matrix = SquareMatrix::from_row_major(2, vec![1.0, 0.0, 0.0, 3.0])?;
/// let eigen = SymmetricEigen::new(&matrix)?;
/// assert_eq!(eigen.values(), [3.0, 1.0]);
/// assert_eq!(eigen.vectors().row(0), [0.0, 1.0]);
/// # Ok::<(), burn_bayes_core::AlgebraError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SymmetricEigen {
    values: Vec<f64>,
    vectors: SquareMatrix,
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
        let values = (0..size).rev().map(|k| ascending[k]).collect();
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
    /// An eigenvector's sign is free; here its entry of largest magnitude is positive.
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
    pub fn square_root(&self) -> SquareMatrix {
        self.map(|value| value.max(0.0).sqrt())
    }
}

pub(crate) fn check_length(
    what: &'static str,
    expected: usize,
    found: usize,
) -> Result<(), AlgebraError> {
    if expected == found {
        Ok(())
    } else {
        Err(AlgebraError::DimensionMismatch {
            what,
            expected,
            found,
        })
    }
}

/// `columns` only serves to name the place; a vector is one row.
pub(crate) fn check_finite(
    what: &'static str,
    columns: usize,
    values: &[f64],
) -> Result<(), AlgebraError> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(AlgebraError::NotFinite {
            what,
            row: at / columns.max(1),
            column: at % columns.max(1),
            value: values[at],
        }),
    }
}

pub(crate) fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

fn add_scaled(target: &mut [f64], scale: f64, source: &[f64]) {
    for (t, s) in target.iter_mut().zip(source) {
        *t += scale * s;
    }
}

fn plus_scaled_identity(matrix: &SquareMatrix, scale: f64) -> SquareMatrix {
    let mut sum = matrix.clone();
    sum.values
        .iter_mut()
        .step_by(matrix.size + 1)
        .for_each(|v| *v += scale);
    sum
}

fn point_to_positive_side(vector: &mut [f64]) {
    let largest = vector
        .iter()
        .fold(0.0_f64, |a, &b| if b.abs() > a.abs() { b } else { a });
    if largest < 0.0 {
        vector.iter_mut().for_each(|entry| *entry = -*entry);
    }
}

fn mirror_lower(size: usize, values: &mut [f64]) {
    for row in 0..size {
        for column in row + 1..size {
            values[row * size + column] = values[column * size + row];
        }
    }
}

/// The lower Cholesky factor from the lower triangle of `matrix`, or the index of the first pivot
/// that is not above `floor(index)` (NaN included).
fn factorise(
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

/// Also above 0, so that no floor lets a zero pivot divide.
fn above_floor(pivot: f64, floor: f64) -> bool {
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

fn inverse_of_lower(lower: &SquareMatrix) -> SquareMatrix {
    let mut inverse = SquareMatrix::identity(lower.size);
    forward(lower, &mut inverse.values, lower.size);
    inverse
}

/// WᵀW, exactly symmetric, for a lower triangular W.
fn inverse_from_root(root: &SquareMatrix) -> SquareMatrix {
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
