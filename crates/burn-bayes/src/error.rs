//! The error of this crate: opaque, with predicates; the message says what, where and the cure.

use std::sync::Arc;

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
    #[error(
        "step {step}: the gradient is not finite at {path}; likely causes: a learning rate that is \
         too high, inputs or targets that are not standardised, or a loss that takes the logarithm \
         of zero; the weights are those of the step before"
    )]
    NonFinite { step: u64, path: String },
    #[error(
        "the step in closed form was lost on its way to the optimiser: such steps cannot be added up, \
         so train without gradient accumulation and on one device (larger batches have the effect \
         of accumulation)"
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

    /// A gradient that is not finite: names the optimiser step (from 1) and the parameter.
    pub fn non_finite(step: u64, path: impl Into<String>) -> Self {
        Kind::NonFinite {
            step,
            path: path.into(),
        }
        .into()
    }

    pub(crate) fn lost_step() -> Self {
        Kind::LostStep.into()
    }

    /// An error that stopped a training in this epoch (from 1).
    pub(crate) fn in_epoch(epoch: usize, error: Arc<Error>) -> Self {
        Kind::InEpoch { epoch, error }.into()
    }

    pub(crate) fn too_early(message: impl Into<String>) -> Self {
        Kind::TooEarly(message.into()).into()
    }

    /// A setting was refused.
    pub fn is_config(&self) -> bool {
        match &self.0 {
            Kind::Config { .. } | Kind::LostStep => true,
            Kind::Graph(error) => error.is_config(),
            Kind::InEpoch { error, .. } => error.is_config(),
            _ => false,
        }
    }

    /// A model does not fit the layout.
    pub fn is_layout(&self) -> bool {
        match &self.0 {
            Kind::Layout(_) => true,
            Kind::Graph(error) => error.is_layout(),
            Kind::InEpoch { error, .. } => error.is_layout(),
            _ => false,
        }
    }

    /// A file was refused or could not be written.
    pub fn is_storage(&self) -> bool {
        match &self.0 {
            Kind::Storage(_) => true,
            Kind::Graph(error) => error.is_storage(),
            Kind::InEpoch { error, .. } => error.is_storage(),
            _ => false,
        }
    }

    /// A computation left the finite, positive-definite numbers.
    pub fn is_numerical(&self) -> bool {
        match &self.0 {
            Kind::Numerical(_) | Kind::Algebra(_) | Kind::NonFinite { .. } => true,
            Kind::InEpoch { error, .. } => error.is_numerical(),
            _ => false,
        }
    }

    /// There is no posterior yet: training has not gone far enough.
    pub fn is_too_early(&self) -> bool {
        matches!(self.0, Kind::TooEarly(_))
    }

    /// The per-example losses of this model and batch cannot be computed.
    pub fn is_graph(&self) -> bool {
        match &self.0 {
            Kind::InEpoch { error, .. } => error.is_graph(),
            Kind::Graph(error) => !(error.is_config() || error.is_layout() || error.is_storage()),
            _ => false,
        }
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
