//! The error of this crate: opaque, with predicates; the message says what, where and the cure.

/// What went wrong, where, and the likely cure.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Kind);

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error(transparent)]
    Graph(#[from] burn_bayes_graph::Error),
    #[error(transparent)]
    Infer(#[from] burn_bayes_infer::Error),
}

impl Error {
    /// A setting that cannot be used: names the field, the value it had and what it must be.
    pub(crate) fn config(field: impl Into<String>, problem: impl Into<String>) -> Self {
        burn_bayes_infer::Error::config(field, problem).into()
    }

    fn infer(&self) -> Option<&burn_bayes_infer::Error> {
        match &self.0 {
            Kind::Infer(source) => Some(source),
            Kind::Graph(_) => None,
        }
    }

    /// A setting was refused.
    pub fn is_config(&self) -> bool {
        self.infer().is_some_and(burn_bayes_infer::Error::is_config)
    }

    /// A computation left the finite, positive-definite numbers.
    pub fn is_numerical(&self) -> bool {
        self.infer()
            .is_some_and(burn_bayes_infer::Error::is_numerical)
    }

    /// There is no posterior yet: training has not gone far enough.
    pub fn is_too_early(&self) -> bool {
        self.infer()
            .is_some_and(burn_bayes_infer::Error::is_too_early)
    }

    /// The loss of every example cannot be had from this model or batch.
    pub fn is_graph(&self) -> bool {
        matches!(self.0, Kind::Graph(_))
    }
}

impl From<burn_bayes_graph::Error> for Error {
    fn from(error: burn_bayes_graph::Error) -> Self {
        Kind::from(error).into()
    }
}

impl From<burn_bayes_infer::Error> for Error {
    fn from(error: burn_bayes_infer::Error) -> Self {
        Kind::from(error).into()
    }
}

impl From<burn_bayes_core::Error> for Error {
    fn from(error: burn_bayes_core::Error) -> Self {
        burn_bayes_infer::Error::from(error).into()
    }
}
