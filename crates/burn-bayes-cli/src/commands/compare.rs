//! `compare`: several methods and settings, and plain models, on the same folds of the same rows.

use std::path::PathBuf;

use burn_bayes_tabular::Result;
use burn_bayes_tabular::experiments::comparison::{Comparison, Runs};
use burn_bayes_tabular::experiments::jobs::{self, ResultCache, threads};
use burn_bayes_tabular::rows::SplitTable;
use burn_bayes_tabular::settings::{Method, PlainName};
use clap::Args;

use super::{Fits, JobFlags, OF_ONE_RUN};
use crate::console::{busy, command_line, print, print_json, tell, warn};
use crate::settings::{ConfigFlags, choice, variant};

/// What to compare, and how often.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the runs and the table
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Methods to compare, separated by commas
    #[arg(
        long,
        value_name = "METHODS",
        value_delimiter = ',',
        value_parser = choice::<Method>(),
        default_value = "map,vifa,swag,slang,mclmc"
    )]
    methods: Vec<Method>,
    /// Settings to compare as well, such as 'model=linear epochs=50', with every method, or with one by method=NAME; may be
    /// given several times
    #[arg(long, value_name = "SETTINGS", allow_hyphen_values = true)]
    variant: Vec<String>,
    /// Plain models to compare with, separated by commas
    #[arg(
        long,
        value_name = "MODELS",
        value_delimiter = ',',
        value_parser = choice::<PlainName>(),
        default_value = "linear,forest"
    )]
    plain: Vec<PlainName>,
    /// Compare with no plain models
    #[arg(long, conflicts_with = "plain")]
    no_plain: bool,
    /// Number of random re-splits of the rows, each with another seed for the fits; with --time there is one
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// Number of cross-validation folds; each is the test set once
    #[arg(long, value_name = "N", default_value_t = 5)]
    folds: usize,
    /// File of new rows, for which every method predicts intervals of numbers by cross-validation (CV+)
    #[arg(long, value_name = "FILE", requires = "conformal")]
    predict: Option<PathBuf>,
    /// The probability with which these intervals contain the target of a new row
    #[arg(long, value_name = "LEVEL", requires = "predict")]
    conformal: Option<f64>,
    #[command(flatten)]
    jobs: JobFlags,
    #[command(flatten)]
    settings: ConfigFlags,
}

/// Options of `fit` that do not apply here.
const REFUSED: [(&str, &str); 5] = [
    ("method", "names one method; use `--methods` to name all"),
    (
        "validation",
        "is not used here, because every row is in a test fold once; leave it out",
    ),
    ("validation_file", "is not used here; leave it out"),
    ("against_map", "is not used here; name map in `--methods`"),
    (
        "checkpoint_every",
        "is not used here; `--resume` continues with the next fit; leave it out",
    ),
];

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments
        .settings
        .refuse(OF_ONE_RUN.into_iter().chain(REFUSED))?;
    let mut config = arguments.settings.config()?;
    let variants = arguments.variant.iter().map(|text| variant(text));
    let variants = variants.collect::<Result<Vec<_>>>()?;
    // Before the file is read, which may take long.
    for variant in &variants {
        variant.of(&config)?;
    }
    if config.fit.members > 1 {
        warn("single fits are compared: `members` of the configuration is not used");
    }
    let inputs = [
        config.data.path.as_deref(),
        arguments.predict.as_deref(),
        arguments.settings.file(),
    ];
    super::expect_outputs(
        &arguments.out,
        &Comparison::FILES,
        inputs.into_iter().flatten(),
    )?;
    let table = super::read(&mut config)?;
    let mut runs = Runs::new(
        config,
        &arguments.methods,
        &variants,
        if arguments.no_plain {
            &[]
        } else {
            &arguments.plain
        },
        arguments.repeats,
        arguments.folds,
    )?;
    if let (Some(path), Some(level)) = (&arguments.predict, arguments.conformal) {
        runs = runs.with_new_rows(path, level)?;
    }
    let config = runs.config();
    let rows = SplitTable::deal(table, &config.data, config.fit.seed)?;
    let choices = busy("choosing the scales", || {
        runs.choose_scales(&rows, threads(None))
    })?;
    for (variant, choice) in choices {
        match variant {
            Some(variant) => tell(format_args!("chosen for {variant}: {choice}")),
            None => tell(format_args!("chosen: {choice}")),
        }
    }
    let (fits, positive) = runs.of_rows(&rows)?;
    let [finished, ..] = Comparison::FILES;
    let cache = ResultCache::begin(&arguments.out, finished, arguments.jobs.existing())?;
    let shown = Fits::of("compare", arguments.jobs.resume);
    let records = jobs::run(&fits, &cache, threads(arguments.jobs.threads), &shown)?;
    let positive = positive.as_deref();
    let comparison = Comparison::of(command_line(), positive, &runs.names(), &records)?
        .with_intervals(&runs, &rows, &records)?;
    super::warn_of_far(comparison.far());
    comparison.write(&arguments.out)?;
    comparison.write_leaderboard(&arguments.out, runs.config())?;
    comparison.expect_scores()?;
    match arguments.jobs.output.json {
        true => print_json(&comparison),
        false => print(comparison.markdown()),
    }
}
