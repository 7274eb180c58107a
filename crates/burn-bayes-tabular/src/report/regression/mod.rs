//! Charts and tables of a regression.

mod calibration;
mod conditional_coverage;
mod predictions;
mod referral;

use burn_bayes_data::Targets;

use super::page::{Section, other_task};
use super::row_tables;
use crate::error::Result;
use crate::predict::RealPredictions;
use crate::rows::RowInputs;
use crate::scores::RegressionScores;
use crate::text::number;
use calibration::{interval_calibration, pit_histogram};
use predictions::Cloud;
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
    let mut sections = vec![
        Section {
            id: "predictions",
            heading: "Predictions",
            text: format!(
                "The standard deviation of the observation noise is {}.",
                number(scores.noise_deviation),
            ),
            figures: vec![cloud.against_truth()?, cloud.fan(predictions)?],
            tables: Vec::new(),
        },
        Section {
            id: "calibration",
            heading: "Calibration",
            text: "Are the stated probabilities of the intervals correct?".into(),
            figures: vec![interval_calibration(scores)?, pit_histogram(scores)?],
            tables: Vec::new(),
        },
    ];
    sections.extend(conditional_coverage::section(predictions, targets, inputs)?);
    if !scores.selective[0].referral.is_empty() {
        sections.push(Section {
            id: "referral",
            heading: "Referral",
            text: "How much does the error decrease if the rows with the most disagreement between weight draws are referred to an expert?".into(),
            figures: vec![risk_coverage(&mixture, &cloud)?],
            tables: vec![referral_table(scores)],
        });
    }
    if let Some(inputs) = inputs {
        sections.push(row_tables::of_numbers(&mixture, targets, inputs)?);
    }
    Ok(sections)
}
