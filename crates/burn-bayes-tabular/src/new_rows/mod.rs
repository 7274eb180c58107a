//! Predictions for the rows of a file, piece by piece, with decisions which rows to keep.

mod known;
mod usable;

use std::path::Path;

use burn_bayes::eval::BoundedPoint;
use burn_bayes_data::{BadRows, CsvReader, Task};

use crate::distinct::distinct;
use crate::error::{Result, TabularError};
use crate::predict::{DEVIATIONS, EPISTEMIC, PredictionTable, Uncertainty, threshold_at_risk};
use crate::run::{Run, RunFolder};
use crate::settings::{FileFormat, refused};

pub use known::{Evaluation, KnownRows};
pub use usable::BadRowsName;
use usable::NewRows;

/// Rows that are read and predicted at once.
const PIECE: usize = 8192;
/// The quantiles of a regression, unless others are asked for.
const QUANTILES: [f64; 3] = [0.05, 0.5, 0.95];

/// What to say of rows.
#[derive(Clone, Debug)]
pub struct PredictionRequest {
    /// Columns of the file to copy into the predictions.
    pub keep: Vec<String>,
    /// What is done about a row that cannot be predicted.
    pub bad_rows: BadRowsName,
    /// Draws of the weights; as the fit says by default.
    pub draws: Option<usize>,
    /// Quantiles of a regression; 5, 50 and 95 % by default.
    pub quantiles: Option<Vec<f64>>,
    /// Score by which rows are kept or referred; entropy of classes and deviation of numbers by default.
    pub score: Option<String>,
    /// Refers the rows whose score is above this.
    pub abstain_above: Option<f64>,
    /// Refers as many rows as it takes for the others to be wrong no more often than this.
    pub target_risk: Option<f64>,
    /// How sure that promise is to be.
    pub confidence: f64,
    /// How the file is written.
    pub file: FileFormat,
}

/// Which rows are kept.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The score that decides.
    pub score: String,
    /// The greatest value at which a row is kept.
    pub threshold: f64,
    /// What the validation rows promise at this threshold, if a risk was asked for.
    pub promise: Option<BoundedPoint>,
}

/// Predicts the rows of files as was asked.
#[derive(Debug)]
pub struct RowPredictor<'a> {
    run: &'a Run,
    request: &'a PredictionRequest,
    levels: Vec<f64>,
    draws: usize,
    decision: Option<Decision>,
    kept: Vec<String>,
}

impl<'a> RowPredictor<'a> {
    /// A predictor by the run of a folder.
    ///
    /// # Errors
    /// If something is asked for that the run cannot say.
    pub fn new(folder: &RunFolder, run: &'a Run, request: &'a PredictionRequest) -> Result<Self> {
        let levels = request.levels(run.preprocessor.task())?;
        let draws = run.draws(request.draws)?;
        Ok(Self {
            decision: request.decision(folder, run, draws)?,
            kept: distinct(request.keep.iter().cloned(), String::clone),
            run,
            request,
            levels,
            draws,
        })
    }

    /// Which rows are kept; none if nothing decides.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// The rows of a file, without the target, which may be missing or not known yet.
    ///
    /// # Errors
    /// If it cannot be read, or lacks a column.
    pub fn open(&'a self, rows: &Path) -> Result<Pieces<'a>> {
        let options = self.request.file.csv_options(&self.run.config.data);
        let mut options = self.run.preprocessor.csv_options(options);
        // Marked here and, unless that is asked for, refused where they are used.
        options = options
            .with_bad_rows(BadRows::Mark)
            .with_kept(self.kept.clone());
        if let Some(only) = &mut options.only {
            only.remove(self.run.preprocessor.target_name());
        }
        Ok(Pieces {
            predictor: self,
            reader: CsvReader::open(rows, options)?,
            read: 0,
        })
    }
}

/// Some rows, predicted.
#[derive(Debug)]
pub struct Piece {
    /// What is written of them.
    pub table: PredictionTable,
    /// Rows that were read.
    pub rows: usize,
    /// Those of them that have a missing cell and are left out.
    pub left_out: usize,
}

/// The rows of a file, some at a time.
#[derive(Debug)]
pub struct Pieces<'a> {
    predictor: &'a RowPredictor<'a>,
    reader: CsvReader<'static>,
    read: usize,
}

impl Pieces<'_> {
    /// The next rows; nothing at the end of the file.
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
            kept,
        } = self.predictor;
        let Some(table) = self.reader.next_table(PIECE)? else {
            return Ok(None);
        };
        let piece = NewRows::of(run, &table, request.bad_rows)?;
        let predictions = run.fitted.predict(&piece.features, *draws)?;
        let mut predicted = PredictionTable::new(&predictions, levels)?;
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
            confidence: 0.95,
            file: FileFormat::default(),
        }
    }
}

impl PredictionRequest {
    /// The probabilities of the quantiles; none of classes.
    fn levels(&self, task: Task) -> Result<Vec<f64>> {
        let asked = self.quantiles.as_deref();
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

    fn decision(&self, folder: &RunFolder, run: &Run, draws: usize) -> Result<Option<Decision>> {
        let score = self.score(run.preprocessor.task())?;
        let decides = self.abstain_above.is_some() || self.target_risk.is_some();
        if decides && run.fitted.draws(draws) == 1 && compares_draws(&score) {
            let problem = format!(
                "is `{score}`, which says how draws of the weights differ, and there is one draw; leave \
                 it out"
            );
            return Err(refused("score", problem));
        }
        match (self.abstain_above, self.target_risk) {
            (Some(threshold), _) if threshold.is_nan() => {
                Err(refused("abstain-above", "is NaN; it must be a number"))
            }
            (Some(threshold), _) => Ok(Some(Decision {
                score,
                threshold,
                promise: None,
            })),
            (None, Some(risk)) => self.promised(folder, run, score, risk).map(Some),
            (None, None) if self.score.is_some() => Err(refused(
                "score",
                "decides nothing without `--abstain-above` or `--target-risk`",
            )),
            (None, None) => Ok(None),
        }
    }

    /// The threshold at which the validation rows promise a risk.
    fn promised(
        &self,
        folder: &RunFolder,
        run: &Run,
        score: String,
        risk: f64,
    ) -> Result<Decision> {
        let Some(classes) = run.preprocessor.classes() else {
            let problem = "is for classification; give a threshold with `--abstain-above`";
            return Err(refused("target-risk", problem));
        };
        if let Some(draws) = self.draws {
            let problem = format!(
                "is {draws}, and the promise of `--target-risk` is of the {} draws of the fit; leave it \
                 out",
                run.config.fit.draws
            );
            return Err(refused("draws", problem));
        }
        expect_share("target-risk", risk)?;
        expect_share("confidence", self.confidence)?;
        let known = Uncertainty::ALL
            .into_iter()
            .find(|known| known.name() == score);
        let known = known.ok_or_else(|| TabularError::Usage(format!("`{score}` is no score")))?;
        let rows = run.validation_file(folder)?.ok_or_else(|| {
            let problem = "needs validation rows, and the run has none; fit with `--validation 0.2`, \
                           or give a threshold with `--abstain-above`";
            refused("target-risk", problem)
        })?;
        let point = threshold_at_risk(&rows, known, classes.len(), risk, self.confidence)?;
        Ok(Decision {
            score,
            threshold: point.threshold,
            promise: Some(point),
        })
    }

    /// The name of the score, if it is one of the task's.
    fn score(&self, task: Task) -> Result<String> {
        let names: Vec<&str> = match task {
            Task::Classification => Uncertainty::ALL.iter().map(|score| score.name()).collect(),
            Task::Regression => DEVIATIONS.to_vec(),
        };
        let name = self.score.as_deref().unwrap_or(names[0]);
        match names.contains(&name) {
            true => Ok(name.into()),
            false => {
                let problem = format!("is `{name}`; use one of {}", names.join(", "));
                Err(refused("score", problem))
            }
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

fn compares_draws(score: &str) -> bool {
    let of_classes = |known: &Uncertainty| known.name() == score && known.needs_draws();
    score == EPISTEMIC || Uncertainty::ALL.iter().any(of_classes)
}
