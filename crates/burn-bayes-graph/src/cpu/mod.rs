//! Memory of tensors on Burn's CPU backend: read and written as slices, and used again from step to step.
//!
//! Shared by the crates of burn-bayes; no part of what is kept stable.

use rayon::prelude::*;

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

/// The results of a function of every item, computed side by side on the threads that programs use as well, in the order of
/// the items.
pub fn side_by_side<T: Send, R: Send>(items: Vec<T>, run: impl Fn(T) -> R + Sync + Send) -> Vec<R> {
    items.into_par_iter().map(run).collect()
}
