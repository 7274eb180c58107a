//! `explain`: what a fit has learned from each column, from predictions of rows in which its cells are replaced.

use std::path::PathBuf;

use burn_bayes_tabular::Result;
use burn_bayes_tabular::files::make_folder;
use burn_bayes_tabular::new_rows::{ExplanationRequest, SimilarRequest};
use burn_bayes_tabular::run::RunFolder;
use burn_bayes_tabular::settings::{DeviceName, Words, refused};
use clap::{ArgAction, Args};

use super::OutputFlags;
use crate::console::{busy, command_line, print, print_json, print_table, tell};
use crate::settings::FileFlags;

/// Which run to explain, and by which rows.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of a finished fit
    run: PathBuf,
    /// File of rows with known targets, best those that were not trained on
    rows: PathBuf,
    /// Folder for the page, explanation.html, and its charts
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Columns to show the effects of, separated by commas [default: the six most important ones]
    #[arg(long, value_name = "COLUMNS", action = ArgAction::Append)]
    columns: Vec<Words>,
    /// Two columns, separated by a comma, to show the effects of the first for values of the second
    #[arg(long, value_name = "COLUMNS", action = ArgAction::Append)]
    pair: Vec<Words>,
    /// Number of training rows to show that the prediction of a row depends on, the most similar ones; 0 for none
    #[arg(long, value_name = "N", default_value_t = 5)]
    similar: usize,
    /// Numbers of the rows of the file to show similar training rows of, separated by commas [default: the first three]
    #[arg(long, value_name = "ROWS", value_delimiter = ',', action = ArgAction::Append)]
    similar_to: Vec<usize>,
    /// Number of weight draws [default: as in the fit]
    #[arg(long)]
    draws: Option<usize>,
    #[command(flatten)]
    file: FileFlags,
    /// Device: flex, wgpu, cuda or cuda:1 [default: as in the fit]
    #[arg(long)]
    device: Option<DeviceName>,
    #[command(flatten)]
    output: OutputFlags,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let inputs = [arguments.rows.as_path()];
    super::expect_no_input(&arguments.out, "explanation.html", "out", inputs)?;
    let folder = RunFolder::open(&arguments.run)?;
    let run = super::loaded(&folder, arguments.device)?;
    let pairs = arguments.pair.iter().map(|words| match &*words.0 {
        [one, other] if one != other => Ok((one.clone(), other.clone())),
        _ => Err(refused(
            "pair",
            "is not two columns, such as `--pair age,crp`",
        )),
    });
    let request = ExplanationRequest {
        columns: super::names(&arguments.columns),
        pairs: pairs.collect::<Result<_>>()?,
        draws: run.draws(arguments.draws)?,
        similar: SimilarRequest {
            count: arguments.similar,
            of: arguments.similar_to.clone(),
        },
    };
    let path = arguments.rows.display();
    let rows = super::known_rows(&run, &arguments.rows, arguments.file.format(), &[], None)?;
    let explanation = busy("predicting rows with replaced cells", || {
        request.explain(&run, &rows)
    })?;
    make_folder(&arguments.out)?;
    let page = arguments.out.join("explanation.html");
    let config = run.config.to_toml()?;
    explanation.write(&format!("rows of {path}"), &command_line(), &config, &page)?;
    let similar = explanation.similar.as_ref();
    let note = similar.and_then(|similar| similar.note.as_deref());
    match arguments.output.json {
        true => print_json(&explanation),
        false => {
            print_table(&explanation.table())?;
            if let Some(note) = &explanation.note {
                tell(format_args!("note: {note}"));
            }
            if let Some(note) = note {
                tell(format_args!("note: no similar training rows: {note}"));
            }
            let also = match similar.is_some() && note.is_none() {
                true => " and the similar training rows",
                false => "",
            };
            print(format_args!(
                "the effects of columns{also} are in {}",
                page.display()
            ))
        }
    }
}
