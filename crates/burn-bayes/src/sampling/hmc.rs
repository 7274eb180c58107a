//! Hamiltonian Monte Carlo, with a step size found by dual averaging.
//!
//! A trajectory starts with a momentum r ~ N(0, I), makes leapfrog steps of size ε on H = −l(z) + ½‖r‖², and is accepted with
//! probability min(1, exp(−ΔH)). During the warm-up, ε follows the acceptance probabilities a of the trajectories t = 1, 2, …:
//!
//! ```text
//! h_t       = h_{t−1} + ((δ − a_t) − h_{t−1}) / (t + t₀)
//! ln ε_t    = ln 10 ε₀ − h_t √t / γ
//! ln ε̄_t    = ln ε̄_{t−1} + t^−κ (ln ε_t − ln ε̄_{t−1})
//! ```
//!
//! and the draws are made with the last ε̄. Trajectories have random lengths, so that none of them closes.
//!
//! References: Neal (2011), "MCMC using Hamiltonian dynamics"; Hoffman and Gelman (2014), "The No-U-Turn sampler", section
//! 3.2.1, for dual averaging and its constants.

use burn::config::Config;
use burn_bayes_graph::cpu::side_by_side;

use super::density::LogDensity;
use crate::error::{Error, Result};
use crate::methods::checks::{counts, positive};
use crate::noise::Noise;

/// The settings of Hamiltonian Monte Carlo, the reference for other methods: exact, and many times as slow as
/// [`MclmcConfig`](super::MclmcConfig).
///
/// ```
/// use burn_bayes::Result;
/// use burn_bayes::sampling::{HmcConfig, LogDensity};
///
/// /// Two independent normals, of deviation 1 and .1.
/// struct Normals;
///
/// impl LogDensity for Normals {
///     fn evaluate(&mut self, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
///         gradient[0] = -place[0];
///         gradient[1] = -100.0 * place[1];
///         Ok(0.5 * (gradient[0] * place[0] + gradient[1] * place[1]))
///     }
/// }
///
/// let hmc = HmcConfig::new().with_draws(200);
/// let chains = hmc.sample_density(vec![Normals], vec![vec![0.0; 2]])?;
/// assert_eq!([chains[0].len(), chains[0][0].len()], [200, 2]);
/// # Ok::<(), burn_bayes::Error>(())
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct HmcConfig {
    /// The trajectories of a chain in which the step size is found.
    #[config(default = 500)]
    pub warm_up: usize,
    /// The draws of a chain, one of each further trajectory.
    #[config(default = 2000)]
    pub draws: usize,
    /// The mean length of a trajectory, in units of z where the momentum is 1. A quarter of a period leads to an almost
    /// independent draw: 1.5 for numbers of which only the prior knows.
    #[config(default = 1.5)]
    pub length: f64,
    /// The seed.
    #[config(default = 0)]
    pub seed: u64,
}

/// δ, the acceptance probability that is aimed at.
const ACCEPTANCE: f64 = 0.8;
/// γ, t₀ and κ.
const SHRINKAGE: f64 = 0.05;
const DELAY: f64 = 10.0;
const FORGETTING: f64 = 0.75;
/// ε₀.
const FIRST_STEP: f64 = 1e-3;
/// The most leapfrog steps of a trajectory.
const MOST_STEPS: f64 = 2000.0;
/// The random streams of the chains, and in a trajectory of its length and of its acceptance.
const CHAINS: u64 = 0x686d_6300;
const LENGTH: u64 = 1;
const CHOICE: u64 = 2;

impl HmcConfig {
    /// Samples from a density, which every chain has a copy of, from these starts: the draws of each chain.
    ///
    /// # Errors
    ///
    /// If a setting cannot be used, the density cannot be evaluated, or it is not finite at the start of a chain.
    pub fn sample_density<D: LogDensity>(
        &self,
        densities: Vec<D>,
        starts: Vec<Vec<f64>>,
    ) -> Result<Vec<Vec<Vec<f64>>>> {
        counts([("draws", self.draws)])?;
        positive("length", self.length)?;
        let noise = Noise::new(self.seed).fold(CHAINS);
        let chains = densities.into_iter().zip(starts).zip(0..);
        let chains = side_by_side(chains.collect(), |((mut density, start), number)| {
            self.chain(&mut density, start, noise.fold(number))
        });
        chains.into_iter().collect()
    }

    fn chain(
        &self,
        density: &mut impl LogDensity,
        start: Vec<f64>,
        noise: Noise,
    ) -> Result<Vec<Vec<f64>>> {
        let mut state = State::new(density, start)?;
        let mut step = StepSize::new();
        let mut draws = Vec::with_capacity(self.draws);
        for trajectory in 0..self.warm_up + self.draws {
            let noise = noise.fold(trajectory as u64);
            let is_draw = trajectory >= self.warm_up;
            let size = if is_draw { step.average } else { step.current };
            let length = self.length * (0.5 + noise.fold(LENGTH).uniform());
            let steps = (length / size).ceil().min(MOST_STEPS) as usize;
            let momentum = noise.on_host(state.place.len()).into_iter();
            let mut momentum: Vec<f64> = momentum.map(f64::from).collect();
            let mut proposal = state.clone();
            let before = kinetic(&momentum) - state.log_density;
            proposal.travel(density, &mut momentum, size, steps)?;
            let log_ratio = before - kinetic(&momentum) + proposal.log_density;
            // NaN is a trajectory that diverged.
            let acceptance = match log_ratio.is_nan() {
                true => 0.0,
                false => log_ratio.exp().min(1.0),
            };
            if noise.fold(CHOICE).uniform() < acceptance {
                state = proposal;
            }
            match is_draw {
                true => draws.push(state.place.clone()),
                false => step.update(acceptance),
            }
        }
        Ok(draws)
    }
}

fn kinetic(momentum: &[f64]) -> f64 {
    0.5 * momentum.iter().map(|r| r * r).sum::<f64>()
}

fn add(to: &mut [f64], factor: f64, values: &[f64]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += factor * value;
    }
}

/// z, l and ∇l.
#[derive(Clone)]
struct State {
    place: Vec<f64>,
    log_density: f64,
    gradient: Vec<f64>,
}

impl State {
    fn new(density: &mut impl LogDensity, place: Vec<f64>) -> Result<Self> {
        let mut gradient = vec![0.0; place.len()];
        let log_density = density.evaluate(&place, &mut gradient)?;
        if !log_density.is_finite() {
            return Err(Error::numerical(format!(
                "the logarithm of the density is {log_density} where a chain starts"
            )));
        }
        Ok(Self {
            place,
            log_density,
            gradient,
        })
    }

    fn travel(
        &mut self,
        density: &mut impl LogDensity,
        momentum: &mut [f64],
        size: f64,
        steps: usize,
    ) -> Result<()> {
        for _ in 0..steps {
            add(momentum, 0.5 * size, &self.gradient);
            add(&mut self.place, size, momentum);
            self.log_density = density.evaluate(&self.place, &mut self.gradient)?;
            add(momentum, 0.5 * size, &self.gradient);
        }
        Ok(())
    }
}

/// The step size of the warm-up.
struct StepSize {
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
    fn new() -> Self {
        Self {
            current: FIRST_STEP,
            average: FIRST_STEP,
            shortfall: 0.0,
            trajectories: 0.0,
        }
    }

    fn update(&mut self, acceptance: f64) {
        self.trajectories += 1.0;
        let t = self.trajectories;
        self.shortfall += ((ACCEPTANCE - acceptance) - self.shortfall) / (t + DELAY);
        self.current = 10.0 * FIRST_STEP * (-self.shortfall * t.sqrt() / SHRINKAGE).exp();
        let weight = t.powf(-FORGETTING);
        self.average *= (self.current / self.average).powf(weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::testing::Gaussian;

    #[test]
    fn draws_have_the_moments_of_the_density() {
        let deviations = [0.1, 1.0];
        let hmc = HmcConfig::new()
            .with_warm_up(300)
            .with_draws(5000)
            .with_length(2.0);
        let gaussian = Gaussian::of_deviations(&deviations);
        let chains = hmc.sample_density(vec![gaussian], vec![vec![3.0, -3.0]]);
        let draws = &chains.unwrap()[0];
        // Standard errors of independent draws: .014 and .02.
        for (at, deviation) in deviations.iter().enumerate() {
            let scaled = || draws.iter().map(|draw| draw[at] / deviation);
            let count = draws.len() as f64;
            let mean = scaled().sum::<f64>() / count;
            let square = scaled().map(|value| value * value).sum::<f64>() / count;
            assert!(mean.abs() < 0.06, "{mean}");
            assert!((square - 1.0).abs() < 0.1, "{square}");
        }
    }

    #[test]
    fn a_start_without_a_density_is_refused() {
        let gaussian = Gaussian::of_deviations(&[1.0]);
        let error = HmcConfig::new().sample_density(vec![gaussian], vec![vec![f64::NAN]]);
        assert!(error.is_err_and(|error| error.is_numerical()));
    }
}
