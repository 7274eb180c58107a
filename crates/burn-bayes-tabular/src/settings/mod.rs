//! What may be chosen: structures, their TOML, and tables that say of each setting what it is.

mod choices;
mod config;
mod data;
mod device;
mod fit;
mod table;

pub(crate) use choices::choices;
pub use choices::{
    DecimalName, Delimiter, HeaderName, Method, MissingName, NetworkShape, NoisePrecision,
    OptimizerName, TaskName, UnseenName, Words,
};
pub use config::Config;
pub use data::{DataSettings, FileFormat};
pub use device::DeviceName;
pub(crate) use fit::{DEFAULT_RANK, MOST_DRAWS, expect_at_most, expect_count, listed};
pub use fit::{FitSettings, refused};
pub use table::{Choice, Kind, Setting, SettingValue};
