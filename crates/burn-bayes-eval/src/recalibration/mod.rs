//! Corrections of predictions, fitted on held-out rows and applied to new ones.

mod noise_precision;
mod temperature;

pub use noise_precision::most_likely_noise_precision;
pub use temperature::Temperature;
