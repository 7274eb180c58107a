//! What may be chosen, as a TOML file and as flags.

mod choices;
mod device;
mod fit;
mod table;

pub(crate) use choices::{Method, NetworkShape, NoisePrecision, OptimizerName};
pub(crate) use fit::{FitSettings, refused};
pub(crate) use table::help;
