//! Microcanonical Langevin Monte Carlo: its settings, and the walk of a chain.

use burn::config::Config;
use serde::{Deserialize, Serialize};

use super::chain::{ChainSummary, Phases, Tally, without_density};
use super::density::LogDensity;
use super::microcanonical::Particle;
use super::moments::Moments;
use super::step_size::StepSize;
use crate::error::Result;
use crate::methods::checks::positive;
use crate::noise::Noise;

/// The settings of microcanonical Langevin Monte Carlo. The defaults were the best on development splits of tables.
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct MclmcConfig {
    /// v, the variance of the energy error per weight. A smaller one is more exact, and takes more steps.
    #[config(default = 0.02)]
    pub energy_variance: f64,
    /// v at the beginning of the tuning.
    #[config(default = 0.5)]
    pub first_energy_variance: f64,
    /// ε at the beginning.
    #[config(default = 0.01)]
    pub first_step_size: f64,
    /// L/√d, after how long a way the direction is forgotten.
    #[config(default = 0.2)]
    pub length: f64,
}

impl MclmcConfig {
    pub(super) fn validate(&self) -> Result<()> {
        for (field, value) in [
            ("energy_variance", self.energy_variance),
            ("first_energy_variance", self.first_energy_variance),
            ("first_step_size", self.first_step_size),
            ("length", self.length),
        ] {
            positive(field, value)?;
        }
        Ok(())
    }

    /// v in a step of the tuning: it falls geometrically.
    fn wanted_variance(&self, step: u64, phases: &Phases) -> f64 {
        let (first, last) = (self.first_energy_variance, self.energy_variance);
        let falling = (phases.settled - phases.climbed).max(1) as f64;
        let share = ((step - phases.climbed) as f64 / falling).min(1.0);
        first * (last / first).powf(share)
    }
}

/// A chain after its way to a mode.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Walk {
    config: MclmcConfig,
    particle: Particle,
    size: StepSize,
    /// p.
    metric: Vec<f64>,
    /// L.
    length: f64,
    moments: Moments,
    tally: Tally,
}

/// The error of a step that is not made, in wanted deviations: it would lead to where the density is nearly zero.
const MOST_DEVIATIONS: f64 = 30.0;

impl Walk {
    pub(super) fn new(
        density: &mut impl LogDensity,
        place: Vec<f64>,
        config: &MclmcConfig,
        noise: Noise,
    ) -> Result<Self> {
        let len = place.len();
        let mut particle = Particle::new(density, place)?;
        if !particle.is_finite() {
            return Err(without_density());
        }
        particle.refresh(f64::INFINITY, &noise.on_host(len));
        Ok(Self {
            config: config.clone(),
            particle,
            size: StepSize::new(config.first_step_size),
            metric: vec![1.0; len],
            length: (len as f64).sqrt(),
            moments: Moments::new(len),
            tally: Tally::default(),
        })
    }

    /// Step number `step` of the chain.
    pub(super) fn step(
        &mut self,
        density: &mut impl LogDensity,
        phases: &Phases,
        step: u64,
        noise: Noise,
    ) -> Result<()> {
        let (len, size) = (self.metric.len() as f64, self.size.size);
        let wanted = len * self.config.wanted_variance(step, phases);
        let most = MOST_DEVIATIONS * wanted.sqrt();
        let error = self.particle.step(density, size, &self.metric, most)?;
        let share = match error {
            Some(_) => ((2.0 * size / self.length).exp_m1() / len).sqrt(),
            None => f64::INFINITY,
        };
        let normals = noise.on_host(self.metric.len());
        self.particle.refresh(share, &normals);
        self.size.adapt(error.unwrap_or(most), wanted);
        if (phases.settled..phases.measured).contains(&step) {
            self.moments.add(&self.particle.place, size);
        }
        if step >= phases.tuned {
            self.tally.count(error);
        } else if step + 1 == phases.measured {
            self.measure();
        }
        Ok(())
    }

    /// The deviations become the metric, in which the scale of the steps stays the same.
    fn measure(&mut self) {
        /// A weight that did not move at all would never do so again.
        const SMALLEST: f64 = 1e-12;
        let variances = self.moments.variances();
        let variances: Vec<_> = variances.map(|variance| variance.max(SMALLEST)).collect();
        let mean = variances.iter().sum::<f64>() / variances.len() as f64;
        let shares = variances.iter().map(|variance| variance / mean);
        self.metric = shares.map(f64::sqrt).collect();
        self.size.restart();
        self.length = self.config.length * (self.metric.len() as f64).sqrt();
    }

    pub(super) fn place(&self) -> &Vec<f64> {
        &self.particle.place
    }

    pub(super) fn summary(&self) -> Option<ChainSummary> {
        self.tally.summary(self.size.size, self.metric.len())
    }
}
