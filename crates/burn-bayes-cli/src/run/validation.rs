//! How well a run predicts the rows that were held out, in files of its folder.

use std::io;
use std::path::Path;

use burn_bayes_data::{Dataset, Targets};

use super::folder::RunFolder;
use super::metrics::EpochMetrics;
use crate::engine::{Fitted, Stage};
use crate::failure::Result;
use crate::files::write_whole;
use crate::prediction_table::PredictionTable;
use crate::predictions::Predictions;
use crate::problem::TargetMeaning;
use crate::report::{self, PosteriorSummary, Report, TrainingCurve};
use crate::rows::true_targets;
use crate::scores::{Intervals, Scores};
use crate::settings::Config;

/// Scores the rows that were held out from these places of the file; leaves the scores, the predictions
/// and a report.
pub(crate) fn validate(
    folder: &RunFolder,
    config: &Config,
    fitted: &Fitted,
    rows: &Dataset,
    places: Vec<usize>,
) -> Result<Scores> {
    let predictions = fitted.predict(rows.features(), config.fit.draws)?;
    let targets = true_targets(rows, fitted.meaning());
    let positive = fitted.meaning().positive(config.data.positive.as_deref())?;
    let intervals = Intervals::Bootstrapped;
    let scores = Scores::of_positive(&predictions, &targets, intervals, positive)?;
    let text = serde_json::to_string_pretty(&scores).map_err(io::Error::from)?;
    write_whole(&folder.scores_file(), text.as_bytes())?;

    let words = words(&targets, fitted.meaning());
    let table = PredictionTable::new(&predictions, &[])?
        .with_targets(words)
        .after(places, Vec::new())?;
    let mut writer = csv::Writer::from_writer(Vec::new());
    table.write_header(&mut writer)?;
    table.write_rows(&mut writer)?;
    let bytes = writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?;
    write_whole(&folder.validation_file(), &bytes)?;

    let scored = ScoredRows {
        part: "validation rows",
        predictions: &predictions,
        targets: &targets,
        scores: &scores,
    };
    let command = folder.command()?;
    write_report(
        folder,
        config,
        fitted,
        scored,
        &command,
        &folder.report_file(),
    )?;
    Ok(scores)
}

/// Rows whose targets are known, with what a run says of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoredRows<'a> {
    /// Which rows these are, as the report says it.
    pub(crate) part: &'a str,
    pub(crate) predictions: &'a Predictions,
    pub(crate) targets: &'a Targets,
    pub(crate) scores: &'a Scores,
}

/// Writes a report of a run on some rows, which this command made.
pub(crate) fn write_report(
    folder: &RunFolder,
    config: &Config,
    fitted: &Fitted,
    rows: ScoredRows<'_>,
    command: &str,
    path: &Path,
) -> Result<()> {
    let target = config.data.target()?;
    let posterior = fitted.posterior().map(PosteriorSummary::of).transpose()?;
    let report = Report {
        title: &format!("{} of {} for {target}", config.fit.method, config.fit.model),
        command,
        config: &config.to_toml()?,
        training: &curves(&folder.metrics()?, fitted.meaning()),
        part: rows.part,
        target,
        predictions: rows.predictions,
        targets: rows.targets,
        scores: rows.scores,
        posterior: posterior.as_ref(),
    };
    report::write(&report, path)
}

/// What was recorded of the training that was kept.
pub(crate) fn curves(metrics: &[EpochMetrics], meaning: &TargetMeaning) -> [TrainingCurve; 3] {
    let (nats, error) = match meaning {
        TargetMeaning::Classes(_) => ("loss, nats per row", "share of wrong classes"),
        // The network learns on standardised targets, where a density is another one.
        TargetMeaning::Real(_) => ("nats per row, standardised", "RMSE, the target's unit"),
    };
    let curve = |label: &str, unit: &str, value: fn(&EpochMetrics) -> Option<f64>| {
        let kept = metrics
            .iter()
            .filter(|line| line.record.stage == Stage::Posterior);
        TrainingCurve {
            label: label.into(),
            unit: unit.into(),
            points: kept
                .filter_map(|line| Some((line.record.epoch, value(line)?)))
                .collect(),
        }
    };
    [
        curve("training loss", nats, |line| Some(line.record.loss)),
        curve("validation NLL", nats, |line| Some(line.validation?.nll)),
        curve("validation error", error, |line| {
            Some(line.validation?.error)
        }),
    ]
}

/// Targets as they are written.
fn words(targets: &Targets, meaning: &TargetMeaning) -> Vec<String> {
    match (targets, meaning) {
        (Targets::Classes(classes), TargetMeaning::Classes(names)) => {
            classes.iter().map(|&class| names[class].clone()).collect()
        }
        (Targets::Classes(classes), TargetMeaning::Real(_)) => {
            classes.iter().map(ToString::to_string).collect()
        }
        (Targets::Real(values), _) => values.iter().map(ToString::to_string).collect(),
    }
}
