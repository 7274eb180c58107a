//! Compiled programs: a computation over rows, its reverse pass, and fused instructions that run it.
//!
//! A [`Graph`] describes a computation on one set of shared values, such as weights, and any number of rows.
//! [`Graph::gradients`] adds the reverse pass. A [`Program`] is a flat list of instructions for some of the graph's
//! values; it runs over blocks of rows that stay in the processor's cache.

mod expr;
mod graph;
mod instructions;
mod memory_use;
mod normalised;
mod product;
mod reverse;
mod run;
mod schedule;
mod shape;
mod stages;
#[cfg(test)]
mod tests;

pub use burn_bayes_kernels::{Binary, Unary};
pub use expr::Expr;
pub use graph::{Graph, Value};
pub use normalised::BatchNormalised;
pub use run::{Given, Output, Program, Workspace};
pub use schedule::Unsupported;
pub use shape::Axis;
