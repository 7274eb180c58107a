//! Corrections of predictions, fitted on held-out rows and applied to new ones.

mod distributions;
mod held_out;
mod linear;
mod linear_map;
mod newton;
mod noise_precision;
mod one_vs_rest;
mod temperature;

pub use distributions::{QuantileRecalibration, VarianceScaling};
pub use held_out::{HeldOut, RowView, check_disjoint_rows};
pub use linear::{DirichletCalibration, MatrixScaling, OffDiagonalPenalty, VectorScaling};
pub use noise_precision::most_likely_noise_precision;
pub use one_vs_rest::{BayesianBinning, HistogramBinning, IsotonicCalibration};
pub use temperature::Temperature;
