//! All settings of a run, as a file.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::data::DataSettings;
use super::fit::FitSettings;
use crate::error::{Result, TabularError};
use crate::files::read_text;

/// What a run is made of: `[data]` and `[fit]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The rows.
    pub data: DataSettings,
    /// The fit.
    pub fit: FitSettings,
}

impl Config {
    /// Refuses what cannot be used.
    ///
    /// # Errors
    /// The first such setting.
    pub fn validate(&self) -> Result<()> {
        self.data.validate()?;
        self.fit.validate()
    }

    /// Reads a TOML file; what it does not say is at its default.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        let wrong = |error| TabularError::Usage(format!("{}: {error}", path.display()));
        toml::from_str(&text).map_err(wrong)
    }

    /// The file that says the same.
    pub fn to_toml(&self) -> Result<String> {
        let wrong = |error| TabularError::Usage(format!("the settings cannot be written: {error}"));
        let mut text = toml::to_string(self).map_err(wrong)?;
        let mut chosen = self.fit.method_defaults().into_iter().peekable();
        if chosen.peek().is_some() {
            text.push_str("\n# Chosen by the method, as nothing else is said:\n");
        }
        for (name, value) in chosen {
            let _ = writeln!(text, "# {name} = {value}");
        }
        Ok(text)
    }
}
