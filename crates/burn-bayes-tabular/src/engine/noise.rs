//! The noise precision β of a regression, learned while the weights are.
//!
//! The residuals of training rows underestimate the noise of a network. So a fifth of the rows is held out
//! during the first half of the training, and β is the one under which the predictive mixture of the weights'
//! draws is most likely there. Then the training goes on with all rows.

use burn_bayes::Noise;
use burn_bayes::eval::{
    GaussianMixture, NoisePrecision as MixtureNoise, TargetedMixture, most_likely_noise_precision,
};

use super::TrainedModel;
use super::likelihood::is_simple;
use crate::error::Result;
use crate::random::shuffled;
use crate::rows::{Target, TrainingSet, held_out_rows};
use crate::settings::{FitSettings, NoisePrecision, refused};

const HELD_OUT: f64 = 0.2;
/// The fraction of the epochs in which rows are held out.
const LEARNING: f64 = 0.5;
/// The number of estimates in these epochs.
const ESTIMATES: usize = 10;
/// Draws of a prediction for an estimate.
const DRAWS: usize = 32;
/// Minimum number of rows.
const FEWEST_ROWS: usize = 10;
/// In units of 1/variance of the targets, as are the bounds.
const FIRST_GUESS: f64 = 10.0;
/// Bounds of the estimate: outside of them, the network has learned nothing, or fits exactly.
pub(super) const BOUNDS: (f64, f64) = (0.5, 1e6);
/// The random stream of the split.
const PARTING: u64 = 0x7061_7274;

/// β at the start of a training, on the standardised scale of the network; 1 for classes and counts,
/// which have none, and where the network predicts it.
pub(super) fn initial(training_set: &TrainingSet, settings: &FitSettings) -> Result<f64> {
    match (training_set.target(), settings.noise_precision) {
        (Target::Classes(_) | Target::Counts { .. }, _) => Ok(1.0),
        (target @ Target::Real(_), _) if !is_simple(settings, target) => Ok(1.0),
        (Target::Real(scale), NoisePrecision::Given(precision)) => {
            Ok(precision * scale.spread * scale.spread)
        }
        (Target::Real(_), NoisePrecision::Learned(_)) => {
            Ok(FIRST_GUESS * training_set.target_deviation()?.powi(-2))
        }
    }
}

/// The rows that are held out while β is learned.
#[derive(Debug)]
pub(super) struct LearnedNoise {
    /// The rows that train in the first epochs.
    seen: Vec<usize>,
    held_out: TrainingSet,
    bounds: (f64, f64),
    /// The last epoch (from 1) in which rows are held out.
    last: usize,
    /// Epochs between two estimates.
    every: usize,
}

impl LearnedNoise {
    /// The split of a training; `None` if β is given.
    pub(super) fn new(training_set: &TrainingSet, settings: &FitSettings) -> Result<Option<Self>> {
        let is_learned = matches!(training_set.target(), Target::Real(_))
            && is_simple(settings, training_set.target())
            && settings.noise_precision == NoisePrecision::LEARNED;
        if !is_learned {
            return Ok(None);
        }
        let rows = training_set.rows();
        if rows < FEWEST_ROWS {
            let problem = format!(
                "cannot be learned from {rows} rows; give a number, 1/variance of the noise of the target"
            );
            return Err(refused("noise_precision", problem));
        }
        let noise = Noise::host(settings.seed).fold(PARTING);
        let order = shuffled(rows, noise);
        let (held_out, seen) = order.split_at(held_out_rows(rows, HELD_OUT));
        let unit = training_set.target_deviation()?.powi(-2);
        let last = ((LEARNING * settings.epochs(rows) as f64) as usize).max(1);
        Ok(Some(Self {
            seen: seen.to_vec(),
            held_out: training_set.select(held_out),
            bounds: (BOUNDS.0 * unit, BOUNDS.1 * unit),
            last,
            every: last.div_ceil(ESTIMATES),
        }))
    }

    /// The rows that train in an epoch (from 0); `None` for all.
    pub(super) fn seen(&self, epoch: usize) -> Option<&[usize]> {
        (epoch < self.last).then_some(&self.seen)
    }

    /// Whether β is estimated after an epoch (from 1).
    pub(super) fn is_due(&self, epoch: usize) -> bool {
        epoch == self.last || (epoch < self.last && epoch.is_multiple_of(self.every))
    }

    /// β of a model, from its predictions of the held-out rows.
    pub(super) fn estimate(&self, model: &TrainedModel) -> Result<f64> {
        let targets = self.held_out.targets().iter().copied().map(f64::from);
        let targets: Vec<f64> = targets.collect();
        let outputs = model.outputs(&self.held_out.features()?, DRAWS)?;
        let noise = MixtureNoise::Shared(model.noise_precision());
        let mixture = GaussianMixture::new(outputs, model.draws(DRAWS), targets.len(), noise)?;
        let held_out = TargetedMixture::new(&mixture, &targets)?;
        let (least, most) = self.bounds;
        Ok(most_likely_noise_precision(&held_out, least..=most)?)
    }
}
