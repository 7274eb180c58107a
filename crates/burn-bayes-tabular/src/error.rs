//! Why something failed, as people read it and as a shell sees it.

use std::io;

use burn_bayes::algebra::AlgebraError;
use burn_bayes::eval::EvalError;
use burn_bayes_data::DataError;
use thiserror::Error;

/// A result of this crate.
pub type Result<T, E = TabularError> = std::result::Result<T, E>;

/// Why something failed; each kind has an exit code of its own.
#[derive(Debug, Error)]
pub enum TabularError {
    /// An option or a configuration cannot be used.
    #[error("{0}")]
    Usage(String),
    /// A file holds what it should not, or does not fit the run.
    #[error("{0}")]
    Data(String),
    /// A computation left the finite numbers.
    #[error("{0}")]
    Numerical(String),
    /// The operating system refused.
    #[error("{0}")]
    System(#[from] io::Error),
    /// Asked to stop before it was done.
    #[error("{0}")]
    Interrupted(String),
}

/// The exit code of an interruption, as shells have it.
pub const INTERRUPTED: u8 = 130;

impl TabularError {
    /// 2 for usage, 3 for data, 4 for numerical trouble, 130 for an interruption, 1 for everything
    /// else.
    pub fn code(&self) -> u8 {
        match self {
            Self::System(_) => 1,
            Self::Usage(_) => 2,
            Self::Data(_) => 3,
            Self::Numerical(_) => 4,
            Self::Interrupted(_) => INTERRUPTED,
        }
    }

    /// A failure of another process, by its code.
    pub(crate) fn with_code(code: u8, message: String) -> Self {
        match code {
            2 => Self::Usage(message),
            3 => Self::Data(message),
            4 => Self::Numerical(message),
            INTERRUPTED => Self::Interrupted(message),
            _ => Self::System(io::Error::other(message)),
        }
    }
}

impl From<DataError> for TabularError {
    fn from(error: DataError) -> Self {
        let message = error.to_string();
        if error.is_config() {
            Self::Usage(message)
        } else if error.is_io() || error.is_network() {
            Self::System(io::Error::other(message))
        } else {
            Self::Data(message)
        }
    }
}

impl From<AlgebraError> for TabularError {
    fn from(error: AlgebraError) -> Self {
        Self::Numerical(error.to_string())
    }
}

impl From<burn_bayes::graph::Error> for TabularError {
    fn from(error: burn_bayes::graph::Error) -> Self {
        burn_bayes::Error::from(error).into()
    }
}

impl From<burn_bayes::Error> for TabularError {
    fn from(error: burn_bayes::Error) -> Self {
        Self::from(&error)
    }
}

/// Of a training that stopped, whose error others may hold too.
impl From<&burn_bayes::Error> for TabularError {
    fn from(error: &burn_bayes::Error) -> Self {
        let message = error.to_string();
        if error.is_storage() || error.is_layout() {
            // A file that cannot be used, or is of another network.
            Self::Data(message)
        } else if error.is_numerical() {
            Self::Numerical(message)
        } else {
            Self::Usage(message)
        }
    }
}

impl From<EvalError> for TabularError {
    fn from(error: EvalError) -> Self {
        Self::Data(error.to_string())
    }
}
