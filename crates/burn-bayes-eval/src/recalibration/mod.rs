//! Corrections of predictions, fitted on held-out rows and applied to new ones.

mod draw_temperature;
mod held_out;
mod noise_precision;
mod one_parameter;
mod temperature;
mod variance_scaling;

pub use draw_temperature::DrawTemperature;
pub use held_out::{HeldOut, RowView};
pub use noise_precision::most_likely_noise_precision;
pub use temperature::Temperature;
pub use variance_scaling::VarianceScaling;
