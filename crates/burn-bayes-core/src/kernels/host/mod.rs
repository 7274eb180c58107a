//! Fused kernels on plain slices of `f32`.
#![allow(dead_code)]
mod elementary;
pub(crate) mod normal;
pub(crate) mod parallel;
pub(crate) mod register_tiles;
mod segments;
