//! Whether a fit can be trusted.

use std::fmt;

use burn::module::Module;
use burn_bayes::diagnostics::ArrivalTest;
use serde::{Deserialize, Serialize};

use super::TrainedModel;
use super::algorithms::network;
use super::method::prior;
use crate::error::Result;
use crate::rows::TrainingSet;
use crate::settings::FitSettings;

/// Rows per pass.
const CHUNK: usize = 4096;
/// Excess divergence per half weight below which a fit is trusted, and above which it should not be used: what
/// variances cost that are too large by factors of 1.5 and 3.1.
const TRUSTED: f64 = 0.1;
const UNUSABLE: f64 = 1.0;

/// A verdict on a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The fit is as good as its family of posteriors allows.
    Trust,
    /// The fit is worse than it could be.
    LookCloser,
    /// The fit is far from what it could be.
    DoNotUse,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trust => "trust",
            Self::LookCloser => "look closer",
            Self::DoNotUse => "do not use",
        })
    }
}

/// What was found out about a fit, besides its scores.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Diagnosis {
    /// The verdict.
    pub verdict: Verdict,
    /// What a better mean would gain, in nats.
    pub decrement: f64,
    /// What better scales of the weights would gain, in nats.
    pub scale_gain: f64,
    /// The Monte-Carlo standard error of their sum.
    pub standard_error: f64,
    /// D, the number of weights.
    pub weights: usize,
}

impl Diagnosis {
    /// The estimated excess divergence over the best fit of the family, in nats.
    pub fn excess(&self) -> f64 {
        self.decrement + self.scale_gain
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (excess, error, weights) = (self.excess(), self.standard_error, self.weights);
        let cure = match self.verdict {
            Verdict::Trust => "",
            _ if self.decrement > self.scale_gain => {
                "; its mean has not arrived: give more `epochs`, or a larger `learning_rate`"
            }
            _ => {
                "; its deviations have not arrived: give more `epochs`, or a larger \
                 `diagonal_learning_rate`"
            }
        };
        write!(
            f,
            "{}: the posterior of {weights} weights is {excess:.1} ± {error:.1} nats from the best of its \
             family{cure}",
            self.verdict
        )
    }
}

/// Estimates how far a posterior is from the best of its family, by passes over the training rows; `None` for
/// a point estimate.
///
/// # Errors
/// If a gradient is not finite.
pub fn diagnose(
    training_set: &TrainingSet,
    settings: &FitSettings,
    model: &TrainedModel,
) -> Result<Option<Diagnosis>> {
    let Some(posterior) = model.posterior() else {
        return Ok(None);
    };
    let device = settings.device.device()?.autodiff();
    let network = network(
        settings,
        training_set.width(),
        training_set.meaning(),
        model.noise_precision(),
        &device,
    );
    let rows: Vec<usize> = (0..training_set.rows()).collect();
    let batches = rows
        .chunks(CHUNK)
        .map(|rows| training_set.batch(rows, &device));
    let test = ArrivalTest::new(training_set.rows())
        .with_prior(prior(settings))
        .with_seed(settings.seed);
    let arrival = test.measure(&network, posterior, batches)?;
    let weights = network.num_params();
    let share = 2.0 * arrival.excess() / weights as f64;
    let verdict = match share {
        _ if share <= TRUSTED => Verdict::Trust,
        _ if share <= UNUSABLE => Verdict::LookCloser,
        _ => Verdict::DoNotUse,
    };
    Ok(Some(Diagnosis {
        verdict,
        decrement: arrival.decrement,
        scale_gain: arrival.scale_gain,
        standard_error: arrival.standard_error,
        weights,
    }))
}
