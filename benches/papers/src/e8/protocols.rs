//! What is fitted to which pictures, and what is tried before.

use burn_bayes::Noise;
use rand::RngExt;
use serde::Serialize;

use crate::experiment::Effort;
use burn_bayes_tabular::experiments::search::TRIALS;
use burn_bayes_tabular::random::generator;

use super::fit::{Fit, Spread};
use crate::images::Counts;

pub(super) const PLAIN: &str = "plain network";
pub(super) const VIFA: &str = "VIFA K=1";
/// The task of telling clothing from digits.
pub(super) const CLOTHING: &str = "fashion-mnist, mnist";

/// A set of medical pictures.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) name: &'static str,
    /// The least grade that counts as class 1.
    pub(super) threshold: u8,
}

pub(super) const SETS: [Set; 2] = [
    // From moderate retinopathy on a patient is referred.
    Set {
        name: "retinamnist",
        threshold: 2,
    },
    Set {
        name: "breastmnist",
        threshold: 1,
    },
];

/// What is searched, by the logarithm: the paper's range of prior precisions, and learning rates for a
/// network that has not been trained before.
const PRIORS: [f64; 2] = [0.01, 10.0];
const RATES: [f64; 2] = [1e-3, 5e-3];

/// Everything that the result of a cell depends on, besides the data.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Protocol {
    pub(super) base: Fit,
    /// How many other settings are tried, of which validation rows choose.
    trials: u64,
    pub(super) validation_draws: usize,
    pub(super) test_draws: usize,
    counts: Option<Counts>,
}

impl Protocol {
    pub(super) fn medical(method: &str, effort: Effort, seed: u64) -> Self {
        Self {
            base: fit(method, 2, effort.choose(20, 10), seed),
            trials: effort.choose(5, 0),
            counts: None,
            ..Self::clothing(method, effort, seed)
        }
    }

    /// Nothing is searched.
    pub(super) fn clothing(method: &str, effort: Effort, seed: u64) -> Self {
        Self {
            base: fit(method, 10, 10, seed),
            trials: 0,
            validation_draws: 20,
            test_draws: effort.choose(100, 30),
            counts: Some(counts(effort)),
        }
    }

    /// Eight kinds of clothing; nothing is searched.
    pub(super) fn kinds(method: &str, effort: Effort, seed: u64) -> Self {
        Self {
            base: fit(method, 8, effort.choose(10, 5), seed),
            ..Self::clothing(method, effort, seed)
        }
    }

    /// The other settings.
    pub(super) fn trials(&self) -> impl Iterator<Item = Fit> {
        (0..self.trials).map(|trial| self.trial(trial))
    }

    /// The same for all methods of a seed.
    fn trial(&self, trial: u64) -> Fit {
        let noise = Noise::new(self.base.seed).fold(TRIALS).row(trial);
        let mut generator = generator(noise);
        let mut drawn = |[least, most]: [f64; 2]| {
            let logarithm: f64 = generator.random_range(least.ln()..=most.ln());
            logarithm.exp()
        };
        Fit {
            prior: drawn(PRIORS),
            rate: drawn(RATES),
            ..self.base
        }
    }
}

/// How many rows of clothing and digits are used.
pub(super) fn counts(effort: Effort) -> Counts {
    Counts {
        train: effort.choose(5000, 2000),
        test: effort.choose(2000, 500),
    }
}

fn fit(method: &str, classes: usize, epochs: usize, seed: u64) -> Fit {
    let spread = Spread {
        rank: 1,
        draws: 2,
        initial_deviation: 0.03,
        factor_scale: 0.01,
        diagonal_rate: 5.0,
    };
    Fit {
        spread: (method == VIFA).then_some(spread),
        classes,
        epochs,
        rate: 0.002,
        prior: 10.0,
        seed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_tried_with_the_same_settings() {
        let tried = |method: &str, seed| {
            let protocol = Protocol::medical(method, Effort::Full, seed);
            let settings = protocol.trials().map(|fit| (fit.rate, fit.prior));
            settings.collect::<Vec<_>>()
        };
        let settings = tried(PLAIN, 3);
        assert_eq!(settings.len(), 5);
        assert_eq!(settings, tried(VIFA, 3));
        assert_ne!(settings, tried(VIFA, 4));
        assert_ne!(settings[0], settings[1]);
        for (rate, prior) in settings {
            assert!((RATES[0]..=RATES[1]).contains(&rate), "{rate}");
            assert!((PRIORS[0]..=PRIORS[1]).contains(&prior), "{prior}");
        }
    }
}
