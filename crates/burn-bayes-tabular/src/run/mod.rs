//! Run folders: settings, trained model, metrics and scores of a fit.

mod best_epoch;
mod calibration;
mod checkpoint;
mod checksums;
mod ensemble;
mod fit;
mod folder;
mod members;
mod metrics;
mod model_file;
mod plain_models;
mod progress;
mod recalibration;
mod training_rows;
mod validation;

#[cfg(test)]
mod tests;

pub use ensemble::{EnsembleFit, MemberFits};
pub use fit::{FinishedFit, FolderFit, Start, TrainedRun};
pub use folder::RunFolder;
pub use members::{Ensemble, RunModel};
pub use metrics::EpochMetrics;
pub(crate) use metrics::MetricsFile;
pub use progress::ValidationScore;
pub(crate) use progress::WatchedRows;
pub use recalibration::RecalibrationScores;
pub(crate) use training_rows::TrainingRows;
pub(crate) use validation::RunReport;
pub use validation::{Validation, curves};

use std::fmt::Display;
use std::path::{Path, PathBuf};

use burn::module::{Module, ParamGroup};
use burn::store::ModuleRecord;
use burn::tensor::{Bytes, Device};
use burn_bayes::graph::Layout;
use burn_bayes::posterior::{AnyPosterior, Posterior};
use burn_bayes_data::{Features, Preprocessor};
use checksums::Checksums;
use model_file::ModelFile;

use crate::engine::{TrainedModel, network};
use crate::error::{Result, TabularError};
use crate::files::{at, remove, write_whole};
use crate::network::Network;
use crate::plain_models::PlainModels;
use crate::predict::Predictions;
use crate::rows::Target;
use crate::scores::Verdict;
use crate::settings::{Config, DeviceName, MOST_DRAWS, Method, expect_at_most};

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// The settings in effect.
    pub config: Config,
    /// The transformation of columns to features, with the classes.
    pub preprocessor: Preprocessor,
    /// The trained model, or the members of an ensemble.
    pub model: RunModel,
    /// Why the fit diverged; `None` if it did not.
    pub diverged: Option<String>,
    /// Whether it can be trusted; `None` if nothing judged it.
    pub verdict: Option<Verdict>,
    file: ModelFile,
}

impl Run {
    /// Loads a finished run onto a device, by default that of the fit.
    ///
    /// # Errors
    /// If the folder contains no finished run, or a file was changed since the fit.
    pub fn load(folder: &RunFolder, device: Option<DeviceName>) -> Result<Self> {
        if !folder.is_finished() {
            let path = folder.path().display();
            return Err(TabularError::Data(format!(
                "{path}: the fit is not finished (there is no model.toml); continue it with `{}`",
                folder.continuation()
            )));
        }
        let file = ModelFile::load(folder)?;
        for path in [folder.config_file(), folder.preprocessor_file()] {
            file.checksums.verified(&path)?;
        }
        let config = folder.config()?;
        let preprocessor = Preprocessor::load(folder.preprocessor_file())?;
        let model = match file.members.is_empty() {
            true => {
                let device = device.map_or_else(|| folder.device(&config), DeviceName::device)?;
                let model = load_model(folder, &config, &preprocessor, &file, &device)?;
                RunModel::Single(Box::new(model))
            }
            false => {
                let target = Target::of(&preprocessor);
                let members = file.members.clone();
                RunModel::Ensemble(Ensemble::open(folder, members, target, device)?)
            }
        };
        Ok(Self {
            config,
            preprocessor,
            model,
            diverged: file.diverged.clone(),
            verdict: file.verdict,
            file,
        })
    }

    /// The same run with the networks of `draws` draws, and all members of an ensemble, in memory, for many predictions of
    /// few rows each. They are the same.
    ///
    /// # Errors
    /// If a file of a member was changed since the fit.
    pub fn with_drawn_networks(self, draws: usize) -> Result<Self> {
        Ok(Self {
            model: self.model.with_drawn_networks(draws)?,
            ..self
        })
    }

    /// Predicts rows under `draws` draws of the weights, recalibrated if the fit is; see
    /// [`TrainedModel::predict`].
    ///
    /// # Errors
    /// As [`TrainedModel::predict`], and if a file of a member was changed since the fit.
    pub fn predict(&self, rows: &Features, draws: usize) -> Result<Predictions> {
        let predictions = self.model.predict(rows, draws)?;
        match &self.file.recalibration {
            Some(recalibration) => recalibration.apply(predictions),
            None => Ok(predictions),
        }
    }

    /// The file with the predictions of the held-out rows; `None` without held-out rows.
    ///
    /// # Errors
    /// If the file was changed since the fit.
    pub(crate) fn validation_file(&self, folder: &RunFolder) -> Result<Option<PathBuf>> {
        let path = folder.validation_file();
        if !self.file.checksums.has(&path) {
            return Ok(None);
        }
        self.file.checksums.verified(&path)?;
        Ok(Some(path))
    }

    /// The metrics of every epoch; none for an ensemble, whose members have their own.
    ///
    /// # Errors
    /// If the file was changed since the fit.
    pub fn metrics(&self, folder: &RunFolder) -> Result<Vec<EpochMetrics>> {
        if let RunModel::Ensemble(_) = self.model {
            return Ok(Vec::new());
        }
        self.file.checksums.verified(&folder.metrics_file())?;
        folder.metrics()
    }

    /// The number of weight draws per prediction, by default that of the fit.
    pub fn draws(&self, asked: Option<usize>) -> Result<usize> {
        let draws = asked.unwrap_or(self.config.fit.draws);
        expect_at_most("draws", draws, MOST_DRAWS)?;
        Ok(draws)
    }
}

/// Loads the network of a run and its posterior.
fn load_model(
    folder: &RunFolder,
    config: &Config,
    preprocessor: &Preprocessor,
    model_file: &ModelFile,
    device: &Device,
) -> Result<TrainedModel> {
    let target = Target::of(preprocessor);
    let features = preprocessor.feature_names().len();
    let precisions = model_file.noise_precision.as_slice();
    // The layout contains trainable parameters only, so the network is created on an autodiff device.
    let training = device.clone().autodiff();
    let network = network(&config.fit, features, &target, precisions, &training);
    let path = folder.posterior_file();
    let (network, posterior) = match model_file.checksums.has(&path) {
        true => {
            model_file.checksums.verified(&path)?;
            let posterior = loaded(&path, &network, device)?;
            (network, Some(posterior))
        }
        false => {
            let path = folder.weights_file();
            (load_weights(network, &path, &model_file.checksums)?, None)
        }
    };
    let seed = config.fit.seed;
    let network = network.valid();
    let model = TrainedModel::new(&network, posterior, target, precisions.to_vec(), seed)?;
    match config.fit.method {
        Method::Laplace => model.with_linearised_predictions(),
        _ => Ok(model),
    }
}

/// A posterior over the weights of a network.
fn loaded(path: &Path, network: &Network, device: &Device) -> Result<AnyPosterior> {
    let posterior = AnyPosterior::load(path, device)?;
    let layout = Layout::new(network, &ParamGroup::all())?;
    match posterior.layout().difference(&layout) {
        None => Ok(posterior),
        Some(difference) => Err(wrong(path, difference)),
    }
}

/// A network with the weights in a file.
fn load_weights(network: Network, path: &Path, checksums: &Checksums) -> Result<Network> {
    let bytes = checksums.verified(path)?;
    let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes));
    let loaded = record.and_then(|record| network.try_load_record(record));
    loaded.map_err(|error| wrong(path, error))
}

/// Writes the weights of a point estimate.
fn save_weights(path: &Path, model: &TrainedModel) -> Result<()> {
    let bytes = model.network().clone().into_record().into_bytes();
    let unwritable = |error| std::io::Error::other(format!("{error}"));
    write_whole(path, &bytes.map_err(unwritable).map_err(at(path))?)
}

/// An error about a file of a run.
fn wrong(path: &Path, problem: impl Display) -> TabularError {
    TabularError::Data(format!("{}: {problem}", path.display()))
}

impl RunFolder {
    /// Writes the trained model.
    pub(crate) fn save_model(&self, model: &TrainedModel) -> Result<()> {
        match model.is_point() {
            false => model.save_posterior(&self.posterior_file()),
            true => {
                // It may be left over from an earlier, unfinished fit into this folder.
                remove(&self.posterior_file())?;
                save_weights(&self.weights_file(), model)
            }
        }
    }

    /// Removes the validation results of an earlier fit into this folder.
    pub(crate) fn remove_validation(&self) -> Result<()> {
        let files = [
            self.validation_file(),
            self.scores_file(),
            self.report_file(),
        ];
        files.iter().try_for_each(|file| remove(file))
    }

    /// The files of a model.
    fn model_files(&self, model: &TrainedModel) -> [PathBuf; 2] {
        let weights = match model.is_point() {
            false => self.posterior_file(),
            true => self.weights_file(),
        };
        [weights, self.metrics_file()]
    }

    /// Marks the run as finished, after all other files were written. Besides those of every run, it has the files of its
    /// model.
    fn finish(
        &self,
        config: &Config,
        plain_models: &PlainModels,
        of_model: &[PathBuf],
        file: ModelFile,
    ) -> Result<()> {
        // The file may have been edited since the fit read it.
        write_whole(&self.config_file(), config.to_toml()?.as_bytes())?;
        self.save_plain_models(plain_models)?;
        let of_run = [
            self.config_file(),
            self.preprocessor_file(),
            self.validation_file(),
            self.linear_file(),
        ];
        let checksums = Checksums::of(of_run.iter().chain(of_model))?;
        ModelFile { checksums, ..file }.save(self)
    }
}
