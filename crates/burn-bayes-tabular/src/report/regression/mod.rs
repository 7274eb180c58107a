//! Charts and tables of a regression or of counts.

mod calibration;
mod conditional_coverage;
mod predictions;
mod referral;

use burn_bayes_data::Targets;

use super::row_tables;
use super::section::{Section, Table, other_task};
use crate::error::Result;
use crate::predict::Predictions;
use crate::rows::RowInputs;
use crate::scores::{QuantileFrequency, ReferredReals, RegressionScores};
use crate::text::number;
use calibration::{interval_calibration, pit_histogram};
use predictions::Cloud;
use referral::{referral_table, risk_coverage};

/// The scores that the sections show, and what they say.
pub(super) struct NumberScores<'a> {
    pub(super) of_predictions: String,
    pub(super) of_calibration: &'static str,
    pub(super) quantiles: &'a [QuantileFrequency],
    pub(super) pit_counts: &'a [usize],
    pub(super) referral: &'a [ReferredReals],
    /// The table beside the charts of the calibration.
    pub(super) coverage: Option<Table>,
}

impl<'a> From<&'a RegressionScores> for NumberScores<'a> {
    fn from(scores: &'a RegressionScores) -> Self {
        Self {
            of_predictions: format!(
                "The standard deviation of the observation noise is {}.",
                number(scores.noise_deviation),
            ),
            of_calibration: "Are the stated probabilities of the intervals correct?",
            quantiles: &scores.quantiles,
            pit_counts: &scores.pit_counts,
            referral: &scores.selective[0].referral,
            coverage: None,
        }
    }
}

/// Predictions, calibration and referral.
pub(super) fn sections(
    predictions: &Predictions,
    scores: NumberScores<'_>,
    targets: &Targets,
    target: &str,
    inputs: Option<&RowInputs>,
) -> Result<Vec<Section>> {
    let Targets::Real(targets) = targets else {
        return Err(other_task());
    };
    let mixture = predictions.numbers()?;
    let moments = mixture.moments();
    let cloud = Cloud {
        means: moments.mean.clone(),
        targets,
        target,
    };
    let mut sections = vec![
        Section::new("predictions", "Predictions", scores.of_predictions)
            .with_figures(vec![cloud.against_truth()?, cloud.fan(predictions)?]),
        Section::new("calibration", "Calibration", scores.of_calibration)
            .with_figures(vec![
                interval_calibration(scores.quantiles)?,
                pit_histogram(scores.pit_counts)?,
            ])
            .with_tables(scores.coverage.into_iter().collect()),
    ];
    if let Predictions::Reals(_) = predictions {
        sections.extend(conditional_coverage::section(predictions, targets, inputs)?);
    }
    let uncertainty = &moments.variance_between_draws;
    sections.extend(referral(scores.referral, uncertainty, &cloud)?);
    if let Some(inputs) = inputs {
        let surprises = mixture.costs(targets)?;
        sections.push(row_tables::of_numbers(
            &moments, &surprises, targets, inputs,
        )?);
    }
    Ok(sections)
}

/// Which rows to refer, unless the uncertainty is undefined.
fn referral(
    rows: &[ReferredReals],
    uncertainty: &[f64],
    cloud: &Cloud<'_>,
) -> Result<Option<Section>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let text = "How much does the error decrease if the rows with the most disagreement between weight \
                draws are referred to an expert?";
    let section = Section::new("referral", "Referral", text)
        .with_figures(vec![risk_coverage(uncertainty, cloud)?])
        .with_tables(vec![referral_table(rows)]);
    Ok(Some(section))
}
