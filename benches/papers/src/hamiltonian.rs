//! Draws from a density by Hamiltonian Monte Carlo, with a step size found by dual averaging.
//!
//! With the energy U = −log p(θ) + const, a trajectory starts with a momentum r ~ N(0, I), makes leapfrog steps
//! of size ε on H = U(θ) + ½‖r‖², and is accepted with probability min(1, exp(−ΔH)). During the warm-up, ε
//! follows the acceptance probabilities a of the trajectories t = 1, 2, …:
//!
//! ```text
//! h_t       = h_{t−1} + ((δ − a_t) − h_{t−1}) / (t + t₀)
//! ln ε_t    = ln 10 ε₀ − h_t √t / γ
//! ln ε̄_t    = ln ε̄_{t−1} + t^−κ (ln ε_t − ln ε̄_{t−1})
//! ```
//!
//! and the draws are made with the last ε̄. Trajectories have random lengths, so that none of them closes.
//!
//! References: Neal (2011), "MCMC using Hamiltonian dynamics"; Hoffman and Gelman (2014), "The No-U-Turn
//! sampler", section 3.2.1, for dual averaging and its constants.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};

use super::logistic::add;

/// An unnormalised density.
pub(crate) trait Density {
    /// U(θ), and ∇U written to `gradient`.
    fn energy(&self, place: &[f64], gradient: &mut [f64]) -> f64;
}

/// How long a chain is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hamiltonian {
    /// Trajectories before the first draw.
    pub(crate) warm_up: usize,
    pub(crate) draws: usize,
    /// The mean length of a trajectory, in units of θ where the momentum is 1.
    pub(crate) length: f64,
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

impl Hamiltonian {
    /// Passes every draw of a chain that begins at `start` to `each`.
    pub(crate) fn chain(
        &self,
        density: &impl Density,
        start: Vec<f64>,
        seed: u64,
        mut each: impl FnMut(&[f64]),
    ) {
        let mut generator = StdRng::seed_from_u64(seed);
        let mut state = State::new(density, start);
        let mut step = StepSize::new();
        for trajectory in 0..self.warm_up + self.draws {
            let is_draw = trajectory >= self.warm_up;
            let size = if is_draw { step.average } else { step.current };
            let length = self.length * generator.random_range(0.5..1.5);
            let steps = (length / size).ceil().min(MOST_STEPS) as usize;
            let mut momentum: Vec<f64> = (0..state.place.len())
                .map(|_| StandardNormal.sample(&mut generator))
                .collect();
            let mut proposal = state.clone();
            let before = state.energy + kinetic(&momentum);
            proposal.travel(density, &mut momentum, size, steps);
            let log_ratio = before - proposal.energy - kinetic(&momentum);
            // NaN is a trajectory that diverged.
            let acceptance = if log_ratio.is_nan() {
                0.0
            } else {
                log_ratio.exp().min(1.0)
            };
            if generator.random::<f64>() < acceptance {
                state = proposal;
            }
            if is_draw {
                each(&state.place);
            } else {
                step.update(acceptance);
            }
        }
    }
}

fn kinetic(momentum: &[f64]) -> f64 {
    0.5 * momentum.iter().map(|r| r * r).sum::<f64>()
}

/// θ, U and ∇U.
#[derive(Clone)]
struct State {
    place: Vec<f64>,
    energy: f64,
    gradient: Vec<f64>,
}

impl State {
    fn new(density: &impl Density, place: Vec<f64>) -> Self {
        let mut gradient = vec![0.0; place.len()];
        let energy = density.energy(&place, &mut gradient);
        Self {
            place,
            energy,
            gradient,
        }
    }

    fn travel(&mut self, density: &impl Density, momentum: &mut [f64], size: f64, steps: usize) {
        for _ in 0..steps {
            add(momentum, -0.5 * size, &self.gradient);
            add(&mut self.place, size, momentum);
            self.energy = density.energy(&self.place, &mut self.gradient);
            add(momentum, -0.5 * size, &self.gradient);
        }
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

    /// Normal with these deviations.
    struct Normals([f64; 2]);

    impl Density for Normals {
        fn energy(&self, place: &[f64], gradient: &mut [f64]) -> f64 {
            let mut energy = 0.0;
            for (at, deviation) in self.0.iter().enumerate() {
                gradient[at] = place[at] / deviation.powi(2);
                energy += 0.5 * place[at] * gradient[at];
            }
            energy
        }
    }

    #[test]
    fn draws_have_the_moments_of_the_density() {
        let hamiltonian = Hamiltonian {
            warm_up: 300,
            draws: 5000,
            length: 2.0,
        };
        let normals = Normals([0.1, 1.0]);
        let mut sums = [[0.0; 2]; 2];
        hamiltonian.chain(&normals, vec![3.0, -3.0], 1, |draw| {
            for at in 0..2 {
                let scaled = draw[at] / normals.0[at];
                sums[at][0] += scaled / 5000.0;
                sums[at][1] += scaled * scaled / 5000.0;
            }
        });
        // Standard errors of independent draws: .014 and .02.
        for [mean, square] in sums {
            assert!(mean.abs() < 0.06, "{sums:?}");
            assert!((square - 1.0).abs() < 0.1, "{sums:?}");
        }
    }
}
