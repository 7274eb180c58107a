//! A chain: its way to a mode, what it learns in tuning, and its draws.

use serde::{Deserialize, Serialize};

use super::climb::Climb;
use super::density::LogDensity;
use super::microcanonical::Particle;
use super::settings::MclmcConfig;
use super::step_size::StepSize;
use crate::error::{Error, Result};
use crate::noise::Noise;

/// When a chain does what, in gradients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phases {
    /// Its way to a mode is over.
    climbed: u64,
    /// The wanted variance has fallen, and the deviations are being collected.
    settled: u64,
    /// The deviations become the metric.
    measured: u64,
    /// Tuning is over.
    tuned: u64,
    /// Steps from draw to draw.
    interval: u64,
    pub(super) end: u64,
}

impl Phases {
    pub(super) fn new(config: &MclmcConfig) -> Self {
        let climbed = config.warm_up_steps as u64;
        let after = |share: f64| climbed + (share * config.tuning_steps as f64) as u64;
        let interval = (config.steps / config.draws) as u64;
        let tuned = climbed + config.tuning_steps as u64;
        Self {
            climbed,
            settled: after(0.5),
            measured: after(0.85),
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
}

/// A chain between two gradients.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Chain {
    step: u64,
    state: State,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
enum State {
    Climbing(Climb),
    Walking(Walk),
}

impl Chain {
    /// A chain that starts at this place.
    pub(super) fn new(place: Vec<f64>) -> Self {
        Self {
            step: 0,
            state: State::Climbing(Climb::new(place)),
        }
    }

    /// Makes the steps up to this number.
    pub(super) fn advance(
        &mut self,
        density: &mut impl LogDensity,
        (config, phases): (&MclmcConfig, &Phases),
        noise: Noise,
        until: u64,
    ) -> Result<()> {
        while self.step < until.min(phases.end) {
            if let State::Climbing(climb) = &mut self.state {
                if self.step < phases.climbed {
                    climb.step(density, config.warm_up_rate)?;
                    self.step += 1;
                    continue;
                }
                let place = std::mem::take(climb).into_place();
                self.state = State::Walking(Walk::new(density, place, config, noise)?);
            }
            if let State::Walking(walk) = &mut self.state {
                walk.step(density, config, phases, (self.step, noise))?;
                self.step += 1;
            }
        }
        Ok(())
    }

    /// The draws so far.
    pub(super) fn draws(&self) -> &[Vec<f64>] {
        match &self.state {
            State::Climbing(_) => &[],
            State::Walking(walk) => &walk.draws,
        }
    }

    /// The steps so far.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Where it is.
    pub(super) fn place(&self) -> &Vec<f64> {
        match &self.state {
            State::Climbing(climb) => climb.place(),
            State::Walking(walk) => &walk.particle.place,
        }
    }

    /// `None` before the first step of the sampling.
    pub(super) fn summary(&self) -> Option<ChainSummary> {
        match &self.state {
            State::Walking(walk) if walk.made > 0 => Some(walk.summary()),
            State::Climbing(_) | State::Walking(_) => None,
        }
    }
}

/// A chain after its way to a mode.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Walk {
    particle: Particle,
    size: StepSize,
    /// p.
    metric: Vec<f64>,
    /// L.
    length: f64,
    moments: Moments,
    /// ΣΔE² of the steps of the sampling, and their number.
    squared_errors: f64,
    made: u64,
    failures: u64,
    draws: Vec<Vec<f64>>,
}

/// What a chain did.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChainSummary {
    /// ε, the size of its steps.
    pub step_size: f64,
    /// The variance of the energy error per weight while it was sampled.
    pub energy_variance: f64,
    /// Steps that led to where the density is nearly zero, and were not made.
    pub failures: u64,
}

impl Walk {
    fn new(
        density: &mut impl LogDensity,
        place: Vec<f64>,
        config: &MclmcConfig,
        noise: Noise,
    ) -> Result<Self> {
        let len = place.len();
        let mut particle = Particle::new(density, place)?;
        if !particle.is_finite() {
            return Err(Error::numerical(
                "the density of the posterior or its gradient is not finite where a chain starts; likely causes: a warm \
                 start at a rate that is too high, or a loss that takes the logarithm of zero",
            ));
        }
        particle.refresh(f64::INFINITY, &normals(noise, START, len));
        Ok(Self {
            particle,
            size: StepSize::new(config.first_step_size),
            metric: vec![1.0; len],
            length: (len as f64).sqrt(),
            moments: Moments::new(len),
            squared_errors: 0.0,
            made: 0,
            failures: 0,
            draws: Vec::new(),
        })
    }

    /// Step number `step` of the chain.
    fn step(
        &mut self,
        density: &mut impl LogDensity,
        config: &MclmcConfig,
        phases: &Phases,
        (step, noise): (u64, Noise),
    ) -> Result<()> {
        let (len, size) = (self.metric.len() as f64, self.size.size);
        let wanted = len * wanted_variance(config, step, phases);
        let most = MOST_DEVIATIONS * wanted.sqrt();
        let error = self.particle.step(density, size, &self.metric, most)?;
        let share = match error {
            Some(_) => ((2.0 * size / self.length).exp_m1() / len).sqrt(),
            None => f64::INFINITY,
        };
        let normals = normals(noise, step, self.metric.len());
        self.particle.refresh(share, &normals);
        self.size.adapt(error.unwrap_or(most), wanted);
        if step < phases.tuned {
            if (phases.settled..phases.measured).contains(&step) {
                self.moments.add(&self.particle.place, size);
            }
            if step + 1 == phases.measured {
                self.measure(config);
            }
        } else {
            match error {
                Some(error) => {
                    self.squared_errors += error * error;
                    self.made += 1;
                }
                None => self.failures += 1,
            }
            if (step + 1 - phases.tuned).is_multiple_of(phases.interval) {
                self.draws.push(self.particle.place.clone());
            }
        }
        Ok(())
    }

    /// The deviations become the metric, in which the scale of the steps stays the same.
    fn measure(&mut self, config: &MclmcConfig) {
        let variances = self.moments.variances();
        let mean = variances.iter().sum::<f64>() / variances.len() as f64;
        let shares = variances.iter().map(|variance| variance / mean);
        self.metric = shares.map(f64::sqrt).collect();
        self.size.restart();
        self.length = config.length * (self.metric.len() as f64).sqrt();
    }

    fn summary(&self) -> ChainSummary {
        ChainSummary {
            step_size: self.size.size,
            energy_variance: self.squared_errors / (self.made as f64 * self.metric.len() as f64),
            failures: self.failures,
        }
    }
}

/// v in a step of the tuning: it falls geometrically.
fn wanted_variance(config: &MclmcConfig, step: u64, phases: &Phases) -> f64 {
    let (first, last) = (config.first_energy_variance, config.energy_variance);
    let falling = (phases.settled - phases.climbed).max(1) as f64;
    let share = ((step - phases.climbed) as f64 / falling).min(1.0);
    first * (last / first).powf(share)
}

/// The error of a step that is not made, in wanted deviations: it would lead to where the density is nearly zero.
const MOST_DEVIATIONS: f64 = 30.0;
/// The stream of the first direction; steps have the streams of their numbers.
const START: u64 = u64::MAX;

fn normals(noise: Noise, step: u64, len: usize) -> Vec<f32> {
    noise.fold(step).on_host(len)
}

/// Weighted moments of the places that a chain visits.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Moments {
    weight: f64,
    means: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    fn new(len: usize) -> Self {
        Self {
            weight: 0.0,
            means: vec![0.0; len],
            squares: vec![0.0; len],
        }
    }

    fn add(&mut self, place: &[f64], weight: f64) {
        self.weight += weight;
        let share = weight / self.weight;
        for ((mean, square), z) in self.means.iter_mut().zip(&mut self.squares).zip(place) {
            let distance = z - *mean;
            *mean += share * distance;
            *square += weight * distance * (z - *mean);
        }
    }

    fn variances(&self) -> Vec<f64> {
        /// A weight that did not move at all would never do so again.
        const SMALLEST: f64 = 1e-12;
        self.squares
            .iter()
            .map(|square| (square / self.weight).max(SMALLEST))
            .collect()
    }
}
