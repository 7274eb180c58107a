//! How long chains may take.

use burn::module::Module;
use burn_bayes_graph::ExampleBatch;

use super::run::Sampling;
use super::samples::CONVERGED;
use crate::train::ExampleLoss;

/// How long chains are lengthened until they agree. Multiplications stand for time, so that what follows from it is the same on
/// every machine.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    multiplications: f64,
    most_steps: u64,
    until_r_hat: f64,
}

/// The multiplications of a second on two cores.
const OF_SECOND: f64 = 6e9;
/// The seconds and the most steps of a chain without a budget.
const SECONDS: f64 = 30.0;
const MOST_STEPS: u64 = 20_000;
/// Chains that would take so many times the budget are not begun.
const MOST_BUDGETS: f64 = 2.0;
/// The steps by which chains are lengthened.
const LENGTHENED: u64 = 3250;

impl Budget {
    /// The rows whose predictions are compared across chains.
    pub const COMPARED: usize = 200;

    /// About so many seconds on two cores; by default 30, and at most 20 000 steps.
    pub fn new(seconds: Option<f64>) -> Self {
        Self {
            multiplications: OF_SECOND * seconds.unwrap_or(SECONDS),
            most_steps: seconds.map_or(MOST_STEPS, |_| u64::MAX),
            until_r_hat: CONVERGED,
        }
    }

    /// With another median of R̂ from which on chains agree; by default 1.05.
    #[must_use]
    pub fn with_until_r_hat(self, until_r_hat: Option<f64>) -> Self {
        Self {
            until_r_hat: until_r_hat.unwrap_or(self.until_r_hat),
            ..self
        }
    }

    /// The seconds of this many multiplications.
    pub fn seconds_of(multiplications: f64) -> f64 {
        multiplications / OF_SECOND
    }

    /// Whether chains are begun that take so many multiplications: at most twice the budget.
    pub fn allows(&self, multiplications: f64) -> bool {
        multiplications <= MOST_BUDGETS * self.multiplications
    }

    /// Whether chains of this R̂ agree; one that is not known is not waited for.
    pub fn is_reached(&self, r_hat: Option<f64>) -> bool {
        r_hat.is_none_or(|r_hat| r_hat <= self.until_r_hat)
    }

    /// Lengthens chains that do not agree, if a step of all of them, which has so many multiplications, is left. Returns whether
    /// it did.
    pub fn lengthen<M>(&self, sampling: &mut Sampling<M>, of_step: f64, r_hat: Option<f64>) -> bool
    where
        M: Module + ExampleLoss<Input: ExampleBatch + Send> + 'static,
    {
        let most = (self.multiplications / of_step) as u64;
        let goes_on = !self.is_reached(r_hat) && sampling.step() < most.clamp(1, self.most_steps);
        if goes_on {
            sampling.lengthen(LENGTHENED);
        }
        goes_on
    }
}
