//! Predictions for the rows of a file, in chunks, with decisions which rows to keep.

mod decision;
mod explanation;
mod given;
mod known;
mod similar;
mod usable;

use std::path::Path;

use burn_bayes_data::{BadRows, CsvOptions, CsvReader, FarValues, Table, Task};

use crate::distinct::distinct;
use crate::error::Result;
use crate::predict::{ConformalRequest, ConformalTargets, CostRule, PredictionTable, SampleTable};
use crate::rows::Target;
use crate::run::{Run, RunFolder};
use crate::settings::{FileFormat, Pairs, refused};

pub use decision::Decision;
pub use explanation::ExplanationRequest;
pub use given::{GivenPrediction, GivenRows};
pub use known::{Evaluation, KnownRows};
pub use similar::SimilarRequest;
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
    /// Also decide between classes by these costs; see [`CostRule::of`].
    pub cost: Option<Pairs>,
    /// The positive class of the costs of two classes; by default that of the fit.
    pub positive: Option<String>,
    /// Also predict this number of most probable classes.
    pub top: Option<usize>,
    /// Also draw samples of numbers or counts.
    pub samples: bool,
    /// Also name the columns of each row that are far from the training rows.
    pub mark_far: bool,
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
    pub conformal: Option<ConformalTargets>,
    costs: Option<CostRule>,
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
        request.check_columns(run.model.target())?;
        Ok(Self {
            costs: request.costs(run)?,
            decision: request.decision(folder, run, draws)?,
            conformal: request
                .conformal
                .as_ref()
                .map(|conformal| {
                    known::conformal(run, folder, conformal, request.draws, request.file)
                })
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
        Ok(Pieces {
            predictor: self,
            reader: CsvReader::open(rows, self.options())?,
            read: 0,
        })
    }

    /// How rows are read.
    fn options(&self) -> CsvOptions {
        let options = self.request.file.csv_options(&self.run.config.data);
        let mut options = self.run.preprocessor.csv_options(options);
        let grouped = self.conformal.as_ref().and_then(ConformalTargets::groups);
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
        options
    }

    /// The rows of a table that can be predicted, with a guarantee if one is asked for.
    fn usable(&self, table: &Table, bad_rows: BadRowsName) -> Result<NewRows> {
        let rows = NewRows::of(self.run, table, bad_rows)?;
        let Some(conformal) = &self.conformal else {
            return Ok(rows);
        };
        let column = conformal.groups().map_or("", |groups| &*groups.by);
        let options = self.options();
        rows.with_guarantee(self.run, table, bad_rows, |row| {
            conformal.problem_of(table.text(column, row).unwrap_or_default(), &options)
        })
    }

    /// Predicts rows of a table, of which this number come before in the file.
    fn predict(&self, piece: NewRows, table: &Table, before: usize) -> Result<Piece> {
        let Self {
            run,
            request,
            levels,
            draws,
            decision,
            conformal,
            costs,
            kept,
        } = self;
        let predictions = run.predict(&piece.features, *draws)?;
        let mut predicted = PredictionTable::new(&predictions, levels)?;
        if let Some(conformal) = conformal {
            let cell = |&place: &usize| {
                let row = piece.rows[place];
                let column = conformal.groups().map_or("", |groups| &*groups.by);
                (
                    before + row + 1,
                    table.text(column, row).unwrap_or_default(),
                )
            };
            let groups = conformal.groups_of(piece.predicted.iter().map(cell), &self.options())?;
            predicted = predicted.with_conformal(conformal, &predictions, groups.as_deref())?;
        }
        if let Some(count) = request.top {
            predicted = predicted.with_top(&predictions, count)?;
        }
        if let Some(costs) = costs {
            predicted = predicted.with_costs(costs, &predictions)?;
        }
        let rows = piece.predicted.iter().map(|&place| piece.rows[place]);
        if request.mark_far {
            let far = rows.clone().map(|row| {
                let found = run.preprocessor.far_values(table, [row])?.into_iter();
                Ok(found.map(|far| far.column).collect())
            });
            predicted = predicted.with_far(far.collect::<Result<_>>()?);
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
        let samples = request.samples.then(|| {
            let rows: Vec<usize> = rows.map(|row| before + row).collect();
            SampleTable::of(&predictions, &rows, run.config.fit.seed)
        });
        let places = piece.rows.iter().map(|row| before + row).collect();
        let copied = kept.iter().map(|name| {
            let cell = |&row: &usize| table.text(name, row).unwrap_or_default().to_string();
            let cells = piece.rows.iter().map(cell).collect();
            (name.clone(), cells)
        });
        Ok(Piece {
            table: predicted.after(places, copied.collect())?,
            samples: samples.transpose()?,
            rows: table.rows(),
            left_out: table.rows() - piece.rows.len(),
            far: piece.far,
        })
    }
}

/// The predictions of a chunk of rows.
#[derive(Debug)]
pub struct Piece {
    /// The output columns.
    pub table: PredictionTable,
    /// The samples, if they were requested.
    pub samples: Option<SampleTable>,
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
        let Some(table) = self.reader.next_table(PIECE)? else {
            return Ok(None);
        };
        let bad_rows = self.predictor.request.bad_rows;
        let rows = self.predictor.usable(&table, bad_rows)?;
        let piece = self.predictor.predict(rows, &table, self.read)?;
        self.read += table.rows();
        Ok(Some(piece))
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
            cost: None,
            positive: None,
            top: None,
            samples: false,
            mark_far: false,
            file: FileFormat::default(),
        }
    }
}

impl PredictionRequest {
    /// Checks that the target can have the columns and samples asked for.
    fn check_columns(&self, target: &Target) -> Result<()> {
        if let Some(count) = self.top {
            let classes = match target {
                Target::Classes(classes) => classes.len(),
                Target::Real(_) | Target::Counts { .. } | Target::Several(_) => {
                    let problem = "is for one target with classes; leave it out";
                    return Err(refused("top", problem));
                }
            };
            if !(1..=classes).contains(&count) {
                let problem =
                    format!("is {count}; it must be from 1 to {classes}, the number of classes");
                return Err(refused("top", problem));
            }
        }
        let has_numbers = match target {
            Target::Several(targets) => matches!(targets[..], [(_, Target::Real(_)), ..]),
            Target::Real(_) | Target::Counts { .. } => true,
            Target::Classes(_) => false,
        };
        if self.samples && !has_numbers {
            let problem = "is for numbers and counts, and the run predicts classes; leave it out";
            return Err(refused("draws-file", problem));
        }
        Ok(())
    }

    /// The decisions by costs, if there are any.
    fn costs(&self, run: &Run) -> Result<Option<CostRule>> {
        let Some(cost) = &self.cost else {
            return Ok(None);
        };
        if self.abstain_above.is_some() || self.target_risk.is_some() {
            let problem = "decides about every row, as do `--abstain-above` and `--target-risk`; leave one of them out, or \
                           abstain at a cost, with abstain=0.5";
            return Err(refused("cost", problem));
        }
        if self.positive.is_some() && !CostRule::has_positive(cost) {
            let problem = "has no effect without the costs fp and fn; leave it out";
            return Err(refused("positive", problem));
        }
        let positive = self.positive.as_ref();
        let positive = positive.or(run.config.data.positive.as_ref());
        let rule = CostRule::of(cost, run.model.target(), positive.map(String::as_str))?;
        Ok(Some(rule))
    }

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
