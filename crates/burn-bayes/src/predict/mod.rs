//! Predictions by draws of the weights.

pub(crate) mod stacked;
