//! Whether a fit can be trusted.
//!
//! * [`Verdict`]: what is known about a fit, in words. [`Bayesian::verdict`](crate::Bayesian::verdict) returns it, and a
//!   training warns by itself if its fit should not be used.
//! * [`ArrivalTest`]: how many nats a Gaussian fit is from the optimum of its family.
//! * [`ImportanceTest`]: whether draws of a Gaussian fit, with importance weights, represent the true posterior.

mod arrival;
mod importance;
#[cfg(test)]
mod testing;

pub use arrival::ArrivalTest;
pub use importance::ImportanceTest;

pub use crate::verdict::{
    Arrival, CONVERGED, Convergence, LossAtDraws, PairedDifference, Reference,
    ValidationComparison, Verdict,
};
