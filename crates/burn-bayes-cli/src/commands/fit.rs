//! `fit`: from a file of rows to a run folder with a posterior and its scores.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use burn_bayes_tabular::Result;
use burn_bayes_tabular::engine::{EpochRecord, Observer, TrainedModel};
use burn_bayes_tabular::report::number;
use burn_bayes_tabular::run::{FinishedFit, FolderFit, RunFolder, Start};
use burn_bayes_tabular::settings::{Config, refused};
use clap::Args;

use super::prepared;
use crate::console::{Console, busy, command_line, print, print_json, print_scores, tell, warn};
use crate::interruption;
use crate::settings::ConfigFlags;

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

/// Fits.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let start_time = Instant::now();
    let config = config(arguments)?;
    let rows = prepared(&config)?;
    let command = command_line();
    let start = match arguments.resume {
        true => Start::Resumed,
        false => Start::New(&command),
    };
    let fit = FolderFit::new(&arguments.out, config, rows, start)?;
    let fitted = trained(&fit)?;
    let mut finished = match fit.scored_rows() {
        0 => fit.finish(&fitted)?,
        rows => busy(format_args!("scoring {rows} rows"), || fit.finish(&fitted))?,
    };
    finished.seconds = start_time.elapsed().as_secs_f64();
    match arguments.json {
        true => print_json(&finished)?,
        false => show(&finished)?,
    }
    finished.failure.map_or(Ok(()), Err)
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
    for setting in arguments.settings.unused(&config.fit) {
        let method = config.fit.method;
        tell(format_args!(
            "note: `{setting}` changes nothing with {method}"
        ));
    }
    Ok(config)
}

/// Trains; an interruption leaves a checkpoint.
fn trained(fit: &FolderFit) -> Result<TrainedModel> {
    interruption::continue_by(fit.continuation());
    interruption::postpone()?;
    let fitted = fit.train(&mut Shown(Console::new()))?;
    // What is left, scores and a report, has nothing to save.
    interruption::restore_handler()?;
    Ok(fitted)
}

/// Shows epochs, and stops when it is asked to.
struct Shown(Console);

impl Observer for Shown {
    fn epoch(
        &mut self,
        record: &EpochRecord,
        _so_far: &dyn Fn() -> Result<TrainedModel>,
    ) -> ControlFlow<()> {
        self.0.epoch(record);
        ControlFlow::Continue(())
    }

    fn interrupts(&self) -> bool {
        interruption::is_asked()
    }

    fn warn(&mut self, warning: &str) {
        warn(warning);
    }
}

fn show(fit: &FinishedFit) -> Result<()> {
    let FinishedFit {
        run, method, model, ..
    } = fit;
    print(format_args!(
        "{method} of {model}, {} weights, on {} rows in {:.1} s",
        fit.weights, fit.training_rows, fit.seconds
    ))?;
    if let Some(precision) = fit.noise_precision {
        let (precision, deviation) = (number(precision), number(precision.powf(-0.5)));
        print(format_args!(
            "noise precision {precision}, a deviation of {deviation}"
        ))?;
    }
    if let Some(scores) = &fit.scores {
        print(format_args!("on the rows that were held out:"))?;
        print_scores(&scores.scores)?;
    }
    print(format_args!("{} holds the run", run.display()))
}
