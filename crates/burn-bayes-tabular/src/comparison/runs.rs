//! The fits of a comparison.

use std::sync::Arc;

use burn_bayes_data::KFold;
use serde::{Deserialize, Serialize};

use super::measures;
use crate::distinct::distinct;
use crate::error::Result;
use crate::jobs::{Computed, Job, Key};
use crate::rows::{SplitTable, read_table};
use crate::search::Fold;
use crate::settings::{Config, FitSettings, Method, expect_at_most, refused};

/// Maximum number of repeats.
const MAX_REPEATS: usize = 10_000;

/// The fits of a comparison: every method on every fold, with a random re-split for every repeat.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Runs {
    config: Config,
    methods: Vec<Method>,
    repeats: usize,
    folds: usize,
}

impl Runs {
    /// A comparison with these settings; their method and validation fraction are ignored.
    ///
    /// # Errors
    /// If there are fewer than two methods, or a count is out of range.
    pub fn new(
        mut config: Config,
        methods: &[Method],
        repeats: usize,
        folds: usize,
    ) -> Result<Self> {
        // Every row is in a test fold once, so no validation rows are needed.
        config.data.validation = 0.0;
        let methods = distinct(methods.iter().copied(), |&method| method);
        if methods.len() < 2 {
            return Err(refused("methods", "must name at least two methods"));
        }
        expect_at_most("repeats", repeats, MAX_REPEATS)?;
        if folds < 2 {
            let problem = format!("is {folds}; it must be at least 2");
            return Err(refused("folds", problem));
        }
        Ok(Self {
            config,
            methods,
            repeats,
            folds,
        })
    }

    /// The settings of the fits except the method, without validation rows.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The methods, without duplicates.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// The number of folds of a repeat; run r is on fold r mod `folds` of repeat ⌊r/`folds`⌋.
    pub(crate) fn folds(&self) -> usize {
        self.folds
    }

    /// The fits, and the positive class of F1.
    ///
    /// # Errors
    /// If the rows are too few, or a setting is invalid for one of the fits.
    pub fn of_rows(&self, rows: &SplitTable) -> Result<(Vec<Job>, Option<String>)> {
        let Config { data, fit } = &self.config;
        let most = rows.train.len();
        if self.folds > most {
            let problem = format!("is {}, but there are only {most} rows", self.folds);
            return Err(refused("folds", problem));
        }
        let kept = KFold::new(self.folds)
            .with_repeats(self.repeats)
            .with_seed(fit.seed);
        let folds = Fold::all(rows, data, kept)?;
        let asked = data.positive.as_deref();
        let positives = folds.iter().map(|fold| fold.positive(asked));
        let positive = positives.collect::<Result<Vec<_>>>()?[0].map(String::from);
        let case = data.path()?.file_stem().unwrap_or_default();
        let case = case.to_string_lossy();
        let mut jobs = Vec::new();
        for (run, fold) in folds.iter().enumerate() {
            for &method in &self.methods {
                let settings = FitSettings {
                    method,
                    seed: fit.seed.wrapping_add((run / self.folds) as u64),
                    ..fit.clone()
                };
                fold.check(&settings)?;
                jobs.push(job(&case, run, settings, fold, positive.as_deref())?);
            }
        }
        Ok((jobs, positive))
    }

    /// The fits, on the rows of the data file.
    pub(crate) fn jobs(&self) -> Result<Vec<Job>> {
        let Config { data, fit } = &self.config;
        let rows = SplitTable::deal(read_table(data)?, data, fit.seed)?;
        Ok(self.of_rows(&rows)?.0)
    }
}

/// One fit.
fn job(
    case: &str,
    run: usize,
    settings: FitSettings,
    fold: &Arc<Fold>,
    positive: Option<&str>,
) -> Result<Job> {
    let key = Key {
        case: case.into(),
        method: settings.method.to_string(),
        seed: run as u64,
    };
    let everything = (settings.identity(), fold.fingerprint());
    let (fold, class) = (fold.clone(), positive.map(String::from));
    let work = move || {
        let scored = fold.score(&settings, class.as_deref())?;
        Ok(Computed {
            measures: measures(&scored),
            row_costs: scored.row_costs,
        })
    };
    match positive {
        Some(class) => Job::with_row_costs(key, &(everything, class), work),
        None => Job::with_row_costs(key, &everything, work),
    }
}
