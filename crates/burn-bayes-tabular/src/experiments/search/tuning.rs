//! A search whose trials are fitted as jobs, and its results.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use burn_bayes_data::KFold;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Fold, FoldFit, Ranges, Search, Trial, Unit, best};
use crate::error::Result;
use crate::experiments::jobs::{self, Job, Key, Progress, Record, ResultCache};
use crate::files::{csv_bytes, write_whole};
use crate::rows::SplitTable;
use crate::scores::HoldoutScore;
use crate::settings::{Config, FitSettings, refused};

/// A search over the settings of a fit.
#[derive(Clone, Debug)]
pub struct Tuning {
    config: Config,
    folds: Vec<Arc<Fold>>,
}

impl Tuning {
    /// A search on folds of the training rows; validation rows are not used.
    ///
    /// # Errors
    /// If the rows cannot be divided into folds, or the positive class does not exist.
    pub fn new(config: Config, rows: &SplitTable, folds: usize) -> Result<Self> {
        let most = rows.train.len();
        if folds < 2 || folds > most {
            let problem =
                format!("is {folds}; it must be from 2 to {most}, the number of training rows");
            return Err(refused("folds", problem));
        }
        let folds = folds_of(&config, rows, folds)?;
        // The search does not use F1, but the fit with the resulting settings does.
        for fold in &folds {
            fold.positive(config.data.positive.as_deref())?;
        }
        Ok(Self { config, folds })
    }

    /// The default ranges of the method, for the networks of all folds; `auto` becomes one for the rows of the first.
    ///
    /// # Errors
    /// If the settings are invalid.
    pub fn default_ranges(&mut self) -> Result<Ranges> {
        if let Some(fold) = self.folds.first() {
            self.config.fit = fold.in_effect(self.config.fit.clone())?;
        }
        let settings = &self.config.fit;
        let weights = self.folds.iter().map(|fold| fold.weights(settings));
        let weights = weights.collect::<Result<Vec<_>>>()?;
        let least = weights.into_iter().min().unwrap_or(usize::MAX);
        let ranges = Ranges::of_method(settings.method, least)?.with_effect(settings);
        Ok(match self.folds.first() {
            Some(fold) => ranges.with_likelihoods(&fold.likelihoods(settings)),
            None => ranges,
        })
    }

    /// A search of these ranges.
    ///
    /// # Errors
    /// As [`Search::check`].
    pub fn search(
        &self,
        ranges: Ranges,
        trials: usize,
        survivors: Option<usize>,
    ) -> Result<Search> {
        let search = Search {
            base: self.config.fit.clone(),
            ranges,
            trials,
            survivors,
            seed: self.config.fit.seed,
        };
        search.check(self.folds.iter().map(Arc::as_ref))?;
        Ok(search)
    }

    /// Runs the search. Fits in the cache are not repeated.
    ///
    /// # Errors
    /// As for a fit, and if every trial diverged.
    pub fn run(
        mut self,
        search: &Search,
        cache: &ResultCache,
        threads: usize,
        progress: &dyn Progress,
    ) -> Result<Tuned> {
        let found = RefCell::new(Records::new());
        let trials = search.run(self.folds.len(), |units| {
            let jobs = jobs_of(units, &self.folds)?;
            let records = jobs::run(&jobs, cache, threads, progress)?;
            let judged = records.iter();
            let judged = judged
                .map(|record| HoldoutScore::of_measures(&record.computed.measures))
                .collect();
            let mut found = found.borrow_mut();
            for ((unit, _), record) in units.iter().zip(records) {
                found.entry(unit.trial).or_default().push(record);
            }
            judged
        })?;
        self.config.fit = best(&trials)?.settings.clone();
        Tuned::of(search, &trials, self.config, &found.into_inner())
    }
}

/// The records of each trial, in the order of the folds.
type Records = BTreeMap<usize, Vec<Record>>;

/// A fit for each unit, on its fold.
fn jobs_of(units: &[(Unit, FitSettings)], folds: &[Arc<Fold>]) -> Result<Vec<Job>> {
    let job = |(unit, settings): &(Unit, FitSettings)| {
        let key = Key::new(
            format!("trial {}", unit.trial),
            settings.method.to_string(),
            unit.fold as u64,
        );
        let fit = FoldFit {
            settings: settings.clone(),
            plain: None,
            fold: folds[unit.fold].clone(),
            positive: None,
        };
        Job::of(key, fit, |fit| {
            let score = fit.fold.judge(&fit.settings)?;
            Ok(HoldoutScore::measures(score).into())
        })
    };
    units.iter().map(job).collect()
}

fn folds_of(config: &Config, rows: &SplitTable, count: usize) -> Result<Vec<Arc<Fold>>> {
    let kept = KFold::new(count).with_seed(config.fit.seed);
    Fold::all(rows, &config.data, kept, None)
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The settings of the best trial.
    pub config: Config,
    /// All trials, the best one first.
    pub trials: Vec<TrialRow>,
    /// The ranges that were searched.
    pub(super) ranges: Ranges,
}

/// A trial as a table row.
#[derive(Clone, Debug, Serialize)]
pub struct TrialRow {
    pub(super) trial: usize,
    /// The settings that were drawn.
    pub(super) settings: Map<String, Value>,
    /// The mean NLL over folds; null if a fit has no scores.
    nll: Option<f64>,
    /// The mean error over folds; null if a fit has no scores.
    error: Option<f64>,
    /// Whether a fit diverged.
    pub(super) diverged: bool,
    /// Number of folds evaluated.
    folds: usize,
    /// The cost on each fold; `None` if the fit has no scores.
    #[serde(skip)]
    pub(super) fold_costs: Vec<Option<f64>>,
    /// Wall-clock time of each fit.
    #[serde(skip)]
    pub(super) seconds: Vec<f64>,
}

impl Tuned {
    /// All files of a search in its folder: the finished trials, and those that are written from them.
    pub const FILES: [&str; 4] = [
        "trials.jsonl",
        "trials.csv",
        "config.toml",
        "leaderboard.html",
    ];

    fn of(search: &Search, trials: &[Trial], config: Config, records: &Records) -> Result<Self> {
        let mut ranking: Vec<&Trial> = trials.iter().collect();
        ranking.sort_by(|a, b| b.is_complete.cmp(&a.is_complete).then(a.compare(b)));
        let of_trial = |trial: &Trial| records.get(&trial.number).map_or(&[][..], Vec::as_slice);
        let row = |trial: &Trial| -> Result<TrialRow> {
            let all = serde_json::to_value(&trial.settings).map_err(std::io::Error::from)?;
            let drawn = search
                .ranges
                .names()
                .map(|name| (name.into(), all[name].clone()));
            let mean = trial.mean();
            Ok(TrialRow {
                trial: trial.number,
                settings: drawn.collect(),
                nll: mean.map(|mean| mean.cost),
                error: mean.map(|mean| mean.error),
                diverged: trial.has_diverged(),
                folds: trial.judgements.len(),
                fold_costs: trial
                    .judgements
                    .iter()
                    .map(|judgement| judgement.map(|judgement| judgement.cost))
                    .collect(),
                seconds: of_trial(trial)
                    .iter()
                    .map(|record| record.seconds)
                    .collect(),
            })
        };
        Ok(Self {
            config,
            ranges: search.ranges.clone(),
            trials: ranking.into_iter().map(row).collect::<Result<_>>()?,
        })
    }

    /// Writes `trials.csv` and `config.toml`, the settings for a fit.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let [_, table, best, _] = Self::FILES;
        let rows = self.trials.iter().map(|row| row.entries(f64::to_string));
        let bytes = csv_bytes(&self.heads(), rows)?;
        write_whole(&folder.join(table), &bytes)?;
        let config = self.config.to_toml()?;
        write_whole(&folder.join(best), config.as_bytes())
    }

    /// The header of the table of trials.
    pub fn heads(&self) -> Vec<&str> {
        let row = self.trials.first();
        let drawn = row.into_iter().flat_map(|row| row.settings.keys());
        ["trial"]
            .into_iter()
            .chain(drawn.map(String::as_str))
            .chain(["nll", "error", "diverged", "folds"])
            .collect()
    }
}

impl TrialRow {
    /// The cells of the row, with numbers formatted by `shown`.
    pub fn entries(&self, shown: impl Fn(&f64) -> String) -> Vec<String> {
        let setting = |value: &Value| match (value.as_f64(), value) {
            (Some(number), Value::Number(whole)) if whole.is_f64() => shown(&number),
            (_, Value::String(text)) => text.clone(),
            _ => value.to_string(),
        };
        let score = |score: Option<f64>| score.as_ref().map_or("–".into(), &shown);
        [self.trial.to_string()]
            .into_iter()
            .chain(self.settings.values().map(setting))
            .chain([
                score(self.nll),
                score(self.error),
                if self.diverged { "yes" } else { "no" }.into(),
                self.folds.to_string(),
            ])
            .collect()
    }
}
