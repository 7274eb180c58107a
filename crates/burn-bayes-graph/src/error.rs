//! The error of this crate: opaque, with predicates; the message says what, where and the cure.

/// What went wrong, where, and the likely cure.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Kind);

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error("{0}")]
    Batch(String),
    #[error("{0}")]
    Draws(String),
    #[error(
        "the loss lets the examples of a batch see each other, in {operation} of a tensor of shape \
         {shape:?}; a loss per example has no such operation: return one loss for each example, \
         not their mean, and use normalisation that does not depend on the batch"
    )]
    Coupled {
        operation: String,
        shape: Vec<usize>,
    },
    #[error(
        "the loss of example {example} is not a function of that example: {problem}; either the loss \
         lets examples see each other through values that it reads on the host, such as the largest of \
         a batch, or the batch ({batch}) holds something for each example that `map_tensors` does not \
         hand over: a list, or a tensor"
    )]
    Dependent {
        example: usize,
        problem: String,
        batch: &'static str,
    },
    #[error(
        "{what} by the recording is off by {difference:e}, its size being {size:e}: what was recorded \
         is not what the model computes now. Something other than weights and batch has changed since, \
         such as a value that the loss shares with other code; pass it in as a tensor of the batch. \
         If that is not so this is an error of the library; `without_self_check` lets it pass"
    )]
    Mismatch {
        what: String,
        difference: f64,
        size: f64,
    },
    #[error(
        "the loss draws random numbers ({0}), which would differ from one evaluation to the next; \
         draw them before, and pass them in as a tensor of the batch"
    )]
    Random(String),
    #[error("{field}: {problem}")]
    Config {
        field: &'static str,
        problem: String,
    },
    #[error("{0}")]
    Layout(String),
    #[error("{0}")]
    Storage(String),
}

impl Error {
    /// The batch cannot be used: its tensors disagree about the number of examples, or it is empty.
    pub fn is_batch(&self) -> bool {
        matches!(self.0, Kind::Batch(_))
    }

    /// The draws do not have the shape that was expected.
    pub fn is_draws(&self) -> bool {
        matches!(self.0, Kind::Draws(_))
    }

    /// The examples of a batch influence each other's losses.
    pub fn is_coupled(&self) -> bool {
        matches!(self.0, Kind::Coupled { .. } | Kind::Dependent { .. })
    }

    /// What was recorded gives something other than the model's own loss.
    pub fn is_mismatch(&self) -> bool {
        matches!(self.0, Kind::Mismatch { .. })
    }

    /// The loss is not a function of weights and batch alone.
    pub fn is_random(&self) -> bool {
        matches!(self.0, Kind::Random(_))
    }

    /// A setting was refused.
    pub fn is_config(&self) -> bool {
        matches!(self.0, Kind::Config { .. })
    }

    /// A model does not fit the layout.
    pub fn is_layout(&self) -> bool {
        matches!(self.0, Kind::Layout(_))
    }

    /// A saved layout cannot be read.
    pub fn is_storage(&self) -> bool {
        matches!(self.0, Kind::Storage(_))
    }

    pub(crate) fn layout(message: impl Into<String>) -> Self {
        Kind::Layout(message.into()).into()
    }

    pub(crate) fn storage(message: impl Into<String>) -> Self {
        Kind::Storage(message.into()).into()
    }
}
