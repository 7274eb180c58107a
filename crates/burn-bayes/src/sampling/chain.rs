//! A chain: its way to a mode, what it learns in tuning, and its draws.

use serde::{Deserialize, Serialize};

use super::climb::Climb;
use super::density::LogDensity;
use super::hmc::Trajectories;
use super::mclmc::Walk;
use super::settings::{Dynamics, SamplingConfig};
use crate::error::{Error, Result};
use crate::noise::Noise;

/// When a chain does what, in steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases {
    /// Its way to a mode is over.
    pub(super) climbed: u64,
    /// The chain is near the posterior, and its deviations are being collected.
    pub(super) settled: u64,
    /// The deviations become the metric.
    pub(super) measured: u64,
    /// Tuning is over.
    pub(super) tuned: u64,
    /// Steps from draw to draw.
    interval: u64,
    pub(super) end: u64,
}

impl Phases {
    pub(super) fn new(config: &SamplingConfig) -> Self {
        let climbed = config.warm_up_steps as u64;
        let after = |share: f64| climbed + (share * config.tuning_steps as f64) as u64;
        let interval = (config.steps / config.draws) as u64;
        let tuned = climbed + config.tuning_steps as u64;
        let settled = after(0.5);
        Self {
            climbed,
            settled,
            // In a short tuning too, the chain is measured.
            measured: after(0.85).max(settled + 1),
            tuned,
            interval,
            end: tuned + interval * config.draws as u64,
        }
    }

    /// The same with more steps of the sampling.
    pub(super) fn lengthened(self, steps: u64) -> Self {
        Self {
            end: self.end.saturating_add(steps),
            ..self
        }
    }

    /// The share of the learning rate in a step of the way to a mode: all of it in the first half, then less and less.
    fn share_of_rate(&self, step: u64) -> f64 {
        let left = (self.climbed - step) as f64 / self.climbed as f64;
        (2.0 * left).min(1.0)
    }
}

/// A chain between two steps.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Chain {
    step: u64,
    motion: Motion,
    draws: Vec<Vec<f64>>,
}

/// How a chain moves.
#[derive(Clone, Debug, Deserialize, Serialize)]
enum Motion {
    Climb(Climb),
    Mclmc(Walk),
    Hmc(Trajectories),
}

impl Chain {
    /// A chain that starts at this place.
    pub(super) fn new(place: Vec<f64>) -> Self {
        Self {
            step: 0,
            motion: Motion::Climb(Climb::new(place)),
            draws: Vec::new(),
        }
    }

    /// Makes the steps up to this number.
    pub(super) fn advance(
        &mut self,
        density: &mut impl LogDensity,
        (config, phases): (&SamplingConfig, &Phases),
        noise: Noise,
        until: u64,
    ) -> Result<()> {
        while self.step < until.min(phases.end) {
            let of_step = noise.fold(self.step);
            match &mut self.motion {
                Motion::Climb(climb) if self.step < phases.climbed => {
                    let rate = config.warm_up_rate * phases.share_of_rate(self.step);
                    climb.pass(density, rate, of_step)?;
                }
                Motion::Climb(climb) => {
                    let place = std::mem::take(climb).into_place();
                    self.motion = match &config.dynamics {
                        Dynamics::Mclmc(config) => {
                            let noise = noise.fold(START);
                            Motion::Mclmc(Walk::new(density, place, config, noise)?)
                        }
                        Dynamics::Hmc(config) => {
                            Motion::Hmc(Trajectories::new(density, place, config)?)
                        }
                    };
                    continue;
                }
                Motion::Mclmc(walk) => walk.step(density, phases, self.step, of_step)?,
                Motion::Hmc(hmc) => hmc.step(density, phases, self.step, of_step)?,
            }
            self.step += 1;
            let sampled = self.step.saturating_sub(phases.tuned);
            if sampled > 0 && sampled.is_multiple_of(phases.interval) {
                self.draws.push(self.place().clone());
            }
        }
        Ok(())
    }

    /// The draws so far.
    pub(super) fn draws(&self) -> &[Vec<f64>] {
        &self.draws
    }

    /// The steps so far.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Where it is.
    pub(super) fn place(&self) -> &Vec<f64> {
        match &self.motion {
            Motion::Climb(climb) => climb.place(),
            Motion::Mclmc(walk) => walk.place(),
            Motion::Hmc(trajectories) => trajectories.place(),
        }
    }

    /// `None` before the first step of the sampling that was made.
    pub(super) fn summary(&self) -> Option<ChainSummary> {
        match &self.motion {
            Motion::Climb(_) => None,
            Motion::Mclmc(walk) => walk.summary(),
            Motion::Hmc(trajectories) => trajectories.summary(),
        }
    }
}

/// The stream of what a chain needs once; steps have the streams of their numbers.
const START: u64 = u64::MAX;

/// What a chain did.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChainSummary {
    /// ε, the size of its steps.
    pub step_size: f64,
    /// The mean square of the energy error per weight while it was sampled.
    pub energy_variance: f64,
    /// Steps of the sampling that were not made: with MCLMC, those to where the density is nearly zero; with HMC, rejected
    /// trajectories.
    pub rejections: u64,
}

/// The steps of the sampling.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Tally {
    /// ΣΔE² of the steps that were made, and their number.
    squared_errors: f64,
    made: u64,
    rejections: u64,
}

impl Tally {
    /// Counts a step with this error of the energy, or one that was not made.
    pub(super) fn count(&mut self, error: Option<f64>) {
        match error {
            Some(error) => {
                self.squared_errors += error * error;
                self.made += 1;
            }
            None => self.rejections += 1,
        }
    }

    /// That of a chain with this number of weights; `None` if no step was made.
    pub(super) fn summary(&self, step_size: f64, weights: usize) -> Option<ChainSummary> {
        (self.made > 0).then(|| ChainSummary {
            step_size,
            energy_variance: self.squared_errors / (self.made as f64 * weights as f64),
            rejections: self.rejections,
        })
    }
}

/// An error for a start without a density.
pub(super) fn without_density() -> Error {
    Error::numerical(
        "the density of the posterior or its gradient is not finite where a chain starts; likely causes: a warm start at a \
         rate that is too high, or a loss that takes the logarithm of zero",
    )
}
