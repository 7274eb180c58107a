//! Whether a fit can be trusted.
//!
//! * [`ArrivalTest`]: how many nats a Gaussian fit is from the optimum of its family.

mod arrival;

pub use arrival::{Arrival, ArrivalTest};
