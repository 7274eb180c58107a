//! What may be chosen, as a TOML file and as flags.

mod choices;
mod config;
mod data;
mod device;
mod fit;
mod table;

pub(crate) use choices::{Method, MissingName, NetworkShape, NoisePrecision, OptimizerName};
pub(crate) use config::Config;
pub(crate) use data::{DataFlags, DataSettings};
pub(crate) use fit::{FitFlags, FitSettings, refused};
pub(crate) use table::help;
