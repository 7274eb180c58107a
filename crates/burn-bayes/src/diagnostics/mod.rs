//! Whether a fit can be trusted.
//!
//! * [`ArrivalTest`]: how many nats a Gaussian fit is from the optimum of its family; [`ArrivalMetric`] runs it after
//!   every epoch of a Learner.
//! * [`ImportanceTest`]: whether draws of a Gaussian fit, with importance weights, represent the true posterior.

mod arrival;
mod arrival_metric;
mod importance;
#[cfg(test)]
mod testing;

pub use arrival::{Arrival, ArrivalTest};
pub use arrival_metric::ArrivalMetric;
pub use importance::ImportanceTest;
