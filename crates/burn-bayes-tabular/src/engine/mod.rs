//! Fits a network to rows in memory, by any of the methods.
//!
//! A fit depends on its rows, its settings and nothing else: not on other fits in the same process, and
//! not on whether it was interrupted and resumed.

mod algorithms;
mod cost;
mod noise;
mod trained_model;
mod training;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

pub use algorithms::{network, rank, weights};
pub use cost::{TimeEstimate, memory, time};
pub use trained_model::TrainedModel;
pub use training::Checkpoint;

use crate::error::Result;
use crate::rows::TrainingSet;
use crate::settings::{FitSettings, Method, refused};

/// Watches a fit, and may end it.
pub trait Observer {
    /// Called after every epoch; `Break` ends this training, which keeps what it has learnt.
    ///
    /// `snapshot` makes what the training would end in here, and changes nothing of it.
    fn epoch(
        &mut self,
        record: &EpochRecord,
        snapshot: &dyn Fn() -> Result<TrainedModel>,
    ) -> ControlFlow<()> {
        let _ = (record, snapshot);
        ControlFlow::Continue(())
    }

    /// Asked before every step whether to stop here, to be resumed at another time.
    fn interrupts(&self) -> bool {
        false
    }

    /// Told what should be known of the result.
    fn warn(&mut self, warning: &str) {
        let _ = warning;
    }

    /// Whether checkpoints are to be made: without them nothing takes the fit up again.
    fn keeps_checkpoints(&self) -> bool {
        false
    }

    /// Given a checkpoint when one is due and at an interruption, if it keeps them.
    fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<()> {
        let _ = checkpoint;
        Ok(())
    }
}

/// Nobody watches.
#[derive(Debug)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// What is known at the end of an epoch.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct EpochRecord {
    /// What the training is for.
    pub stage: Stage,
    /// Which training of the fit it is, from 1.
    pub round: usize,
    /// From 1.
    pub epoch: usize,
    /// How many there will be.
    pub epochs: usize,
    /// Mean negative log-likelihood of a row under the draw of its step, in nats, on the scale on
    /// which the network learns.
    pub loss: f64,
}

/// What a training is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// To learn the noise precision from rows that are held out.
    Noise,
    /// To be kept.
    Posterior,
}

/// Fits a network to the rows of a problem.
///
/// # Errors
/// A setting that cannot be used, a loss or gradient that is not finite, or an interruption.
pub fn fit(
    training_set: &TrainingSet,
    settings: &FitSettings,
    observer: &mut dyn Observer,
) -> Result<TrainedModel> {
    trained(training_set, settings, None, observer)
}

/// Takes a fit up again where it was interrupted; the result is that of an uninterrupted one.
///
/// # Errors
/// As [`fit`], and if the checkpoint is of another network. That it is of these rows and settings is for
/// the caller to know.
pub fn resume(
    training_set: &TrainingSet,
    settings: &FitSettings,
    checkpoint: Checkpoint,
    observer: &mut dyn Observer,
) -> Result<TrainedModel> {
    trained(training_set, settings, Some(checkpoint), observer)
}

fn trained(
    training_set: &TrainingSet,
    settings: &FitSettings,
    checkpoint: Option<Checkpoint>,
    observer: &mut dyn Observer,
) -> Result<TrainedModel> {
    check(training_set, settings)?;
    if settings.method == Method::Swag && settings.rate_decay() > 0.0 {
        observer.warn(
            "swag takes the spread of the weights from the size of the last steps, and `decay` makes \
             them smaller: the posterior is too narrow; leave `decay` out",
        );
    }
    let last = noise::rounds(training_set, settings);
    let (precision, checkpoint) = match checkpoint {
        Some(checkpoint) if checkpoint.round == last => {
            (checkpoint.noise_precision, Some(checkpoint))
        }
        earlier => {
            let precision = noise::precision(training_set, settings, earlier, observer)?;
            (precision, None)
        }
    };
    training::train(
        training_set,
        settings,
        precision,
        last,
        checkpoint,
        observer,
    )
}

/// Refuses settings that cannot be used for these rows; the number of weights otherwise.
pub fn check(training_set: &TrainingSet, settings: &FitSettings) -> Result<usize> {
    settings.validate()?;
    settings.device.device()?;
    let weights = weights(settings, training_set.width(), training_set.meaning())?;
    rank(settings, weights)?;
    if settings.batch_size > training_set.rows() {
        let (size, rows) = (settings.batch_size, training_set.rows());
        let problem = format!("is {size}, and there are {rows} training rows; make it smaller");
        return Err(refused("batch_size", problem));
    }
    let steps =
        settings.epochs * noise::fewest_rows(training_set, settings).div_ceil(settings.batch_size);
    if settings.method == Method::Swag && steps < FEWEST_SWAG_STEPS {
        let problem = format!(
            "is {}, which makes {steps} steps, and swag needs {FEWEST_SWAG_STEPS}; make it larger",
            settings.epochs
        );
        return Err(refused("epochs", problem));
    }
    Ok(weights)
}

/// Steps of which the last quarter has two iterates.
const FEWEST_SWAG_STEPS: usize = 4;
