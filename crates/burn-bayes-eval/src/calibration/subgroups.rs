//! Calibration by subgroup: is the confidence right for each value of a column?
//!
//! In a group with confidences f_i, the number of hits is a sum of independent events with
//! probabilities f_i if the model is calibrated there. The p-value is twice the smaller tail of
//! this Poisson-binomial distribution, exact for up to 2000 rows and by the normal distribution,
//! with mean Σ f_i and variance Σ f_i(1 − f_i), for more. Of several groups, the p-values are
//! adjusted for their number by [`holm`].
//!
//! Better than a table of gaps, where the smallest group always looks worst.
//!
//! Reference: S. Holm, "A simple sequentially rejective multiple test procedure" (1979).

use std::collections::BTreeMap;

use crate::Bounded;
use crate::calibration::reliability::{Outcome, outcomes};
use crate::check;
use crate::comparison::holm;
use crate::error::EvalError;
use crate::special::normal;
use crate::views::LabelledProbabilities;

/// The calibration of one group of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SubgroupCalibration {
    /// The group, as given.
    pub group: usize,
    /// Number of rows.
    pub rows: usize,
    /// Mean confidence in the predicted class.
    pub mean_confidence: f64,
    /// Fraction of correctly predicted rows.
    pub accuracy: f64,
    /// p-value of the hypothesis that the group is calibrated on average.
    pub p_value: f64,
    /// The same, corrected for the number of groups.
    pub adjusted_p_value: f64,
}

impl SubgroupCalibration {
    /// Accuracy minus mean confidence, negative for overconfidence.
    pub fn gap(&self) -> f64 {
        self.accuracy - self.mean_confidence
    }
}

/// The calibration of each group, by increasing group; `groups` has one number per row.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, subgroup_calibration};
///
/// let table = ClassProbabilities::binary(&[0.75; 8])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 1, 1, 0, 0, 0, 0, 0])?;
/// let groups = subgroup_calibration(&labelled, &[0, 0, 0, 0, 1, 1, 1, 1])?;
/// assert_eq!((groups[0].gap(), groups[1].gap()), (0.0, -0.75));
/// assert_eq!(groups[1].p_value, 2.0 / 256.0); // four errors of probability 1/4
/// assert_eq!(groups[1].adjusted_p_value, 4.0 / 256.0);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if there is not one group per row.
pub fn subgroup_calibration(
    labelled: &LabelledProbabilities<'_>,
    groups: &[usize],
) -> Result<Vec<SubgroupCalibration>, EvalError> {
    check::same_length("groups", groups.len(), labelled.labels().len())?;
    let mut by_group: BTreeMap<usize, Vec<Outcome>> = BTreeMap::new();
    for (&group, outcome) in groups.iter().zip(outcomes(labelled)) {
        by_group.entry(group).or_default().push(outcome);
    }
    let of_group = |(group, outcomes): (usize, Vec<Outcome>)| {
        let rows = outcomes.len() as f64;
        let p_value = p_value(&outcomes);
        SubgroupCalibration {
            group,
            rows: outcomes.len(),
            mean_confidence: outcomes.iter().map(|o| o.confidence).sum::<f64>() / rows,
            accuracy: outcomes.iter().map(|o| o.hit).sum::<f64>() / rows,
            p_value,
            adjusted_p_value: p_value,
        }
    };
    let mut found: Vec<SubgroupCalibration> = by_group.into_iter().map(of_group).collect();
    let p_values: Vec<f64> = found.iter().map(|group| group.p_value).collect();
    for (group, adjusted) in found.iter_mut().zip(holm(&p_values)?) {
        group.adjusted_p_value = adjusted;
    }
    Ok(found)
}

/// Groups of more rows use the normal distribution.
const MOST_EXACT: usize = 2000;

fn p_value(outcomes: &[Outcome]) -> f64 {
    let hits: f64 = outcomes.iter().map(|outcome| outcome.hit).sum();
    if outcomes.len() > MOST_EXACT {
        let mean: f64 = outcomes.iter().map(|o| o.confidence).sum();
        let variance: f64 = outcomes
            .iter()
            .map(|o| o.confidence * (1.0 - o.confidence))
            .sum();
        // With the correction for continuity.
        let distance = ((hits - mean).abs() - 0.5).at_least(0.0);
        return match variance > 0.0 {
            true => (2.0 * normal::cumulative(-distance / variance.sqrt())).at_most(1.0),
            false if distance == 0.0 => 1.0,
            false => 0.0,
        };
    }
    // The distribution of the number of hits, one row after the other.
    let mut masses = vec![1.0];
    for outcome in outcomes {
        // A sum of rounded probabilities may exceed 1.
        let p = outcome.confidence.min(1.0);
        masses.push(0.0);
        for count in (0..masses.len()).rev() {
            let below = if count > 0 { masses[count - 1] } else { 0.0 };
            masses[count] = masses[count] * (1.0 - p) + below * p;
        }
    }
    let hits = hits.round() as usize;
    let lower: f64 = masses[..=hits].iter().sum();
    let upper: f64 = masses[hits..].iter().sum();
    (2.0 * lower.at_most(upper)).at_most(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassProbabilities;
    use crate::special::binomial;

    #[test]
    fn equal_confidences_are_binomial_and_many_rows_normal() {
        let of = |rows: usize, hits: usize| {
            let row = |row| Outcome {
                confidence: 0.75,
                hit: if row < hits { 1.0 } else { 0.0 },
            };
            p_value(&(0..rows).map(row).collect::<Vec<_>>())
        };
        let expected = 2.0 * binomial::lower_tail(60, 100, 0.75);
        assert!((of(100, 60) - expected).abs() < 1e-13);
        // One row more, and the skewness that the normal distribution lacks.
        let (exact, normal) = (of(2000, 1450), of(2001, 1451));
        assert!((exact / normal - 1.0).abs() < 0.1, "{exact} {normal}");
    }

    #[test]
    fn certain_rows_are_right_or_impossible() {
        let table = ClassProbabilities::binary(&[1.0, 1.0]).unwrap();
        for (labels, p_value) in [([1, 1], 1.0), ([1, 0], 0.0)] {
            let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
            let found = subgroup_calibration(&labelled, &[3, 3]).unwrap();
            assert_eq!((found[0].group, found[0].p_value), (3, p_value));
        }
        let labelled = LabelledProbabilities::new(&table, &[1, 1]).unwrap();
        assert!(subgroup_calibration(&labelled, &[0]).unwrap_err().is_data());
    }
}
