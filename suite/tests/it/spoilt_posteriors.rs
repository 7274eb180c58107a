//! Posterior files with random damage are read or refused, with an error that names the file, without a panic
//! and without excessive use of memory.

use std::path::Path;

use burn_bayes::FactorPosterior;
use burn_bayes_testing::{bounded, config, damaged, edits};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::storage::{Contents, FORMATS, Format, load, saved};
use crate::support::values;

/// A file that is read contains a posterior; an error is a storage error and names the file.
fn read(path: &Path) -> Result<(), TestCaseError> {
    let bytes = std::fs::read(path).unwrap();
    match bounded(&bytes, |_| load(path))? {
        Ok(posterior) => sound(&posterior),
        Err(error) => {
            let message = error.to_string();
            prop_assert!(error.is_storage(), "{message}");
            prop_assert!(message.contains(&path.display().to_string()), "{message}");
            Ok(())
        }
    }
}

fn sound(posterior: &FactorPosterior) -> Result<(), TestCaseError> {
    let weights = posterior.layout().len();
    let (mean, diagonal) = (values(&posterior.mean()), values(&posterior.diagonal()));
    prop_assert_eq!((mean.len(), diagonal.len()), (weights, weights));
    prop_assert!(mean.iter().all(|value| value.is_finite()));
    prop_assert!(
        diagonal
            .iter()
            .all(|value| value.is_finite() && *value > 0.0)
    );
    let factors = posterior.factors().map(|factors| values(&factors));
    let factors = factors.unwrap_or_default();
    prop_assert_eq!(factors.len(), posterior.rank() * weights);
    prop_assert!(factors.iter().all(|value| value.is_finite()));
    Ok(())
}

#[test]
fn files_with_damage_anywhere() {
    for format in FORMATS {
        let (_folder, path) = saved(format);
        let whole = std::fs::read(&path).unwrap();
        proptest!(config(500), |(edits in edits())| {
            std::fs::write(&path, damaged(&whole, &edits)).unwrap();
            read(&path)?;
        });
    }
}

/// The header is damaged, but its length is correct.
#[test]
fn headers_with_damage() {
    let (_folder, path) = saved(Format::Safetensors);
    let whole = std::fs::read(&path).unwrap();
    let (length, rest) = whole.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
    let (header, tensors) = rest.split_at(length);
    proptest!(config(500), |(edits in edits())| {
        let header = damaged(header, &edits);
        let length = (header.len() as u64).to_le_bytes();
        std::fs::write(&path, [&length, &header[..], tensors].concat()).unwrap();
        read(&path)?;
    });
}

/// A value of the metadata is damaged, and everything else is intact.
#[test]
fn metadata_with_damage() {
    let folder = TempDir::new().unwrap();
    let keys = ["layout", "form", "format_version"];
    for format in FORMATS {
        let path = format.path(folder.path(), "posterior");
        proptest!(config(500), |(key in 0..keys.len(), edits in edits())| {
            let mut contents = Contents::good();
            let value = contents.metadata.get_mut(keys[key]).unwrap();
            let bytes = damaged(value.as_bytes(), &edits);
            *value = String::from_utf8_lossy(&bytes).into_owned();
            format.write(&contents, &path);
            read(&path)?;
        });
    }
}
