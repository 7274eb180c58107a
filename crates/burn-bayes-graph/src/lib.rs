//! Captured graphs of Burn models: factored per-example gradients, and many weight draws in one pass.

mod execute;
mod axis;
mod batch;
mod capture;
mod error;
mod parameters;
mod plan;
mod semantics;
mod view;

pub use batch::{ExampleBatch, TensorMapper};
pub use error::{Error, Result};
