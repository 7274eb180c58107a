//! The plain models of a fit in its folder: `linear.bpk` has the weights of the linear model, `model.toml` the rest.

use burn_bayes_data::{OneOrSeveral, Preprocessor};
use serde::{Deserialize, Serialize};

use super::checksums::Checksums;
use super::{Run, RunFolder, load_weights, save_weights};
use crate::engine::{TrainedModel, network};
use crate::error::Result;
use crate::files::remove;
use crate::plain_models::{PlainFit, PlainModels, linear};
use crate::rows::Target;
use crate::scores::Constant;
use crate::settings::{Config, DeviceName};

/// The plain models, without the weights of the linear one.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainRecord {
    constant: Constant,
    /// Absent if the fit is linear itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    linear: Option<LinearRecord>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum LinearRecord {
    /// β of every target on the standardised scale.
    NoisePrecision(OneOrSeveral<f64>),
    /// Why it was not fitted.
    Absent(String),
}

impl PlainRecord {
    pub(super) fn of(models: &PlainModels) -> Self {
        let linear = match &models.linear {
            Some(PlainFit::Fitted(model)) => {
                let precisions = model.noise_precisions().to_vec();
                Some(LinearRecord::NoisePrecision(precisions.into()))
            }
            Some(PlainFit::Absent(reason)) => Some(LinearRecord::Absent(reason.clone())),
            _ => None,
        };
        Self {
            constant: models.constant.clone(),
            linear,
        }
    }
}

impl RunFolder {
    /// Writes the weights of the linear model.
    pub(super) fn save_plain_models(&self, models: &PlainModels) -> Result<()> {
        let path = self.linear_file();
        match &models.linear {
            Some(PlainFit::Fitted(model)) => save_weights(&path, model),
            // It may be left over from an earlier, unfinished fit into this folder.
            _ => remove(&path),
        }
    }
}

impl Run {
    /// The plain models beside the fit.
    ///
    /// # Errors
    /// If a file was changed since the fit.
    pub(crate) fn plain_models(
        &self,
        folder: &RunFolder,
        device: Option<DeviceName>,
    ) -> Result<PlainModels> {
        let linear = match &self.file.plain_models.linear {
            None => None,
            Some(LinearRecord::Absent(reason)) => Some(PlainFit::Absent(reason.clone())),
            Some(LinearRecord::NoisePrecision(precision)) => {
                let model = load_linear(
                    folder,
                    &self.config,
                    &self.preprocessor,
                    &self.file.checksums,
                    precision.as_slice(),
                    device,
                )?;
                Some(PlainFit::Fitted(Box::new(model)))
            }
        };
        Ok(PlainModels {
            target: Target::of(&self.preprocessor),
            constant: self.file.plain_models.constant.clone(),
            linear,
            forest: None,
            network: None,
            map: None,
        })
    }
}

fn load_linear(
    folder: &RunFolder,
    config: &Config,
    preprocessor: &Preprocessor,
    checksums: &Checksums,
    precisions: &[f64],
    device: Option<DeviceName>,
) -> Result<TrainedModel> {
    let device = device.map_or_else(|| folder.device(config), DeviceName::device)?;
    let settings = linear(&config.fit);
    let target = Target::of(preprocessor);
    let features = preprocessor.feature_names().len();
    let network = network(&settings, features, &target, precisions, &device);
    let network = load_weights(network, &folder.linear_file(), checksums)?;
    let precisions = precisions.to_vec();
    TrainedModel::new(&network, None, target, precisions, settings.seed)
}
