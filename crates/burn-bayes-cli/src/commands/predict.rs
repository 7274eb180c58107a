//! `predict`: predicts rows by a run: those of a file, or rows that are given one at a time.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use burn_bayes_data::FarValues;
use burn_bayes_tabular::Result;
use burn_bayes_tabular::error::TabularError;
use burn_bayes_tabular::files::{Output, at, would_overwrite};
use burn_bayes_tabular::new_rows::{BadRowsName, Decision, PredictionRequest, RowPredictor};
use burn_bayes_tabular::predict::{PredictionTable, SampleTable};
use burn_bayes_tabular::run::RunFolder;
use burn_bayes_tabular::settings::{DeviceName, Pairs, Words, refused};
use clap::{ArgAction, Args};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use crate::console::{RowCounter, tell, warn};
use crate::settings::{ConformalFlags, FileFlags, choice};

/// Which rows to predict, and how.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of a finished fit
    run: PathBuf,
    /// File of rows, or - for the standard input; columns that are neither features nor named by --keep are skipped
    #[arg(required_unless_present_any = ["row", "json_lines"])]
    rows: Option<PathBuf>,
    /// Predict this row instead of a file, as age=60,crp=12; features without a value are missing
    #[arg(
        long,
        value_name = "COLUMN=VALUE,...",
        action = ArgAction::Append,
        conflicts_with_all = ["rows", "json_lines", "bad_rows"]
    )]
    row: Vec<Pairs>,
    /// Predict the JSON objects on the lines of the standard input, each with a line of output as soon as it is read
    #[arg(long, conflicts_with_all = ["rows", "output", "json", "bad_rows", "draws_file"])]
    json_lines: bool,
    /// Output file [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Columns of the file to copy into the predictions, separated by commas
    #[arg(long, value_name = "COLUMNS", action = ArgAction::Append)]
    keep: Vec<Words>,
    /// Treatment of rows that cannot be predicted
    #[arg(long, value_name = "WHAT", default_value = "refuse", value_parser = choice::<BadRowsName>())]
    bad_rows: BadRowsName,
    /// Number of weight draws, not with --target-risk or --conformal [default: as in the fit]
    #[arg(long)]
    draws: Option<usize>,
    /// Device: flex, wgpu, cuda or cuda:1 [default: as in the fit]
    #[arg(long)]
    device: Option<DeviceName>,
    /// Quantiles of numbers or counts, separated by commas [default: 0.05,0.5,0.95]
    #[arg(long, value_delimiter = ',')]
    quantiles: Option<Vec<f64>>,
    /// Also write samples of numbers or counts with their noise, a line per row and a column per weight draw
    #[arg(long, value_name = "FILE")]
    draws_file: Option<PathBuf>,
    /// Also write this number of most probable classes, with their probabilities
    #[arg(long, value_name = "K")]
    top: Option<usize>,
    /// Also name the columns of each row that are far from the training rows
    #[arg(long)]
    mark_far: bool,
    /// Also decide by the costs of errors, and perhaps of abstaining: fp=1,fn=20,abstain=0.5 for false positives and false
    /// negatives of two classes, or TRUE:DECIDED=COST for pairs of any classes, with other=COST for those not named
    #[arg(long, value_name = "NAME=COST,...")]
    cost: Option<Pairs>,
    /// Positive class of fp and fn in --cost [default: as in the fit]
    #[arg(long, value_name = "CLASS", requires = "cost")]
    positive: Option<String>,
    /// Uncertainty score for abstaining, of several targets that of one, as price_std [default: entropy for classes, std
    /// for numbers]
    #[arg(long)]
    score: Option<String>,
    /// Abstain from (refer) rows whose score is above this threshold
    #[arg(
        long,
        value_name = "SCORE",
        conflicts_with = "target_risk",
        allow_negative_numbers = true
    )]
    abstain_above: Option<f64>,
    /// Choose the threshold such that at most this fraction of the kept rows is wrong
    #[arg(long, value_name = "RISK")]
    target_risk: Option<f64>,
    /// With --target-risk and a regression: the largest absolute error that is not wrong, in the unit of the target
    #[arg(
        long,
        value_name = "ERROR",
        requires = "target_risk",
        allow_negative_numbers = true
    )]
    tolerance: Option<f64>,
    /// Confidence level of --target-risk
    #[arg(long, default_value_t = 0.95, requires = "target_risk")]
    confidence: f64,
    #[command(flatten)]
    conformal: ConformalFlags,
    /// Write one JSON object per row instead of CSV
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: FileFlags,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = RunFolder::open(&arguments.run)?;
    let mut run = super::loaded(&folder, arguments.device)?;
    if arguments.json_lines {
        let draws = run.draws(arguments.draws)?;
        run = run.with_drawn_networks(draws)?;
    }
    let request = arguments.request();
    let predictor = RowPredictor::new(&folder, &run, &request)?;
    if let Some(decision) = &predictor.decision {
        tell_promise(decision, arguments.confidence);
    }
    if let Some(conformal) = &predictor.conformal {
        tell(conformal.guarantee());
    }
    expect_others(arguments, &folder)?;
    let sheet = Sheet::new(arguments)?;
    match &arguments.rows {
        Some(rows) => predict_file(&predictor, rows, sheet, arguments.output.is_some()),
        None if arguments.json_lines => answer_lines(&predictor, sheet),
        None => predict_given(&predictor, &arguments.row, sheet),
    }
}

/// Predicts the rows of a file, and shows their number if they are not shown themselves.
fn predict_file(
    predictor: &RowPredictor<'_>,
    rows: &Path,
    mut sheet: Sheet,
    counts: bool,
) -> Result<()> {
    let mut pieces = predictor.open(rows)?;
    let mut progress = counts.then(RowCounter::new);
    let (mut read, mut left_out) = (0, 0);
    let mut far: Vec<FarValues> = Vec::new();
    while let Some(piece) = pieces.next_piece()? {
        for found in piece.far {
            match far.iter_mut().find(|known| known.column == found.column) {
                Some(known) => known.count += found.count,
                None => far.push(found),
            }
        }
        sheet.write(&piece.table, piece.samples.as_ref())?;
        read += piece.rows;
        left_out += piece.left_out;
        if let Some(progress) = &mut progress {
            progress.count(piece.rows);
        }
    }
    if left_out > 0 {
        tell(format_args!(
            "{left_out} of {read} rows are left out; they have missing values"
        ));
    }
    super::warn_of_far(&far);
    sheet.finish()
}

/// Predicts the rows on the command line.
fn predict_given(predictor: &RowPredictor<'_>, rows: &[Pairs], mut sheet: Sheet) -> Result<()> {
    let mut given = predictor.given();
    for Pairs(pairs) in rows {
        let pairs = pairs.iter();
        let row = pairs.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        let found = given.predict(&row.collect()).map_err(|error| match error {
            TabularError::Data(problem) => refused("row", problem),
            other => other,
        })?;
        found.far.values().for_each(warn);
        sheet.write(&found.table, found.samples.as_ref())?;
    }
    sheet.finish()
}

/// Answers every line of the standard input with a line, until it ends. Only an error of the system ends it earlier.
fn answer_lines(predictor: &RowPredictor<'_>, mut sheet: Sheet) -> Result<()> {
    let mut given = predictor.given();
    let mut input = io::stdin().lock();
    let (mut line, mut known_far) = (Vec::new(), BTreeSet::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        if !line.trim_ascii().is_empty() {
            let answer = match serde_json::from_slice(&line) {
                Ok(DistinctKeys(row)) => given.predict(&row),
                Err(error) => {
                    let cure =
                        "write one object with the values of a row by column, as {\"age\": 60}";
                    // Of the line that is this row.
                    let error = error
                        .to_string()
                        .replace(" at line 1 column ", " at column ");
                    Err(given.refuse(format_args!("{error}; {cure}")))
                }
            };
            match answer {
                Ok(found) => {
                    let far = found.far.into_iter();
                    far.filter(|(column, _)| known_far.insert(column.clone()))
                        .for_each(|(_, warning)| warn(warning));
                    sheet.write(&found.table, None)?;
                }
                Err(error @ TabularError::System(_)) => return Err(error),
                Err(error) => {
                    let problem = error.to_string();
                    sheet.answer(&json!({ "row": given.rows(), "problem": problem }))?;
                }
            }
            sheet.flush()?;
        }
        line.clear();
    }
    sheet.finish()
}

/// An object of which no two keys are equal.
struct DistinctKeys(Map<String, Value>);

impl<'de> Deserialize<'de> for DistinctKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = DistinctKeys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut entries: M) -> Result<DistinctKeys, M::Error> {
        let mut row = Map::new();
        while let Some((key, value)) = entries.next_entry::<String, Value>()? {
            if row.contains_key(&key) {
                return Err(M::Error::custom(format_args!(
                    "the key `{key}` comes twice"
                )));
            }
            row.insert(key, value);
        }
        Ok(DistinctKeys(row))
    }
}

impl Arguments {
    fn request(&self) -> PredictionRequest {
        PredictionRequest {
            keep: super::names(&self.keep),
            bad_rows: self.bad_rows,
            draws: self.draws,
            quantiles: self.quantiles.clone(),
            score: self.score.clone(),
            abstain_above: self.abstain_above,
            target_risk: self.target_risk,
            tolerance: self.tolerance,
            confidence: self.confidence,
            conformal: self.conformal.request(),
            cost: self.cost.clone(),
            positive: self.positive.clone(),
            top: self.top,
            samples: self.draws_file.is_some(),
            mark_far: self.mark_far,
            file: self.file.format(),
        }
    }
}

/// Prints the threshold and the bound on the wrong rows among those that are kept.
fn tell_promise(decision: &Decision, confidence: f64) {
    let Decision {
        score,
        threshold,
        promise: Some(point),
        guarantee,
    } = decision
    else {
        return;
    };
    tell(format_args!(
        "keeps rows with {score} up to {threshold:.4}: {} validation rows kept ({:.1} %), error rate \
         {:.4}; upper bound at confidence {confidence}: {:.4}",
        point.kept,
        100.0 * point.coverage,
        point.risk.unwrap_or(0.0),
        point.risk_upper
    ));
    guarantee.iter().for_each(tell);
}

/// The output and its format.
struct Sheet {
    output: Output,
    format: Format,
    is_begun: bool,
    samples: Option<Output>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Csv,
    Objects,
    /// A line for each column.
    Lines,
}

impl Sheet {
    fn new(arguments: &Arguments) -> Result<Self> {
        let is_for_people = arguments.rows.is_none() && arguments.output.is_none();
        let samples = arguments.draws_file.as_deref();
        Ok(Self {
            output: Output::new(arguments.output.as_deref())?,
            format: match arguments.json || arguments.json_lines {
                true => Format::Objects,
                false if is_for_people => Format::Lines,
                false => Format::Csv,
            },
            is_begun: false,
            samples: samples.map(|path| Output::new(Some(path))).transpose()?,
        })
    }

    fn write(&mut self, table: &PredictionTable, samples: Option<&SampleTable>) -> Result<()> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let path = self.output.path().to_path_buf();
        let output = &mut self.output;
        let written = match self.format {
            Format::Objects => table.write_objects(output),
            Format::Lines => table.write_lines(is_first, output),
            Format::Csv => table.write_csv(is_first, output),
        };
        written.map_err(at(&path))?;
        let (Some(output), Some(samples)) = (&mut self.samples, samples) else {
            return Ok(());
        };
        let path = output.path().to_path_buf();
        samples.write_csv(is_first, output).map_err(at(&path))
    }

    /// Writes a line of JSON.
    fn answer(&mut self, line: &Value) -> Result<()> {
        let path = self.output.path().to_path_buf();
        writeln!(self.output, "{line}").map_err(at(&path))
    }

    fn flush(&mut self) -> Result<()> {
        let path = self.output.path().to_path_buf();
        self.output.flush().map_err(at(&path))
    }

    fn finish(self) -> Result<()> {
        self.output.finish()?;
        self.samples.map_or(Ok(()), Output::finish)
    }
}

/// Refuses an output file that is also an input, or the other output.
fn expect_others(arguments: &Arguments, folder: &RunFolder) -> Result<()> {
    let files = folder.files();
    let outputs = [
        ("output", arguments.output.as_deref()),
        ("draws-file", arguments.draws_file.as_deref()),
    ];
    for (option, output) in outputs {
        let Some(output) = output else { continue };
        let other = arguments.output.iter().filter(|_| option != "output");
        let others = arguments.rows.iter().chain(&files).chain(other);
        let mut others = others
            .map(PathBuf::as_path)
            .chain(arguments.conformal.recent());
        if others.any(|file| would_overwrite(output, file)) {
            let problem = format!(
                "is {}, which would be overwritten; name another file",
                output.display()
            );
            return Err(refused(option, problem));
        }
    }
    Ok(())
}
