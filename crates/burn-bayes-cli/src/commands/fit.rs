//! `fit`: from a file of rows to a run folder with a posterior and its scores.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use burn_bayes_data::Dataset;
use clap::Args;
use serde::Serialize;

use crate::console::{Console, busy, print, print_json, print_scores, tell};
use crate::engine::{self, Checkpoint, EpochRecord, Fitted, Observer};
use crate::failure::{Failure, Result};
use crate::interruption;
use crate::problem::Problem;
use crate::report::number;
use crate::rows::PreparedRows;
use crate::run::{
    EpochMetrics, MetricsFile, RunFolder, Validation, WatchedRows, report_failure, validate,
};
use crate::search::Judgement;
use crate::settings::{Config, ConfigFlags, FitSettings, NoisePrecision, refused};

/// What to fit, and where to put it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for everything that the fit leaves
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Go on with the interrupted fit in the folder
    #[arg(long)]
    resume: bool,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: ConfigFlags,
}

/// What is said of a finished fit.
#[derive(Debug, Serialize)]
struct Outcome<'a> {
    run: &'a str,
    method: String,
    model: String,
    training_rows: usize,
    weights: usize,
    /// K; null where there is no posterior.
    rank: Option<usize>,
    /// 1/variance of the noise in the target's own unit; null for classes.
    noise_precision: Option<f64>,
    seconds: f64,
    /// Of the rows that were held out; null if there were none.
    scores: Option<&'a Validation>,
}

/// Draws under which training rows are predicted to see whether all is finite.
const CHECKED_DRAWS: usize = 10;
/// What may help against a fit that has diverged.
const CURE: &str = "lower `learning_rate`, give more `epochs`, or choose another `method`";

/// Fits.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let start = Instant::now();
    let config = config(arguments)?;
    let rows = PreparedRows::read(&config.data, config.fit.seed)?;
    let fingerprint = rows.fingerprint();
    let PreparedRows {
        preprocessor,
        train: problem,
        validation,
        validation_rows,
    } = rows;
    let weights = engine::check(&problem, &config.fit)?;

    let folder = match arguments.resume {
        true => RunFolder::resume(&arguments.out)?,
        false => RunFolder::create(&arguments.out, &config)?,
    };
    folder.remove_validation()?;
    let watched = validation.as_ref();
    let watched = watched.map(|rows| WatchedRows::new(rows, &problem, &config.fit, weights));
    let scored = || {
        let fitted = trained(&folder, &problem, fingerprint, &config, watched)?;
        folder.save_fitted(&fitted)?;
        let rows = validation.as_ref().map(|rows| (rows, validation_rows));
        let scores = scores(&folder, &config, &fitted, &problem, rows)?;
        Ok((fitted, scores))
    };
    let (fitted, scores) = match scored() {
        Err(Failure::Numerical(reason)) => {
            report_failure(&folder, &config, problem.meaning(), &reason)?;
            return Err(Failure::Numerical(reason));
        }
        scored => scored?,
    };
    preprocessor.save(folder.preprocessor_file())?;
    let diverged = scores.as_ref().and_then(|scores| scores.diverged.clone());
    folder.finish(&config, &fitted, diverged.clone())?;

    let run = arguments.out.display().to_string();
    let outcome = Outcome {
        run: &run,
        method: config.fit.method.to_string(),
        model: config.fit.model.to_string(),
        training_rows: problem.rows(),
        weights: fitted.weights(),
        rank: fitted.posterior().map(|posterior| posterior.rank()),
        noise_precision: fitted.own_noise_precision(),
        seconds: start.elapsed().as_secs_f64(),
        scores: scores.as_ref(),
    };
    match arguments.json {
        true => print_json(&outcome)?,
        false => outcome.print()?,
    }
    match diverged {
        None => Ok(()),
        Some(reason) => Err(diverged_by(&reason, &config.fit)),
    }
}

/// Scores the rows that were held out, from their places of the file. Where there are none, the predictions of the training rows must
/// be finite.
fn scores(
    folder: &RunFolder,
    config: &Config,
    fitted: &Fitted,
    train: &Problem,
    held_out: Option<(&Dataset, Vec<usize>)>,
) -> Result<Option<Validation>> {
    let Some((rows, places)) = held_out else {
        return expect_finite(fitted, train, &config.fit).map(|()| None);
    };
    let what = format!("scoring {} rows", rows.rows());
    let scored = || validate(folder, config, fitted, train, rows, places);
    busy(what, scored).map(Some)
}

/// Refuses a fit under which the NLL of its training rows is not finite.
fn expect_finite(fitted: &Fitted, train: &Problem, settings: &FitSettings) -> Result<()> {
    for piece in train.pieces() {
        let predictions = fitted.predict(&piece.features()?, CHECKED_DRAWS)?;
        let Judgement { cost, .. } = Judgement::of(&predictions, &piece.true_targets())?;
        if !cost.is_finite() {
            let reason = "the NLL of the training rows is not finite";
            return Err(diverged_by(reason, settings));
        }
    }
    Ok(())
}

/// What is wrong with a fit that has diverged, and what may help.
fn diverged_by(reason: &str, settings: &FitSettings) -> Failure {
    let noise = match settings.noise_precision {
        NoisePrecision::Given(_) => "check `noise_precision`, ",
        NoisePrecision::Learned(_) => "",
    };
    Failure::Numerical(format!("the fit has diverged: {reason}; {noise}{CURE}"))
}

/// The settings of this fit.
fn config(arguments: &Arguments) -> Result<Config> {
    if arguments.resume {
        if arguments.settings != ConfigFlags::default() {
            let problem = "goes on with the settings in the folder; leave all others out";
            return Err(refused("resume", problem));
        }
        let folder = RunFolder::open(&arguments.out)?;
        if folder.is_finished() {
            let path = arguments.out.display();
            return Err(refused(
                "resume",
                format!("has nothing to do: {path} is finished"),
            ));
        }
        return folder.config();
    }
    let config = arguments.settings.config()?;
    for setting in arguments.settings.idle(&config.fit) {
        let method = config.fit.method;
        tell(format_args!(
            "note: `{setting}` changes nothing with {method}"
        ));
    }
    Ok(config)
}

/// Fits anew, or from the checkpoint in the folder if there is one.
fn trained(
    folder: &RunFolder,
    problem: &Problem,
    fingerprint: u64,
    config: &Config,
    watched: Option<WatchedRows>,
) -> Result<Fitted> {
    let checkpoint = folder.load_checkpoint(fingerprint, &config.fit)?;
    let metrics = match &checkpoint {
        Some(checkpoint) => MetricsFile::resume(folder, checkpoint.epochs)?,
        None => MetricsFile::create(folder)?,
    };
    interruption::continue_by(folder.continuation());
    interruption::postpone()?;
    let mut keeper = Keeper {
        folder,
        fingerprint,
        settings: &config.fit,
        watched,
        metrics,
        console: Console::new(),
        failure: None,
    };
    let fitted = match checkpoint {
        Some(checkpoint) => engine::resume(problem, &config.fit, checkpoint, &mut keeper),
        None => engine::fit(problem, &config.fit, &mut keeper),
    };
    keeper.console.clear();
    if let Some(failure) = keeper.failure {
        return Err(failure);
    }
    let fitted = fitted.map_err(|failure| match failure {
        Failure::Interrupted(_) => interruption::failure(),
        other => other,
    })?;
    // What is left, scores and a report, has nothing to save.
    interruption::postpone_no_more()?;
    Ok(fitted)
}

/// Keeps what a fit reports.
struct Keeper<'a> {
    folder: &'a RunFolder,
    /// Of all rows.
    fingerprint: u64,
    settings: &'a FitSettings,
    watched: Option<WatchedRows>,
    metrics: MetricsFile,
    console: Console,
    /// Why the fit was ended.
    failure: Option<Failure>,
}

impl Keeper<'_> {
    /// Adds a line to the metrics.
    fn keep(&mut self, record: &EpochRecord, so_far: &dyn Fn() -> Result<Fitted>) -> Result<()> {
        let watched = self.watched.as_ref();
        let validation = watched.map(|rows| rows.score(record, so_far)).transpose()?;
        self.metrics.push(&EpochMetrics {
            record: record.clone(),
            validation: validation.flatten(),
        })
    }
}

impl Observer for Keeper<'_> {
    fn epoch(
        &mut self,
        record: &EpochRecord,
        so_far: &dyn Fn() -> Result<Fitted>,
    ) -> ControlFlow<()> {
        self.console.epoch(record);
        match self.keep(record, so_far) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.failure = Some(failure);
                ControlFlow::Break(())
            }
        }
    }

    fn interrupts(&self) -> bool {
        interruption::is_asked()
    }

    fn warn(&mut self, warning: &str) {
        self.console.warn(warning);
    }

    fn keeps_checkpoints(&self) -> bool {
        true
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<()> {
        let (rows, settings) = (self.fingerprint, self.settings);
        self.folder.save_checkpoint(&checkpoint, rows, settings)
    }
}

impl Outcome<'_> {
    fn print(&self) -> Result<()> {
        let Self {
            run, method, model, ..
        } = self;
        print(format_args!(
            "{method} of {model}, {} weights, on {} rows in {:.1} s",
            self.weights, self.training_rows, self.seconds
        ))?;
        if let Some(precision) = self.noise_precision {
            let (precision, deviation) = (number(precision), number(precision.powf(-0.5)));
            print(format_args!(
                "noise precision {precision}, a deviation of {deviation}"
            ))?;
        }
        if let Some(scores) = self.scores {
            print(format_args!("on the rows that were held out:"))?;
            print_scores(&scores.scores)?;
        }
        print(format_args!("{run} holds the run"))
    }
}
