//! All settings of a run, as a file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::data::{DataFlags, DataSettings};
use super::fit::{FitFlags, FitSettings};
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
    /// The settings of a file, if there is one, and of the flags that override them.
    ///
    /// # Errors
    /// If the file cannot be read, or a setting cannot be used; the message names it.
    pub(crate) fn of(path: Option<&Path>, data: &DataFlags, fit: &FitFlags) -> Result<Self> {
        let mut config = path.map_or_else(|| Ok(Self::default()), Self::read)?;
        data.override_in(&mut config.data);
        fit.override_in(&mut config.fit);
        config.data.validate()?;
        config.fit.validate()?;
        Ok(config)
    }

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
}
