//! Errors of matrix computations, and the checks that detect them.

use thiserror::Error;

/// The error of a K×K computation.
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
         cause: only one triangle of the matrix was filled, or it is not a covariance"
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
    /// Two arguments have different dimensions.
    #[error(
        "{what}: expected length {expected}, found {found}; likely cause: arguments for models or \
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
         entries near the largest f64"
    )]
    NoConvergence {
        /// The decomposition.
        what: &'static str,
        /// Number of rows.
        size: usize,
    },
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

/// `columns` is only used for the position in the message; a vector is one row.
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
