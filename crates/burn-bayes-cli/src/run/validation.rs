//! How well a run predicts the rows that were held out, in files of its folder.

use std::io;

use burn_bayes_data::{Dataset, Targets};

use super::folder::RunFolder;
use crate::engine::{EpochRecord, Fitted, Stage};
use crate::failure::Result;
use crate::files::write_whole;
use crate::prediction_table::PredictionTable;
use crate::problem::TargetMeaning;
use crate::report::{self, PosteriorSummary, Report, TrainingCurve};
use crate::rows::true_targets;
use crate::scores::Scores;
use crate::settings::Config;

/// Scores the rows that were held out; leaves the scores, the predictions and a report.
pub(crate) fn validate(
    folder: &RunFolder,
    config: &Config,
    fitted: &Fitted,
    rows: &Dataset,
) -> Result<Scores> {
    let predictions = fitted.predict(rows.features(), config.fit.draws)?;
    let targets = true_targets(rows, fitted.meaning());
    let scores = Scores::of(&predictions, &targets)?;
    let text = serde_json::to_string_pretty(&scores).map_err(io::Error::from)?;
    write_whole(&folder.scores_file(), text.as_bytes())?;

    let words = words(&targets, fitted.meaning());
    let table = PredictionTable::new(&predictions, &[])?.with_targets(words);
    let mut writer = csv::Writer::from_writer(Vec::new());
    table.write_header(&mut writer)?;
    table.write_rows(&mut writer)?;
    let bytes = writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?;
    write_whole(&folder.validation_file(), &bytes)?;

    let target = config.data.target()?;
    let posterior = fitted.posterior().map(PosteriorSummary::of).transpose()?;
    let report = Report {
        title: &format!("{} of {} for {target}", config.fit.method, config.fit.model),
        command: &format!("burn-bayes fit --out {}", folder.path().display()),
        config: &config.to_toml()?,
        training: &[curve(&folder.metrics()?)],
        part: "validation rows",
        target,
        predictions: &predictions,
        targets: &targets,
        scores: &scores,
        posterior: posterior.as_ref(),
    };
    report::write(&report, &folder.report_file())?;
    Ok(scores)
}

/// The loss of the training that was kept.
fn curve(records: &[EpochRecord]) -> TrainingCurve {
    let kept = records
        .iter()
        .filter(|record| record.stage == Stage::Posterior);
    TrainingCurve {
        label: "training loss".into(),
        unit: "nats per row, standardised".into(),
        points: kept.map(|record| (record.epoch, record.loss)).collect(),
    }
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
