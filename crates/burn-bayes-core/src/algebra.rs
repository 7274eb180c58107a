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

/// In how many bases a singular value decomposition is tried.
const SINGULAR_VALUE_ATTEMPTS: usize = 4;

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

    /// The orthogonal matrix nearest to this one in Frobenius norm: P Qᵀ for the singular value
    /// decomposition P Σ Qᵀ. Not unique where a singular value is 0.
    pub fn nearest_orthogonal(&self) -> Result<Self, AlgebraError> {
        const WHAT: &str = "singular value decomposition";
        self.check_finite(WHAT)?;
        // faer 0.24 gives up on about one matrix in 10⁵ with clustered singular values. The
        // reflections H leave P Qᵀ = (P Qᵀ H) H unchanged and lead its iteration another way.
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

    /// Multiplies from the right by H = I − 2 v vᵀ/vᵀv, or by I where v is 0.
    fn reflect_rows(&mut self, direction: &[f64]) {
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Rounding of a few K×K products and solves on matrices of this condition number.
    fn rounding(size: usize, condition: f64) -> f64 {
        16.0 * size.max(1) as f64 * f64::EPSILON * condition
    }

    fn matrix<const N: usize>(rows: [[f64; N]; N]) -> SquareMatrix {
        SquareMatrix {
            size: N,
            values: rows.concat(),
        }
    }

    fn largest_difference(left: &SquareMatrix, right: &SquareMatrix) -> f64 {
        assert_eq!(left.size, right.size);
        let pairs = left.values.iter().zip(&right.values);
        pairs.fold(0.0, |max, (l, r)| max.max((l - r).abs()))
    }

    /// A root R of I + B without Cholesky, as the repaired path uses it.
    fn symmetric_root(block: &SquareMatrix) -> IdentityPlus {
        let eigen = SymmetricEigen::new(block).unwrap();
        IdentityPlus {
            root: Root::Symmetric {
                eigen,
                clamped: 0.0,
            },
        }
    }

    /// K ≤ `limit` rows of length D: V.
    fn rows_up_to(limit: usize) -> impl Strategy<Value = (usize, usize, Vec<f64>)> {
        (0..=limit, 1_usize..=9).prop_flat_map(|(rank, dimension)| {
            let entries = vec(-2.0..2.0, rank * dimension);
            entries.prop_map(move |values| (rank, dimension, values))
        })
    }

    /// Rows with K on both sides of D and of the loop limit.
    fn rows() -> impl Strategy<Value = (usize, usize, Vec<f64>)> {
        rows_up_to(LOOP_LIMIT + 6)
    }

    fn transpose_rows(rank: usize, dimension: usize, rows: &[f64]) -> Vec<f64> {
        let entry = |at: usize| rows[at % rank * dimension + at / rank];
        (0..rank * dimension).map(entry).collect()
    }

    /// VᵀMV for rows V, D×D.
    fn sandwich(dimension: usize, rows: &[f64], middle: &SquareMatrix) -> SquareMatrix {
        let rank = middle.size;
        SquareMatrix::from_fn(dimension, |i, j| {
            let mut sum = 0.0;
            for k in 0..rank {
                for l in 0..rank {
                    sum += rows[k * dimension + i] * middle.get(k, l) * rows[l * dimension + j];
                }
            }
            sum
        })
    }

    #[test]
    fn cholesky_of_a_worked_example() {
        let factor = Cholesky::new(&matrix([
            [4.0, 12.0, -16.0],
            [12.0, 37.0, -43.0],
            [-16.0, -43.0, 98.0],
        ]))
        .unwrap();
        let expected = matrix([[2.0, 0.0, 0.0], [6.0, 1.0, 0.0], [-8.0, 5.0, 3.0]]);
        assert_eq!(factor.lower(), &expected);
        assert_eq!(factor.jitter(), 0.0);
        let logarithm = 2.0 * 6.0_f64.ln();
        assert!((factor.log_determinant() - logarithm).abs() <= rounding(3, logarithm));
    }

    #[test]
    fn identity_plus_a_worked_example() {
        let block = matrix([[1.0, -1.0], [-1.0, 2.0]]);
        let capacitance = IdentityPlus::new(&block).unwrap();
        let expected = matrix([[0.6, 0.2], [0.2, 0.4]]);
        assert!(largest_difference(&capacitance.inverse(), &expected) <= rounding(2, 1.0));
        assert!((capacitance.log_determinant() - 5.0_f64.ln()).abs() <= rounding(2, 1.0));
        assert_eq!(capacitance.clamped(), 0.0);
    }

    #[test]
    fn one_row_is_the_scalar_formula() {
        for value in [0.0_f64, 1e-9, 0.7, 3.0, 1e12] {
            let root = (1.0 + value).sqrt();
            let capacitance = IdentityPlus::new(&matrix([[value]])).unwrap();
            let relative = |found: f64, expected: f64| (found / expected - 1.0).abs();
            let bound = rounding(1, 1.0);
            assert!(relative(capacitance.inverse().get(0, 0), 1.0 / (1.0 + value)) <= bound);
            assert!(relative(capacitance.inverse_root().get(0, 0), 1.0 / root) <= bound);
            let coefficient = capacitance.draw_coefficients().get(0, 0);
            assert!(relative(coefficient, 1.0 / (root * (1.0 + root))) <= bound);
            let logarithm = value.ln_1p();
            let error = (capacitance.log_determinant() - logarithm).abs();
            assert!(error <= rounding(1, 1.0 + logarithm), "{value}: {error:e}");
        }
    }

    #[test]
    fn no_rows_is_the_empty_matrix() {
        let empty = SquareMatrix::identity(0);
        let capacitance = IdentityPlus::new(&empty).unwrap();
        assert_eq!(capacitance.log_determinant(), 0.0);
        assert_eq!(capacitance.inverse(), empty);
        assert_eq!(capacitance.draw_coefficients(), empty);
        assert_eq!(capacitance.inverse_root(), empty);
        assert_eq!(Cholesky::new(&empty).unwrap().log_determinant(), 0.0);
        assert_eq!(Cholesky::with_floor(&empty).unwrap().jitter(), 0.0);
        assert_eq!(Cholesky::new(&empty).unwrap().solve(&mut []), Ok(()));
        assert_eq!(SymmetricEigen::new(&empty).unwrap().values(), [0.0; 0]);
        assert_eq!(SquareMatrix::gram(0, &[]).unwrap(), empty);
        assert_eq!(empty.multiply(&empty).unwrap(), empty);
        assert_eq!(empty.nearest_orthogonal().unwrap(), empty);
    }

    #[test]
    fn zero_block_halves_the_draw_coefficients() {
        let zero = SquareMatrix::from_fn(3, |_, _| 0.0);
        let half = SquareMatrix::from_fn(3, |i, j| if i == j { 0.5 } else { 0.0 });
        assert_eq!(IdentityPlus::new(&zero).unwrap().draw_coefficients(), half);
        assert_eq!(symmetric_root(&zero).draw_coefficients(), half);
    }

    #[test]
    fn floor_repairs_rounding_and_nothing_else_at_any_scale() {
        for scale in [1e-150, 1.0, 1e150] {
            let rank_one = SquareMatrix::gram(3, &[1.0, -2.0, 3.0]).unwrap();
            let rank_one = SquareMatrix::from_fn(3, |i, j| scale * rank_one.get(i, j));
            assert_eq!(
                Cholesky::new(&rank_one).unwrap_err(),
                AlgebraError::NotPositiveDefinite {
                    what: "Cholesky factorisation",
                    index: 1
                }
            );
            let factor = Cholesky::with_floor(&rank_one).unwrap();
            let floor = PIVOT_FLOOR * rank_one.trace() / 3.0;
            assert_eq!(factor.jitter(), 2.0 * floor);
            let lower = factor.lower();
            let product = lower.multiply(&lower.transpose()).unwrap();
            let error = largest_difference(&product, &rank_one);
            let bound = factor.jitter() + rounding(3, rank_one.trace());
            assert!(error <= bound, "{error:e} > {bound:e} at scale {scale:e}");

            let indefinite = plus_scaled_identity(&rank_one, -4.0 * floor);
            assert!(Cholesky::with_floor(&indefinite).is_err());
        }
    }

    #[test]
    fn floor_applies_to_small_positive_pivots() {
        // The second pivot, 1e-13, lies between rounding and the floor of 1e-12 · ½.
        let small = matrix([[1.0, 0.0], [0.0, 1e-13]]);
        assert_eq!(Cholesky::new(&small).unwrap().jitter(), 0.0);
        let jitter = Cholesky::with_floor(&small).unwrap().jitter();
        assert_eq!(jitter, PIVOT_FLOOR * small.trace());
    }

    #[test]
    fn strict_factorisation_does_not_depend_on_units() {
        let tiny = matrix([[1.0, 1e-15], [1e-15, 1e-29]]);
        assert_eq!(Cholesky::new(&tiny).unwrap().jitter(), 0.0);
    }

    #[test]
    fn eigenvalues_below_zero_by_rounding_are_clamped() {
        // s [[1, 1], [1, 1−η]] has the eigenvalues s (1 − η/2 ± √(1 + η²/4)).
        let (scale, eta) = (1e6_f64, 1e-4_f64);
        let block = matrix([[scale, scale], [scale, scale * (1.0 - eta)]]);
        let capacitance = IdentityPlus::new(&block).unwrap();
        let half_gap = (1.0 + 0.25 * eta * eta).sqrt();
        let largest = scale * (1.0 - 0.5 * eta + half_gap);
        let lowest = scale * (1.0 - 0.5 * eta - half_gap);
        assert!((capacitance.clamped() + lowest).abs() <= rounding(2, largest));
        let logarithm = largest.ln_1p();
        assert!((capacitance.log_determinant() - logarithm).abs() <= rounding(2, logarithm));
        let inverse = SymmetricEigen::new(&capacitance.inverse()).unwrap();
        assert!((inverse.values()[0] - 1.0).abs() <= rounding(2, 1.0));
        assert!(inverse.values()[1] > 0.0);
    }

    #[test]
    fn bad_input_is_an_error_that_says_where() {
        let error = IdentityPlus::new(&matrix([[1.0, 0.0], [f64::NAN, 1.0]])).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("B of I + B: entry (1, 0) is NaN; likely cause")
        );
        let infinite = matrix([[f64::INFINITY]]);
        assert!(matches!(
            Cholesky::new(&infinite),
            Err(AlgebraError::NotFinite { .. })
        ));
        assert!(matches!(
            Cholesky::with_floor(&infinite),
            Err(AlgebraError::NotFinite { .. })
        ));
        assert!(matches!(
            SymmetricEigen::new(&infinite),
            Err(AlgebraError::NotFinite { .. })
        ));
        assert!(matches!(
            infinite.nearest_orthogonal(),
            Err(AlgebraError::NotFinite { .. })
        ));

        for indefinite in [
            matrix([[0.0, 2.0], [2.0, 0.0]]),
            matrix([[1.0, 0.0], [0.0, -0.1]]),
        ] {
            let error = IdentityPlus::new(&indefinite).unwrap_err();
            let expected = AlgebraError::NotPositiveDefinite {
                what: "B of I + B",
                index: 1,
            };
            assert_eq!(error, expected);
            assert!(Cholesky::new(&indefinite).is_err());
            assert!(Cholesky::with_floor(&indefinite).is_err());
        }
        assert!(Cholesky::with_floor(&matrix([[0.0]])).is_err());

        assert_eq!(
            SquareMatrix::from_row_major(2, vec![0.0; 3])
                .unwrap_err()
                .to_string(),
            "square matrix: expected length 4, found 3; likely cause: arguments of models or \
             ranks of different sizes, or a matrix not stored row by row"
        );
        assert!(SquareMatrix::gram(2, &[1.0; 3]).is_err());
        assert!(SquareMatrix::gram(0, &[1.0]).is_err());
        let two = SquareMatrix::identity(2);
        assert!(two.multiply(&SquareMatrix::identity(3)).is_err());
        assert!(two.multiply_vector(&[1.0]).is_err());
        assert!(Cholesky::new(&two).unwrap().solve(&mut [1.0; 3]).is_err());
        assert!(
            Cholesky::new(&two)
                .unwrap()
                .solve_lower(&mut [1.0; 3])
                .is_err()
        );
    }

    #[test]
    fn overflow_is_an_error() {
        let huge = SquareMatrix::from_fn(2, |i, j| if i == j { f64::MAX } else { -f64::MAX });
        assert!(Cholesky::new(&huge).is_err());
        assert!(Cholesky::with_floor(&huge).is_err());
    }

    /// `faer` 0.24.4 does not converge on this product H S of a reflection, 15 H = 15 I − 2vvᵀ,
    /// and S = 15 (I + wwᵀ); it does after a change of basis.
    #[test]
    fn nearest_orthogonal_survives_a_failed_iteration() {
        let v = [-2.0, 1.0, -2.0, -1.0, -2.0, 1.0];
        let w = [1.0, 0.0, 0.0, 3.0, -3.0, -2.0];
        let identity = |i: usize, j: usize| if i == j { 1.0 } else { 0.0 };
        let reflection = SquareMatrix::from_fn(6, |i, j| 15.0 * identity(i, j) - 2.0 * v[i] * v[j]);
        let stretch = SquareMatrix::from_fn(6, |i, j| identity(i, j) + w[i] * w[j]);
        let product = reflection.multiply(&stretch).unwrap();
        let expected = SquareMatrix::from_fn(6, |i, j| reflection.get(i, j) / 15.0);
        let found = product.nearest_orthogonal().unwrap();
        assert!(largest_difference(&found, &expected) <= rounding(6, 24.0));
    }

    #[test]
    fn reflections_are_their_own_inverse() {
        let original = matrix([[1.0, 2.0], [3.0, 4.0]]);
        let mut reflected = original.clone();
        // H = [[−3, −4], [−4, 3]]/5 for v = (2, 1).
        reflected.reflect_rows(&[2.0, 1.0]);
        let expected = matrix([[-2.2, 0.4], [-5.0, 0.0]]);
        assert!(largest_difference(&reflected, &expected) <= rounding(2, 5.0));
        reflected.reflect_rows(&[2.0, 1.0]);
        assert!(largest_difference(&reflected, &original) <= rounding(2, 5.0));
    }

    proptest! {
        #[test]
        fn inverse_and_its_root_invert((rank, _, rows) in rows()) {
            let block = SquareMatrix::gram(rank, &rows).unwrap();
            let capacitance = IdentityPlus::new(&block).unwrap();
            let inverse = capacitance.inverse();
            prop_assert_eq!(&inverse, &inverse.transpose());
            let product = inverse.multiply(&plus_scaled_identity(&block, 1.0)).unwrap();
            let bound = rounding(rank, 1.0 + block.trace());
            prop_assert!(largest_difference(&product, &SquareMatrix::identity(rank)) <= bound);
            for either in [capacitance, symmetric_root(&block)] {
                let root = either.inverse_root();
                let product = root.transpose().multiply(&root).unwrap();
                prop_assert!(largest_difference(&product, &inverse) <= bound);
            }
        }

        /// log|I + VVᵀ| = log|I + VᵀV|, by Cholesky and by eigenvalues.
        #[test]
        fn log_determinant_of_either_gram((rank, dimension, rows) in rows()) {
            let small = SquareMatrix::gram(rank, &rows).unwrap();
            let columns = transpose_rows(rank, dimension, &rows);
            let large = SquareMatrix::gram(dimension, &columns).unwrap();
            let expected = IdentityPlus::new(&small).unwrap().log_determinant();
            let bound = rounding(rank + dimension, 1.0 + small.trace());
            for other in [
                IdentityPlus::new(&large).unwrap().log_determinant(),
                symmetric_root(&small).log_determinant(),
            ] {
                prop_assert!((other - expected).abs() <= bound, "{other} {expected}");
            }
        }

        /// (UᵀU + diag d)⁻¹ = d⁻¹ − (U/d)ᵀ (I + U d⁻¹ Uᵀ)⁻¹ (U/d).
        #[test]
        fn woodbury_is_the_dense_inverse(
            (rank, dimension, rows) in rows(),
            logarithms in vec(-1.5..1.5, 9),
        ) {
            let diagonal: Vec<f64> = logarithms[..dimension].iter().map(|l: &f64| l.exp()).collect();
            let at = |index: usize| diagonal[index % dimension];
            let whitened: Vec<f64> = (0..rows.len()).map(|i| rows[i] / at(i).sqrt()).collect();
            let scaled: Vec<f64> = (0..rows.len()).map(|i| rows[i] / at(i)).collect();
            let block = SquareMatrix::gram(rank, &whitened).unwrap();
            let inner = IdentityPlus::new(&block).unwrap().inverse();
            let correction = sandwich(dimension, &scaled, &inner);
            let gram = sandwich(dimension, &rows, &SquareMatrix::identity(rank));
            let precision = SquareMatrix::from_fn(dimension, |i, j| {
                gram.get(i, j) + if i == j { diagonal[i] } else { 0.0 }
            });
            let direct = Cholesky::new(&precision).unwrap().inverse();
            let woodbury = SquareMatrix::from_fn(dimension, |i, j| {
                (if i == j { 1.0 / diagonal[i] } else { 0.0 }) - correction.get(i, j)
            });
            let smallest = diagonal.iter().copied().fold(f64::INFINITY, f64::min);
            let condition = precision.trace() / smallest;
            let bound = rounding(rank + dimension, condition / smallest);
            prop_assert!(largest_difference(&woodbury, &direct) <= bound);
        }

        /// T = I − VᵀMV has T Tᵀ (I + VᵀV) = I for both roots, whatever the rank of V.
        #[test]
        fn draw_coefficients_whiten((rank, dimension, rows) in rows()) {
            let block = SquareMatrix::gram(rank, &rows).unwrap();
            let gram = sandwich(dimension, &rows, &SquareMatrix::identity(rank));
            for either in [IdentityPlus::new(&block).unwrap(), symmetric_root(&block)] {
                let inner = sandwich(dimension, &rows, &either.draw_coefficients());
                let map = SquareMatrix::from_fn(dimension, |i, j| {
                    (if i == j { 1.0 } else { 0.0 }) - inner.get(i, j)
                });
                let product = map
                    .multiply(&map.transpose())
                    .and_then(|covariance| covariance.multiply(&plus_scaled_identity(&gram, 1.0)))
                    .unwrap();
                let condition = 1.0 + block.trace();
                let bound = rounding(rank + dimension, condition * condition);
                let error = largest_difference(&product, &SquareMatrix::identity(dimension));
                prop_assert!(error <= bound, "{error:e} > {bound:e}");
            }
        }

        #[test]
        fn eigenpairs_rebuild_the_matrix((rank, _, rows) in rows()) {
            let gram = SquareMatrix::gram(rank, &rows).unwrap();
            let eigen = SymmetricEigen::new(&gram).unwrap();
            let bound = rounding(rank, gram.frobenius_norm());
            prop_assert!(largest_difference(&eigen.map(|value| value), &gram) <= bound);
            prop_assert!(eigen.values().is_sorted_by(|left, right| left >= right));
            let vectors = eigen.vectors();
            let product = vectors.multiply(&vectors.transpose()).unwrap();
            let identity = SquareMatrix::identity(rank);
            prop_assert!(largest_difference(&product, &identity) <= rounding(rank, 1.0));
            let root = eigen.square_root();
            prop_assert!(largest_difference(&root.multiply(&root).unwrap(), &gram) <= bound);
            for k in 0..rank {
                let largest = vectors.row(k).iter().fold(0.0_f64, |a, b| a.max(b.abs()));
                prop_assert!(vectors.row(k).contains(&largest));
            }
        }

        #[test]
        fn solves_undo_products((rank, _, rows) in rows(), columns in 1_usize..4) {
            let block = SquareMatrix::gram(rank, &rows).unwrap();
            let matrix = plus_scaled_identity(&block, 1.0);
            let factor = Cholesky::new(&matrix).unwrap();
            let right: Vec<f64> = (0..rank * columns).map(|at| (at % 7) as f64 - 3.0).collect();
            let mut whole = right.clone();
            factor.solve(&mut whole).unwrap();
            let mut halves = right.clone();
            factor.solve_lower(&mut halves).unwrap();
            factor.solve_lower_transposed(&mut halves).unwrap();
            prop_assert_eq!(&whole, &halves);
            let bound = rounding(rank, 3.0 * rank as f64 * (1.0 + block.trace()));
            for column in 0..columns {
                let solved: Vec<f64> = (0..rank).map(|k| whole[k * columns + column]).collect();
                for (k, found) in matrix.multiply_vector(&solved).unwrap().iter().enumerate() {
                    prop_assert!((found - right[k * columns + column]).abs() <= bound);
                }
            }
        }

        /// A matrix bordered by an identity goes through `faer` and must give the loops' result.
        #[test]
        fn loops_agree_with_faer((rank, _, rows) in rows_up_to(LOOP_LIMIT)) {
            let block = SquareMatrix::gram(rank, &rows).unwrap();
            let bordered = SquareMatrix::from_fn(LOOP_LIMIT + 1, |i, j| {
                if i < rank && j < rank { block.get(i, j) } else { 0.0 }
            });
            let inside = |matrix: SquareMatrix| SquareMatrix::from_fn(rank, |i, j| matrix.get(i, j));
            let loops = IdentityPlus::new(&block).unwrap();
            let faer = IdentityPlus::new(&bordered).unwrap();
            let bound = rounding(rank, 1.0 + block.trace());
            for (left, right) in [
                (loops.inverse(), faer.inverse()),
                (loops.inverse_root(), faer.inverse_root()),
                (loops.draw_coefficients(), faer.draw_coefficients()),
            ] {
                prop_assert!(largest_difference(&left, &inside(right)) <= bound);
            }
            prop_assert!((loops.log_determinant() - faer.log_determinant()).abs() <= bound);
            let product = inside(bordered.multiply(&bordered).unwrap());
            let bound = rounding(rank, block.trace() * block.trace());
            prop_assert!(largest_difference(&product, &block.multiply(&block).unwrap()) <= bound);
        }

        #[test]
        fn nearest_orthogonal_is_orthogonal_and_fixes_orthogonal((rank, _, rows) in rows()) {
            let gram = SquareMatrix::gram(rank, &rows).unwrap();
            let orthogonal = SymmetricEigen::new(&gram).unwrap().vectors().clone();
            let stretched = orthogonal.multiply(&plus_scaled_identity(&gram, 1.0)).unwrap();
            let found = stretched.nearest_orthogonal().unwrap();
            let bound = rounding(rank, 1.0 + gram.trace());
            prop_assert!(largest_difference(&found, &orthogonal) <= bound);
        }
    }
}
