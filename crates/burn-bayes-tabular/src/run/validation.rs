//! The validation results of a run: scores, predictions and report.

use std::io;
use std::path::Path;

use burn_bayes::FactorPosterior;
use burn_bayes_data::{Features, Targets};
use serde::Serialize;

use super::folder::RunFolder;
use super::metrics::EpochMetrics;
use super::recalibration::{CrossFitted, RecalibrationScores};
use crate::assessment::Assessment;
use crate::error::Result;
use crate::files::write_whole;
use crate::plain_models::PlainModels;
use crate::predict::{PredictionTable, Predictions, Recalibration};
use crate::report::{self, FurtherScores, PosteriorSummary, Report, ScoredRows, TrainingCurve};
use crate::rows::{PreparedRows, Target, columns_of, true_targets};
use crate::scores::{CalibrationTest, Intervals, Scores, divergence, mutual_information};
use crate::settings::Config;

/// The scores of the held-out rows, the content of `scores.json`.
#[derive(Debug, Serialize)]
pub struct Validation {
    /// All scores.
    #[serde(flatten)]
    pub scores: Scores,
    /// Why the fit diverged; null if it did not.
    pub diverged: Option<String>,
    /// Whether the fit can be trusted.
    #[serde(flatten)]
    pub assessment: Assessment,
    /// The recalibration, with which the rows are predicted by cross-fitting; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recalibration: Option<RecalibrationScores>,
}

impl Validation {
    /// The recalibration that is fitted to all held-out rows.
    pub(crate) fn recalibration_of_new_rows(&self) -> Option<Recalibration> {
        self.recalibration.map(|scores| scores.map)
    }
}

/// Scores the held-out rows by a model's predictions of their features, and writes scores, predictions and a report. If
/// the settings say so, the predictions are recalibrated by cross-fitting first. `None` without held-out rows.
pub(super) fn validate(
    folder: &RunFolder,
    config: &Config,
    rows: &PreparedRows,
    predict: impl FnOnce(&Features) -> Result<Predictions>,
    posterior: Option<&FactorPosterior>,
    plain_models: &mut PlainModels,
    assessment: Assessment,
) -> Result<Option<Validation>> {
    let (train, inputs) = (&rows.train, &rows.validation_inputs);
    let Some(rows) = &rows.validation else {
        return Ok(None);
    };
    plain_models.fit_others(train, &config.fit)?;
    let predictions = &predict(rows.features())?;
    let target = train.target();
    let (targets, units) = (true_targets(rows, target), &inputs.units);
    // Of the training alone: a recalibration neither hides nor causes a divergence.
    let diverged = divergence(train, rows.features(), predictions, &targets, units)?;
    let diverged = diverged.map(|found| found.to_string());
    let cross_fitted = config
        .fit
        .recalibrate
        .map(|_| CrossFitted::of(predictions, &targets, units, &config.fit))
        .transpose()?;
    let predictions = match &cross_fitted {
        Some(cross_fitted) => &cross_fitted.predictions,
        None => predictions,
    };
    let positive = target.positive(config.data.positive.as_deref())?;
    let intervals = Intervals::Bootstrapped(units);
    let baselines = plain_models.beside(predictions, rows.features(), &targets, units)?;
    let validation = Validation {
        scores: Scores::of_positive(predictions, &targets, intervals, positive)?,
        assessment: Assessment {
            baselines,
            has_diverged: diverged.is_some(),
            calibration: CalibrationTest::of(predictions, &targets, inputs)?,
            mutual_information: (predictions.draws() > 1)
                .then(|| mutual_information(predictions))
                .transpose()?,
            ..assessment
        }
        .judged(),
        recalibration: cross_fitted
            .as_ref()
            .map(|cross_fitted| cross_fitted.scores),
        diverged,
    };
    let text = serde_json::to_string_pretty(&validation).map_err(io::Error::from)?;
    write_whole(&folder.scores_file(), text.as_bytes())?;

    let table = PredictionTable::new(predictions, &[])?
        .with_targets(words(&targets, target))
        .after(inputs.places.clone(), inputs.kept.clone())?;
    let mut bytes = Vec::new();
    table.write_csv(true, &mut bytes)?;
    write_whole(&folder.validation_file(), &bytes)?;

    let report = RunReport {
        config,
        command: &folder.command()?,
        target,
        metrics: &folder.metrics()?,
        posterior,
        rows: Some(ScoredRows {
            part: match &validation.recalibration {
                Some(_) => "validation rows (recalibrated by cross-fitting)",
                None => "validation rows",
            },
            predictions,
            targets: &targets,
            scores: &validation.scores,
            inputs: Some(inputs),
            further: FurtherScores {
                baselines: &validation.assessment.baselines,
                ..FurtherScores::default()
            },
        }),
        diverged: validation.diverged.as_deref(),
        assessment: Some(&validation.assessment),
    };
    report.write(&folder.report_file())?;
    Ok(Some(validation))
}

/// Writes the report of a fit that stopped at a non-finite number: the reason and the training curves.
pub(super) fn report_failure(
    folder: &RunFolder,
    config: &Config,
    target: &Target,
    reason: &str,
) -> Result<()> {
    let report = RunReport {
        config,
        command: &folder.command()?,
        target,
        metrics: &folder.metrics()?,
        posterior: None,
        rows: None,
        diverged: Some(reason),
        assessment: None,
    };
    report.write(&folder.report_file())
}

/// The content of the report of a run.
#[derive(Debug)]
pub(crate) struct RunReport<'a> {
    /// The settings in effect.
    pub(crate) config: &'a Config,
    /// The command line.
    pub(crate) command: &'a str,
    /// The type of the target.
    pub(crate) target: &'a Target,
    /// The metrics of every epoch.
    pub(crate) metrics: &'a [EpochMetrics],
    /// The posterior; `None` for a point estimate.
    pub(crate) posterior: Option<&'a FactorPosterior>,
    /// The scored rows, if any.
    pub(crate) rows: Option<ScoredRows<'a>>,
    /// Why the fit diverged; `None` if it did not.
    pub(crate) diverged: Option<&'a str>,
    /// Whether the fit can be trusted, if these are its own held-out rows.
    pub(crate) assessment: Option<&'a Assessment>,
}

impl RunReport<'_> {
    /// Writes the report.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let Config { data, fit } = self.config;
        let target = &data.target_text()?;
        let posterior = self.posterior.map(PosteriorSummary::of).transpose()?;
        let panel = self.assessment.and_then(Assessment::panel);
        let report = Report {
            title: &match fit.members {
                1 => format!("{} of {} for {target}", fit.method, fit.shape()),
                members => format!("{members} × {} of {} for {target}", fit.method, fit.shape()),
            },
            command: self.command,
            config: &self.config.to_toml()?,
            training: &curves(self.metrics, self.target),
            is_sampled: fit.method.is_sampled(),
            target,
            rows: self.rows,
            diverged: self.diverged,
            verdict: panel.as_ref(),
            posterior: posterior.as_ref(),
        };
        report::write(&report, path)
    }
}

/// The training curves of the final fit.
pub fn curves(metrics: &[EpochMetrics], target: &Target) -> [TrainingCurve; 3] {
    let (nats, error) = match target {
        Target::Classes(_) => ("loss, nats per row", "misclassification rate"),
        // The network is trained on standardised targets, whose densities have another scale.
        Target::Real(_) => ("nats per row, standardised", "RMSE, the target's unit"),
        Target::Counts { .. } => ("nats per row", "RMSE"),
        Target::Several(_) if target.scales().is_some() => {
            ("nats per row, standardised", "RMSE, standardised")
        }
        Target::Several(_) => ("loss, nats per row", "Hamming loss"),
    };
    let curve = |label: &str, unit: &str, value: fn(&EpochMetrics) -> Option<f64>| TrainingCurve {
        label: label.into(),
        unit: unit.into(),
        points: metrics
            .iter()
            .filter_map(|line| Some((line.record.epoch, value(line)?)))
            .collect(),
    };
    [
        curve("training loss", nats, |line| Some(line.record.loss)),
        curve("validation NLL", nats, |line| Some(line.validation?.nll)),
        curve("validation error", error, |line| {
            Some(line.validation?.error)
        }),
    ]
}

/// Columns of targets as text; those of several targets have their names.
fn words(targets: &Targets, target: &Target) -> Vec<(Option<String>, Vec<String>)> {
    let text = |targets: &Targets, target: &Target| match (targets, target) {
        (Targets::Classes(classes), Target::Classes(names)) => {
            classes.iter().map(|&class| names[class].clone()).collect()
        }
        (Targets::Classes(classes), _) => classes.iter().map(ToString::to_string).collect(),
        (Targets::Real(values), _) => values.iter().map(ToString::to_string).collect(),
        (Targets::Several(_), _) => Vec::new(),
    };
    let named = target.of_targets().into_iter().zip(columns_of(targets));
    named
        .map(|((name, target), column)| (name.map(String::from), text(column, target)))
        .collect()
}
