//! Charts and tables of a regression.

mod calibration;
mod conditional_coverage;
mod predictions;
mod referral;

use burn_bayes::eval::{PredictionIntervals, TargetedMixture, log_densities};
use burn_bayes_data::Targets;

use super::row_tables;
use super::section::{Section, other_task};
use crate::error::Result;
use crate::predict::{Moments, RealPredictions};
use crate::rows::RowInputs;
use crate::scores::{LEVELS, ReferredReals, RegressionScores};
use crate::text::number;
pub(super) use calibration::{interval_calibration, pit_histogram};
pub(super) use predictions::Cloud;
use referral::{referral_table, risk_coverage};

/// Predictions, calibration and referral.
pub(crate) fn sections(
    predictions: &RealPredictions,
    scores: &RegressionScores,
    targets: &Targets,
    target: &str,
    inputs: Option<&RowInputs>,
) -> Result<Vec<Section>> {
    let Targets::Real(targets) = targets else {
        return Err(other_task());
    };
    let mixture = predictions.checked()?;
    let cloud = Cloud {
        means: mixture.mean(),
        targets,
        target,
    };
    let bands = |rows: &[usize]| {
        let shown = predictions.of_rows(rows);
        let mixture = shown.checked()?;
        let central = LEVELS.map(|level| PredictionIntervals::central(&mixture, level));
        Ok(central.into_iter().collect::<std::result::Result<_, _>>()?)
    };
    let mut sections = vec![
        Section {
            id: "predictions".into(),
            heading: "Predictions".into(),
            text: format!(
                "The standard deviation of the observation noise is {}.",
                number(scores.noise_deviation),
            ),
            figures: vec![cloud.against_truth()?, cloud.fan(bands)?],
            tables: Vec::new(),
        },
        Section {
            id: "calibration".into(),
            heading: "Calibration".into(),
            text: "Are the stated probabilities of the intervals correct?".into(),
            figures: vec![
                interval_calibration(&scores.quantiles)?,
                pit_histogram(&scores.pit_counts)?,
            ],
            tables: Vec::new(),
        },
    ];
    sections.extend(conditional_coverage::section(predictions, targets, inputs)?);
    let uncertainty = mixture.variance_between_draws();
    sections.extend(referral(
        &scores.selective[0].referral,
        &uncertainty,
        &cloud,
    )?);
    if let Some(inputs) = inputs {
        let densities = log_densities(&TargetedMixture::new(&mixture, targets)?);
        let surprises: Vec<f64> = densities.iter().map(|log| -log).collect();
        let moments = Moments::of_numbers(&mixture);
        sections.push(row_tables::of_numbers(
            &moments, &surprises, targets, inputs,
        )?);
    }
    Ok(sections)
}

/// Which rows to refer, unless the uncertainty is undefined.
pub(super) fn referral(
    rows: &[ReferredReals],
    uncertainty: &[f64],
    cloud: &Cloud<'_>,
) -> Result<Option<Section>> {
    if rows.is_empty() {
        return Ok(None);
    }
    Ok(Some(Section {
        id: "referral".into(),
        heading: "Referral".into(),
        text: "How much does the error decrease if the rows with the most disagreement between weight draws are referred to an expert?".into(),
        figures: vec![risk_coverage(uncertainty, cloud)?],
        tables: vec![referral_table(rows)],
    }))
}
