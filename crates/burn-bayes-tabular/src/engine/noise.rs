//! Estimation of the noise precision of a regression on held-out rows.
//!
//! The residuals of training rows underestimate the noise. So a first fit holds out a fifth of the rows,
//! and the mean squared error of its predictions there estimates 1/β, which includes the error of the
//! model. That fit used a guess of β, so a second round uses the estimate of the first one.

use burn_bayes::Noise;
use burn_bayes::eval::rmse;

use super::algorithms::train;
use super::training::{Checkpoint, Training};
use super::{Observer, Stage};
use crate::error::{Result, TabularError};
use crate::rows::{Target, TrainingSet, held_out_rows};
use crate::settings::{FitSettings, NoisePrecision, refused};

const HELD_OUT: f64 = 0.2;
/// Minimum number of rows.
const FEWEST_ROWS: usize = 10;
/// In units of 1/variance of the targets, as are the bounds.
const FIRST_GUESS: f64 = 10.0;
const ROUNDS: usize = 2;
/// Bounds of the estimate: outside of them, the network has learned nothing, or fits exactly.
const BOUNDS: (f64, f64) = (0.5, 1e6);
/// A round has failed if its estimate is less than this fraction of the precision that it used.
const WORSE: f64 = 0.25;
/// The random stream of the split.
const PARTING: u64 = 0x7061_7274;

/// The number of trainings that estimate β, before the final fit.
pub(super) fn rounds(training_set: &TrainingSet, settings: &FitSettings) -> usize {
    match (training_set.meaning(), settings.noise_precision) {
        (Target::Real(_), NoisePrecision::Learned(_)) => ROUNDS,
        _ => 0,
    }
}

/// The number of rows of the smallest training of a fit.
pub(super) fn fewest_rows(training_set: &TrainingSet, settings: &FitSettings) -> usize {
    let held_out = match rounds(training_set, settings) {
        0 => 0,
        _ => held_out_rows(training_set.rows(), HELD_OUT),
    };
    training_set.rows() - held_out
}

/// β on the standardised scale of the network; 1 for classes, which have no noise. The rounds continue
/// from a checkpoint, if any.
pub(super) fn precision(
    training_set: &TrainingSet,
    settings: &FitSettings,
    checkpoint: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<f64> {
    match (training_set.meaning(), settings.noise_precision) {
        (Target::Classes(_), _) => Ok(1.0),
        (Target::Real(scale), NoisePrecision::Given(precision)) => {
            Ok(precision * scale.spread * scale.spread)
        }
        (Target::Real(_), NoisePrecision::Learned(_)) => {
            learned(training_set, settings, checkpoint, observer)
        }
    }
}

fn learned(
    training_set: &TrainingSet,
    settings: &FitSettings,
    mut checkpoint: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<f64> {
    if training_set.rows() < FEWEST_ROWS {
        let problem = format!(
            "cannot be learned from {} rows; give a number, 1/variance of the noise of the target",
            training_set.rows()
        );
        return Err(refused("noise_precision", problem));
    }
    let noise = Noise::host(settings.seed).fold(PARTING);
    let (seen, held_out) = training_set.parted(HELD_OUT, noise);
    let targets: Vec<f64> = held_out.targets().iter().copied().map(f64::from).collect();
    let unit = training_set.target_deviation()?.powi(-2);
    let (first, mut precision) = match &checkpoint {
        Some(checkpoint) => (checkpoint.round, checkpoint.noise_precision),
        None => (0, FIRST_GUESS * unit),
    };
    for round in first..ROUNDS {
        let checkpoint = checkpoint.take();
        let training = Training::new(&seen, settings, precision, (round, Stage::Noise))?;
        let fitted = train(&training, checkpoint, observer)?;
        let draws = fitted.outputs(&held_out.features()?, settings.draws)?;
        let mean = mean_over_draws(&draws, targets.len());
        let error = rmse(&mean, &targets)?;
        if !error.is_finite() {
            let problem = "the network's predictions are not finite; lower `learning_rate`";
            return Err(TabularError::Numerical(problem.into()));
        }
        let last = std::mem::replace(
            &mut precision,
            error.powi(-2).clamp(BOUNDS.0 * unit, BOUNDS.1 * unit),
        );
        if round > 0 && precision < WORSE * last {
            observer.warn(&format!(
                "the learned noise is too large: with the noise of the first round, {} fitted worse; give \
                 `noise_precision`, more `epochs` or another `learning_rate`, or choose another method",
                settings.method
            ));
        }
    }
    Ok(precision)
}

fn mean_over_draws(outputs: &[f64], rows: usize) -> Vec<f64> {
    let share = rows as f64 / outputs.len() as f64;
    let column = |row: usize| outputs.iter().skip(row).step_by(rows).sum::<f64>() * share;
    (0..rows).map(column).collect()
}
