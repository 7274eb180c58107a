//! `plan`: estimates the memory and time of a fit.

use clap::Args;
use serde::Serialize;

use super::OutputFlags;
use crate::console::{print, print_json};
use crate::settings::ConfigFlags;
use burn_bayes_tabular::engine::{self, TimeEstimate};
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::rows::PreparedRows;
use burn_bayes_tabular::settings::FitSettings;

/// The options of the fit.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    settings: ConfigFlags,
}

/// The estimate.
#[derive(Debug, Serialize)]
struct Plan {
    training_rows: usize,
    features: usize,
    weights: usize,
    /// K; null for a point estimate.
    rank: Option<usize>,
    /// Bytes of a training step, without training rows and activations.
    memory: usize,
    /// Bytes of the training rows.
    rows_memory: usize,
    steps: f64,
    seconds_per_step: f64,
    /// The number of fits, one after the other.
    members: usize,
    /// Of all members, and with `refit` of their second fits to all rows.
    seconds: f64,
    /// The same if the chains never agree, and are lengthened.
    most_seconds: f64,
}

/// The time of a fit to the training rows, and with `refit` of the second one to all rows.
struct Times(Vec<TimeEstimate>);

impl Times {
    fn of(rows: &PreparedRows, settings: &FitSettings) -> Result<Self> {
        let all = match settings.refit {
            true => rows.all()?,
            false => None,
        };
        let fits = [&rows.train].into_iter().chain(&all);
        let times = fits.map(|rows| engine::time(rows, settings));
        Ok(Self(times.collect::<Result<_>>()?))
    }

    /// The sum for so many members.
    fn total(&self, members: usize, of_fit: fn(&TimeEstimate) -> f64) -> f64 {
        members as f64 * self.0.iter().map(of_fit).sum::<f64>()
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut config = arguments.settings.config()?;
    let rows = super::chosen(&mut config)?;
    let problem = &rows.train;
    config.fit = engine::in_effect(problem, config.fit);
    let members = config.fit.members;
    let weights = engine::check(problem, &config.fit)?;
    let memory = engine::memory(&config.fit, weights)?;
    if arguments.output.json {
        let times = Times::of(&rows, &config.fit)?;
        let time = times.0[0];
        return print_json(&Plan {
            training_rows: problem.rows(),
            features: problem.width(),
            weights,
            rank: engine::rank(&config.fit, weights)?,
            memory: memory.peak(),
            rows_memory: problem.bytes(),
            steps: time.steps,
            seconds_per_step: time.step,
            members,
            seconds: times.total(members, TimeEstimate::total),
            most_seconds: times.total(members, TimeEstimate::most),
        });
    }
    print(format_args!(
        "{} of {}: {weights} weights from {} rows of {} features",
        config.fit.method,
        config.fit.shape(),
        problem.rows(),
        problem.width()
    ))?;
    print(format_args!(
        "\nmemory of a training step, without activations:\n{memory}\n{:<11}{:>10.2} MiB",
        "rows",
        problem.bytes() as f64 / f64::from(1 << 20)
    ))?;
    // Printed after the memory, because these steps may run out of it.
    let times = Times::of(&rows, &config.fit)?;
    let time = times.0[0];
    let fits = match members {
        1 => String::new(),
        _ => format!("{members} members of "),
    };
    let again = match times.0.len() {
        1 => "",
        _ => ", and again with all rows",
    };
    let [total, most] =
        [TimeEstimate::total, TimeEstimate::most].map(|of_fit| times.total(members, of_fit));
    let longer = match most > total {
        true => format!("; {} if the chains do not agree", spoken(most)),
        false => String::new(),
    };
    print(format_args!(
        "\ntraining time, estimated from the first steps: {fits}{:.0} steps of {:.2} ms{again}, {}{longer}",
        time.steps,
        1e3 * time.step,
        spoken(total)
    ))
}

/// A duration in seconds, minutes or hours.
fn spoken(seconds: f64) -> String {
    match seconds {
        0.0..120.0 => format!("{seconds:.1} s in total"),
        120.0..7200.0 => format!("{:.1} min in total", seconds / 60.0),
        _ => format!("{:.1} h in total", seconds / 3600.0),
    }
}
