//! Memory of tensors on Burn's CPU backend: read and written as slices, and used again from step to step.
//!
//! Shared by the crates of burn-bayes; no part of what is kept stable.

mod assembly;
#[cfg(feature = "flex")]
mod flex;
mod host;
mod scratch;

pub use assembly::Assembly;
#[cfg(feature = "flex")]
pub use flex::{Contiguous, is_whole, lent, primitive, tensor};
pub(crate) use host::HostValues;
pub use scratch::Scratch;
