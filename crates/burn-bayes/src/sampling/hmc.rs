//! Hamiltonian Monte Carlo, with a step size found by dual averaging.
//!
//! A trajectory starts with a momentum r ~ N(0, I), makes leapfrog steps of size ε on H = −l(z) + ½‖r‖² with the metric p,
//!
//! ```text
//! r ← r + ½ε p⊙∇l(z)      z ← z + ε p⊙r      r ← r + ½ε p⊙∇l(z)
//! ```
//!
//! and is accepted with probability min(1, exp(−ΔH)). During the tuning, ε follows the acceptance probabilities a of the
//! trajectories t = 1, 2, …:
//!
//! ```text
//! h_t       = h_{t−1} + ((δ − a_t) − h_{t−1}) / (t + t₀)
//! ln ε_t    = ln 10 ε₀ − h_t √t / γ
//! ln ε̄_t    = ln ε̄_{t−1} + t^−κ (ln ε_t − ln ε̄_{t−1})
//! ```
//!
//! and the draws are made with the last ε̄. The metric is 1 at first, and then the deviations of the weights in a part of the
//! tuning. Trajectories have random lengths, so that none of them closes.
//!
//! References: Neal (2011), "MCMC using Hamiltonian dynamics"; Hoffman and Gelman (2014), "The No-U-Turn sampler", section
//! 3.2.1, for dual averaging and its constants.

use burn::config::Config;
use serde::{Deserialize, Serialize};

use super::chain::{ChainSummary, Phases, Tally, without_density};
use super::density::LogDensity;
use super::moments::Moments;
use crate::error::Result;
use crate::methods::checks::positive;
use crate::noise::Noise;

/// The settings of Hamiltonian Monte Carlo, the reference for other methods: exact, and many times as slow as
/// [`MclmcConfig`](super::MclmcConfig).
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct HmcConfig {
    /// The mean length of a trajectory, in deviations of a weight in the tuning. A quarter of a period, 1.5, leads to an almost
    /// independent draw.
    #[config(default = 1.5)]
    pub length: f64,
}

impl HmcConfig {
    pub(super) fn validate(&self) -> Result<()> {
        positive("length", self.length)
    }
}

/// δ, the acceptance probability that is aimed at.
const ACCEPTANCE: f64 = 0.8;
/// γ, t₀ and κ.
const SHRINKAGE: f64 = 0.05;
const DELAY: f64 = 10.0;
const FORGETTING: f64 = 0.75;
/// ε₀ with the first metric.
const FIRST_STEP: f64 = 1e-3;
/// The most leapfrog steps of a trajectory.
const MOST_STEPS: f64 = 2000.0;
/// The random streams of a trajectory: its momentum, its length and its acceptance.
const MOMENTUM: u64 = 0;
const LENGTH: u64 = 1;
const CHOICE: u64 = 2;

/// A chain after its way to a mode.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Trajectories {
    config: HmcConfig,
    state: State,
    size: StepSize,
    /// p.
    metric: Vec<f64>,
    moments: Moments,
    tally: Tally,
}

impl Trajectories {
    pub(super) fn new(
        density: &mut impl LogDensity,
        place: Vec<f64>,
        config: &HmcConfig,
    ) -> Result<Self> {
        let len = place.len();
        let mut gradient = vec![0.0; len];
        let state = State {
            log_density: density.evaluate(&place, &mut gradient)?,
            gradient,
            place,
        };
        if !state.is_finite() {
            return Err(without_density());
        }
        Ok(Self {
            config: config.clone(),
            state,
            size: StepSize::new(FIRST_STEP),
            metric: vec![1.0; len],
            moments: Moments::new(len),
            tally: Tally::default(),
        })
    }

    /// The trajectory that is step number `step` of the chain.
    pub(super) fn step(
        &mut self,
        density: &mut impl LogDensity,
        phases: &Phases,
        step: u64,
        noise: Noise,
    ) -> Result<()> {
        let is_sampling = step >= phases.tuned;
        let size = match is_sampling {
            true => self.size.average,
            false => self.size.current,
        };
        let length = self.config.length * (0.5 + noise.fold(LENGTH).uniform());
        let steps = (length / size).ceil().min(MOST_STEPS) as usize;
        let momentum = noise.fold(MOMENTUM).on_host(self.metric.len()).into_iter();
        let mut momentum: Vec<f64> = momentum.map(f64::from).collect();
        let mut proposal = self.state.clone();
        let before = kinetic(&momentum) - self.state.log_density;
        proposal.travel(density, &self.metric, &mut momentum, size, steps)?;
        let error = kinetic(&momentum) - proposal.log_density - before;
        let acceptance = match proposal.is_finite() && error.is_finite() {
            true => (-error).exp().min(1.0),
            false => 0.0,
        };
        let is_accepted = noise.fold(CHOICE).uniform() < acceptance;
        if is_accepted {
            self.state = proposal;
        }
        if is_sampling {
            self.tally.count(is_accepted.then_some(error));
            return Ok(());
        }
        self.size.update(acceptance);
        if (phases.settled..phases.measured).contains(&step) {
            self.moments.add(&self.state.place, 1.0);
        }
        if step + 1 == phases.measured {
            self.measure();
        }
        Ok(())
    }

    /// The deviations become the metric, drawn to a small one as far as few trajectories were seen.
    fn measure(&mut self) {
        const SMALL: f64 = 1e-3;
        const WEIGHT: f64 = 5.0;
        let count = self.moments.weight();
        let variances = self.moments.variances();
        let drawn =
            variances.map(|variance| (count * variance + WEIGHT * SMALL) / (count + WEIGHT));
        self.metric = drawn.map(f64::sqrt).collect();
        self.size = StepSize::new(self.size.average);
    }

    pub(super) fn place(&self) -> &Vec<f64> {
        &self.state.place
    }

    pub(super) fn summary(&self) -> Option<ChainSummary> {
        self.tally.summary(self.size.average, self.metric.len())
    }
}

fn kinetic(momentum: &[f64]) -> f64 {
    0.5 * momentum.iter().map(|r| r * r).sum::<f64>()
}

/// Adds size p⊙values.
fn add(to: &mut [f64], size: f64, metric: &[f64], values: &[f64]) {
    for ((to, p), value) in to.iter_mut().zip(metric).zip(values) {
        *to += size * p * value;
    }
}

/// z, l and ∇l.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct State {
    place: Vec<f64>,
    log_density: f64,
    gradient: Vec<f64>,
}

impl State {
    fn is_finite(&self) -> bool {
        self.log_density.is_finite() && self.gradient.iter().all(|slope| slope.is_finite())
    }

    /// Makes leapfrog steps, up to where there is no density.
    fn travel(
        &mut self,
        density: &mut impl LogDensity,
        metric: &[f64],
        momentum: &mut [f64],
        size: f64,
        steps: usize,
    ) -> Result<()> {
        for _ in 0..steps {
            add(momentum, 0.5 * size, metric, &self.gradient);
            add(&mut self.place, size, metric, momentum);
            self.log_density = density.evaluate(&self.place, &mut self.gradient)?;
            if !self.is_finite() {
                break;
            }
            add(momentum, 0.5 * size, metric, &self.gradient);
        }
        Ok(())
    }
}

/// The step size of the tuning.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct StepSize {
    /// ε₀.
    first: f64,
    /// ε_t.
    current: f64,
    /// ε̄_t.
    average: f64,
    /// h_t.
    shortfall: f64,
    /// t.
    trajectories: f64,
}

impl StepSize {
    fn new(first: f64) -> Self {
        Self {
            first,
            current: first,
            average: first,
            shortfall: 0.0,
            trajectories: 0.0,
        }
    }

    fn update(&mut self, acceptance: f64) {
        self.trajectories += 1.0;
        let t = self.trajectories;
        self.shortfall += ((ACCEPTANCE - acceptance) - self.shortfall) / (t + DELAY);
        self.current = 10.0 * self.first * (-self.shortfall * t.sqrt() / SHRINKAGE).exp();
        let weight = t.powf(-FORGETTING);
        self.average *= (self.current / self.average).powf(weight);
    }
}
