//! `tune`: settings drawn from ranges, judged by cross-validation, and the best of them as a file.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn_bayes_data::KFold;
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::console::{print, print_json};
use burn_bayes_tabular::cells::{self, Cell, Key, Ledger};
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::files::{csv_bytes, write_whole};
use burn_bayes_tabular::report::number;
use burn_bayes_tabular::scores::likelihood_name;
use burn_bayes_tabular::search::{Fold, Judgement, Ranges, Search, Trial, Unit, best};
use burn_bayes_tabular::settings::{ConfigFlags, FitSettings};

/// What to search, and how long.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the trials and the best settings
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Settings to draw and judge
    #[arg(long, value_name = "N", default_value_t = 30)]
    trials: usize,
    /// Folds of the training rows, each of which judges every trial once
    #[arg(long, value_name = "N", default_value_t = 5)]
    folds: usize,
    /// Trials that meet more folds than the first, the best there; all by default
    #[arg(long, value_name = "N")]
    survivors: Option<usize>,
    /// TOML file of ranges, one for each setting; by default those of the method
    #[arg(long, value_name = "FILE")]
    ranges: Option<PathBuf>,
    /// Use again what the folder holds of these trials
    #[arg(long)]
    resume: bool,
    /// Fits at the same time, each in a process of its own [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: ConfigFlags,
}

/// Trials that are printed; the file has all.
const SHOWN: usize = 10;

/// Searches.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut config = arguments.settings.config()?;
    let ranges = arguments.ranges.as_deref();
    let ranges = ranges.map(|path| Ranges::read(path, &config.fit));
    let ranges = ranges.transpose()?;
    let seed = config.fit.seed;
    let rows = super::dealt(&config)?;
    // The rows that `fit` will score by are not for choosing.
    let divisions = rows.divisions(&config.data, KFold::new(arguments.folds).with_seed(seed))?;
    let preparation = config.data.preprocessor()?;
    let folds = divisions
        .iter()
        .map(|split| Ok(Arc::new(Fold::prepared(&rows.table, &preparation, split)?)));
    let folds = folds.collect::<Result<Vec<_>>>()?;
    // A search does not look at F1, but `fit` takes over what it writes.
    for fold in &folds {
        fold.positive(config.data.positive.as_deref())?;
    }
    let ranges = match ranges {
        Some(ranges) => ranges,
        None => default_ranges(&config.fit, &folds)?,
    };
    let searched = "is searched; leave it out, or give `--ranges` without it";
    let flags = ranges.names().map(|name| (name, searched));
    arguments.settings.refuse(flags)?;
    let search = Search {
        base: config.fit.clone(),
        ranges,
        trials: arguments.trials,
        survivors: arguments.survivors,
        seed,
    };
    search.check(folds.iter().map(Arc::as_ref))?;
    let ledger = Ledger::begin(&arguments.out, "trials.jsonl", arguments.resume)?;
    let ranges = arguments.ranges.as_deref();
    let crew = super::crew(arguments.threads, &arguments.settings, &config, ranges)?;
    let cost_name = likelihood_name(config.data.task()?.into());
    let trials = search.run(folds.len(), |units| {
        let cells = units
            .iter()
            .map(|(unit, settings)| cell(*unit, settings, &folds[unit.fold], cost_name));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let records = cells::run(
            &cells,
            &ledger,
            &crew,
            &super::Fits::of("tune", arguments.resume),
        )?;
        let judged = records.iter();
        judged
            .map(|record| Judgement::of_measures(&record.measures, cost_name))
            .collect()
    })?;
    let outcome = Outcome::of(&search, &trials, cost_name, &arguments.out)?;
    outcome.write(&arguments.out)?;
    config.fit = best(&trials)?.settings.clone();
    write_whole(
        &arguments.out.join("config.toml"),
        config.to_toml()?.as_bytes(),
    )?;
    match arguments.json {
        true => print_json(&outcome),
        false => outcome.print(),
    }
}

/// The ranges of the method, for the networks of all folds.
fn default_ranges(settings: &FitSettings, folds: &[Arc<Fold>]) -> Result<Ranges> {
    let mut least = usize::MAX;
    for fold in folds {
        least = least.min(fold.weights(settings)?);
    }
    Ranges::of_method(settings.method, least)
}

/// One fit of one trial.
fn cell(
    unit: Unit,
    settings: &FitSettings,
    fold: &Arc<Fold>,
    cost_name: &'static str,
) -> Result<Cell> {
    let key = Key {
        case: format!("trial {}", unit.trial),
        method: settings.method.to_string(),
        seed: unit.fold as u64,
    };
    let fold = fold.clone();
    let everything = (settings.identity(), fold.fingerprint());
    let settings = settings.clone();
    Cell::new(key, &everything, move || {
        Ok(Judgement::measures(fold.judge(&settings)?, cost_name))
    })
}

/// What is said of a finished search.
#[derive(Debug, Serialize)]
struct Outcome {
    /// The file of the best settings.
    config: String,
    /// The best one first.
    trials: Vec<Row>,
}

/// A trial, as it is shown.
#[derive(Debug, Serialize)]
struct Row {
    trial: usize,
    /// The settings that were drawn.
    settings: Map<String, Value>,
    /// The mean cost over folds, by its name in the scores; null if a fit has no scores.
    #[serde(flatten)]
    cost: BTreeMap<&'static str, Option<f64>>,
    /// The mean over folds; null if a fit has no scores.
    error: Option<f64>,
    /// Whether a fit diverged.
    diverged: bool,
    /// Folds that it met.
    folds: usize,
}

impl Outcome {
    fn of(
        search: &Search,
        trials: &[Trial],
        cost_name: &'static str,
        folder: &Path,
    ) -> Result<Self> {
        let mut ranking: Vec<&Trial> = trials.iter().collect();
        ranking.sort_by(|a, b| b.is_complete.cmp(&a.is_complete).then(a.compare(b)));
        let row = |trial: &Trial| -> Result<Row> {
            let all = serde_json::to_value(&trial.settings).map_err(std::io::Error::from)?;
            let drawn = search
                .ranges
                .names()
                .map(|name| (name.into(), all[name].clone()));
            let mean = trial.mean();
            Ok(Row {
                trial: trial.number,
                settings: drawn.collect(),
                cost: BTreeMap::from([(cost_name, mean.map(|mean| mean.cost))]),
                error: mean.map(|mean| mean.error),
                diverged: trial.has_diverged(),
                folds: trial.judgements.len(),
            })
        };
        Ok(Self {
            config: folder.join("config.toml").display().to_string(),
            trials: ranking.into_iter().map(row).collect::<Result<_>>()?,
        })
    }

    /// Writes `trials.csv`.
    fn write(&self, folder: &Path) -> Result<()> {
        let rows = self.trials.iter().map(|row| row.entries(f64::to_string));
        let bytes = csv_bytes(&self.heads(), rows)?;
        write_whole(&folder.join("trials.csv"), &bytes)
    }

    fn print(&self) -> Result<()> {
        let line = |entries: Vec<String>| print(format_args!("| {} |", entries.join(" | ")));
        let heads = self.heads();
        line(heads.iter().map(ToString::to_string).collect())?;
        line(vec!["---".into(); heads.len()])?;
        let rounded = |&value: &f64| number(value);
        for row in self.trials.iter().take(SHOWN) {
            line(row.entries(rounded))?;
        }
        let rest = self.trials.len().saturating_sub(SHOWN);
        if rest > 0 {
            print(format_args!("\n{rest} more trials are in trials.csv"))?;
        }
        print(format_args!(
            "\n`burn-bayes fit --config {} --out DIR` fits the best",
            self.config
        ))
    }

    fn heads(&self) -> Vec<&str> {
        let row = self.trials.first();
        let drawn = row.into_iter().flat_map(|row| row.settings.keys());
        let cost = row.into_iter().flat_map(|row| row.cost.keys().copied());
        ["trial"]
            .into_iter()
            .chain(drawn.map(String::as_str))
            .chain(cost)
            .chain(["error", "diverged", "folds"])
            .collect()
    }
}

impl Row {
    fn entries(&self, shown: impl Fn(&f64) -> String) -> Vec<String> {
        let setting = |value: &Value| match (value.as_f64(), value) {
            (Some(number), Value::Number(whole)) if whole.is_f64() => shown(&number),
            (_, Value::String(text)) => text.clone(),
            _ => value.to_string(),
        };
        let score = |score: Option<f64>| score.as_ref().map_or("–".into(), &shown);
        [self.trial.to_string()]
            .into_iter()
            .chain(self.settings.values().map(setting))
            .chain(self.cost.values().copied().map(score))
            .chain([
                score(self.error),
                if self.diverged { "yes" } else { "no" }.into(),
                self.folds.to_string(),
            ])
            .collect()
    }
}
