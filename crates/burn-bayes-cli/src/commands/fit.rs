//! `fit`: fits a model to a file of rows, and writes posterior, scores and report to a run folder.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use burn_bayes_data::OneOrSeveral;
use burn_bayes_tabular::Result;
use burn_bayes_tabular::report::number;
use burn_bayes_tabular::run::{EnsembleFit, FinishedFit, FolderFit, RunFolder, Start, TrainedRun};
use burn_bayes_tabular::settings::{Config, FitSettings, refused};
use clap::Args;

use super::{Fits, OutputFlags, chosen};
use crate::console::{
    Console, busy, command_line, print, print_baselines, print_json, print_scores, tell,
};
use crate::interruption;
use crate::settings::{ConfigFlags, with_options};

/// What to fit, and where to write it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the results of the fit
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Continue the interrupted fit in the folder, or, with --budget or --until-rhat, the chains of a finished one
    #[arg(long)]
    resume: bool,
    /// Replace the run in the folder
    #[arg(long, conflicts_with = "resume")]
    overwrite: bool,
    /// Number of members of an ensemble that are fitted at the same time [default: 1]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    settings: ConfigFlags,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let start_time = Instant::now();
    let mut config = config(arguments)?;
    if arguments.threads.is_some() && config.fit.members == 1 {
        let problem = "is the number of members that are fitted at the same time; give `--members`, or leave it out: other fits use all cores";
        return Err(refused("threads", problem));
    }
    RunFolder::expect_no_input(&arguments.out, &config.data)?;
    if !(arguments.resume || arguments.overwrite) {
        RunFolder::check_free(&arguments.out)?;
    }
    let rows = chosen(&mut config)?;
    let command = command_line();
    let start = match (arguments.resume, arguments.overwrite) {
        (true, _) => Start::Resumed,
        (false, true) => Start::Instead(&command),
        (false, false) => Start::New(&command),
    };
    let mut finished = match config.fit.members {
        1 => {
            let fit = FolderFit::new(&arguments.out, config, rows, start)?;
            tell_notes(arguments, fit.settings(), fit.scored_rows());
            interruption::continue_by(fit.continuation());
            finished(fit)?
        }
        _ => {
            let fit = EnsembleFit::new(&arguments.out, config, rows, start)?;
            tell_notes(arguments, fit.settings(), fit.scored_rows());
            interruption::continue_by(fit.continuation());
            if let Some(threads) = arguments.threads.filter(|threads| threads.get() > 1) {
                let shown = Fits::continued_by("fit", fit.continuation());
                fit.fit_in_parallel(threads.get(), &shown)?;
            }
            finished_ensemble(fit)?
        }
    };
    finished.seconds = start_time.elapsed().as_secs_f64();
    match arguments.output.json {
        true => print_json(&finished)?,
        false => show(&finished)?,
    }
    finished.failure.map_or(Ok(()), Err)
}

/// Says which settings have no effect.
fn tell_notes(arguments: &Arguments, settings: &FitSettings, scored_rows: usize) {
    for (name, other) in arguments.settings.without_effect(settings) {
        let name = arguments.settings.shown_name(name);
        tell(format_args!("note: {name} has no effect with {other}"));
    }
    for (name, is_given) in [
        ("against_map", settings.against_map),
        ("patience", settings.patience.is_some()),
        ("refit", settings.refit),
    ] {
        if is_given && scored_rows == 0 {
            let name = arguments.settings.shown_name(name);
            tell(format_args!(
                "note: {name} has no effect without held-out rows"
            ));
        }
    }
}

/// Trains and scores.
fn finished(mut fit: FolderFit) -> Result<FinishedFit> {
    let model = trained(&mut fit)?;
    match fit.scored_rows() {
        0 => fit.finish(&model),
        rows => busy(format_args!("scoring {rows} rows"), || fit.finish(&model)),
    }
}

/// Fits the members that are not finished, one after the other, and scores the ensemble.
fn finished_ensemble(fit: EnsembleFit) -> Result<FinishedFit> {
    for (place, name) in fit.fits.names().into_iter().enumerate() {
        let Some(member) = fit.fits.fit(place)? else {
            tell(format_args!("{name} is finished"));
            continue;
        };
        tell(format_args!("{name}"));
        let finished = finished(member)?;
        if finished.assessment.verdict.is_some() {
            tell(with_options(&finished.assessment.to_string()));
        }
    }
    match fit.scored_rows() {
        0 => fit.finish(),
        rows => busy(format_args!("scoring {rows} rows"), || fit.finish()),
    }
}

/// The settings of this fit.
fn config(arguments: &Arguments) -> Result<Config> {
    if arguments.resume {
        let folder = RunFolder::open(&arguments.out)?;
        let mut config = folder.config()?;
        let is_changed = arguments.settings.go_on(&mut config)?;
        if is_changed && config.fit.members > 1 {
            let problem = "goes on with a single fit, and the folder has those of an ensemble; leave out all other options";
            return Err(refused("resume", problem));
        }
        if folder.is_finished() {
            let path = arguments.out.display();
            let problem = match (is_changed, folder.can_go_on()) {
                (true, true) => return Ok(config),
                (false, true) => "is finished; with a longer `--budget` its chains go on",
                (_, false) => "is finished",
            };
            return Err(refused(
                "resume",
                format!("has nothing to do: {path} {problem}"),
            ));
        }
        return Ok(config);
    }
    arguments.settings.config()
}

/// Trains; an interruption saves a checkpoint first.
fn trained(fit: &mut FolderFit) -> Result<TrainedRun> {
    interruption::postpone()?;
    let model = fit.train(&mut Console::new())?;
    // Scoring and the report have no state to save: an interruption may end the process again.
    interruption::restore_handler()?;
    Ok(model)
}

fn show(fit: &FinishedFit) -> Result<()> {
    let FinishedFit {
        run, method, model, ..
    } = fit;
    let members = match fit.members {
        Some(members) => format!("{members} members, each "),
        None => String::new(),
    };
    print(format_args!(
        "{members}{method} of {model}, {} weights, on {} rows in {:.1} s",
        fit.weights, fit.training_rows, fit.seconds
    ))?;
    if let Some(epoch) = fit.best_epoch {
        print(format_args!("the best epoch was {epoch}"))?;
    }
    if fit.is_refitted {
        print("the model was fitted again to all rows; the scores are those of the fit before")?;
    }
    let precisions = fit.noise_precision.iter().flat_map(OneOrSeveral::as_slice);
    for (target, precision) in fit.targets.iter().zip(precisions) {
        let of_target = match fit.targets.len() {
            1 => String::new(),
            _ => format!(" of {target}"),
        };
        let (precision, deviation) = (number(*precision), number(precision.powf(-0.5)));
        print(format_args!(
            "noise precision{of_target} {precision} (standard deviation {deviation})"
        ))?;
    }
    if let Some(precisions) = &fit.learned_prior {
        let precisions: Vec<String> = precisions.iter().copied().map(number).collect();
        print(format_args!("prior precision {}", precisions.join(", ")))?;
    }
    if let Some(kernel) = &fit.kernel {
        print(format_args!(
            "kernel {kernel}, on the standardised scales of inputs and target"
        ))?;
    }
    if fit.has_exact_posterior {
        print(
            "the posterior of a linear regression can be computed exactly: use `--method exact`",
        )?;
    }
    if fit.assessment.verdict.is_some() {
        print(with_options(&fit.assessment.to_string()))?;
    }
    if let Some(scores) = &fit.scores {
        if let Some(recalibration) = &scores.recalibration {
            print(format_args!("{recalibration}"))?;
        }
        print(format_args!("scores of the held-out rows:"))?;
        print_scores(&scores.scores)?;
        print_baselines(&scores.scores, &scores.assessment.baselines)?;
    }
    print(format_args!("the run is in {}", run.display()))
}
