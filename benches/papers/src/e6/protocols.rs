//! What is fitted to a split, and what is searched before.

use serde::Serialize;

use crate::experiment::Effort;
use burn_bayes_tabular::experiments::search::{Range, Ranges, Search};
use burn_bayes_tabular::settings::{FitSettings, Method, NoisePrecision};

use super::sets::Set;

pub(super) const CONSTANT: &str = "constant";
pub(super) const PLAIN: &str = "plain network";
pub(super) const MEAN_FIELD: &str = "mean-field, defaults";
pub(super) const VIFA: &str = "VIFA";
pub(super) const VIFA_DEFAULTS: &str = "VIFA, defaults";
pub(super) const SLANG: &str = "SLANG";
pub(super) const SLANG_UNTUNED: &str = "SLANG, untuned";

/// What is fitted, and what is searched before.
type Recipe = fn(&Set, Effort) -> (FitSettings, Option<Plan>);

/// The rows of a set, in the order of the table, and how each is made.
const ROWS: [(&str, Recipe); 6] = [
    (PLAIN, |_, _| (defaults(Method::Map), None)),
    (MEAN_FIELD, |_, _| (defaults(Method::MeanField), None)),
    (VIFA_DEFAULTS, |_, _| (defaults(Method::Vifa), None)),
    (VIFA, vifa),
    (SLANG_UNTUNED, |set, _| (slang(set), None)),
    (SLANG, slang_searched),
];

/// Everything that the result of a cell depends on, besides the data.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Protocol {
    pub(super) label: String,
    /// What is fitted; nothing for the constant.
    pub(super) base: Option<FitSettings>,
    pub(super) search: Option<Plan>,
}

/// What is searched, and how long.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Plan {
    pub(super) ranges: Ranges,
    pub(super) trials: usize,
    pub(super) folds: usize,
}

impl Plan {
    pub(super) fn search(&self, base: &FitSettings) -> Search {
        Search {
            base: base.clone(),
            ranges: self.ranges.clone(),
            trials: self.trials,
            survivors: None,
            seed: base.seed,
        }
    }
}

impl Protocol {
    pub(super) fn constant(effort: Effort) -> Self {
        Self {
            label: label(CONSTANT, effort),
            base: None,
            search: None,
        }
    }
}

/// What a table calls a row; a short run is none of the papers' and has a name of its own.
pub(super) fn label(name: &str, effort: Effort) -> String {
    match effort {
        Effort::Full => name.into(),
        Effort::Quick => format!("{name}, short"),
    }
}

/// All rows of a split.
pub(super) fn protocols(set: &Set, effort: Effort, split: u64) -> Vec<Protocol> {
    let rows = ROWS.iter().map(|(name, make)| {
        let (base, search) = make(set, effort);
        Protocol {
            label: label(name, effort),
            base: Some(FitSettings {
                epochs: Some(effort.choose(120, 40)),
                batch_size: 10,
                train_draws: Some(set.draws()),
                seed: split,
                ..base
            }),
            search,
        }
    });
    [Protocol::constant(effort)]
        .into_iter()
        .chain(rows)
        .collect()
}

/// The setting of `benches/TUNING.md`, the same for every set.
fn defaults(method: Method) -> FitSettings {
    FitSettings {
        method,
        rank: Some(1),
        noise_precision: NoisePrecision::LEARNED,
        ..FitSettings::default()
    }
}

/// The VIFA paper's; what it does not give (the start) is as in our defaults.
fn vifa(_: &Set, effort: Effort) -> (FitSettings, Option<Plan>) {
    let base = FitSettings {
        clip: Some(10.0),
        decay: Some(0.0),
        ..defaults(Method::Vifa)
    };
    let plan = Plan {
        ranges: Ranges::new([
            ("learning_rate", Range::LogUniform([0.01, 0.02])),
            ("noise_precision", Range::LogUniform([0.01, 1.0])),
            ("prior_precision", Range::LogUniform([0.01, 10.0])),
        ]),
        ..Plan::of(effort)
    };
    (base, Some(plan))
}

/// The fastest rate of SLANG's precision; see `benches/TUNING.md`.
const FASTEST_PRECISION: f64 = 0.02;

/// The SLANG paper's, noise and prior in the middle of its bounds.
fn slang(set: &Set) -> FitSettings {
    let middle = |[least, most]: [f64; 2]| f64::midpoint(least, most).exp();
    FitSettings {
        learning_rate: Some(set.slang_rate),
        diagonal_learning_rate: (set.slang_rate > FASTEST_PRECISION).then_some(FASTEST_PRECISION),
        decay: Some(0.0),
        noise_precision: NoisePrecision::Given(middle(set.log_noise)),
        prior_precision: middle(set.log_prior).into(),
        bias_prior_precision: Some(1e-6),
        // The authors' program starts at 1 for every weight; see `benches/TUNING.md`.
        initial_deviation: Some(1.0),
        ..defaults(Method::Slang)
    }
}

fn slang_searched(set: &Set, effort: Effort) -> (FitSettings, Option<Plan>) {
    let within = |bounds: [f64; 2]| Range::LogUniform(bounds.map(f64::exp));
    let plan = Plan {
        ranges: Ranges::new([
            ("noise_precision", within(set.log_noise)),
            ("prior_precision", within(set.log_prior)),
        ]),
        ..Plan::of(effort)
    };
    (slang(set), Some(plan))
}

impl Plan {
    fn of(effort: Effort) -> Self {
        Self {
            ranges: Ranges::default(),
            trials: effort.choose(30, 2),
            folds: effort.choose(5, 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::e6::sets::SETS;

    #[test]
    fn every_protocol_can_be_fitted() {
        for set in &SETS {
            for protocol in protocols(set, Effort::Full, 3) {
                let Some(base) = protocol.base else {
                    continue;
                };
                base.validate().unwrap();
                assert_eq!((base.seed, base.epochs), (3, Some(120)));
                if let Some(plan) = protocol.search {
                    let search = plan.search(&base);
                    let [first, second] = [0, 1].map(|trial| search.settings(trial).unwrap());
                    assert_ne!(first.prior_precision, second.prior_precision);
                    assert_eq!(first.seed, second.seed);
                }
            }
        }
    }
}
