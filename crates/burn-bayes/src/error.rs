//! The error of this crate: opaque, with predicates; the message says what went wrong, where, and
//! how to fix it.

use std::sync::Arc;

use crate::algebra::AlgebraError;

/// An error of this crate.
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
    #[error(
        "step {step}: the gradient is not finite at {path}; likely causes: a learning rate that is \
         too high, inputs or targets that are not standardised, a label that no class has, or a loss \
         that takes the logarithm of zero; the weights are those of the previous step"
    )]
    NonFinite { step: u64, path: String },
    #[error(
        "the closed-form update did not reach the optimiser: such updates cannot be accumulated, \
         so train without gradient accumulation and on one device (larger mini-batches have the \
         effect of accumulation)"
    )]
    LostStep,
    #[error("{0}")]
    TooEarly(String),
    #[error("epoch {epoch}: {error}")]
    InEpoch { epoch: usize, error: Arc<Error> },
    #[error(transparent)]
    Graph(#[from] burn_bayes_graph::Error),
}

impl Error {
    /// An invalid setting: the message names the field, its value and the valid values.
    pub fn config(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Kind::Config {
            field: field.into(),
            problem: problem.into(),
        }
        .into()
    }

    /// A model and a layout that do not match.
    pub fn layout(message: impl Into<String>) -> Self {
        Kind::Layout(message.into()).into()
    }

    /// A file that cannot be read or written.
    pub fn storage(message: impl Into<String>) -> Self {
        Kind::Storage(message.into()).into()
    }

    /// A value that is not finite, or a matrix that is not positive definite.
    pub fn numerical(message: impl Into<String>) -> Self {
        Kind::Numerical(message.into()).into()
    }

    /// A gradient that is not finite: the message names the optimiser step (from 1) and the
    /// parameter.
    pub(crate) fn non_finite(step: u64, path: impl Into<String>) -> Self {
        Kind::NonFinite {
            step,
            path: path.into(),
        }
        .into()
    }

    pub(crate) fn lost_step() -> Self {
        Kind::LostStep.into()
    }

    /// An error that stopped training in this epoch (from 1).
    pub(crate) fn in_epoch(epoch: usize, error: Arc<Error>) -> Self {
        Kind::InEpoch { epoch, error }.into()
    }

    /// No posterior yet, because training has made too few steps.
    pub fn too_early(message: impl Into<String>) -> Self {
        Kind::TooEarly(message.into()).into()
    }

    /// What went wrong, in whichever epoch.
    fn root(&self) -> &Kind {
        match &self.0 {
            Kind::InEpoch { error, .. } => error.root(),
            kind => kind,
        }
    }

    /// Whether a setting is invalid.
    pub fn is_config(&self) -> bool {
        match self.root() {
            Kind::Config { .. } | Kind::LostStep => true,
            Kind::Graph(error) => error.is_config(),
            _ => false,
        }
    }

    /// Whether a model does not match the layout.
    pub fn is_layout(&self) -> bool {
        match self.root() {
            Kind::Layout(_) => true,
            Kind::Graph(error) => error.is_layout(),
            _ => false,
        }
    }

    /// Whether a file cannot be read or written.
    pub fn is_storage(&self) -> bool {
        match self.root() {
            Kind::Storage(_) => true,
            Kind::Graph(error) => error.is_storage(),
            _ => false,
        }
    }

    /// Whether a value is not finite or a matrix is not positive definite.
    pub fn is_numerical(&self) -> bool {
        matches!(
            self.root(),
            Kind::Numerical(_) | Kind::Algebra(_) | Kind::NonFinite { .. }
        )
    }

    /// Whether there is no posterior yet, because training has made too few steps.
    pub fn is_too_early(&self) -> bool {
        matches!(self.0, Kind::TooEarly(_))
    }

    /// Whether a model cannot be written as an ONNX file.
    pub fn is_onnx(&self) -> bool {
        matches!(&self.0, Kind::Graph(error) if error.is_onnx())
    }
}

impl From<AlgebraError> for Error {
    fn from(error: AlgebraError) -> Self {
        Kind::from(error).into()
    }
}

impl From<burn_bayes_graph::Error> for Error {
    fn from(error: burn_bayes_graph::Error) -> Self {
        Kind::from(error).into()
    }
}
