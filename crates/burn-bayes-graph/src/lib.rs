//! Captured graphs of Burn models: factored per-example gradients, and evaluation vectorised over draws.
//!
//! [`CapturedModel`] records a model's loss once and replays it with the current weights. The results are
//! the per-example losses and [`ExampleGradients`]: the gradients of M examples with respect to D weights
//! in factored form, without a matrix of size M × D.
//!
//! [`CapturedForward`] and [`CapturedLoss`] vectorise a recording over draws of the weights: the outputs, or
//! the gradients of the mean loss, at S draws in one pass.

#[doc(hidden)]
pub mod cpu;
pub mod losses;

mod assemble;
mod axis;
mod batch;
mod capture;
mod captured;
mod captured_loss;
mod compare;
mod compile;
mod compiled_forward;
mod debug_text;
mod draw_plan;
mod draws;
mod dyn_tensor;
mod error;
mod factor;
mod fields;
mod gradients;
mod layout;
mod looped;
mod lower;
mod memo;
mod memory_use;
mod module_path;
mod onnx;
mod operation;
mod parameters;
mod plan;
mod replay;
mod rules;
mod self_check;
mod stop_gradient;
mod template;
mod tied;
mod vectorize;
mod view;

pub use batch::{ExampleBatch, SharedFields, TensorMapper};
#[doc(hidden)]
pub use batch::{lengths, shared};
pub use burn_bayes_derive::ExampleBatch;
#[doc(hidden)]
pub use capture::message as panic_message;
pub use captured::CapturedModel;
pub use captured_loss::{BatchStatistic, CapturedLoss, CompiledBatch, DrawGradients};
pub use draws::CapturedForward;
pub use error::{Error, Result};
pub use factor::Term;
pub use gradients::{Block, ExampleGradients, ExampleJacobians, ExampleLosses};
pub use layout::{Layout, LayoutEntry};
pub use module_path::ModulePath;
pub use onnx::OnnxModel;
#[doc(hidden)]
pub use parameters::{StatisticPlace, module_device};
pub use template::Template;
#[doc(hidden)]
pub use tied::{has_tied, retied};

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: burn_bayes_testing::CountingAllocator = burn_bayes_testing::CountingAllocator;
