//! Charts and tables of a classification.

mod calibration;
mod classes;
mod confusion;
mod referral;

use burn_bayes::eval::{LabelledProbabilities, zero_one_losses};
use burn_bayes_data::Targets;

use super::row_tables;
use super::section::{Section, other_task};
use crate::error::Result;
use crate::predict::ClassPredictions;
use crate::rows::RowInputs;
use crate::scores::ClassificationScores;
use calibration::{entropies, reliability};
use referral::{accuracy_table, area_table, entropy_table, risk_coverage};

/// Classes, calibration and referral.
pub(crate) fn sections(
    predictions: &ClassPredictions,
    scores: &ClassificationScores,
    targets: &Targets,
    inputs: Option<&RowInputs>,
) -> Result<Vec<Section>> {
    let Targets::Classes(labels) = targets else {
        return Err(other_task());
    };
    let draws = predictions.checked()?;
    let average = draws.average();
    let labelled = LabelledProbabilities::new(&average, labels)?;
    let losses = zero_one_losses(&labelled);
    let calibration = Section::new(
        "calibration",
        "Calibration",
        "Are the predicted probabilities correct, and is the model uncertain where it is wrong?",
    )
    .with_figures(vec![reliability(scores)?, entropies(&average, &losses)?]);
    let text = "How much does the error rate decrease if the most uncertain rows are referred to an expert?";
    let referral = Section::new("referral", "Referral", text)
        .with_figures(vec![risk_coverage(scores, &draws, &losses)?])
        .with_tables(vec![
            accuracy_table(scores),
            area_table(scores),
            entropy_table(scores),
        ]);
    let mut sections = vec![classes::section(scores, &labelled)?, calibration, referral];
    if let Some(inputs) = inputs {
        sections.push(row_tables::of_classes(&scores.classes, &labelled, inputs)?);
    }
    Ok(sections)
}
