//! Predictions for the rows of a file, in chunks, with decisions which rows to keep.

mod decision;
mod explanation;
mod known;
mod usable;

use std::path::Path;

use burn_bayes_data::{BadRows, CsvReader, FarValues, Task};

use crate::distinct::distinct;
use crate::error::Result;
use crate::predict::{Conformal, ConformalRequest, PredictionTable};
use crate::run::{Run, RunFolder};
use crate::settings::{FileFormat, refused};

pub use decision::Decision;
pub use explanation::ExplanationRequest;
pub use known::{Evaluation, KnownRows};
pub use usable::BadRowsName;
use usable::NewRows;

/// Number of rows per chunk.
const PIECE: usize = 8192;
/// The default quantiles of a regression.
const QUANTILES: [f64; 3] = [0.05, 0.5, 0.95];

/// What to predict.
#[derive(Clone, Debug)]
pub struct PredictionRequest {
    /// Columns of the file to copy into the predictions.
    pub keep: Vec<String>,
    /// Treatment of rows that cannot be predicted.
    pub bad_rows: BadRowsName,
    /// Number of weight draws; by default as in the fit.
    pub draws: Option<usize>,
    /// Quantiles of numbers or counts; 5, 50 and 95 % by default.
    pub quantiles: Option<Vec<f64>>,
    /// Uncertainty score for abstaining; by default entropy for classes and standard deviation for numbers. One of several
    /// targets must be named, as `price_std`.
    pub score: Option<String>,
    /// Abstain from (refer) rows whose score is above this threshold.
    pub abstain_above: Option<f64>,
    /// Choose the threshold such that at most this fraction of the kept rows is wrong.
    pub target_risk: Option<f64>,
    /// The largest absolute error of a regression that is not wrong, in the unit of the target.
    pub tolerance: Option<f64>,
    /// Confidence level of the bound on that fraction.
    pub confidence: f64,
    /// Also predict sets or intervals with a coverage guarantee.
    pub conformal: Option<ConformalRequest>,
    /// The format of the file.
    pub file: FileFormat,
}

/// Predicts the rows of files.
#[derive(Debug)]
pub struct RowPredictor<'a> {
    run: &'a Run,
    request: &'a PredictionRequest,
    levels: Vec<f64>,
    draws: usize,
    /// The decision rule, if there is one.
    pub decision: Option<Decision>,
    /// The prediction sets or intervals, if they were requested.
    pub conformal: Option<Conformal>,
    kept: Vec<String>,
}

impl<'a> RowPredictor<'a> {
    /// A predictor for the run in a folder.
    ///
    /// # Errors
    /// If the run cannot fulfil the request.
    pub fn new(folder: &RunFolder, run: &'a Run, request: &'a PredictionRequest) -> Result<Self> {
        let levels = request.levels(run.preprocessor.task())?;
        let draws = run.draws(request.draws)?;
        Ok(Self {
            decision: request.decision(folder, run, draws)?,
            conformal: request
                .conformal
                .as_ref()
                .map(|conformal| run.conformal(folder, conformal, request.draws))
                .transpose()?,
            kept: distinct(request.keep.iter().cloned(), String::clone),
            run,
            request,
            levels,
            draws,
        })
    }

    /// Opens a file of rows. The target columns are not read, and may be missing.
    ///
    /// # Errors
    /// If the file cannot be read, or lacks a column.
    pub fn open(&'a self, rows: &Path) -> Result<Pieces<'a>> {
        let options = self.request.file.csv_options(&self.run.config.data);
        let mut options = self.run.preprocessor.csv_options(options);
        let grouped = self.conformal.as_ref().and_then(Conformal::groups);
        let grouped = grouped.map(|groups| groups.by.clone());
        // Bad rows are marked by the reader; with `BadRowsName::Refuse`, `NewRows` refuses them.
        options = options
            .with_bad_rows(BadRows::Mark)
            .with_kept(self.kept.iter().cloned().chain(grouped));
        if let Some(only) = &mut options.only {
            for target in self.run.preprocessor.target_names() {
                only.remove(target);
            }
        }
        Ok(Pieces {
            predictor: self,
            reader: CsvReader::open(rows, options)?,
            read: 0,
        })
    }
}

/// The predictions of a chunk of rows.
#[derive(Debug)]
pub struct Piece {
    /// The output columns.
    pub table: PredictionTable,
    /// Number of rows read.
    pub rows: usize,
    /// Number of rows left out because of missing values.
    pub left_out: usize,
    /// Numbers far from the training rows, by column.
    pub far: Vec<FarValues>,
}

/// The rows of a file, in chunks.
#[derive(Debug)]
pub struct Pieces<'a> {
    predictor: &'a RowPredictor<'a>,
    reader: CsvReader<'static>,
    read: usize,
}

impl Pieces<'_> {
    /// The next chunk; `None` at the end of the file.
    ///
    /// # Errors
    /// If a row cannot be read or predicted.
    pub fn next_piece(&mut self) -> Result<Option<Piece>> {
        let RowPredictor {
            run,
            request,
            levels,
            draws,
            decision,
            conformal,
            kept,
        } = self.predictor;
        let Some(table) = self.reader.next_table(PIECE)? else {
            return Ok(None);
        };
        let piece = NewRows::of(run, &table, request.bad_rows)?;
        let predictions = run.predict(&piece.features, *draws)?;
        let mut predicted = PredictionTable::new(&predictions, levels)?;
        if let Some(conformal) = conformal {
            let cell = |&place: &usize| {
                let row = piece.rows[place];
                let column = conformal.groups().map_or("", |groups| &*groups.by);
                (
                    self.read + row + 1,
                    table.text(column, row).unwrap_or_default(),
                )
            };
            let groups = conformal.groups_of(piece.predicted.iter().map(cell))?;
            predicted = predicted.with_conformal(conformal, &predictions, groups.as_deref())?;
        }
        predicted = predicted.spread(&piece.predicted, piece.rows.len());
        if let Some(Decision {
            score, threshold, ..
        }) = decision
        {
            predicted = predicted.with_decisions(score, *threshold)?;
        }
        if request.bad_rows == BadRowsName::Mark {
            predicted = predicted.with_problems(piece.problems);
        }
        let places = piece.rows.iter().map(|row| self.read + row).collect();
        let copied = kept.iter().map(|name| {
            let cell = |&row: &usize| table.text(name, row).unwrap_or_default().to_string();
            let cells = piece.rows.iter().map(cell).collect();
            (name.clone(), cells)
        });
        self.read += table.rows();
        Ok(Some(Piece {
            table: predicted.after(places, copied.collect())?,
            rows: table.rows(),
            left_out: table.rows() - piece.rows.len(),
            far: piece.far,
        }))
    }
}

impl Default for PredictionRequest {
    fn default() -> Self {
        Self {
            keep: Vec::new(),
            bad_rows: BadRowsName::Refuse,
            draws: None,
            quantiles: None,
            score: None,
            abstain_above: None,
            target_risk: None,
            tolerance: None,
            confidence: 0.95,
            conformal: None,
            file: FileFormat::default(),
        }
    }
}

impl PredictionRequest {
    /// The levels of the quantiles; none for classes.
    fn levels(&self, task: Task) -> Result<Vec<f64>> {
        let asked = self.quantiles.as_deref();
        match (task, asked) {
            (Task::Classification | Task::Multilabel, None) => Ok(Vec::new()),
            (Task::Classification | Task::Multilabel, Some(_)) => {
                let problem = "is for regression, and the run predicts classes; leave it out";
                Err(refused("quantiles", problem))
            }
            (Task::Regression | Task::Counts, _) => {
                let levels = asked.unwrap_or(&QUANTILES);
                for (place, &level) in levels.iter().enumerate() {
                    expect_share("quantiles", level)?;
                    if levels[..place].contains(&level) {
                        return Err(refused("quantiles", format!("contains {level} twice")));
                    }
                }
                Ok(levels.to_vec())
            }
        }
    }
}

/// Checks that a fraction is in (0, 1).
fn expect_share(option: &str, share: f64) -> Result<()> {
    match share > 0.0 && share < 1.0 {
        true => Ok(()),
        false => Err(refused(option, format!("is {share}; it must be in (0, 1)"))),
    }
}
