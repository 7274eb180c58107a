//! What is measured of predictions.

use burn_bayes::eval::{
    BinaryScores, ConfusionMatrix, DrawProbabilities, LabelledProbabilities, ReliabilityDiagram,
    auroc, false_positive_rate_at, nll, one_vs_rest_auroc, referral_table,
};

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::predict::Uncertainty;
use burn_bayes_tabular::scores::Measures;

use crate::experiment::Column;

pub(super) const ACCURACY: &str = "accuracy";
pub(super) const BALANCED: &str = "balanced_accuracy";
pub(super) const AUROC: &str = "auroc";
pub(super) const NLL: &str = "nll";
const ECE: &str = "ece";
/// Of the calibration error.
const BINS: usize = 15;

/// Of unusual pictures against the test pictures.
pub(super) const UNUSUAL_AUROC: &str = "unusual_auroc";
pub(super) const UNUSUAL_AUPR: &str = "unusual_aupr";
pub(super) const UNUSUAL_FPR95: &str = "unusual_fpr95";

/// The columns of the table.
pub(super) const COLUMNS: [Column; 24] = [
    Column::mean(ACCURACY, "accuracy"),
    Column::mean("entropy_90", "90 % by entropy"),
    Column::mean("entropy_80", "80 %"),
    Column::mean("entropy_70", "70 %"),
    Column::mean("entropy_60", "60 %"),
    Column::mean("entropy_50", "50 %"),
    Column::mean("disagreement_90", "90 % by disagreement"),
    Column::mean("disagreement_80", "80 %"),
    Column::mean("disagreement_70", "70 %"),
    Column::mean("disagreement_60", "60 %"),
    Column::mean("disagreement_50", "50 %"),
    Column::mean(BALANCED, "balanced accuracy"),
    Column::mean("balanced_entropy_50", "balanced, 50 % by entropy"),
    Column::mean("balanced_disagreement_50", "balanced, 50 % by disagreement"),
    Column::mean(AUROC, "AUROC"),
    Column::mean(NLL, "NLL"),
    Column::mean(ECE, "ECE"),
    Column::mean("foreign_auroc_entropy", "digits, AUROC by entropy"),
    Column::mean("foreign_fpr95_entropy", "FPR95"),
    Column::mean(
        "foreign_auroc_mutual_information",
        "digits, AUROC by information",
    ),
    Column::mean("foreign_fpr95_mutual_information", "FPR95"),
    Column::mean(UNUSUAL_AUROC, "unusual pictures, AUROC"),
    Column::mean(UNUSUAL_AUPR, "AUPR"),
    Column::mean(UNUSUAL_FPR95, "FPR95"),
];

/// Per cent of the rows that are kept.
pub(super) const KEPT: [u32; 6] = [100, 90, 80, 70, 60, 50];

/// The accuracy on the rows of which a score is surest.
pub(super) fn kept(score: Uncertainty, per_cent: u32) -> String {
    format!("{}_{per_cent}", score.name())
}

/// How well a score tells rows of another kind.
pub(super) fn detected(score: Uncertainty) -> String {
    format!("foreign_auroc_{}", score.name())
}

/// Scores of all rows, and of those of which the network is surest.
pub(super) fn selective(draws: &DrawProbabilities<'_>, classes: &[usize]) -> Result<Measures> {
    let average = draws.average();
    let labelled = LabelledProbabilities::new(&average, classes)?;
    let mut measures = overall(&labelled)?;
    measures.extend(one_vs_rest_auroc(&labelled).map(|area| (AUROC.into(), area)));
    let fractions = KEPT.map(|per_cent| f64::from(per_cent) / 100.0);
    for score in [Uncertainty::Entropy, Uncertainty::Disagreement] {
        if score.needs_draws() && draws.draws() == 1 {
            continue;
        }
        let rows = referral_table(&labelled, &score.of(draws), &fractions)?;
        for (row, per_cent) in rows.iter().zip(KEPT) {
            let name = kept(score, per_cent);
            measures.insert(format!("balanced_{name}"), row.balanced_accuracy);
            measures.insert(name, row.accuracy);
        }
    }
    Ok(measures)
}

/// Scores of the known rows, and how well they are told from those of another kind.
pub(super) fn detection(
    known: &DrawProbabilities<'_>,
    classes: &[usize],
    foreign: &DrawProbabilities<'_>,
) -> Result<Measures> {
    let average = known.average();
    let mut measures = overall(&LabelledProbabilities::new(&average, classes)?)?;
    for score in [Uncertainty::Entropy, Uncertainty::MutualInformation] {
        if score.needs_draws() && known.draws() == 1 {
            continue;
        }
        let scores = BinaryScores::separating(&score.of(known), &score.of(foreign))?;
        let missed = false_positive_rate_at(&scores, 0.95)?;
        measures.insert(format!("foreign_fpr95_{}", score.name()), missed);
        measures.insert(detected(score), auroc(&scores));
    }
    Ok(measures)
}

/// The NLL of rows.
pub(super) fn loss(draws: &DrawProbabilities<'_>, classes: &[usize]) -> Result<f64> {
    let average = draws.average();
    Ok(nll(&LabelledProbabilities::new(&average, classes)?))
}

fn overall(labelled: &LabelledProbabilities<'_>) -> Result<Measures> {
    let confusion = ConfusionMatrix::from_probabilities(labelled);
    let diagram = ReliabilityDiagram::equal_width(labelled, BINS)?;
    Ok(Measures::from([
        (ACCURACY.into(), confusion.accuracy()),
        (BALANCED.into(), confusion.balanced_accuracy()),
        (NLL.into(), nll(labelled)),
        (ECE.into(), diagram.expected_calibration_error()),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two draws of four rows, the last of which they disagree about.
    fn draws() -> DrawProbabilities<'static> {
        let positive = [0.1, 0.9, 0.8, 0.3, 0.1, 0.9, 0.8, 0.6];
        DrawProbabilities::binary(&positive, 2, 4).unwrap()
    }

    #[test]
    fn accuracy_rises_where_the_unsure_rows_are_wrong() {
        let found = selective(&draws(), &[0, 1, 1, 1]).unwrap();
        assert_eq!(found[ACCURACY], 0.75);
        for score in [Uncertainty::Entropy, Uncertainty::Disagreement] {
            assert_eq!(found[&kept(score, 100)], 0.75);
            assert_eq!(found[&kept(score, 70)], 1.0);
        }
    }

    #[test]
    fn a_single_draw_has_no_disagreement() {
        let single = DrawProbabilities::binary(&[0.1, 0.9, 0.4], 1, 3).unwrap();
        let found = selective(&single, &[0, 1, 1]).unwrap();
        assert!(found.contains_key(&kept(Uncertainty::Entropy, 50)));
        assert!(!found.contains_key(&kept(Uncertainty::Disagreement, 50)));
        let found = detection(&single, &[0, 1, 1], &single).unwrap();
        assert_eq!(found[&detected(Uncertainty::Entropy)], 0.5);
        assert!(!found.contains_key(&detected(Uncertainty::MutualInformation)));
    }

    #[test]
    fn every_column_is_measured() {
        let mut found = selective(&draws(), &[0, 1, 1, 0]).unwrap();
        found.extend(detection(&draws(), &[0, 1, 1, 0], &draws()).unwrap());
        // The measures of unusual pictures have a job of their own.
        let columns = COLUMNS.iter();
        for column in columns.filter(|column| !column.measure.starts_with("unusual")) {
            assert!(found.contains_key(column.measure), "{}", column.measure);
        }
    }
}
