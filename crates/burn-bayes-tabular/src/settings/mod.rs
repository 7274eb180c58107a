//! What may be chosen, as a TOML file and as flags.

pub(crate) mod as_toml;
mod choices;
mod config;
mod data;
mod device;
mod fit;
mod table;

pub use choices::{
    HeaderName, Method, MissingName, NetworkShape, NoisePrecision, OptimizerName, Words,
};
pub use config::{Config, ConfigFlags};
pub use data::{DataSettings, FileFlags};
pub use device::DeviceName;
pub use fit::{
    DEFAULT_RANK, FitSettings, MOST_DRAWS, expect_at_most, expect_count, listed, refused,
};
pub(crate) use table::help;
