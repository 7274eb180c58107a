//! Whether a fit can be trusted.
//!
//! * [`Verdict`]: what is known about a fit, in words. [`Bayesian::verdict`](crate::Bayesian::verdict) returns it, and a
//!   training warns by itself if its fit should not be used.
//! * [`ConvergenceTest`]: the estimated KL gap between a Gaussian fit and the best Gaussian of its family.
//! * [`ImportanceTest`]: whether draws of a Gaussian fit, with importance weights, represent the true posterior.

mod convergence;
mod factors;
mod importance;
#[cfg(test)]
mod testing;

pub use convergence::ConvergenceTest;
pub use importance::ImportanceTest;

pub use crate::verdict::{
    Convergence, KlGap, LossAtDraws, PairedDifference, Reference, ValidationComparison, Verdict,
};
