//! The fits of a comparison.

use std::path::{Path, PathBuf};

use burn_bayes_data::{CsvReader, KFold, Preprocessor};

use super::measures;
use crate::distinct::distinct;
use crate::error::Result;
use crate::experiments::jobs::{Computed, Job, Key};
use crate::experiments::search::{Fold, FoldFit, NewTable};
use crate::rows::SplitTable;
use crate::settings::{
    Config, FitSettings, Method, MissingName, PlainName, TaskName, expect_at_most, refused,
};

/// Maximum number of repeats.
const MAX_REPEATS: usize = 10_000;

/// The fits of a comparison: every method and every plain model on every fold, with a random re-split for every repeat.
#[derive(Clone, Debug)]
pub struct Runs {
    config: Config,
    methods: Vec<Method>,
    plain: Vec<PlainName>,
    repeats: usize,
    /// The number of folds of a repeat; run r is on fold r mod `folds` of repeat ⌊r/`folds`⌋.
    pub(super) folds: usize,
    /// `None` if none are asked for.
    pub(super) new_rows: Option<NewRowsRequest>,
}

/// New rows that get prediction intervals.
#[derive(Clone, Debug)]
pub(crate) struct NewRowsRequest {
    path: PathBuf,
    /// The level of the intervals.
    pub(crate) level: f64,
}

impl Runs {
    /// A comparison of single fits with these settings. Their method, their validation fraction, and settings of a run
    /// around a training, such as the number of members, are ignored.
    ///
    /// # Errors
    /// If fewer than two are compared, no method is among them, or a count is out of range.
    pub fn new(
        mut config: Config,
        methods: &[Method],
        plain: &[PlainName],
        repeats: usize,
        folds: usize,
    ) -> Result<Self> {
        // Every row is in a test fold once, so no validation rows are needed.
        config.data.validation = 0.0;
        config.data.validation_file = None;
        config.fit = config.fit.of_one_training();
        let methods = distinct(methods.iter().copied(), |&method| method);
        let plain = distinct(plain.iter().copied(), |&plain| plain);
        if methods.is_empty() || methods.len() + plain.len() < 2 {
            let problem = "must name at least two methods, or one beside a model of `--plain`";
            return Err(refused("methods", problem));
        }
        expect_at_most("repeats", repeats, MAX_REPEATS)?;
        // Rows can be divided in time in one way.
        let repeats = match config.data.time {
            Some(_) => 1,
            None => repeats,
        };
        if folds < 2 {
            let problem = format!("is {folds}; it must be at least 2");
            return Err(refused("folds", problem));
        }
        Ok(Self {
            config,
            methods,
            plain,
            repeats,
            folds,
            new_rows: None,
        })
    }

    /// With prediction intervals of the rows of a file, from the fits of the first repeat.
    ///
    /// # Errors
    /// If the level is not in (0, 1), the target is a class, or there are several.
    pub fn with_new_rows(self, path: &Path, level: f64) -> Result<Self> {
        if !(level > 0.0 && level < 1.0) {
            let problem = format!("is {level}; it must be in (0, 1), such as 0.9");
            return Err(refused("conformal", problem));
        }
        if self.config.data.task()? == TaskName::Classification {
            let problem = "makes intervals of numbers, but the target is a class; use `fit`, and `predict --conformal` for \
                           sets of classes";
            return Err(refused("predict", problem));
        }
        if self.config.data.targets()?.len() > 1 {
            let problem = "makes intervals of one target, but `target` names several; leave it out, or compare for each target \
                           alone";
            return Err(refused("predict", problem));
        }
        if self.config.data.time.is_some() {
            let problem = "needs folds that leave out every row once, which those of `--time` do not; leave one of both out";
            return Err(refused("predict", problem));
        }
        let path = path.into();
        Ok(Self {
            new_rows: Some(NewRowsRequest { path, level }),
            ..self
        })
    }

    /// Reads the new rows; `rows` are those of the data file.
    pub(crate) fn new_table(&self, rows: &SplitTable) -> Result<Option<NewTable>> {
        let Some(request) = &self.new_rows else {
            return Ok(None);
        };
        let data = &self.config.data;
        let train = rows.train.iter().copied();
        let preprocessor = Preprocessor::fit(&data.preprocessor()?, &rows.table, train)?;
        let options = preprocessor.csv_options(data.csv_options());
        let table = CsvReader::open(&request.path, options)?.read_all()?;
        // A target may be unknown, so only the features must be complete.
        let columns = preprocessor.feature_columns(&table)?;
        let is_complete = |row: &usize| !columns.iter().any(|column| column.is_missing(*row));
        let rows =
            (0..table.rows()).filter(|row| data.missing != MissingName::Drop || is_complete(row));
        let rows = rows.collect();
        Ok(Some(NewTable { table, rows }))
    }

    /// The settings of the fits except the method, without validation rows.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The same, to be completed before there are fits.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// The names of the methods and of the plain models, without duplicates.
    pub fn names(&self) -> Vec<String> {
        let methods = self.methods.iter().map(ToString::to_string);
        let plain = self.plain.iter().map(ToString::to_string);
        methods.chain(plain).collect()
    }

    /// The fits, and the positive class of F1.
    ///
    /// # Errors
    /// If the rows are too few, or a setting is invalid for one of the fits.
    pub fn of_rows(&self, rows: &SplitTable) -> Result<(Vec<Job>, Option<String>)> {
        let Config { data, fit } = &self.config;
        let most = rows.train.len();
        if self.folds > most {
            let problem = format!("is {}, but there are only {most} rows", self.folds);
            return Err(refused("folds", problem));
        }
        let kept = KFold::new(self.folds)
            .with_repeats(self.repeats)
            .with_seed(fit.seed);
        let new = self.new_table(rows)?;
        let folds = Fold::all(rows, data, kept, new)?;
        let asked = data.positive.as_deref();
        let positives = folds.iter().map(|fold| fold.positive(asked));
        let positive = positives.collect::<Result<Vec<_>>>()?[0].map(String::from);
        let case = data.path()?.file_stem().unwrap_or_default();
        let case = case.to_string_lossy();
        let mut jobs = Vec::new();
        for (run, fold) in folds.iter().enumerate() {
            let of_method = |&method: &Method| FitSettings {
                method,
                seed: fit.seed.wrapping_add((run / self.folds) as u64),
                ..fit.clone()
            };
            let fits: Vec<FitSettings> = self.methods.iter().map(of_method).collect();
            fold.check(&fits)?;
            let plain = self.plain.iter().map(|&plain| (Some(plain), fit.clone()));
            let fits = fits.into_iter().map(|settings| (None, settings));
            for (plain, settings) in fits.chain(plain) {
                let name =
                    plain.map_or_else(|| settings.method.to_string(), |plain| plain.to_string());
                let key = Key {
                    case: case.clone().into_owned(),
                    method: name,
                    seed: run as u64,
                };
                let fit = FoldFit {
                    settings,
                    plain,
                    fold: fold.clone(),
                    positive: positive.clone(),
                };
                jobs.push(job(key, fit)?);
            }
        }
        Ok((jobs, positive))
    }
}

/// One fit.
fn job(key: Key, fit: FoldFit) -> Result<Job> {
    Job::of(key, fit, |fit| {
        let positive = fit.positive.as_deref();
        let scored = match fit.plain {
            Some(plain) => fit.fold.score_plain(plain, &fit.settings, positive)?,
            None => fit.fold.score(&fit.settings, positive)?,
        };
        Ok(Computed {
            measures: measures(&scored),
            left_out: scored.left_out,
            ..Computed::default()
        })
    })
}
