//! The settings: structures, their TOML form, and tables with the name and meaning of each setting.

mod choices;
mod config;
mod data;
mod device;
mod fit;
mod method;
mod pairs;
mod prior;
mod table;
mod tuned;
mod value;

pub(crate) use choices::choices;
pub use choices::{
    Activation, DecimalName, Delimiter, FeatureScaleName, HeaderName, LikelihoodName, MissingName,
    NetworkShape, NoisePrecision, OptimizerName, PlainName, PriorLearning, PriorPrecision,
    RecalibrationName, Solver, TargetColumns, TargetScaleName, TaskName, UnseenName, Words,
};
pub use config::Config;
pub use data::{DataSettings, FileFormat};
pub use device::DeviceName;
pub use fit::{FitSettings, SettingsKey, refused};
pub(crate) use fit::{MOST_DRAWS, expect_at_most, expect_count, listed};
pub use method::{Method, MethodRow};
pub(crate) use method::{MethodKind, RankRule};
pub use pairs::Pairs;
pub use prior::PriorName;
pub use table::{Scope, Setting};
pub use tuned::{MethodDefaults, Tuned};
pub use value::{Choice, Kind, SettingValue};
