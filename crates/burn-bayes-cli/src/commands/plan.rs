//! `plan`: what a fit will take, before it is begun.

use clap::Args;
use serde::Serialize;

use crate::console::{print, print_json};
use crate::settings::ConfigFlags;
use burn_bayes_tabular::engine;
use burn_bayes_tabular::error::Result;

/// The options of the fit.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: ConfigFlags,
}

/// What a fit takes.
#[derive(Debug, Serialize)]
struct Plan {
    training_rows: usize,
    features: usize,
    weights: usize,
    /// K; null where there is no posterior.
    rank: Option<usize>,
    /// Bytes of what is trained at once, without the rows and what lies between layers.
    memory: usize,
    /// Bytes of the training rows.
    rows_memory: usize,
    steps: f64,
    seconds_per_step: f64,
    seconds: f64,
}

/// Plans.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let config = arguments.settings.config()?;
    let problem = super::prepared(&config)?.train;
    let weights = engine::check(&problem, &config.fit)?;
    let memory = engine::memory(&config.fit, weights)?;
    if arguments.json {
        let time = engine::time(&problem, &config.fit)?;
        return print_json(&Plan {
            training_rows: problem.rows(),
            features: problem.width(),
            weights,
            rank: engine::rank(&config.fit, weights)?,
            memory: memory.peak(),
            rows_memory: problem.bytes(),
            steps: time.steps,
            seconds_per_step: time.step,
            seconds: time.total(),
        });
    }
    print(format_args!(
        "{} of {}: {weights} weights from {} rows of {} features",
        config.fit.method,
        config.fit.model,
        problem.rows(),
        problem.width()
    ))?;
    print(format_args!(
        "\nmemory of a step, without what lies between layers:\n{memory}\n{:<11}{:>10.2} MiB",
        "rows",
        problem.bytes() as f64 / f64::from(1 << 20)
    ))?;
    // For the steps there may be no memory.
    let time = engine::time(&problem, &config.fit)?;
    print(format_args!(
        "\ntime of training, from the first steps: {:.0} steps of {:.2} ms, {}",
        time.steps,
        1e3 * time.step,
        spoken(time.total())
    ))
}

/// Seconds as a person says them.
fn spoken(seconds: f64) -> String {
    match seconds {
        0.0..120.0 => format!("{seconds:.1} s in all"),
        120.0..7200.0 => format!("{:.1} min in all", seconds / 60.0),
        _ => format!("{:.1} h in all", seconds / 3600.0),
    }
}
