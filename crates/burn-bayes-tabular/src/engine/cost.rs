//! Estimates of the memory and time of a fit.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use burn_bayes::memory::{MemoryPlan, OptimizerMemory};

use super::likelihood::has_noise_precision;
use super::method::{MethodConfig, rank};
use super::noise::relative_length;
use super::{EpochRecord, Observer, TrainedModel, fit, in_effect, sampling};
use crate::error::{Result, TabularError};
use crate::rows::TrainingSet;
use crate::settings::{FitSettings, NoisePrecision, OptimizerName};

/// Times that an observer is asked before they count, because the first steps allocate memory.
const WARM_UP: usize = 5;
/// The number of times that count, unless they take too long.
const TIMED: usize = 40;
const LONGEST: Duration = Duration::from_secs(5);

/// The memory of training, without training rows and activations.
pub fn memory(settings: &FitSettings, weights: usize) -> Result<MemoryPlan> {
    let optimizer = match (settings.optimizer, settings.momentum > 0.0) {
        (OptimizerName::Adam, _) => OptimizerMemory::Adam,
        (OptimizerName::Sgd, true) => OptimizerMemory::Momentum,
        (OptimizerName::Sgd, false) => OptimizerMemory::Plain,
    };
    // The number of rows does not matter.
    Ok(match MethodConfig::new(settings, 1, weights)? {
        MethodConfig::Vifa(config) => config.memory(weights, optimizer),
        MethodConfig::Swag(config) => config.memory(weights, optimizer),
        MethodConfig::FactorAnalysis(config) => config.memory(weights, optimizer),
        MethodConfig::Slang(config) => config.memory(weights, optimizer),
        MethodConfig::Von(config) => config.memory(weights, optimizer),
        MethodConfig::Vadam(config) => config.memory(weights, optimizer),
        MethodConfig::Ivon(config) => config.memory(weights, optimizer),
        MethodConfig::Nagvac(config) => config.memory(weights, optimizer),
        MethodConfig::Map if settings.method.is_dense() => {
            MemoryPlan::iterates(weights, weights, OptimizerMemory::Plain)
        }
        // The draws of all chains.
        MethodConfig::Sampled(config) => {
            let draws = settings.chains * config.draws;
            MemoryPlan::iterates(weights, draws, OptimizerMemory::Plain)
        }
        MethodConfig::Laplace(_) => {
            let rank = rank(settings, weights)?.unwrap_or(0);
            MemoryPlan::iterates(weights, rank, optimizer)
        }
        MethodConfig::Map => MemoryPlan::iterates(weights, 0, optimizer),
    })
}

/// The estimated time of a fit, from its first steps.
#[derive(Clone, Copy, Debug)]
pub struct TimeEstimate {
    /// Seconds per step.
    pub step: f64,
    /// Number of steps.
    pub steps: f64,
    /// The same with chains that never agree, and are lengthened.
    pub most_steps: f64,
}

impl TimeEstimate {
    /// Total seconds.
    pub fn total(&self) -> f64 {
        self.step * self.steps
    }

    /// Total seconds with chains that never agree.
    pub fn most(&self) -> f64 {
        self.step * self.most_steps
    }
}

/// Times a few steps of a fit, or the whole fit of a linear model that is solved directly.
pub fn time(training_set: &TrainingSet, settings: &FitSettings) -> Result<TimeEstimate> {
    let settings = &in_effect(training_set, settings.clone());
    let (timed, steps_seen) = match settings.method.is_sampled() {
        true => {
            let (epochs, steps) = sampling::seen(settings.epochs(training_set.rows()));
            let settings = FitSettings {
                epochs: Some(epochs),
                ..settings.clone()
            };
            (settings, steps)
        }
        // Without trainings before the fit.
        false if has_noise_precision(settings, training_set.target()) => {
            let settings = FitSettings {
                noise_precision: NoisePrecision::Given(1.0),
                ..settings.clone()
            };
            (settings, 1)
        }
        false => (settings.clone(), 1),
    };
    let mut watch = Watch::default();
    let start = Instant::now();
    match fit(training_set, &timed, &mut watch) {
        Ok(_) | Err(TabularError::Interrupted(_)) => {}
        Err(failure) => return Err(failure),
    }
    if watch.begun.borrow().is_empty() {
        // A model that is solved directly: that was the fit.
        return Ok(TimeEstimate {
            step: start.elapsed().as_secs_f64(),
            steps: 1.0,
            most_steps: 1.0,
        });
    }
    let steps = settings.steps(training_set.rows()) as f64;
    let steps = steps * relative_length(training_set, settings)?;
    Ok(TimeEstimate {
        step: watch.interval() / steps_seen as f64,
        steps,
        most_steps: match settings.method.is_sampled() {
            true => sampling::most_epochs(training_set, settings)? as f64,
            false => steps,
        },
    })
}

/// Records when it is asked whether a fit goes on, before every step or some of them, and stops the fit after enough of them.
#[derive(Default)]
struct Watch {
    begun: RefCell<Vec<Instant>>,
    /// The end of the last epoch.
    ended: Option<Instant>,
}

impl Watch {
    /// Seconds between two times, those of the warm-up only if there are no others.
    fn interval(&self) -> f64 {
        let mut limits = self.begun.borrow().clone();
        // Only the end of the last step is needed: the others end where the next one begins.
        limits.extend(self.ended.filter(|end| Some(end) > limits.last()));
        let limits = &limits[WARM_UP.min(limits.len().saturating_sub(2))..];
        match (limits.first(), limits.last()) {
            (Some(first), Some(last)) if limits.len() > 1 => {
                last.duration_since(*first).as_secs_f64() / (limits.len() - 1) as f64
            }
            _ => 0.0,
        }
    }
}

impl Observer for Watch {
    fn epoch(&mut self, _: &EpochRecord, _: &dyn Fn() -> Result<TrainedModel>) -> ControlFlow<()> {
        self.ended = Some(Instant::now());
        ControlFlow::Continue(())
    }

    fn interrupts(&self) -> bool {
        let mut begun = self.begun.borrow_mut();
        begun.push(Instant::now());
        let is_long = begun[0].elapsed() > LONGEST && begun.len() > 2;
        is_long || begun.len() > WARM_UP + TIMED
    }
}
