//! Captured graphs of Burn models: factored per-example gradients, and many weight draws in one pass.
//!
//! [`CapturedModel`] records a model's loss once and replays it with the weights that the model then
//! has; what comes out are the losses of a batch's examples and an [`ExampleGradients`]: the
//! gradients of M examples with respect to D weights in factored form, so that nothing as large as
//! M × D is held.

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
mod draw_plan;
mod draws;
mod error;
mod execute;
mod factor;
mod fields;
mod gradients;
mod layout;
mod lift;
mod looped;
mod lower;
mod memo;
mod module_path;
mod parameters;
mod plan;
mod replay;
mod rules;
mod self_check;
mod semantics;
mod stopped;
mod untyped;
mod view;

pub use batch::{ExampleBatch, TensorMapper};
pub use captured::CapturedModel;
pub use captured_loss::{CapturedLoss, DrawGradients};
pub use draws::CapturedForward;
pub use error::{Error, Result};
pub use factor::Term;
pub use gradients::{Block, ExampleGradients, ExampleLosses};
pub use layout::{Entry, Layout};
pub use module_path::ModulePath;
