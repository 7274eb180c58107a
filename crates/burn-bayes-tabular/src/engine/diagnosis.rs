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
/// Antithetic pairs of draws: as many as cost this many products of rows and weights, within bounds.
const WORK: usize = 20_000_000;
const PAIRS: (usize, usize) = (4, 64);
/// Per half weight, the excess divergence up to which a fit is trusted, and the excess of the mean above which
/// it should not be used: what variances cost that are too large by a factor of 1.5, and a mean that is off by a
/// deviation in every direction. Deviations alone do not spoil predictions near the data.
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
                "; its deviations have not arrived, so that uncertainty far from the data is not that of \
                 the posterior: give more `epochs`, or a larger `diagonal_learning_rate`"
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
        training_set.target(),
        model.noise_precision(),
        &device,
    );
    let rows: Vec<usize> = (0..training_set.rows()).collect();
    let batches = rows
        .chunks(CHUNK)
        .map(|rows| training_set.batch(rows, &device));
    let pairs = WORK / (training_set.rows() * network.num_params()).max(1);
    let test = ArrivalTest::new(training_set.rows())
        .with_prior(prior(settings))
        .with_pairs(pairs.clamp(PAIRS.0, PAIRS.1))
        .with_seed(settings.seed);
    let arrival = test.measure(&network, posterior, batches)?;
    let weights = network.num_params();
    let share = |excess: f64| 2.0 * excess / weights as f64;
    let verdict = match arrival {
        _ if share(arrival.decrement) > UNUSABLE => Verdict::DoNotUse,
        _ if share(arrival.excess()) > TRUSTED => Verdict::LookCloser,
        _ => Verdict::Trust,
    };
    Ok(Some(Diagnosis {
        verdict,
        decrement: arrival.decrement,
        scale_gain: arrival.scale_gain,
        standard_error: arrival.standard_error,
        weights,
    }))
}
