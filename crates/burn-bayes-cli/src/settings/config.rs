//! All settings of a run, as a file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::data::DataSettings;
use super::fit::FitSettings;
use crate::failure::{Failure, Result};
use crate::files::read_text;

/// What a run is made of: `[data]` and `[fit]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The rows.
    pub(crate) data: DataSettings,
    /// The fit.
    pub(crate) fit: FitSettings,
}

impl Config {
    /// Reads a TOML file; what it does not say is at its default.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        let wrong = |error| Failure::Usage(format!("{}: {error}", path.display()));
        toml::from_str(&text).map_err(wrong)
    }

    /// The file that says the same.
    pub(crate) fn to_toml(&self) -> Result<String> {
        let wrong = |error| Failure::Usage(format!("the settings cannot be written: {error}"));
        toml::to_string(self).map_err(wrong)
    }

    /// Refuses what cannot be used, naming the field.
    pub(crate) fn validate(&self) -> Result<()> {
        self.data.validate()?;
        self.fit.validate()
    }
}
