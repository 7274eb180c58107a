//! The error type of this crate.

/// An error of this crate. The message says what went wrong, where, and the likely cure.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(#[from] Kind);

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error("{0}")]
    Batch(String),
    #[error(
        "the loss mixes the examples of a batch, in {operation} of a tensor of shape {shape:?}; \
         return one loss for each example, not their mean, and use normalisation that does not \
         depend on the batch"
    )]
    Coupled {
        operation: String,
        shape: Vec<usize>,
    },
    #[error(
        "the loss of example {example} does not depend on that example alone: {problem}; either the loss \
         reads values of other examples on the host, such as the maximum of the batch, or the batch \
         ({batch}) has a list or a tensor with an entry for each example that `map_tensors` does not \
         map"
    )]
    Dependent {
        example: usize,
        problem: String,
        batch: &'static str,
    },
    #[error(
        "the recording and the model differ in {what}, by {difference:e} (expected size {size:e}). \
         Something other than weights and batch has changed since the recording, such as a value that the \
         loss shares with other code; pass it in as a tensor of the batch. If nothing has changed, this \
         is an error of the library; `without_self_check` turns the comparison off"
    )]
    Mismatch {
        what: String,
        difference: f64,
        size: f64,
    },
    #[error(
        "the loss draws random numbers ({0}), which differ between evaluations; draw them beforehand and \
         pass them in as a tensor of the batch"
    )]
    Random(String),
    #[error("{field}: {problem}")]
    Config {
        field: &'static str,
        problem: String,
    },
    #[error("{0}")]
    Onnx(String),
    #[error("{0}")]
    Layout(String),
    #[error("{0}")]
    Storage(String),
}

impl Error {
    /// Whether the batch is empty, its tensors have different numbers of examples, or the draws have the wrong shape.
    pub fn is_batch(&self) -> bool {
        matches!(self.0, Kind::Batch(_))
    }

    /// Whether the loss of an example depends on other examples.
    pub fn is_coupled(&self) -> bool {
        matches!(self.0, Kind::Coupled { .. } | Kind::Dependent { .. })
    }

    /// Whether the recording differs from the model's own loss.
    pub fn is_mismatch(&self) -> bool {
        matches!(self.0, Kind::Mismatch { .. })
    }

    /// Whether the loss draws random numbers.
    pub fn is_random(&self) -> bool {
        matches!(self.0, Kind::Random(_))
    }

    /// Whether a setting was refused.
    pub fn is_config(&self) -> bool {
        matches!(self.0, Kind::Config { .. })
    }

    /// Whether a model does not fit the layout.
    pub fn is_layout(&self) -> bool {
        matches!(self.0, Kind::Layout(_))
    }

    /// Whether a model cannot be written as an ONNX file.
    pub fn is_onnx(&self) -> bool {
        matches!(self.0, Kind::Onnx(_))
    }

    /// Whether a saved layout cannot be read.
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
