//! Fused kernels on plain slices of `f32`, for parameters in main memory.
//!
//! Every kernel makes one pass over its D-sized arguments, regenerates noise instead of storing
//! it, allocates nothing of size D, and gives the same numbers on any number of threads and any
//! CPU; `parallel.rs` says how. Nothing here knows of tensors.

mod adam;
mod draw;
mod elementary;
mod gaussian;
mod gram;
mod moments;
mod normal;
mod parallel;
mod register_tiles;
mod scale;
mod segments;
mod sgd;
mod vifa_gradient;

pub(crate) use adam::{AdamMoments, AdamStep, adam_step};
pub(crate) use draw::{draw, draws};
pub(crate) use gaussian::{Diagonal, Draw, LowRankGaussian};
pub(crate) use gram::{draw_and_gram, gram};
pub(crate) use moments::update_moments;
pub(crate) use normal::{NormalStream, normal};
pub(crate) use scale::scale;
pub(crate) use sgd::{Momentum, SgdStep, Velocity, sgd_momentum_step, sgd_step};
pub(crate) use vifa_gradient::{DrawGradient, VifaGradient, VifaState, vifa_gradient};
