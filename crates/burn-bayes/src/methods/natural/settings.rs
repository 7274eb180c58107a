//! The settings common to the natural-gradient methods.

use burn::module::ParamGroup;

use crate::error::{Error, Result};
use crate::methods::average::Averaging;
use crate::methods::checks::{above_zero, counts, positive};
use crate::methods::mean_stage::MeanStage;
use crate::methods::rate::Rate;
use crate::methods::stages::StageSettings;
use crate::methods::start::{InitialDeviation, InitialMean};
use crate::noise::Noise;
use crate::prior::Prior;

/// The settings common to these methods.
#[derive(Clone, Debug)]
pub(crate) struct NaturalSettings {
    pub(crate) train_len: usize,
    pub(crate) ess: Option<f64>,
    pub(crate) draws: usize,
    pub(crate) precision_rate: Rate,
    pub(crate) momentum: f64,
    pub(crate) radius: f64,
    pub(crate) initial_mean: InitialMean,
    pub(crate) initial_deviation: Option<InitialDeviation>,
    pub(crate) mean_stage: MeanStage,
    pub(crate) mean_stage_rate: f64,
    pub(crate) averaging: Averaging,
    pub(crate) prior: Prior,
    pub(crate) group: ParamGroup,
    pub(crate) noise: Noise,
}

impl NaturalSettings {
    /// Checks the settings. The error names the field.
    pub(crate) fn validate(&self) -> Result<()> {
        counts([("train_len", self.train_len), ("draws", self.draws)])?;
        self.precision_rate.check_weight("precision_rate")?;
        fraction("momentum", self.momentum)?;
        positive("mean_stage_rate", self.mean_stage_rate)?;
        positive("ess", self.ess.unwrap_or(1.0))?;
        let deviation = self.initial_deviation.map(InitialDeviation::scale);
        for (field, value) in [
            ("radius", self.radius),
            ("initial_deviation", deviation.unwrap_or(1.0)),
        ] {
            above_zero(field, value)?;
        }
        Ok(())
    }

    /// The settings of the stages. A deviation that is set is not searched for.
    pub(crate) fn stages(&self) -> StageSettings {
        StageSettings::new(self.train_len, self.mean_stage, self.averaging)
            .with_adam(self.mean_stage_rate, self.initial_deviation.is_some())
    }

    /// The memory of the stages for this number of weights.
    pub(crate) fn stage_bytes(&self, weights: usize) -> usize {
        self.stages().bytes(weights, weights)
    }
}

/// Refuses a setting that is not in [0, 1).
pub(crate) fn fraction(field: &str, value: f64) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::config(
        field,
        format!("is {value}; it must be from 0 to below 1"),
    ))
}
