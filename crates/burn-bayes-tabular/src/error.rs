//! The error type, with messages and exit codes.

use std::io;

use burn_bayes::algebra::AlgebraError;
use burn_bayes::eval::EvalError;
use burn_bayes_data::DataError;
use thiserror::Error;

/// A result of this crate.
pub type Result<T, E = TabularError> = std::result::Result<T, E>;

/// An error; each kind has its own exit code.
#[derive(Debug, Error)]
pub enum TabularError {
    /// A setting, or another option of a program, is invalid.
    #[error("`{name}` {problem}")]
    Setting {
        /// Its name, as in TOML.
        name: String,
        /// What is wrong with it, without its name.
        problem: String,
    },
    /// What was asked for is impossible.
    #[error("{0}")]
    Usage(String),
    /// A file has invalid content, or does not match the run.
    #[error("{0}")]
    Data(String),
    /// A computation gave a non-finite number, or the fit diverged.
    #[error("{0}")]
    Numerical(String),
    /// An error of the operating system.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The command was interrupted.
    #[error("{0}")]
    Interrupted(String),
}

/// The exit code of an interruption, as in shells.
pub const INTERRUPTED: u8 = 130;

impl TabularError {
    /// The exit code: 2 for usage, 3 for data, 4 for numerical errors, 130 for an interruption, and 1
    /// otherwise.
    pub fn code(&self) -> u8 {
        match self {
            Self::System(_) => 1,
            Self::Setting { .. } | Self::Usage(_) => 2,
            Self::Data(_) => 3,
            Self::Numerical(_) => 4,
            Self::Interrupted(_) => INTERRUPTED,
        }
    }
}

impl From<DataError> for TabularError {
    fn from(error: DataError) -> Self {
        if let Some((name, problem)) = error.setting() {
            let found = problem.strip_prefix("found ");
            let problem = found.map_or_else(|| problem.into(), |found| format!("is {found}"));
            let name = name.into();
            return Self::Setting { name, problem };
        }
        let message = error.to_string();
        if error.is_config() {
            Self::Usage(message)
        } else if error.is_io() {
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

/// By reference, because the error of a stopped training may be shared.
impl From<&burn_bayes::Error> for TabularError {
    fn from(error: &burn_bayes::Error) -> Self {
        let message = error.to_string();
        if error.is_storage() || error.is_layout() {
            // A file is unusable, or of another network.
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
