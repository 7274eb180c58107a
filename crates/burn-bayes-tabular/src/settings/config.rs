//! All settings of a run, as a file.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::data::DataSettings;
use super::fit::FitSettings;
use crate::error::{Result, TabularError};
use crate::files::read_text;

/// The settings of a run: `[data]` and `[fit]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The settings of the data.
    pub data: DataSettings,
    /// The settings of the fit.
    pub fit: FitSettings,
}

impl Config {
    /// Checks all settings.
    ///
    /// # Errors
    /// If a setting is invalid; the message names it.
    pub fn validate(&self) -> Result<()> {
        self.data.validate()?;
        self.fit.validate()
    }

    /// Reads a TOML file. Settings that are not in the file have their defaults.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        let wrong = |error| TabularError::Usage(format!("{}: {error}", path.display()));
        toml::from_str(&text).map_err(wrong)
    }

    /// Whether a TOML file, of settings or of their ranges, has the setting with this name.
    pub fn is_set_in(path: &Path, name: &str) -> bool {
        let table = read_text(path).ok();
        let table = table.and_then(|text| text.parse::<toml::Table>().ok());
        table.is_some_and(|table| {
            table.contains_key(name) || table.values().any(|part| part.get(name).is_some())
        })
    }

    /// The settings as TOML, with the defaults of the method as comments.
    pub fn to_toml(&self) -> Result<String> {
        let wrong = |error| TabularError::Usage(format!("the settings cannot be written: {error}"));
        let mut text = toml::to_string(self).map_err(wrong)?;
        let mut chosen = self.fit.method_defaults().into_iter().peekable();
        if chosen.peek().is_some() {
            text.push_str("\n# Defaults of the method:\n");
        }
        for (name, value) in chosen {
            let _ = writeln!(text, "# {name} = {value}");
        }
        Ok(text)
    }
}
