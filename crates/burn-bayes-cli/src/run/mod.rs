//! A folder with everything of a run: its settings, what was learnt, and how well.

mod checkpoint;
mod folder;
mod metrics;
mod progress;
mod validation;

#[cfg(test)]
mod tests;

pub(crate) use folder::RunFolder;
pub(crate) use metrics::{EpochMetrics, MetricsFile};
pub(crate) use progress::WatchedRows;
pub(crate) use validation::{ScoredRows, curves, validate, write_report};

use std::fmt::Display;
use std::path::{Path, PathBuf};

use burn::module::{Module, ParamGroup};
use burn::store::ModuleRecord;
use burn::tensor::Bytes;
use burn_bayes::{FactorPosterior, Layout};
use burn_bayes_data::Preprocessor;
use serde::{Deserialize, Serialize};

use crate::engine::{Fitted, network, weights};
use crate::failure::{Failure, Result};
use crate::files::{at, checksum, read_text, remove, write_whole};
use crate::problem::TargetMeaning;
use crate::settings::{Config, MOST_DRAWS, expect_at_most};

/// A finished run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) config: Config,
    pub(crate) preprocessor: Preprocessor,
    pub(crate) fitted: Fitted,
}

/// The format of a run's files.
const FORMAT: u32 = 1;

/// What else than the weights is learnt; the last file of a run to be written.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Learnt {
    format: u32,
    /// β on the scale on which the network learns.
    noise_precision: f64,
    /// Of the file of the weights.
    checksum: String,
    /// Of the file of the preparation.
    preprocessor_checksum: String,
}

impl Run {
    /// Reads a finished run.
    ///
    /// # Errors
    /// If the folder holds none, or its files do not belong together.
    pub(crate) fn load(folder: &RunFolder) -> Result<Self> {
        let config = folder.config()?;
        if !folder.is_finished() {
            let path = folder.path().display();
            return Err(Failure::Data(format!(
                "{path}: the fit is not finished; `{}` goes on with it",
                folder.continuation()
            )));
        }
        let learnt = learnt(folder)?;
        whole(&folder.preprocessor_file(), &learnt.preprocessor_checksum)?;
        let preprocessor = Preprocessor::load(folder.preprocessor_file())?;
        let fitted = fitted(folder, &config, &preprocessor, &learnt)?;
        Ok(Self {
            config,
            preprocessor,
            fitted,
        })
    }

    /// Draws of a prediction: as many as are asked for, or as the fit says.
    pub(crate) fn draws(&self, asked: Option<usize>) -> Result<usize> {
        let draws = asked.unwrap_or(self.config.fit.draws);
        expect_at_most("draws", draws, MOST_DRAWS)?;
        Ok(draws)
    }
}

/// The network of a run, with what was learnt of its weights.
fn fitted(
    folder: &RunFolder,
    config: &Config,
    preprocessor: &Preprocessor,
    learnt: &Learnt,
) -> Result<Fitted> {
    let meaning = TargetMeaning::of(preprocessor);
    let unusable = |failure| folder.unusable_settings(&failure);
    let device = config.fit.device.device().map_err(unusable)?;
    let features = preprocessor.feature_names().len();
    let path = folder.learnt_weights_file();
    let bytes = whole(&path, &learnt.checksum)?;
    // Before there is a network, which may be one for which no memory would do.
    let weights = weights(&config.fit, features, &meaning).map_err(unusable)?;
    if bytes.len() < weights * size_of::<f32>() {
        let model = &config.fit.model;
        let problem =
            format!("it is too short for the {weights} weights of {model} in config.toml");
        return Err(wrong(&path, problem));
    }
    let precision = learnt.noise_precision;
    // A layout is of what can be trained, so the network begins as one that is.
    let training = device.clone().autodiff();
    let network = network(&config.fit, features, &meaning, precision, &training);
    let (network, posterior) = match path == folder.posterior_file() {
        true => {
            let posterior = FactorPosterior::load_safetensors(&path, &device)?;
            let layout = Layout::new(&network, &ParamGroup::all())?;
            let same = posterior.expect_layout(&layout);
            same.map_err(|error| wrong(&path, error))?;
            (network, Some(posterior))
        }
        false => {
            let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes));
            let loaded = record.and_then(|record| network.try_load_record(record));
            (loaded.map_err(|error| wrong(&path, error))?, None)
        }
    };
    let seed = config.fit.seed;
    let network = network.valid();
    Ok(Fitted::new(&network, posterior, meaning, precision, seed))
}

/// The bytes of a file that is as it was written.
fn whole(path: &Path, expected: &str) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).map_err(at(path))?;
    let found = checksum(&bytes);
    match found == expected {
        true => Ok(bytes),
        false => Err(wrong(
            path,
            format!(
                "it is damaged: its checksum is {found}, not {expected} as in learnt.toml; bring back \
                 the file that the fit left, or fit anew"
            ),
        )),
    }
}

fn learnt(folder: &RunFolder) -> Result<Learnt> {
    let path = folder.learnt_file();
    let learnt: Learnt = toml::from_str(&read_text(&path)?).map_err(|error| wrong(&path, error))?;
    if learnt.format != FORMAT {
        let format = learnt.format;
        let problem = format!("it has format {format}, this program reads {FORMAT}; fit anew");
        return Err(wrong(&path, problem));
    }
    let precision = learnt.noise_precision;
    if !(precision.is_finite() && precision > 0.0) {
        let problem = format!("`noise_precision` is {precision}, which no fit leaves; fit anew");
        return Err(wrong(&path, problem));
    }
    Ok(learnt)
}

/// What is wrong with a file of a run.
fn wrong(path: &Path, problem: impl Display) -> Failure {
    Failure::Data(format!("{}: {problem}", path.display()))
}

impl RunFolder {
    /// Writes what was learnt.
    pub(crate) fn save_fitted(&self, fitted: &Fitted) -> Result<()> {
        match fitted.posterior() {
            Some(posterior) => {
                let saved = posterior.save_safetensors(self.posterior_file());
                saved.map_err(|error| std::io::Error::other(error.to_string()))?;
            }
            None => {
                // Of a fit to this folder that came to nothing.
                remove(&self.posterior_file())?;
                let path = self.weights_file();
                let bytes = fitted.network().clone().into_record().into_bytes();
                let unwritable = |error| std::io::Error::other(format!("{error}"));
                write_whole(&path, &bytes.map_err(unwritable).map_err(at(&path))?)?;
            }
        }
        Ok(())
    }

    /// Marks the run as finished, after everything else was written.
    pub(crate) fn finish(&self, fitted: &Fitted) -> Result<()> {
        let of = |path: PathBuf| -> Result<String> {
            Ok(checksum(&std::fs::read(&path).map_err(at(&path))?))
        };
        let learnt = Learnt {
            format: FORMAT,
            noise_precision: fitted.noise_precision(),
            checksum: of(self.learnt_weights_file())?,
            preprocessor_checksum: of(self.preprocessor_file())?,
        };
        let text = toml::to_string(&learnt).map_err(std::io::Error::other)?;
        write_whole(&self.learnt_file(), text.as_bytes())?;
        remove(&self.checkpoint_file())
    }
}
