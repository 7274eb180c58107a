//! All settings of a run, as a file.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::data::{DataFlags, DataSettings};
use super::fit::{FitFlags, FitSettings, refused};
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

/// The settings of a run on the command line.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct ConfigFlags {
    /// File of settings, which the other options override
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Rows")]
    data: DataFlags,
    #[command(flatten, next_help_heading = "Fit")]
    fit: FitFlags,
}

impl ConfigFlags {
    /// The file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Refuses flags that say nothing here; `flags` are their names, each with the reason. The same
    /// settings in the file are no error: it may be that of a fit.
    ///
    /// # Errors
    /// The first such flag that was given.
    pub fn refuse<'a>(&self, flags: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<()> {
        let given: Vec<_> = self.data.given().chain(self.fit.given()).collect();
        let mut flags = flags.into_iter();
        let found = flags.find(|(name, _)| given.contains(name));
        found.map_or(Ok(()), |(name, problem)| Err(refused(name, problem)))
    }

    /// The flags that were given and change nothing.
    pub fn idle(&self, settings: &FitSettings) -> impl Iterator<Item = &'static str> {
        self.fit.given().filter(|field| settings.is_idle(field))
    }

    /// The settings of the file, if there is one, and of the flags that override them.
    ///
    /// # Errors
    /// If the file cannot be read, or a setting cannot be used; the message names it.
    pub fn config(&self) -> Result<Config> {
        let mut config = self
            .file()
            .map_or_else(|| Ok(Config::default()), Config::read)?;
        self.data.override_in(&mut config.data);
        self.fit.override_in(&mut config.fit);
        config.validate()?;
        Ok(config)
    }
}

impl Config {
    /// Refuses what cannot be used.
    ///
    /// # Errors
    /// The first such setting.
    pub(crate) fn validate(&self) -> Result<()> {
        self.data.validate()?;
        self.fit.validate()
    }

    /// Reads a TOML file; what it does not say is at its default.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        let wrong = |error| TabularError::Usage(format!("{}: {error}", path.display()));
        toml::from_str(&text).map_err(wrong)
    }

    /// The file that says the same.
    pub fn to_toml(&self) -> Result<String> {
        let wrong = |error| TabularError::Usage(format!("the settings cannot be written: {error}"));
        let mut text = toml::to_string(self).map_err(wrong)?;
        let mut chosen = self.fit.chosen().into_iter().peekable();
        if chosen.peek().is_some() {
            text.push_str("\n# Chosen by the method, as nothing else is said:\n");
        }
        for (name, value) in chosen {
            let _ = writeln!(text, "# {name} = {value}");
        }
        Ok(text)
    }
}
