//! The error of this crate: opaque, with predicates; the message says what, where and the cure.

/// What went wrong, where, and the likely cure.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Kind);

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
enum Kind {
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
    #[error(transparent)]
    Core(#[from] burn_bayes_core::Error),
}

impl Error {
    /// A setting that cannot be used: names the field, the value it had and what it must be.
    pub fn config(field: impl Into<String>, problem: impl Into<String>) -> Self {
        burn_bayes_core::Error::config(field, problem).into()
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

    pub(crate) fn too_early(message: impl Into<String>) -> Self {
        Kind::TooEarly(message.into()).into()
    }

    /// A setting was refused.
    pub fn is_config(&self) -> bool {
        match &self.0 {
            Kind::LostStep => true,
            Kind::Core(error) => error.is_config(),
            Kind::NonFinite { .. } | Kind::TooEarly(_) => false,
        }
    }

    /// A computation left the finite, positive-definite numbers.
    pub fn is_numerical(&self) -> bool {
        match &self.0 {
            Kind::NonFinite { .. } => true,
            Kind::LostStep | Kind::TooEarly(_) => false,
            Kind::Core(error) => error.is_numerical(),
        }
    }

    /// There is no posterior yet: training has not gone far enough.
    pub fn is_too_early(&self) -> bool {
        matches!(self.0, Kind::TooEarly(_))
    }

    /// A model does not fit the layout.
    pub fn is_layout(&self) -> bool {
        matches!(&self.0, Kind::Core(error) if error.is_layout())
    }
}

impl From<burn_bayes_core::Error> for Error {
    fn from(error: burn_bayes_core::Error) -> Self {
        Kind::from(error).into()
    }
}
