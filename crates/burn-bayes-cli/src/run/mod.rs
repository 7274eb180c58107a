//! A folder with everything of a run: its settings, what was learnt, and how well.

mod checkpoint;
mod folder;
mod metrics;
mod progress;
mod validation;

pub(crate) use folder::RunFolder;
pub(crate) use metrics::{EpochMetrics, MetricsFile};
pub(crate) use progress::WatchedRows;
pub(crate) use validation::{ScoredRows, validate, write_report};

use burn::module::{Module, ParamGroup};
use burn::store::ModuleRecord;
use burn::tensor::Bytes;
use burn_bayes::{FactorPosterior, Layout};
use burn_bayes_data::Preprocessor;
use serde::{Deserialize, Serialize};

use crate::engine::{Fitted, network};
use crate::failure::{Failure, Result};
use crate::files::{at, read_text, write_whole};
use crate::problem::TargetMeaning;
use crate::settings::Config;

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
                "{path}: the fit is not finished; `burn-bayes fit --resume --out {path}` goes on with it"
            )));
        }
        let learnt = learnt(folder)?;
        let preprocessor = Preprocessor::load(folder.preprocessor_file())?;
        let meaning = TargetMeaning::of(&preprocessor);
        let device = config.fit.device.device()?;
        let features = preprocessor.feature_names().len();
        let precision = learnt.noise_precision;
        // A layout is of what can be trained, so the network begins as one that is.
        let training = device.clone().autodiff();
        let network = network(&config.fit, features, &meaning, precision, &training);
        let (network, posterior) = match folder.posterior_file().exists() {
            true => {
                let posterior =
                    FactorPosterior::load_safetensors(folder.posterior_file(), &device)?;
                posterior.expect_layout(&Layout::new(&network, &ParamGroup::all())?)?;
                (network, Some(posterior))
            }
            false => {
                let path = folder.weights_file();
                let bytes = std::fs::read(&path).map_err(at(&path))?;
                let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(bytes));
                let loaded = record.and_then(|record| network.try_load_record(record));
                let damaged = |error| Failure::Data(format!("{}: {error}", path.display()));
                (loaded.map_err(damaged)?, None)
            }
        };
        let fitted = Fitted::new(
            &network.valid(),
            posterior,
            meaning,
            precision,
            config.fit.seed,
        );
        Ok(Self {
            config,
            preprocessor,
            fitted,
        })
    }
}

fn learnt(folder: &RunFolder) -> Result<Learnt> {
    let path = folder.learnt_file();
    let learnt: Learnt = toml::from_str(&read_text(&path)?)
        .map_err(|error| Failure::Data(format!("{}: {error}", path.display())))?;
    match learnt.format {
        FORMAT => Ok(learnt),
        other => Err(Failure::Data(format!(
            "{}: it has format {other}, this program reads {FORMAT}; fit anew",
            path.display()
        ))),
    }
}

impl RunFolder {
    /// Writes what was learnt.
    pub(crate) fn save_fitted(&self, fitted: &Fitted) -> Result<()> {
        match fitted.posterior() {
            Some(posterior) => posterior.save_safetensors(self.posterior_file())?,
            None => {
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
        let learnt = Learnt {
            format: FORMAT,
            noise_precision: fitted.noise_precision(),
        };
        let text = toml::to_string(&learnt).map_err(std::io::Error::other)?;
        write_whole(&self.learnt_file(), text.as_bytes())?;
        self.remove_checkpoint()
    }
}
