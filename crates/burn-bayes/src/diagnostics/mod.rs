//! Whether a fit can be trusted.
//!
//! * [`ArrivalTest`]: how many nats a Gaussian fit is from the optimum of its family.
//! * [`ImportanceTest`]: whether draws of a Gaussian fit, with importance weights, represent the true posterior.

mod arrival;
mod importance;

pub use arrival::{Arrival, ArrivalTest};
pub use importance::ImportanceTest;
