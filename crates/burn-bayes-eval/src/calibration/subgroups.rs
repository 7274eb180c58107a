//! Calibration by subgroup: is the confidence right for each value of a column?
//!
//! In a group with confidences f_i, the number of hits is a sum of independent events with
//! probabilities f_i if the model is calibrated there. The p-value is twice the smaller tail of
//! this Poisson-binomial distribution, exact for up to 2000 rows and by the normal distribution,
//! with mean Σ f_i and variance Σ f_i(1 − f_i), for more. Of several groups, the p-values are
//! adjusted for their number by [`holm`].
//!
//! Of rows that are not independent, the mean of hits minus confidences is tested by its standard error over clusters
//! ([`ClusteredMean`]), which is at least that of independent rows.
//!
//! Better than a table of gaps, where the smallest group always looks worst.
//!
//! Reference: S. Holm, "A simple sequentially rejective multiple test procedure" (1979).

use crate::Bounded;
use crate::calibration::reliability::{Outcome, outcomes};
use crate::check;
use crate::comparison::{ClusteredMean, holm};
use crate::error::EvalError;
use crate::order::rows_by_group;
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

/// The calibration of each group, by increasing group; `groups` has one number per row, and so has `clusters`, if rows are not
/// independent, such as those of one patient. A group of a single cluster has a p-value of 1.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, subgroup_calibration};
///
/// let table = ClassProbabilities::binary(&[0.75; 8])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 1, 1, 0, 0, 0, 0, 0])?;
/// let groups = subgroup_calibration(&labelled, &[0, 0, 0, 0, 1, 1, 1, 1], None)?;
/// assert_eq!((groups[0].gap(), groups[1].gap()), (0.0, -0.75));
/// assert_eq!(groups[1].p_value, 2.0 / 256.0); // four errors of probability 1/4
/// assert_eq!(groups[1].adjusted_p_value, 4.0 / 256.0);
///
/// let pairs = [0, 0, 1, 1, 2, 2, 3, 3];
/// let groups = subgroup_calibration(&labelled, &[0, 0, 0, 0, 1, 1, 1, 1], Some(&pairs))?;
/// assert!(groups[1].p_value > 0.1); // two pairs
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if there is not one group, or cluster, per row.
pub fn subgroup_calibration(
    labelled: &LabelledProbabilities<'_>,
    groups: &[usize],
    clusters: Option<&[usize]>,
) -> Result<Vec<SubgroupCalibration>, EvalError> {
    check::same_length("groups", groups.len(), labelled.labels().len())?;
    if let Some(clusters) = clusters {
        check::same_length("clusters", clusters.len(), groups.len())?;
    }
    let of_rows = outcomes(labelled);
    let of_group = |(group, rows): (usize, Vec<usize>)| {
        let outcomes: Vec<Outcome> = rows.iter().map(|&row| of_rows[row]).collect();
        let p_value = match clusters {
            None => p_value(&outcomes),
            Some(clusters) => {
                let clusters: Vec<usize> = rows.iter().map(|&row| clusters[row]).collect();
                clustered_p_value(&outcomes, &clusters)?
            }
        };
        let rows = outcomes.len() as f64;
        Ok(SubgroupCalibration {
            group,
            rows: outcomes.len(),
            mean_confidence: outcomes.iter().map(|o| o.confidence).sum::<f64>() / rows,
            accuracy: outcomes.iter().map(|o| o.hit).sum::<f64>() / rows,
            p_value,
            adjusted_p_value: p_value,
        })
    };
    let found = rows_by_group(groups).into_iter().map(of_group);
    let mut found = found.collect::<Result<Vec<SubgroupCalibration>, EvalError>>()?;
    let p_values: Vec<f64> = found.iter().map(|group| group.p_value).collect();
    for (group, adjusted) in found.iter_mut().zip(holm(&p_values)?) {
        group.adjusted_p_value = adjusted;
    }
    Ok(found)
}

/// Groups of more rows use the normal distribution.
const MOST_EXACT: usize = 2000;

fn clustered_p_value(outcomes: &[Outcome], clusters: &[usize]) -> Result<f64, EvalError> {
    let gaps = outcomes.iter().map(|o| o.hit - o.confidence);
    let mean = ClusteredMean::of(&gaps.collect::<Vec<_>>(), clusters)?;
    let rows = outcomes.len();
    let mean = mean.with_variance(variance(outcomes) / rows as f64, rows);
    Ok(mean.p_value(0.0).unwrap_or(1.0))
}

/// Of the number of hits.
fn variance(outcomes: &[Outcome]) -> f64 {
    let variances = outcomes.iter().map(|o| o.confidence * (1.0 - o.confidence));
    variances.sum()
}

fn p_value(outcomes: &[Outcome]) -> f64 {
    let hits: f64 = outcomes.iter().map(|outcome| outcome.hit).sum();
    if outcomes.len() > MOST_EXACT {
        let mean: f64 = outcomes.iter().map(|o| o.confidence).sum();
        let variance = variance(outcomes);
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
            let found = subgroup_calibration(&labelled, &[3, 3], None).unwrap();
            assert_eq!((found[0].group, found[0].p_value), (3, p_value));
        }
        let labelled = LabelledProbabilities::new(&table, &[1, 1]).unwrap();
        let of = |groups: &[usize], clusters| subgroup_calibration(&labelled, groups, clusters);
        assert!(of(&[0], None).unwrap_err().is_data());
        assert!(of(&[0, 0], Some(&[1])).unwrap_err().is_data());
    }
}
