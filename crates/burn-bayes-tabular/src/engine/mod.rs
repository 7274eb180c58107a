//! Fits a network to rows in memory by any of the methods.
//!
//! The result depends only on the rows and settings, not on other fits in the same process or on
//! interruptions.

mod algorithms;
mod automatic;
mod chain_agreement;
mod cost;
mod diagnosis;
mod fitted;
mod function_prior;
mod function_start;
mod importance;
mod laplace;
mod likelihood;
mod linear;
mod method;
mod motion;
mod noise;
mod prior;
mod prior_draw;
mod process_comparison;
mod sampling;
mod trained_model;
mod training;

#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use burn_bayes_contrib::functional::MOST_POINTS;
use serde::{Deserialize, Serialize};

pub use algorithms::{network, weights};
pub use chain_agreement::ChainAgreement;
pub use cost::{TimeEstimate, memory, time};
pub use diagnosis::{Diagnosis, diagnose};
pub use importance::{Importance, ImportanceRatios};
pub(crate) use laplace::completed;
pub(crate) use likelihood::{is_simple, likelihood_name, likelihoods, warning_of_order};
pub use method::rank;
pub use motion::Motion;
pub(crate) use prior_draw::prior_draw;
pub use process_comparison::{ProcessComparison, ProcessDistance, compare_with_process};
pub use trained_model::TrainedModel;
pub(crate) use trained_model::in_target_units;
pub use training::Checkpoint;
pub(crate) use training::Precisions;
use training::Training;

use crate::error::Result;
use crate::rows::TrainingSet;
use crate::settings::{FitSettings, Method, Solver, refused};

/// Observes a fit, and may stop it; `()` does neither.
pub trait Observer {
    /// Called after every epoch; `Break` stops this training early.
    ///
    /// `snapshot` returns the model that the training would give if it stopped here, without side
    /// effects. With laplace, it is the point estimate.
    fn epoch(
        &mut self,
        record: &EpochRecord,
        snapshot: &dyn Fn() -> Result<TrainedModel>,
    ) -> ControlFlow<()> {
        let _ = (record, snapshot);
        ControlFlow::Continue(())
    }

    /// Called before a training in which only the noise is learned: its number from 0, and how many there are before
    /// the fit itself.
    fn learns_noise(&mut self, training: usize, trainings: usize) {
        let _ = (training, trainings);
    }

    /// Called before every step: whether to interrupt the fit.
    fn interrupts(&self) -> bool {
        false
    }

    /// Called with warnings about the result.
    fn warn(&mut self, warning: &str) {
        let _ = warning;
    }

    /// Whether to make checkpoints, from which the fit can be resumed.
    fn keeps_checkpoints(&self) -> bool {
        false
    }

    /// Called with a checkpoint, at regular intervals and at an interruption, if `keeps_checkpoints`.
    fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<()> {
        let _ = checkpoint;
        Ok(())
    }
}

impl Observer for () {}

/// The record of an epoch.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct EpochRecord {
    /// The epoch, from 1.
    pub epoch: usize,
    /// The number of epochs.
    pub epochs: usize,
    /// Mean negative log-likelihood per row under the draws of the training steps, in nats, on the
    /// standardised scale of the network.
    pub loss: f64,
    /// The median of R̂ of the predictions of training rows across chains; absent where it was not computed, for other methods,
    /// and before the chains have draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r_hat: Option<f64>,
}

/// Fits a network to a training set: one, also if the settings are those of an ensemble.
///
/// # Errors
/// If a setting is invalid, a loss or gradient is not finite, or the fit was interrupted.
pub fn fit(
    training_set: &TrainingSet,
    settings: &FitSettings,
    observer: &mut dyn Observer,
) -> Result<TrainedModel> {
    trained(training_set, settings, None, observer)
}

/// Resumes an interrupted fit; the result is that of an uninterrupted one.
///
/// # Errors
/// As [`fit`], and if the checkpoint is of another network. The caller must ensure that rows and settings
/// are the same.
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
    let settings = &in_effect(training_set, settings.clone());
    let (weights, rows) = (check(training_set, settings)?, training_set.rows());
    if weights > MOST_WEIGHTS_PER_ROW * rows {
        observer.warn(&format!(
            "mostly determined by the prior: {weights} weights, {rows} rows; try a smaller `model`"
        ));
    }
    if linear::applies(training_set, settings) {
        let model = linear::fit(training_set, settings)?;
        return completed(training_set, settings, model);
    }
    let decay = settings.tuned().decay;
    let slow = FitSettings {
        decay: None,
        ..settings.clone()
    }
    .tuned()
    .decay;
    if settings.method.is_of_iterates() && decay > 0.0 && decay < slow {
        observer.warn(&format!(
            "the posterior of {} is too narrow: it is estimated from the last steps, which so fast a `decay` makes \
             small; leave `decay` out",
            settings.method
        ));
    }
    if settings.prior.kernel().is_some() && rows > MOST_POINTS {
        observer.warn(&format!(
            "an exact Gaussian process takes at most {MOST_POINTS} rows, so the fit is not compared with it; look at the \
             coverage of its intervals on held-out rows"
        ));
    }
    let learned = function_prior::learned(training_set, settings)?;
    let precisions = match (&checkpoint, &learned) {
        (Some(checkpoint), _) => checkpoint.precisions.clone(),
        (None, learned) => Precisions {
            noise: match learned {
                Some(learned) => vec![learned.noise_variance.recip()],
                None => noise::initial(training_set, settings)?,
            },
            prior: None,
        },
    };
    let function_prior = learned.map(|learned| learned.prior);
    let training = Training::new(training_set, settings, precisions, function_prior)?;
    let model = algorithms::train(&training, checkpoint, observer)?;
    completed(training_set, settings, model)
}

/// The settings in effect for these rows: the method is one that `auto` stands for, and the solver of a linear model
/// that is too large to be solved directly is `gradient`.
#[must_use]
pub fn in_effect(training_set: &TrainingSet, settings: FitSettings) -> FitSettings {
    let settings = FitSettings {
        method: automatic::chosen(training_set, &settings),
        ..settings
    };
    let is_trained =
        settings.without_effect("solver").is_none() && !linear::applies(training_set, &settings);
    match is_trained {
        true => FitSettings {
            solver: Solver::Gradient,
            ..settings
        },
        false => settings,
    }
}

/// Whether a fit to these rows is solved directly, without training.
pub(crate) fn is_solved_directly(training_set: &TrainingSet, settings: &FitSettings) -> bool {
    linear::applies(training_set, settings)
}

/// Whether the method exact would compute the posterior that another method approximates.
pub(crate) fn has_exact_posterior(training_set: &TrainingSet, settings: &FitSettings) -> bool {
    let exact = FitSettings {
        method: Method::Exact,
        ..settings.clone()
    };
    !settings.method.is_dense() && linear::check_dense(training_set, &exact).is_ok()
}

/// Whether a fit to these rows is solved directly, within seconds.
pub(crate) fn is_quickly_solved(training_set: &TrainingSet, settings: &FitSettings) -> bool {
    let weights = weights(settings, training_set.width(), training_set.target());
    weights.is_ok_and(|weights| {
        let weights = weights as f64;
        let work = weights * weights * (training_set.rows() as f64 + weights);
        is_solved_directly(training_set, settings) && work <= QUICK_WORK
    })
}

/// The number of multiplications of one curvature matrix and its decomposition, some tens of which take seconds.
const QUICK_WORK: f64 = 1e9;

/// Checks the settings for these rows, and returns the number of weights.
pub fn check(training_set: &TrainingSet, settings: &FitSettings) -> Result<usize> {
    settings.validate()?;
    settings.device.device()?;
    let settings = &in_effect(training_set, settings.clone());
    let weights = weights(settings, training_set.width(), training_set.target())?;
    rank(settings, weights)?;
    prior::check(settings)?;
    function_prior::check(training_set, settings)?;
    likelihood::check(settings, training_set.target())?;
    if settings.method.is_dense() {
        linear::check_dense(training_set, settings)?;
    }
    let (method, steps) = (settings.method, settings.steps(training_set.rows()));
    let fewest = match method {
        method if method.is_of_iterates() => FEWEST_STEPS_OF_ITERATES,
        method if method.is_sampled() => sampling::FEWEST_EPOCHS,
        _ => 1,
    };
    if steps < fewest {
        let epochs = settings.epochs(training_set.rows());
        let problem = format!(
            "is {epochs}, which gives {steps} steps, but {method} needs {fewest}; make it larger"
        );
        return Err(refused("epochs", problem));
    }
    Ok(weights)
}

/// Fits with more weights per row are warned of.
const MOST_WEIGHTS_PER_ROW: usize = 10;

/// The smallest number of steps whose last quarter has two iterates.
const FEWEST_STEPS_OF_ITERATES: usize = 4;
