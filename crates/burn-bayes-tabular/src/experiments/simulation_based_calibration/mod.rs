//! Simulation-based calibration: is a method right on average over its own prior?
//!
//! A simulation draws weights from the prior and targets from the likelihood, fits them as a user would, and ranks
//! scalar quantities of the true network among those of independent posterior draws. If the posteriors are exact,
//! ranks are uniform. `burn_bayes::eval` has the test and its references.
//!
//! Fits that diverge have no ranks. They are counted, because leaving them out may bias the other ranks.

mod check;
mod design;
mod page;
mod quantities;
mod ranks;
mod simulator;

use std::sync::Arc;

use serde::{Serialize, Serializer};

pub use check::{Check, QuantityCheck};
pub use design::{Design, NormalDesign};
pub use page::CheckReport;
pub use simulator::Simulator;

use crate::error::{Result, TabularError};
use crate::experiments::jobs::{Job, Key, Record};
use crate::scores::{DIVERGED, Measures};
use crate::settings::{FitSettings, expect_at_most};

/// A thousand are enough to see deviations of a tenth of a standard deviation.
const MOST_SIMULATIONS: usize = 1_000_000;

/// The simulations of one method on one design, as jobs.
#[derive(Clone, Debug)]
pub struct Simulations {
    settings: FitSettings,
    simulations: usize,
    draws: usize,
}

/// One simulation.
#[derive(Serialize)]
struct Simulation {
    #[serde(serialize_with = "as_key")]
    simulator: Arc<Simulator>,
    simulation: u64,
}

fn as_key<S: Serializer>(simulator: &Arc<Simulator>, serializer: S) -> Result<S::Ok, S::Error> {
    simulator.key().serialize(serializer)
}

impl Simulations {
    /// Simulations with ranks among `draws` independent draws of each posterior.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(settings: FitSettings, simulations: usize, draws: usize) -> Result<Self> {
        expect_at_most("simulations", simulations, MOST_SIMULATIONS)?;
        Ok(Self {
            settings,
            simulations,
            draws,
        })
    }

    /// One job per simulation of a design.
    ///
    /// # Errors
    /// If a setting is invalid for the design.
    pub fn jobs(&self, design: &Design) -> Result<Vec<Job>> {
        let simulator = Arc::new(Simulator::new(design, &self.settings, self.draws)?);
        let case = format!("{} × {}", design.rows(), design.features());
        let job = |simulation| {
            let key = Key::new(case.clone(), self.settings.method.to_string(), simulation);
            let simulator = simulator.clone();
            let input = Simulation {
                simulator,
                simulation,
            };
            Job::of(key, input, |input| {
                let ranks = input.simulator.ranks(input.simulation)?;
                Ok(measures(input.simulator.quantities(), ranks).into())
            })
        };
        (0..self.simulations as u64).map(job).collect()
    }

    /// The result of the jobs of a design.
    ///
    /// # Errors
    /// If all fits diverged.
    pub fn check(&self, design: &Design, records: &[Record]) -> Result<Check> {
        let simulator = Simulator::new(design, &self.settings, self.draws)?;
        let names = simulator.quantities();
        let ranks: Result<Vec<_>> = records.iter().map(|record| ranks(names, record)).collect();
        Check::of(names, self.draws, &ranks?)
    }
}

/// What a job stores: a rank per quantity, or that the fit diverged.
fn measures(names: &[String], ranks: Option<Vec<usize>>) -> Measures {
    match ranks {
        None => Measures::from([(DIVERGED.into(), 1.0)]),
        Some(ranks) => {
            let ranks = ranks.into_iter().map(|rank| rank as f64);
            names.iter().cloned().zip(ranks).collect()
        }
    }
}

/// The ranks that a job stored; `None` if the fit diverged.
fn ranks(names: &[String], record: &Record) -> Result<Option<Vec<usize>>> {
    if record.computed.measures.contains_key(DIVERGED) {
        return Ok(None);
    }
    let rank = |name: &String| {
        let rank = record
            .computed
            .measures
            .get(name)
            .map(|&rank| rank as usize);
        rank.ok_or_else(|| TabularError::Data(format!("{}: no rank of the {name}", record.key)))
    };
    names.iter().map(rank).collect::<Result<_>>().map(Some)
}

#[cfg(test)]
mod tests {
    use burn_bayes::eval::RankDeviation;
    use burn_bayes_data::{ColumnScale, Dataset, Features, Targets};

    use super::*;
    use crate::rows::{Target, TrainingSet};
    use crate::settings::{Method, NoisePrecision};

    const DRAWS: usize = 49;

    fn settings(method: Method) -> FitSettings {
        FitSettings {
            method,
            model: Some("linear".parse().unwrap()),
            noise_precision: NoisePrecision::Given(1.0),
            ..FitSettings::default()
        }
    }

    /// The check of a method on three columns with this correlation.
    fn check(method: Method, correlation: f64) -> Check {
        const ROWS: usize = 40;
        let normals = burn_bayes::Noise::new(2).latent(4 * ROWS);
        let own = (1.0 - correlation).sqrt();
        let values = normals.chunks(4).flat_map(|z| {
            let common = correlation.sqrt() * f64::from(z[3]);
            [0, 1, 2].map(|column| common + own * f64::from(z[column]))
        });
        let features = Features::new(ROWS, 3, values.collect()).unwrap();
        let dataset = Dataset::new(features, Targets::Real(vec![0.0; ROWS])).unwrap();
        let scale = ColumnScale {
            centre: 5.0,
            spread: 1.0,
            ..ColumnScale::KEPT
        };
        let rows = TrainingSet::new(&dataset, Target::Real(scale)).unwrap();
        let design = Design::new(rows, ["a", "b", "c"].map(String::from).to_vec());
        let simulator = Simulator::new(&design, &settings(method), DRAWS).unwrap();
        let ranks = (0..300).map(|simulation| simulator.ranks(simulation).unwrap());
        Check::of(simulator.quantities(), DRAWS, &ranks.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn exact_posteriors_are_calibrated() {
        let check = check(Method::Exact, 0.95);
        assert!(check.is_calibrated(), "{check}");
        // With Bonferroni's correction.
        let least = check.quantities.iter().map(|quantity| quantity.p_value);
        assert!(least.fold(1.0, f64::min) > 0.01 / check.quantities.len() as f64);
        assert_eq!((check.simulations, check.diverged), (300, 0));
    }

    #[test]
    fn mean_field_is_too_narrow_for_correlated_columns() {
        let check = check(Method::MeanField, 0.95);
        assert!(!check.is_calibrated());
        for name in ["weight of a", "weight of b", "weight of c"] {
            let found = check.quantities.iter().find(|found| found.name == name);
            let found = found.unwrap();
            assert_eq!(found.deviation, Some(RankDeviation::TooNarrow), "{check}");
            assert!(found.p_value < 1e-6, "{}", found.p_value);
        }
    }

    #[test]
    fn jobs_give_the_ranks_of_the_simulator_and_count_divergence() {
        let source = NormalDesign {
            rows: 20,
            features: 2,
            classes: Some(2),
        };
        let of_classes = FitSettings {
            noise_precision: NoisePrecision::LEARNED,
            ..settings(Method::Vifa)
        };
        let simulations = Simulations::new(of_classes, 3, 9).unwrap();
        let design = source.design(0).unwrap();
        let jobs = simulations.jobs(&design).unwrap();
        assert_eq!(jobs.len(), 3);
        let simulator = Simulator::new(&design, &simulations.settings, 9).unwrap();
        let found = simulator.ranks(1).unwrap();
        assert_eq!(simulator.ranks(1).unwrap(), found);
        assert_ne!(simulator.ranks(2).unwrap(), found);
        let names = simulator.quantities();
        let record = |ranks: Option<Vec<usize>>| Record {
            key: jobs[0].key.clone(),
            settings: serde_json::Value::Null,
            computed: measures(names, ranks).into(),
            seconds: 0.0,
        };
        assert_eq!(ranks(names, &record(found.clone())).unwrap(), found);
        let records = [record(found), record(None)];
        let check = simulations.check(&design, &records).unwrap();
        assert_eq!((check.simulations, check.diverged), (2, 1));
        let error = simulations.check(&design, &records[1..]).unwrap_err();
        assert!(error.to_string().contains("diverged"), "{error}");
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        let source = NormalDesign {
            rows: 20,
            features: 2,
            classes: None,
        };
        let design = source.design(0).unwrap();
        let learned = FitSettings {
            noise_precision: NoisePrecision::LEARNED,
            ..settings(Method::Vifa)
        };
        for (settings, draws, words) in [
            (settings(Method::Map), 9, "`method` is map"),
            (learned, 9, "`noise_precision` is learned"),
            (settings(Method::Vifa), 0, "`posterior_draws` is 0"),
        ] {
            let message = Simulator::new(&design, &settings, draws);
            let message = message.unwrap_err().to_string();
            assert!(message.starts_with(words), "{message}");
        }
        let none = Simulations::new(settings(Method::Vifa), 0, 9);
        assert!(none.unwrap_err().to_string().starts_with("`simulations`"));
    }
}
