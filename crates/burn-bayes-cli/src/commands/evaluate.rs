//! `evaluate`: how well a run predicts the rows of a file whose targets are known.

use std::path::PathBuf;

use burn_bayes_data::read_csv;
use clap::Args;

use crate::failure::Result;
use crate::rows::{true_targets, usable_rows};
use crate::run::{Run, RunFolder};
use crate::scores::Scores;
use crate::settings::refused;

/// Which rows.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of a finished fit
    run: PathBuf,
    /// File of rows with their targets
    rows: PathBuf,
    /// Draws of the weights; as the fit says by default
    #[arg(long)]
    draws: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Scores.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let run = Run::load(&RunFolder::open(&arguments.run)?)?;
    let draws = match arguments.draws {
        Some(0) => return Err(refused("draws", "is 0; it must be at least 1")),
        Some(draws) => draws,
        None => run.config.fit.draws,
    };
    let options = run.preprocessor.csv_options(run.config.data.csv_options());
    let table = read_csv(&arguments.rows, &options)?;
    let rows = usable_rows(&table, &run.config.data);
    let dataset = run.preprocessor.dataset(&table, rows)?;
    let predictions = run.fitted.predict(dataset.features(), draws)?;
    let targets = true_targets(&dataset, run.fitted.meaning());
    let scores = Scores::of(&predictions, &targets)?;
    match arguments.json {
        true => println!(
            "{}",
            serde_json::to_string(&scores).map_err(std::io::Error::from)?
        ),
        false => crate::console::print_scores(&scores),
    }
    Ok(())
}
