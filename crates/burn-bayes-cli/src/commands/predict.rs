//! `predict`: what a run says of the rows of a file.

use std::io;
use std::path::{Path, PathBuf};

use burn_bayes_data::{BadRows, CsvReader, Task};
use clap::Args;

use crate::console::{RowCounter, tell};
use crate::distinct::distinct;
use crate::failure::{Failure, Result};
use crate::files::{Output, at};
use crate::new_rows::{BadRowsName, NewRows};
use crate::prediction_table::{DEVIATIONS, EPISTEMIC, PredictionTable};
use crate::run::{Run, RunFolder};
use crate::selection::threshold_at_risk;
use crate::settings::{DeviceName, FileFlags, Words, refused};
use crate::uncertainty::Uncertainty;

/// Which rows, and what to say of them.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of a finished fit
    run: PathBuf,
    /// File of rows; other columns than the features are passed over, but for those of --keep
    rows: PathBuf,
    /// File for the predictions; standard output by default
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Columns of the file to copy into the predictions, with commas between them
    #[arg(long, value_name = "COLUMNS")]
    keep: Option<Words>,
    /// What is done about a row that cannot be predicted
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    bad_rows: BadRowsName,
    /// Draws of the weights; as the fit says by default, and always with --target-risk
    #[arg(long)]
    draws: Option<usize>,
    /// Where to compute: flex, wgpu, cuda or cuda:1; as the fit says by default
    #[arg(long)]
    device: Option<DeviceName>,
    /// Quantiles of a regression, with commas between them [default: 0.05,0.5,0.95]
    #[arg(long, value_delimiter = ',')]
    quantiles: Option<Vec<f64>>,
    /// Score by which rows are kept or referred; entropy of classes and std of numbers by default
    #[arg(long)]
    score: Option<String>,
    /// Refer the rows whose score is above this
    #[arg(
        long,
        value_name = "SCORE",
        conflicts_with = "target_risk",
        allow_negative_numbers = true
    )]
    abstain_above: Option<f64>,
    /// Refer as many rows as it takes for the others to be wrong no more often than this
    #[arg(long, value_name = "RISK")]
    target_risk: Option<f64>,
    /// How sure that promise is to be
    #[arg(long, default_value_t = 0.95, requires = "target_risk")]
    confidence: f64,
    /// Write a JSON object for every row in the place of CSV
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: FileFlags,
}

/// Rows that are read, predicted and written at once.
const PIECE: usize = 8192;
/// The quantiles of a regression, unless others are asked for.
const QUANTILES: [f64; 3] = [0.05, 0.5, 0.95];

/// Predicts.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = RunFolder::open(&arguments.run)?;
    let run = super::loaded(&folder, arguments.device)?;
    let levels = levels(arguments, run.preprocessor.task())?;
    let draws = run.draws(arguments.draws)?;
    let decision = decision(arguments, &folder, &run, draws)?;
    expect_another(arguments, &folder)?;
    let mut reader = reader(&run, arguments)?;
    let mut sheet = Sheet {
        output: Output::new(arguments.output.as_deref())?,
        json: arguments.json,
        has_header: false,
    };
    // Rows on standard output show themselves how far they are.
    let mut progress = arguments.output.as_ref().map(|_| RowCounter::new());
    let (mut read, mut left_out) = (0, 0);
    while let Some(table) = reader.next_table(PIECE)? {
        let piece = NewRows::of(&run, &table, arguments.bad_rows)?;
        let predictions = run.fitted.predict(&piece.features, draws)?;
        let mut predicted = PredictionTable::new(&predictions, &levels)?;
        predicted = predicted.spread(&piece.predicted, piece.rows.len());
        if let Some((score, threshold)) = &decision {
            predicted = predicted.with_decisions(score, *threshold)?;
        }
        if arguments.bad_rows == BadRowsName::Mark {
            predicted = predicted.with_problems(piece.problems);
        }
        let places = piece.rows.iter().map(|row| read + row).collect();
        let copied = kept(arguments).into_iter().map(|name| {
            let cell = |&row: &usize| table.text(&name, row).unwrap_or_default().to_string();
            let cells = piece.rows.iter().map(cell).collect();
            (name, cells)
        });
        sheet.write(&predicted.after(places, copied.collect())?)?;
        read += table.rows();
        left_out += table.rows() - piece.rows.len();
        if let Some(progress) = &mut progress {
            progress.count(table.rows());
        }
    }
    if left_out > 0 {
        tell(format_args!(
            "{left_out} of {read} rows are left out; they have a missing cell"
        ));
    }
    sheet.output.finish()
}

/// The columns that are copied.
fn kept(arguments: &Arguments) -> Vec<String> {
    let names = arguments
        .keep
        .iter()
        .flat_map(|words| words.0.iter().cloned());
    distinct(names, String::clone)
}

/// Where rows go, in which format.
struct Sheet {
    output: Output,
    json: bool,
    has_header: bool,
}

impl Sheet {
    fn write(&mut self, table: &PredictionTable) -> Result<()> {
        let path = self.output.path().to_path_buf();
        let written = match self.json {
            true => table.write_objects(&mut self.output),
            false => self.write_csv(table),
        };
        written.map_err(at(&path))
    }

    fn write_csv(&mut self, table: &PredictionTable) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(&mut self.output);
        if !std::mem::replace(&mut self.has_header, true) {
            table.write_header(&mut writer)?;
        }
        table.write_rows(&mut writer)?;
        writer.flush()
    }
}

/// The rows, without the target, which may be missing or not known yet.
fn reader(run: &Run, arguments: &Arguments) -> Result<CsvReader<'static>> {
    let options = arguments.file.csv_options(&run.config.data);
    let mut options = run.preprocessor.csv_options(options);
    // Marked here and, unless that is asked for, refused where they are used.
    options = options
        .with_bad_rows(BadRows::Mark)
        .with_kept(kept(arguments));
    if let Some(only) = &mut options.only {
        only.remove(run.preprocessor.target_name());
    }
    Ok(CsvReader::open(&arguments.rows, options)?)
}

/// The probabilities of the quantiles; none of classes.
fn levels(arguments: &Arguments, task: Task) -> Result<Vec<f64>> {
    let asked = arguments.quantiles.as_deref();
    match (task, asked) {
        (Task::Classification, None) => Ok(Vec::new()),
        (Task::Classification, Some(_)) => {
            let problem = "are of numbers, and the run predicts classes; leave them out";
            Err(refused("quantiles", problem))
        }
        (Task::Regression, _) => {
            let levels = asked.unwrap_or(&QUANTILES);
            for (place, &level) in levels.iter().enumerate() {
                expect_share("quantiles", level)?;
                if levels[..place].contains(&level) {
                    return Err(refused("quantiles", format!("have {level} twice")));
                }
            }
            Ok(levels.to_vec())
        }
    }
}

/// Refuses what is no share of something and of its rest.
fn expect_share(option: &str, share: f64) -> Result<()> {
    match share > 0.0 && share < 1.0 {
        true => Ok(()),
        false => Err(refused(option, format!("is {share}; it must be in (0, 1)"))),
    }
}

/// The score that decides, and the greatest value at which a row is kept.
fn decision(
    arguments: &Arguments,
    folder: &RunFolder,
    run: &Run,
    draws: usize,
) -> Result<Option<(String, f64)>> {
    let score = score(arguments, run.preprocessor.task())?;
    let decides = arguments.abstain_above.is_some() || arguments.target_risk.is_some();
    if decides && run.fitted.draws(draws) == 1 && compares_draws(&score) {
        let problem = format!(
            "is `{score}`, which says how draws of the weights differ, and there is one draw; leave it out"
        );
        return Err(refused("score", problem));
    }
    if let Some(threshold) = arguments.abstain_above {
        return match threshold.is_nan() {
            true => Err(refused("abstain-above", "is NaN; it must be a number")),
            false => Ok(Some((score, threshold))),
        };
    }
    let Some(risk) = arguments.target_risk else {
        return match arguments.score {
            Some(_) => Err(refused(
                "score",
                "decides nothing without `--abstain-above` or `--target-risk`",
            )),
            None => Ok(None),
        };
    };
    let Some(classes) = run.preprocessor.classes() else {
        let problem = "is for classification; give a threshold with `--abstain-above`";
        return Err(refused("target-risk", problem));
    };
    if let Some(draws) = arguments.draws {
        let problem = format!(
            "is {draws}, and the promise of `--target-risk` is of the {} draws of the fit; leave it out",
            run.config.fit.draws
        );
        return Err(refused("draws", problem));
    }
    expect_share("target-risk", risk)?;
    expect_share("confidence", arguments.confidence)?;
    let known = Uncertainty::ALL
        .into_iter()
        .find(|known| known.name() == score);
    let known = known.ok_or_else(|| Failure::Usage(format!("`{score}` is no score")))?;
    let rows = run.validation_file(folder)?.ok_or_else(|| {
        let problem = "needs validation rows, and the run has none; fit with `--validation 0.2`, or \
                       give a threshold with `--abstain-above`";
        refused("target-risk", problem)
    })?;
    let point = threshold_at_risk(&rows, known, classes.len(), risk, arguments.confidence)?;
    tell(format_args!(
        "keeps rows with {score} up to {:.4}: on {} validation rows of {:.1} % kept, {:.4} were wrong, \
         and at confidence {} at most {:.4} will be",
        point.threshold,
        point.kept,
        100.0 * point.coverage,
        point.risk.unwrap_or(0.0),
        arguments.confidence,
        point.risk_upper
    ));
    Ok(Some((score, point.threshold)))
}

fn compares_draws(score: &str) -> bool {
    let of_classes = |known: &Uncertainty| known.name() == score && known.needs_draws();
    score == EPISTEMIC || Uncertainty::ALL.iter().any(of_classes)
}

/// Refuses to write over what is read.
fn expect_another(arguments: &Arguments, folder: &RunFolder) -> Result<()> {
    let Some(output) = &arguments.output else {
        return Ok(());
    };
    let is_output = |path: &Path| match (path.canonicalize(), output.canonicalize()) {
        (Ok(path), Ok(output)) => path == output && output.is_file(),
        _ => false,
    };
    if is_output(&arguments.rows) || folder.files().iter().any(|file| is_output(file)) {
        let problem = format!(
            "is {}, which would be lost; name another file",
            output.display()
        );
        return Err(refused("output", problem));
    }
    Ok(())
}

/// The name of the score, if it is one of the task's.
fn score(arguments: &Arguments, task: Task) -> Result<String> {
    let names: Vec<&str> = match task {
        Task::Classification => Uncertainty::ALL.iter().map(|score| score.name()).collect(),
        Task::Regression => DEVIATIONS.to_vec(),
    };
    let name = arguments.score.as_deref().unwrap_or(names[0]);
    match names.contains(&name) {
        true => Ok(name.into()),
        false => {
            let problem = format!("is `{name}`; use one of {}", names.join(", "));
            Err(refused("score", problem))
        }
    }
}
