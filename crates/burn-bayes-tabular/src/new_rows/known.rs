//! Scores of a run on a file of rows with known targets.

use std::path::{Path, PathBuf};

use burn_bayes_data::{
    ColumnKind, CsvReader, Dataset, FarValues, OneOrSeveral, Table, Targets, present,
};
use serde::Serialize;

use crate::distinct::distinct;
use crate::error::{Result, TabularError};
use crate::files::is_same;
use crate::groups::Groups;
use crate::predict::{ConformalRequest, ConformalTargets, CostRule, Known, Predictions};
use crate::report::{FurtherScores, ScoredRows};
use crate::rows::{
    RowInputs, are_rows_of, not_a_column, read_table, repeated, rows_with_targets, true_targets,
};
use crate::run::{Run, RunFolder, RunReport};
use crate::scores::{
    Baseline, CalibrationTest, ConformalScores, CostScores, Intervals, Scores, ScoresByGroup,
};
use crate::settings::{DataSettings, DeviceName, FileFormat, MissingName, refused};

/// Rows with known targets.
#[derive(Debug)]
pub struct KnownRows {
    pub(super) path: PathBuf,
    pub(super) dataset: Dataset,
    groups: Vec<Groups>,
    pub(super) inputs: RowInputs,
    /// The cells of the column that groups the rows of conformal sets or intervals; empty without one.
    conformal_cells: Vec<String>,
    /// Number of rows left out because of missing values.
    pub left_out: usize,
    /// Numbers far from the training rows, by column.
    pub far: Vec<FarValues>,
}

/// Predictions of a run, and their scores.
#[derive(Debug, Serialize)]
pub struct Evaluation {
    /// Every score.
    #[serde(flatten)]
    pub scores: Scores,
    /// Whether the rows come as predicted; null for fewer than five, or ten groups or periods.
    pub calibration: Option<CalibrationTest>,
    /// The scores by the values of each column that was asked for, of each target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<ScoresByGroup>,
    /// The scores of plain models, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
    /// The coverage of the conformal sets or intervals of each target, if a level was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conformal: Option<OneOrSeveral<ConformalScores>>,
    /// What decisions cost, if costs were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<CostScores>,
    #[serde(skip)]
    rows: KnownRows,
    #[serde(skip)]
    predictions: Predictions,
    #[serde(skip)]
    targets: Targets,
}

impl KnownRows {
    /// Reads a file with the settings of the run; the rows are grouped by each of the columns `by`, and for conformal
    /// sets or intervals by `conformal_by`, unless it is the target.
    ///
    /// # Errors
    /// If the file cannot be read, lacks a column of the run, of `by` or `conformal_by`, or the groups are too many.
    pub fn read(
        run: &Run,
        path: &Path,
        format: FileFormat,
        by: &[String],
        conformal_by: Option<&str>,
    ) -> Result<Self> {
        let by = distinct(by.iter().cloned(), String::clone);
        let is_target = |by: &str| run.preprocessor.target_names().any(|name| name == by);
        let conformal_by = conformal_by.filter(|&by| !is_target(by));
        let (table, of_run) = table(run, path, format, &by, conformal_by)?;
        let rows = match run.config.data.missing {
            // A missing value of a column that only groups the rows leaves out none.
            MissingName::Drop => complete_rows(&table, &of_run),
            MissingName::Refuse => (0..table.rows()).collect(),
            MissingName::Impute => {
                let targets: Vec<String> =
                    run.preprocessor.target_names().map(String::from).collect();
                rows_with_targets(&table, &targets, (0..table.rows()).collect())?
            }
        };
        let left_out = table.rows() - rows.len();
        let rows = repeated(&table, rows, &run.config.data, path)?;
        let groups = by.iter().map(|name| groups(&table, name, &rows));
        Ok(Self {
            path: path.into(),
            left_out,
            groups: groups.collect::<Result<_>>()?,
            far: run.preprocessor.far_values(&table, rows.iter().copied())?,
            dataset: run.preprocessor.dataset(&table, rows.iter().copied())?,
            conformal_cells: conformal_by.map_or_else(Vec::new, |name| {
                let cell = |&row: &usize| table.text(name, row).unwrap_or_default().to_string();
                rows.iter().map(cell).collect()
            }),
            inputs: RowInputs::of(&run.preprocessor, &table, &run.config.data, rows)?,
        })
    }

    /// The training file of the run, if these are rows of it and it is still there.
    ///
    /// # Errors
    /// If two columns have the same name.
    pub fn training_file<'r>(&self, run: &'r Run) -> Result<Option<&'r Path>> {
        match run.config.data.path.as_deref() {
            Some(path) if is_same(path, &self.path) => Ok(Some(path)),
            _ => self.source(run, &run.config.data.path),
        }
    }

    /// The first of these files with the columns of the run that has these rows.
    fn source<'p>(
        &self,
        run: &Run,
        files: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Result<Option<&'p Path>> {
        let columns = self.inputs.columns.iter().chain([&self.inputs.target]);
        let rows = Table::new(columns.cloned().collect())?;
        let has_rows = |path: &&PathBuf| {
            let of_file = DataSettings {
                path: Some((*path).clone()),
                ..run.config.data.clone()
            };
            let known = present(path).is_file().then(|| read_table(&of_file));
            matches!(known, Some(Ok(known)) if are_rows_of(&known, &rows))
        };
        Ok(files.into_iter().find(has_rows).map(PathBuf::as_path))
    }

    /// Fails if these are rows of the fit, as far as its files are still there.
    fn expect_others(&self, run: &Run) -> Result<()> {
        let data = &run.config.data;
        let found = self.source(run, data.path.iter().chain(&data.validation_file))?;
        found.map_or(Ok(()), |path| {
            let problem = format!(
                "is {}, whose rows are those of the fit, {}; give rows that came after them",
                self.path.display(),
                path.display()
            );
            Err(refused("conformal-recent", problem))
        })
    }

    /// Number of rows to score.
    pub fn rows(&self) -> usize {
        self.dataset.rows()
    }

    /// Scores a run on these rows; `positive` is the positive class of F1.
    ///
    /// # Errors
    /// If a prediction is not finite, or there is no such class.
    pub fn score(self, run: &Run, draws: usize, positive: Option<&str>) -> Result<Evaluation> {
        let targets = true_targets(&self.dataset, run.model.target());
        let predictions = run.predict(self.dataset.features(), draws)?;
        let units = &self.inputs.units;
        let intervals = Intervals::Bootstrapped(units);
        Ok(Evaluation {
            calibration: CalibrationTest::of(&predictions, &targets, &self.inputs)?,
            scores: Scores::of_positive(&predictions, &targets, intervals, positive)?,
            by: ScoresByGroup::of_targets(&self.groups, &predictions, &targets, units)?,
            baselines: Vec::new(),
            conformal: None,
            costs: None,
            rows: self,
            predictions,
            targets,
        })
    }
}

/// Conformal sets or intervals of a run, calibrated on its held-out rows and on the recent rows of the request, in a file of
/// this format.
///
/// # Errors
/// As [`Run::conformal`], and if the recent rows cannot be read or predicted.
pub(super) fn conformal(
    run: &Run,
    folder: &RunFolder,
    request: &ConformalRequest,
    draws: Option<usize>,
    format: FileFormat,
) -> Result<ConformalTargets> {
    let recent = |path: &PathBuf| {
        let rows = KnownRows::read(run, path, format, &[], None)?;
        rows.expect_others(run)?;
        let targets = true_targets(&rows.dataset, run.model.target());
        let predictions = run.predict(rows.dataset.features(), run.draws(None)?)?;
        Known::of_targets(&predictions, &targets)
    };
    let recent = request.recent.as_ref().map(recent).transpose()?;
    run.conformal(folder, request, draws, recent)
}

/// More groups would each have few rows, and would not fit on a screen.
const MOST_GROUPS: usize = 50;

/// The groups of these rows of a table by a column.
fn groups(table: &Table, column: &str, rows: &[usize]) -> Result<Groups> {
    let groups = Groups::of(table.column(column)?, rows)?;
    let count = groups.names.iter().flatten().count();
    if count > MOST_GROUPS {
        let problem = format!(
            "names `{column}`, which has {count} categories, but at most {MOST_GROUPS} groups are scored; merge categories \
             in the file, or name another column"
        );
        return Err(refused("by", problem));
    }
    Ok(groups)
}

/// Reads the columns of the run and of `by`, and the text of `kept`; the names of the first are returned too.
fn table(
    run: &Run,
    path: &Path,
    format: FileFormat,
    by: &[String],
    kept: Option<&str>,
) -> Result<(Table, Vec<String>)> {
    let mut targets = run.preprocessor.target_names();
    if let Some(target) = targets.find(|target| by.iter().any(|name| name == target)) {
        let problem = format!(
            "names the target `{target}`, and no model is calibrated within the rows of one outcome; name another \
             column"
        );
        return Err(refused("by", problem));
    }
    let options = format.csv_options(&run.config.data);
    let mut options = run.preprocessor.csv_options(options);
    let of_run: Vec<String> = options.only.take().into_iter().flatten().collect();
    let options = options.with_kept(kept);
    let mut reader = CsvReader::open(path, options)?;
    let names: Vec<String> = reader.columns().map(|(name, _)| name.to_string()).collect();
    if let Some(name) = by.iter().find(|name| !names.contains(name)) {
        return Err(refused("by", not_a_column(name, path, &names)));
    }
    for name in &names {
        let is_by = by.contains(name);
        let data = &run.config.data;
        let of_rows = [&data.frequency, &data.group_by, &data.time];
        let is_of_rows = of_rows.contains(&&Some(name.clone()));
        if !is_by && !is_of_rows && !of_run.contains(name) {
            reader = reader.without(name)?;
        }
        if is_by && run.config.data.categories.0.contains(name) {
            reader = reader.with_kind(name, ColumnKind::Category)?;
        }
    }
    Ok((reader.read_all()?, of_run))
}

/// The rows without missing values in these columns.
fn complete_rows(table: &Table, names: &[String]) -> Vec<usize> {
    let columns = table.columns().iter();
    let columns: Vec<_> = columns
        .filter(|column| names.iter().any(|name| name == column.name()))
        .collect();
    let is_complete = |row: &usize| !columns.iter().any(|column| column.is_missing(*row));
    (0..table.rows()).filter(is_complete).collect()
}

impl Evaluation {
    /// With the scores of the plain models beside the fit.
    ///
    /// # Errors
    /// If the run has none, or a file of the run was changed since the fit.
    pub fn with_baselines(
        self,
        run: &Run,
        folder: &RunFolder,
        device: Option<DeviceName>,
    ) -> Result<Self> {
        let models = run.plain_models(folder, device)?;
        let features = self.rows.dataset.features();
        Ok(Self {
            baselines: models.beside(
                &self.predictions,
                features,
                &self.targets,
                &self.rows.inputs.units,
            )?,
            ..self
        })
    }

    /// With the coverage of conformal sets or intervals, calibrated on the held-out rows of the run. `draws` is the
    /// number that was asked for, if any.
    ///
    /// # Errors
    /// If the run has no such rows, or too few for the level.
    pub fn with_conformal(
        self,
        run: &Run,
        folder: &RunFolder,
        request: &ConformalRequest,
        draws: Option<usize>,
        format: FileFormat,
    ) -> Result<Self> {
        let conformal = conformal(run, folder, request, draws, format)?;
        let Self {
            rows,
            predictions,
            targets,
            ..
        } = &self;
        let groups = &rows.groups;
        let cells = rows.conformal_cells.iter().enumerate();
        let cells = cells.map(|(row, cell)| {
            let place = rows.inputs.places.get(row).map_or(row, |place| *place);
            (place + 1, cell.as_str())
        });
        let of_rows = conformal.groups_of(cells, &format.csv_options(&run.config.data));
        let of_rows = of_rows.map_err(|error| match error {
            TabularError::Data(problem) => {
                TabularError::Data(format!("{}, {problem}", rows.path.display()))
            }
            other => other,
        })?;
        let scores = ConformalScores::of_targets(
            &conformal,
            of_rows.as_deref(),
            predictions,
            targets,
            groups,
            &rows.inputs.units,
        )?;
        Ok(Self {
            conformal: Some(scores.into()),
            ..self
        })
    }

    /// The coverage of the conformal sets or intervals of each target; none if no level was given.
    pub fn conformal_scores(&self) -> &[ConformalScores] {
        let scores = self.conformal.as_ref();
        scores.map_or(&[], OneOrSeveral::as_slice)
    }

    /// With the costs of decisions.
    ///
    /// # Errors
    /// If the rule is for another target.
    pub fn with_costs(self, rule: &CostRule) -> Result<Self> {
        Ok(Self {
            costs: Some(CostScores::of(
                rule,
                &self.predictions,
                &self.targets,
                Intervals::Bootstrapped(&self.rows.inputs.units),
            )?),
            ..self
        })
    }

    /// Writes a report, which names `command`.
    ///
    /// # Errors
    /// If it cannot be written, or a file of the run was changed since the fit.
    pub fn report(&self, run: &Run, folder: &RunFolder, command: &str, page: &Path) -> Result<()> {
        let report = RunReport {
            config: &run.config,
            command,
            target: run.model.target(),
            metrics: &run.metrics(folder)?,
            posterior: run.model.posterior(),
            rows: Some(ScoredRows {
                part: &format!("rows of {}", self.rows.path.display()),
                predictions: &self.predictions,
                targets: &self.targets,
                scores: &self.scores,
                inputs: Some(&self.rows.inputs),
                further: FurtherScores {
                    baselines: &self.baselines,
                    by: &self.by,
                    conformal: self.conformal_scores(),
                    costs: self.costs.as_ref(),
                },
            }),
            diverged: run.diverged.as_deref(),
            assessment: None,
        };
        report.write(page)
    }
}
