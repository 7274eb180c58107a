//! Corrections of predictions, fitted on held-out rows and applied to new ones.

mod distributions;
mod draw_temperature;
mod held_out;
mod linear;
mod linear_map;
mod most_likely_variance;
mod newton;
mod noise_precision;
mod one_parameter;
mod one_vs_rest;
mod temperature;

pub use distributions::{QuantileRecalibration, VarianceScaling};
pub use draw_temperature::DrawTemperature;
pub use held_out::{HeldOut, RowView, check_disjoint_rows};
pub use linear::{DirichletCalibration, MatrixScaling, OffDiagonalPenalty, VectorScaling};
pub use noise_precision::most_likely_noise_precision;
pub use one_vs_rest::{BayesianBinning, HistogramBinning, IsotonicCalibration};
pub use temperature::Temperature;
