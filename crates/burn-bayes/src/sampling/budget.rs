//! How long chains may take.
//!
//! Work is counted and not timed, so that what follows from it is the same on every machine: in multiplications of large
//! products, with what every number that is computed and every step take besides.

use burn::module::Module;
use burn_bayes_graph::ExampleBatch;

use super::run::Sampling;
use super::samples::CONVERGED;
use crate::train::ExampleLoss;

/// How long chains are lengthened until they agree.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    work: f64,
    most_steps: u64,
    until_r_hat: f64,
}

/// The work of a second on two cores.
const OF_SECOND: f64 = 6e9;
/// The work of a number that is computed, and of a step of a chain without its gradient.
const OF_NUMBER: f64 = 10.0;
const OF_STEP: f64 = 60_000.0;
/// The seconds and the most steps of a chain without a budget.
const SECONDS: f64 = 30.0;
const MOST_STEPS: u64 = 20_000;
/// Chains that would take so many times the budget are not begun.
const MOST_BUDGETS: f64 = 2.0;
/// The steps by which chains are lengthened.
const LENGTHENED: u64 = 3250;

/// The work of a step of a chain: its gradient has so many multiplications, and computes so many numbers.
pub(super) fn work_of_step(multiplications: u64, numbers: usize) -> f64 {
    multiplications as f64 + OF_NUMBER * numbers as f64 + OF_STEP
}

impl Budget {
    /// The rows whose predictions are compared across chains.
    pub const COMPARED: usize = 200;

    /// About so many seconds on two cores; by default 30, and at most 20 000 steps.
    pub fn new(seconds: Option<f64>) -> Self {
        Self {
            work: OF_SECOND * seconds.unwrap_or(SECONDS),
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

    /// The seconds of this work.
    pub fn seconds_of(work: f64) -> f64 {
        work / OF_SECOND
    }

    /// Whether chains are begun that take so much work: at most twice the budget.
    pub fn allows(&self, work: f64) -> bool {
        work <= MOST_BUDGETS * self.work
    }

    /// Whether chains of this R̂ agree; one that is not known is not waited for.
    pub fn is_reached(&self, r_hat: Option<f64>) -> bool {
        r_hat.is_none_or(|r_hat| r_hat <= self.until_r_hat)
    }

    /// The steps of chains of so many that never agree; a step of all of them has so much work.
    pub fn steps_without_agreement(&self, steps: u64, of_step: f64) -> u64 {
        let most = self.most_steps(of_step);
        let added = LENGTHENED.min(most);
        steps + most.saturating_sub(steps).div_ceil(added) * added
    }

    /// The steps after which chains are not lengthened.
    fn most_steps(&self, of_step: f64) -> u64 {
        ((self.work / of_step) as u64).clamp(1, self.most_steps)
    }

    /// Lengthens chains that do not agree, if a step of all of them, which has so much work, is left. Returns whether
    /// it did.
    pub fn lengthen<M>(&self, sampling: &mut Sampling<M>, of_step: f64, r_hat: Option<f64>) -> bool
    where
        M: Module + ExampleLoss<Input: ExampleBatch + Send> + 'static,
    {
        let most = self.most_steps(of_step);
        let goes_on = !self.is_reached(r_hat) && sampling.step() < most;
        if goes_on {
            // A short budget is not exceeded many times.
            sampling.lengthen(LENGTHENED.min(most));
        }
        goes_on
    }
}
