//! `predict`: predicts the rows of a file by a run.

use std::io;
use std::path::{Path, PathBuf};

use burn_bayes_data::FarValues;
use burn_bayes_tabular::Result;
use burn_bayes_tabular::files::{Output, at};
use burn_bayes_tabular::new_rows::{BadRowsName, Decision, PredictionRequest, RowPredictor};
use burn_bayes_tabular::predict::PredictionTable;
use burn_bayes_tabular::run::RunFolder;
use burn_bayes_tabular::settings::{DeviceName, Words, refused};
use clap::Args;

use crate::console::{RowCounter, tell, warn};
use crate::settings::{ConformalFlags, FileFlags, choice};

/// Which rows to predict, and how.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of a finished fit
    run: PathBuf,
    /// File of rows; columns that are neither features nor named by --keep are skipped
    rows: PathBuf,
    /// Output file [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Columns of the file to copy into the predictions, separated by commas
    #[arg(long, value_name = "COLUMNS")]
    keep: Option<Words>,
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
    /// Uncertainty score for abstaining [default: entropy for classes, std for numbers]
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
    let run = super::loaded(&folder, arguments.device)?;
    let request = arguments.request();
    let predictor = RowPredictor::new(&folder, &run, &request)?;
    if let Some(decision) = &predictor.decision {
        tell_promise(decision, arguments.confidence);
    }
    if let Some(conformal) = &predictor.conformal {
        tell(conformal.guarantee());
    }
    expect_another(arguments, &folder)?;
    let mut pieces = predictor.open(&arguments.rows)?;
    let mut sheet = Sheet {
        output: Output::new(arguments.output.as_deref())?,
        json: arguments.json,
        has_header: false,
    };
    // Rows on standard output are progress enough.
    let mut progress = arguments.output.as_ref().map(|_| RowCounter::new());
    let (mut read, mut left_out) = (0, 0);
    let mut far: Vec<FarValues> = Vec::new();
    while let Some(piece) = pieces.next_piece()? {
        for found in piece.far {
            match far.iter_mut().find(|known| known.column == found.column) {
                Some(known) => known.count += found.count,
                None => far.push(found),
            }
        }
        sheet.write(&piece.table)?;
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
    far.iter().for_each(warn);
    sheet.output.finish()
}

impl Arguments {
    fn request(&self) -> PredictionRequest {
        let keep = self.keep.iter().flat_map(|words| words.0.iter().cloned());
        PredictionRequest {
            keep: keep.collect(),
            bad_rows: self.bad_rows,
            draws: self.draws,
            quantiles: self.quantiles.clone(),
            score: self.score.clone(),
            abstain_above: self.abstain_above,
            target_risk: self.target_risk,
            tolerance: self.tolerance,
            confidence: self.confidence,
            conformal: self.conformal.request(),
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

/// Refuses an output file that is also an input.
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
            "is {}, which would be overwritten; name another file",
            output.display()
        );
        return Err(refused("output", problem));
    }
    Ok(())
}
