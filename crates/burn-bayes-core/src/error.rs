//! The error of this crate: opaque, with predicates; the message says what, where and the cure.

use crate::algebra::AlgebraError;

/// What went wrong, where, and the likely cure.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Kind);

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("{field}: {problem}")]
    Config { field: String, problem: String },
    #[error("{0}")]
    Layout(String),
    #[error("{0}")]
    Storage(String),
    #[error("{0}")]
    Numerical(String),
    #[error(transparent)]
    Algebra(#[from] AlgebraError),
}

impl Error {
    /// A setting that cannot be used: names the field, the value it had and what it must be.
    pub fn config(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Kind::Config {
            field: field.into(),
            problem: problem.into(),
        }
        .into()
    }

    /// A model and a layout that do not belong together.
    pub fn layout(message: impl Into<String>) -> Self {
        Kind::Layout(message.into()).into()
    }

    /// A file that cannot be read or written.
    pub fn storage(message: impl Into<String>) -> Self {
        Kind::Storage(message.into()).into()
    }

    /// A value that is not a number, or a matrix that is not positive definite.
    pub fn numerical(message: impl Into<String>) -> Self {
        Kind::Numerical(message.into()).into()
    }

    /// A setting was refused.
    pub fn is_config(&self) -> bool {
        matches!(self.0, Kind::Config { .. })
    }

    /// A model does not fit the layout.
    pub fn is_layout(&self) -> bool {
        matches!(self.0, Kind::Layout(_))
    }

    /// A file was refused or could not be written.
    pub fn is_storage(&self) -> bool {
        matches!(self.0, Kind::Storage(_))
    }

    /// A computation left the finite, positive-definite numbers.
    pub fn is_numerical(&self) -> bool {
        matches!(self.0, Kind::Numerical(_) | Kind::Algebra(_))
    }
}

impl From<AlgebraError> for Error {
    fn from(error: AlgebraError) -> Self {
        Kind::from(error).into()
    }
}
