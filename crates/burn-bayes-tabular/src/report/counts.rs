//! Charts and tables of counts.

use burn_bayes::eval::{TargetedCounts, log_probabilities};
use burn_bayes_data::Targets;

use super::regression::{Cloud, interval_calibration, pit_histogram, referral};
use super::row_tables;
use super::section::{Section, Table, other_task};
use crate::error::Result;
use crate::predict::{CountPredictions, Moments};
use crate::rows::RowInputs;
use crate::scores::{CountScores, LEVELS};
use crate::text::{optional, percent};

/// Predictions, calibration and referral.
pub(crate) fn sections(
    predictions: &CountPredictions,
    scores: &CountScores,
    targets: &Targets,
    target: &str,
    inputs: Option<&RowInputs>,
) -> Result<Vec<Section>> {
    let Targets::Real(counts) = targets else {
        return Err(other_task());
    };
    let mixture = predictions.checked()?;
    let moments = Moments::of_counts(&mixture);
    let cloud = Cloud {
        means: moments.mean.clone(),
        targets: counts,
        target,
    };
    let bands = |rows: &[usize]| {
        let shown = predictions.of_rows(rows);
        let mixture = shown.checked()?;
        let central = LEVELS.map(|level| mixture.central_intervals(level));
        Ok(central.into_iter().collect::<std::result::Result<_, _>>()?)
    };
    let mut sections = vec![
        Section {
            id: "predictions".into(),
            heading: "Predictions".into(),
            text: "The prediction is the mean of the predicted counts.".into(),
            figures: vec![cloud.against_truth()?, cloud.fan(bands)?],
            tables: Vec::new(),
        },
        Section {
            id: "calibration".into(),
            heading: "Calibration".into(),
            text: "Are the stated probabilities of the intervals correct? Counts are whole, so the transform of a count \
                   is drawn at random from the jump of the distribution function there."
                .into(),
            figures: vec![
                interval_calibration(&scores.quantiles)?,
                pit_histogram(&scores.pit_counts)?,
            ],
            tables: vec![coverage_table(scores)],
        },
    ];
    let uncertainty = &moments.variance_between_draws;
    sections.extend(referral(
        &scores.selective[0].referral,
        uncertainty,
        &cloud,
    )?);
    if let Some(inputs) = inputs {
        let logarithms = log_probabilities(&TargetedCounts::new(&mixture, counts)?);
        let surprises: Vec<f64> = logarithms.iter().map(|log| -log).collect();
        let rows = row_tables::of_numbers(&moments, &surprises, counts, inputs)?;
        sections.push(rows);
    }
    Ok(sections)
}

/// The coverage of the intervals beside the one to expect.
fn coverage_table(scores: &CountScores) -> Table {
    let rows = scores.intervals.iter().map(|found| {
        let observed = found.coverage.value;
        vec![
            percent(found.level),
            found.expected.map_or_else(String::new, percent),
            observed.map_or_else(|| optional(None), percent),
            optional(found.mean_width.value),
        ]
    });
    Table {
        caption:
            "Central intervals of whole numbers, which are at least as probable as their level"
                .into(),
        header: ["level", "expected coverage", "coverage", "mean width"]
            .map(String::from)
            .to_vec(),
        rows: rows.collect(),
    }
}
