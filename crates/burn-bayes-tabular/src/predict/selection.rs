//! The choice of an uncertainty threshold for a target risk.
//!
//! The bound of `SelectiveBounds` holds for thresholds that do not depend on the rows. The candidates
//! are the maximum of the score, divided by powers of √2. The deviation of a number has no maximum: its candidates are
//! in units of the largest error that is not wrong.

use std::f64::consts::FRAC_1_SQRT_2;
use std::path::Path;

use burn_bayes::eval::{BoundedPoint, SelectiveBounds};

use super::held_out::HeldOutTable;
use crate::error::{Result, TabularError};
use crate::predict::Uncertainty;
use crate::predict::{EPISTEMIC, LABEL, MEAN, TARGET, column_name};
use burn_bayes::eval::Bounded;

/// Number of candidates, down to 1/256 of the maximum; more candidates would loosen all bounds.
const CANDIDATES: i32 = 17;

/// What counts as wrong, and the score that abstains.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Abstention<'a> {
    /// Another class than the most probable one, of this number of classes.
    Class { score: Uncertainty, classes: usize },
    /// An absolute error of the mean above the tolerance.
    Number { score: &'a str, tolerance: f64 },
}

/// The largest threshold of a score at which the fraction of wrong rows is at most `target` with the given
/// confidence, from the file of a run's validation predictions; `of` is the name of the target, if there are several.
///
/// # Errors
/// If no threshold has such a bound, because the rows are too few or too many are wrong.
pub(crate) fn threshold_at_risk(
    path: &Path,
    of: Option<&str>,
    abstention: Abstention<'_>,
    target: f64,
    confidence: f64,
) -> Result<BoundedPoint> {
    let column = |name: &str| column_name(of, name);
    let loss = |is_wrong: bool| f64::from(u8::from(is_wrong));
    let (table, values, losses, candidates): (_, _, Vec<f64>, _) = match abstention {
        Abstention::Class { score, classes } => {
            let [score_column, label, truth] = [score.name(), LABEL, TARGET].map(column);
            let table = HeldOutTable::read(
                path,
                std::slice::from_ref(&score_column),
                &[label.clone(), truth.clone()],
            )?;
            let labels = table.words(&label)?.into_iter().zip(table.words(&truth)?);
            let losses = labels.map(|(label, truth)| loss(label != truth)).collect();
            let values = table.numbers(&score_column)?;
            (table, values, losses, of_score(score, classes))
        }
        Abstention::Number { score, tolerance } => {
            let names = [MEAN, score, TARGET].map(column);
            let table = HeldOutTable::read(path, &names, &[])?;
            let [means, values, truths] = names.map(|name| table.numbers(&name));
            let pairs = means?.into_iter().zip(truths?);
            let losses = pairs.map(|(mean, truth)| loss((mean - truth).abs() > tolerance));
            (
                table,
                values?,
                losses.collect(),
                of_tolerance(score, tolerance),
            )
        }
    };
    let bounds = SelectiveBounds::exact(&values, &losses, &candidates, confidence)
        .map_err(|error| table.damaged(error))?;
    bounds.coverage_at_risk(target)?.ok_or_else(|| {
        let least = bounds.points().iter().map(|point| point.risk_upper);
        let least = least.fold(1.0, f64::at_most);
        TabularError::Data(format!(
            "{}: {} validation rows cannot guarantee a risk of {target}; the smallest possible bound is \
             {least:.3} (at confidence {confidence}): raise `--target-risk`, or fit with more \
             validation rows",
            path.display(),
            losses.len()
        ))
    })
}

/// Candidates for the deviation of a number, from four tolerances down. A row whose deviation is the tolerance is
/// wrong with a probability of about a third, and of a quarter of it almost never, so `std` has fine steps there. The
/// deviation without noise may be much smaller.
pub(super) fn of_tolerance(score: &str, tolerance: f64) -> Vec<f64> {
    let step = match score == EPISTEMIC {
        true => FRAC_1_SQRT_2,
        false => FRAC_1_SQRT_2.sqrt(),
    };
    let candidates = (0..CANDIDATES).map(|power| 4.0 * tolerance * step.powi(power));
    candidates.collect()
}

pub(super) fn of_score(score: Uncertainty, classes: usize) -> Vec<f64> {
    let greatest = match score {
        Uncertainty::Entropy | Uncertainty::MutualInformation => (classes as f64).ln(),
        Uncertainty::Disagreement | Uncertainty::LeastConfidence | Uncertainty::VariationRatio => {
            1.0
        }
    };
    let candidates = (0..CANDIDATES).map(|power| greatest * FRAC_1_SQRT_2.powi(power));
    candidates.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_numbers_are_bounded_by_their_deviation() {
        use std::fmt::Write as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("validation.csv");
        let mut text = String::from("row,mean,std,epistemic_std,target\n");
        // Certain rows are 0.5 off, uncertain ones 2.
        for row in 0..400 {
            let (deviation, error) = if row % 4 == 0 {
                (2.0, 2.0)
            } else {
                (0.5, -0.5)
            };
            writeln!(text, "{row},{row},{deviation},0,{}", f64::from(row) + error).unwrap();
        }
        std::fs::write(&path, text).unwrap();
        let found = |tolerance, target| {
            let abstention = Abstention::Number {
                score: "std",
                tolerance,
            };
            threshold_at_risk(&path, None, abstention, target, 0.95)
        };
        let point = found(1.0, 0.05).unwrap();
        // The largest candidate below 2: 4 · 2^(−5/4) is the first.
        assert!(
            (point.threshold - 4.0 * 2.0f64.powf(-1.25)).abs() < 1e-12,
            "{point:?}"
        );
        assert_eq!((point.kept, point.risk), (300, Some(0.0)));
        // Nothing is wrong, so all rows are kept.
        assert_eq!(found(2.0, 0.05).unwrap().kept, 400);
        let error = found(0.4, 0.05).unwrap_err().to_string();
        assert!(
            error.contains("400 validation rows cannot guarantee"),
            "{error}"
        );
    }
}
