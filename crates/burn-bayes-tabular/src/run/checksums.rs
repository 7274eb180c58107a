//! The checksums of the files of a run, in its model file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::wrong;
use crate::error::Result;
use crate::files::{at, checksum};

/// The remedy for a damaged file.
pub(super) const CURE: &str = "restore the file that the fit wrote, or fit again";

/// Checksums of the files of a run, by file name.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct Checksums(BTreeMap<String, String>);

impl Checksums {
    /// Those of these files, as far as they exist.
    pub(super) fn of<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<Self> {
        let there = files.filter(|path| path.is_file());
        let entry = |path: &PathBuf| {
            let bytes = std::fs::read(path).map_err(at(path))?;
            Ok((name(path), checksum(&bytes)))
        };
        there.map(entry).collect::<Result<_>>().map(Self)
    }

    /// Whether the fit wrote this file.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.0.contains_key(&name(path))
    }

    /// The content of a file.
    ///
    /// # Errors
    /// If the file was changed since the fit, or is missing.
    pub(super) fn verified(&self, path: &Path) -> Result<Vec<u8>> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(wrong(path, format!("it is missing; {CURE}")));
            }
            read => read.map_err(at(path))?,
        };
        match self.0.get(&name(path)) {
            Some(expected) if *expected == checksum(&bytes) => Ok(bytes),
            _ => Err(wrong(
                path,
                format!(
                    "it is damaged or was edited: its checksum is not the one in model.toml; {CURE}"
                ),
            )),
        }
    }
}

fn name(path: &Path) -> String {
    let name = path.file_name().map(OsStr::to_string_lossy);
    name.unwrap_or_default().into_owned()
}
