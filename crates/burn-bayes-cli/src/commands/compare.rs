//! `compare`: several methods on the same divisions of the same rows.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use burn_bayes_data::KFold;
use clap::Args;

use crate::console::{command_line, print, print_json};
use burn_bayes_tabular::cells::{self, Cell, Key, Ledger, Measures};
use burn_bayes_tabular::comparison::{Comparison, measures};
use burn_bayes_tabular::distinct::distinct;
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::search::Fold;
use burn_bayes_tabular::settings::{ConfigFlags, FitSettings, Method, expect_at_most, refused};

/// What to compare, and how often.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the runs and the table
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Methods to compare, with commas between them
    #[arg(
        long,
        value_name = "METHODS",
        value_delimiter = ',',
        default_value = "map,mean-field,vifa,swag,slang"
    )]
    methods: Vec<Method>,
    /// How often the rows are dealt anew, with a new seed for the fits
    #[arg(long, value_name = "N", default_value_t = 5)]
    seeds: usize,
    /// Folds of the rows, each of which is the test set once
    #[arg(long, value_name = "N", default_value_t = 5)]
    splits: usize,
    /// Use again what the folder holds of these runs
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

/// Options of `fit` that say nothing here.
const REFUSED: [(&str, &str); 3] = [
    ("method", "is of one fit; name all methods with `--methods`"),
    (
        "validation",
        "holds rows out, and here every row is a test row once; leave it out",
    ),
    (
        "checkpoint_every",
        "is of one fit, and here `--resume` goes on with the next one; leave it out",
    ),
];

/// Seeds with which a table of runs is still one.
const MOST_SEEDS: usize = 10_000;

/// Compares.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments.settings.refuse(REFUSED)?;
    let mut config = arguments.settings.config()?;
    // Every row is a test row once; none is held out beside.
    config.data.validation = 0.0;
    let methods = distinct(arguments.methods.iter().copied(), |&method| method);
    if methods.len() < 2 {
        return Err(refused(
            "methods",
            "names fewer than two methods; name two or more",
        ));
    }
    expect_at_most("seeds", arguments.seeds, MOST_SEEDS)?;
    if arguments.splits < 2 {
        let problem = format!("is {}; it must be at least 2", arguments.splits);
        return Err(refused("splits", problem));
    }
    let seed = config.fit.seed;
    let rows = super::dealt(&config)?;
    let most = rows.train.len();
    if arguments.splits > most {
        let problem = format!("is {}, and there are {most} rows", arguments.splits);
        return Err(refused("splits", problem));
    }
    let kept = KFold::new(arguments.splits)
        .with_repeats(arguments.seeds)
        .with_seed(seed);
    let preparation = config.data.preprocessor()?;
    let folds = rows
        .divisions(&config.data, kept)?
        .iter()
        .map(|split| Ok(Arc::new(Fold::prepared(&rows.table, &preparation, split)?)))
        .collect::<Result<Vec<_>>>()?;
    let asked = config.data.positive.as_deref();
    let positives = folds.iter().map(|fold| fold.positive(asked));
    let positive = positives.collect::<Result<Vec<_>>>()?[0].map(String::from);
    let case = config.data.path()?.file_stem().unwrap_or_default();
    let case = case.to_string_lossy();
    let mut cells = Vec::new();
    for (run, fold) in folds.iter().enumerate() {
        for &method in &methods {
            let settings = FitSettings {
                method,
                seed: seed.wrapping_add((run / arguments.splits) as u64),
                ..config.fit.clone()
            };
            fold.check(&settings)?;
            cells.push(cell(&case, run, settings, fold, positive.as_deref())?);
        }
    }
    let ledger = Ledger::begin(&arguments.out, "runs.jsonl", arguments.resume)?;
    let crew = super::crew(arguments.threads, &arguments.settings, &config, None)?;
    let records = cells::run(
        &cells,
        &ledger,
        &crew,
        &super::Fits::of("compare", arguments.resume),
    )?;
    let positive = positive.as_deref();
    let comparison = Comparison::of(command_line(), positive, &methods, &records)?;
    comparison.write(&arguments.out)?;
    comparison.expect_scores()?;
    match arguments.json {
        true => print_json(&comparison),
        false => print(comparison.markdown()),
    }
}

/// One fit.
fn cell(
    case: &str,
    run: usize,
    settings: FitSettings,
    fold: &Arc<Fold>,
    positive: Option<&str>,
) -> Result<Cell> {
    let key = Key {
        case: case.into(),
        method: settings.method.to_string(),
        seed: run as u64,
    };
    let everything = (settings.identity(), fold.fingerprint());
    let (fold, class) = (fold.clone(), positive.map(String::from));
    let work =
        move || -> Result<Measures> { Ok(measures(&fold.score(&settings, class.as_deref())?)) };
    match positive {
        Some(class) => Cell::new(key, &(everything, class), work),
        None => Cell::new(key, &everything, work),
    }
}
