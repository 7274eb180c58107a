//! The choice of an uncertainty threshold for a target risk.
//!
//! The bound of `SelectiveBounds` holds for thresholds that do not depend on the rows. The candidates
//! are the maximum of the score, divided by powers of √2.

use std::f64::consts::FRAC_1_SQRT_2;
use std::path::Path;

use burn_bayes::eval::{BoundedPoint, SelectiveBounds};

use super::held_out::HeldOutTable;
use crate::error::{Result, TabularError};
use crate::predict::Uncertainty;
use crate::predict::{LABEL, TARGET};

/// Number of candidates, down to 1/256 of the maximum; more candidates would loosen all bounds.
const CANDIDATES: i32 = 17;

/// The largest threshold of a score at which the error rate is at most `target` with the given
/// confidence, from the file of a run's validation predictions.
///
/// # Errors
/// If no threshold has such a bound, because the rows are too few or the error rate is too high.
pub(crate) fn threshold_at_risk(
    path: &Path,
    score: Uncertainty,
    classes: usize,
    target: f64,
    confidence: f64,
) -> Result<BoundedPoint> {
    let table = HeldOutTable::read(path, &[score.name().into()], &[LABEL, TARGET])?;
    let labels = table.words(LABEL)?.into_iter().zip(table.words(TARGET)?);
    let losses = labels.map(|(label, truth)| f64::from(u8::from(label != truth)));
    let losses: Vec<f64> = losses.collect();
    let values = table.numbers(score.name())?;
    let candidates = candidates(score, classes);
    let bounds = SelectiveBounds::exact(&values, &losses, &candidates, confidence)
        .map_err(|error| table.damaged(error))?;
    bounds.coverage_at_risk(target)?.ok_or_else(|| {
        let least = bounds.points().iter().map(|point| point.risk_upper);
        let least = least.fold(1.0, f64::min);
        TabularError::Data(format!(
            "{}: {} validation rows cannot guarantee a risk of {target}; the smallest possible bound is \
             {least:.3} (at confidence {confidence}): raise `--target-risk`, or fit with more \
             validation rows",
            path.display(),
            losses.len()
        ))
    })
}

fn candidates(score: Uncertainty, classes: usize) -> Vec<f64> {
    let greatest = match score {
        Uncertainty::Entropy | Uncertainty::MutualInformation => (classes as f64).ln(),
        Uncertainty::Disagreement | Uncertainty::LeastConfidence | Uncertainty::VariationRatio => {
            1.0
        }
    };
    let candidates = (0..CANDIDATES).map(|power| greatest * FRAC_1_SQRT_2.powi(power));
    candidates.collect()
}
