//! Ranking scores, which measure how well a score separates positive from negative rows without a
//! fixed threshold.
//!
//! With P positive and M negative rows and thresholds t at the distinct scores:
//!
//!   AUROC = (1/PM) Σ_{i positive} Σ_{j negative} ([s_i > s_j] + ½[s_i = s_j]) TPR(t) = #{positive,
//!   s ≥ t}/P, FPR(t) = #{negative, s ≥ t}/M AUPR = Σ_t (TPR(t) − TPR(t⁺)) · precision(t) (average
//!   precision, t⁺ the next higher threshold) FPR at TPR ℓ = min over t of FPR(t) with TPR(t) ≥ ℓ
//!
//! For out-of-distribution detection the positives are the out-of-distribution rows and the score
//! is any uncertainty: [`BinaryScores::separating`]. Rows with equal scores share one threshold.
//!
//! References: J. A. Hanley and B. J. McNeil, "The meaning and use of the area under a receiver
//! operating characteristic curve" (1982); D. Hendrycks and K. Gimpel, "A baseline for detecting
//! misclassified and out-of-distribution examples" (2017).

use crate::check;
use crate::error::{EvalError, Place};
use crate::order::{ascending, compare, tie_groups};
use crate::views::LabelledProbabilities;

/// One score and one binary label per row, with at least one positive and one negative row.
///
/// Scores may be infinite, because they are only compared.
#[derive(Debug, Clone, PartialEq)]
pub struct BinaryScores {
    /// The positive and negative rows of each distinct score, from the highest score.
    steps: Vec<Step>,
    positives: f64,
    negatives: f64,
}

impl BinaryScores {
    /// Pairs scores with binary labels.
    ///
    /// ```
    /// use burn_bayes_eval::{BinaryScores, auroc};
    ///
    /// let scores = BinaryScores::new(&[0.1, 0.4, 0.35, 0.8], &[false, false, true, true])?;
    /// assert_eq!(auroc(&scores), 0.75);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if the lengths differ, a score is NaN, or all rows have the same label, so that
    /// ranking scores are undefined.
    pub fn new(scores: &[f64], positive: &[bool]) -> Result<Self, EvalError> {
        check::not_empty("scores", scores.len())?;
        check::same_length("scores", scores.len(), positive.len())?;
        check::comparable("scores", scores)?;
        let order = ascending(scores);
        let mut steps = Vec::new();
        for group in tie_groups(&order, scores) {
            let hits = group.iter().filter(|&&row| positive[row]).count();
            steps.push(Step {
                positives: hits as f64,
                negatives: (group.len() - hits) as f64,
            });
        }
        steps.reverse();
        Self::of_steps(steps)
    }

    /// From the positive and negative rows of each distinct score, by increasing score.
    pub(crate) fn of_counts(
        counts: impl DoubleEndedIterator<Item = [f64; 2]>,
    ) -> Result<Self, EvalError> {
        let occurring = counts
            .rev()
            .filter(|[positives, negatives]| positives + negatives > 0.0);
        let step = |[positives, negatives]: [f64; 2]| Step {
            positives,
            negatives,
        };
        Self::of_steps(occurring.map(step).collect())
    }

    fn of_steps(steps: Vec<Step>) -> Result<Self, EvalError> {
        let positives = steps.iter().map(|step| step.positives).sum();
        let negatives = steps.iter().map(|step| step.negatives).sum();
        if positives == 0.0 || negatives == 0.0 {
            let found = format!("{positives} positive and {negatives} negative");
            let cause = "a split or selection with rows of one kind only";
            let expected = "at least one of each";
            return Err(EvalError::data(
                "rows",
                Place::WHOLE,
                found,
                expected,
                cause,
            ));
        }
        Ok(Self {
            steps,
            positives,
            negatives,
        })
    }

    /// Scores of in-distribution rows (negative) and of out-of-distribution rows (positive), where
    /// a higher score means "out of distribution".
    ///
    /// ```
    /// use burn_bayes_eval::{BinaryScores, auroc};
    ///
    /// let entropies = BinaryScores::separating(&[0.1, 0.2], &[0.6, 0.2])?;
    /// assert_eq!(auroc(&entropies), 0.875); // one of four pairs is tied
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A data error if a slice is empty or contains NaN.
    pub fn separating(
        in_distribution: &[f64],
        out_of_distribution: &[f64],
    ) -> Result<Self, EvalError> {
        for (what, scores) in [
            ("in-distribution scores", in_distribution),
            ("out-of-distribution scores", out_of_distribution),
        ] {
            check::not_empty(what, scores.len())?;
            check::comparable(what, scores)?;
        }
        let scores = [in_distribution, out_of_distribution].concat();
        let known = in_distribution.len();
        let positive: Vec<bool> = (0..scores.len()).map(|row| row >= known).collect();
        Self::new(&scores, &positive)
    }
}

/// Area under the receiver operating characteristic: the probability that a positive row has a
/// higher score than a negative row; ties count half.
pub fn auroc(scores: &BinaryScores) -> f64 {
    // The constructor ensures that both classes are present.
    area(&scores.steps).unwrap_or(f64::NAN)
}

/// Area under the precision–recall curve as average precision, without interpolation.
///
/// ```
/// use burn_bayes_eval::{BinaryScores, average_precision};
///
/// let scores = BinaryScores::new(&[0.1, 0.4, 0.35, 0.8], &[false, false, true, true])?;
/// assert!((average_precision(&scores) - 5.0 / 6.0).abs() < 1e-15);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn average_precision(scores: &BinaryScores) -> f64 {
    let (mut hits, mut kept, mut sum) = (0.0, 0.0, 0.0);
    for step in &scores.steps {
        hits += step.positives;
        kept += step.positives + step.negatives;
        sum += step.positives * hits / kept;
    }
    sum / scores.positives
}

/// The threshold that predicts rows with a score from some value up as positive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrecisionRecall {
    /// Fraction of the positive rows that are predicted as positive.
    pub recall: f64,
    /// Fraction of the rows predicted as positive that are positive.
    pub precision: f64,
}

/// Precision and recall at every distinct score as the threshold, by increasing recall. The steps of recall,
/// weighted by precision, add up to [`average_precision`].
///
/// ```
/// use burn_bayes_eval::{BinaryScores, PrecisionRecall, precision_recall};
///
/// let scores = BinaryScores::new(&[0.1, 0.4, 0.4, 0.8], &[false, false, true, true])?;
/// let points = precision_recall(&scores);
/// assert_eq!(points[0], PrecisionRecall { recall: 0.5, precision: 1.0 });
/// assert_eq!(points[1], PrecisionRecall { recall: 1.0, precision: 2.0 / 3.0 });
/// assert_eq!(points[2].precision, 0.5);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn precision_recall(scores: &BinaryScores) -> Vec<PrecisionRecall> {
    let (mut hits, mut kept) = (0.0, 0.0);
    let point = |step: &Step| {
        hits += step.positives;
        kept += step.positives + step.negatives;
        PrecisionRecall {
            recall: hits / scores.positives,
            precision: hits / kept,
        }
    };
    scores.steps.iter().map(point).collect()
}

/// Smallest false positive rate of a threshold with at least the given true positive rate; with
/// 0.95 this is FPR95.
///
/// ```
/// use burn_bayes_eval::{BinaryScores, false_positive_rate_at};
///
/// let scores = BinaryScores::new(&[0.1, 0.4, 0.35, 0.8], &[false, false, true, true])?;
/// assert_eq!(false_positive_rate_at(&scores, 0.95)?, 0.5);
/// assert_eq!(false_positive_rate_at(&scores, 0.5)?, 0.0);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A config error if the rate is not above 0 and at most 1.
pub fn false_positive_rate_at(
    scores: &BinaryScores,
    true_positive_rate: f64,
) -> Result<f64, EvalError> {
    check::fraction("true_positive_rate", true_positive_rate)?;
    let (mut hits, mut alarms) = (0.0, 0.0);
    for step in &scores.steps {
        hits += step.positives;
        alarms += step.negatives;
        if hits / scores.positives >= true_positive_rate {
            break;
        }
    }
    Ok(alarms / scores.negatives)
}

/// AUROC of class probabilities: that of class 1 for two classes, the mean one-versus-rest AUROC
/// for more.
///
/// `None` if a class has all rows or none: a mean over the remaining classes would be a different
/// quantity.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, one_vs_rest_auroc};
///
/// let table = ClassProbabilities::binary(&[0.1, 0.4, 0.35, 0.8])?;
/// let labelled = LabelledProbabilities::new(&table, &[0, 0, 1, 1])?;
/// assert_eq!(one_vs_rest_auroc(&labelled), Some(0.75));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
pub fn one_vs_rest_auroc(labelled: &LabelledProbabilities<'_>) -> Option<f64> {
    weighted_one_vs_rest_auroc(labelled, (0..labelled.labels().len()).map(|row| (row, 1.0)))
}

/// [`one_vs_rest_auroc`] of selected rows, given as (row, weight).
pub(crate) fn weighted_one_vs_rest_auroc(
    labelled: &LabelledProbabilities<'_>,
    rows: impl Iterator<Item = (usize, f64)> + Clone,
) -> Option<f64> {
    let classes = labelled.probabilities().classes();
    let of_class = |class: usize| {
        let mut scored: Vec<(f64, Step)> = rows
            .clone()
            .map(|(row, weight)| {
                let step = if labelled.labels()[row] == class {
                    Step {
                        positives: weight,
                        negatives: 0.0,
                    }
                } else {
                    Step {
                        positives: 0.0,
                        negatives: weight,
                    }
                };
                (labelled.probabilities().row(row)[class], step)
            })
            .collect();
        scored.sort_by(|a, b| compare(b.0, a.0));
        let merge = |group: &[(f64, Step)]| Step {
            positives: group.iter().map(|(_, step)| step.positives).sum(),
            negatives: group.iter().map(|(_, step)| step.negatives).sum(),
        };
        let steps: Vec<Step> = scored.chunk_by(|a, b| a.0 == b.0).map(merge).collect();
        area(&steps)
    };
    match classes {
        2 => of_class(1),
        _ => {
            let areas: Option<Vec<f64>> = (0..classes).map(of_class).collect();
            areas.map(|areas| areas.iter().sum::<f64>() / classes as f64)
        }
    }
}

/// Weights of the rows with one score.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    positives: f64,
    negatives: f64,
}

/// AUROC of steps in order of decreasing score; `None` without positive or without negative rows.
fn area(steps: &[Step]) -> Option<f64> {
    let (mut positives, mut negatives, mut pairs) = (0.0, 0.0, 0.0);
    for step in steps {
        pairs += step.negatives * (positives + 0.5 * step.positives);
        positives += step.positives;
        negatives += step.negatives;
    }
    (positives > 0.0 && negatives > 0.0).then(|| pairs / (positives * negatives))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassProbabilities;

    #[test]
    fn the_area_under_the_points_is_the_average_precision() {
        let rows = 0..60u32;
        let values: Vec<f64> = rows.clone().map(|row| f64::from(row * 37 % 23)).collect();
        let positive: Vec<bool> = rows.map(|row| row * 29 % 11 < 3).collect();
        let scores = BinaryScores::new(&values, &positive).unwrap();
        let points = precision_recall(&scores);
        assert_eq!(points.len(), 23);
        let mut area = 0.0;
        let mut recall = 0.0;
        for point in &points {
            area += point.precision * (point.recall - recall);
            recall = point.recall;
        }
        assert_eq!(recall, 1.0);
        assert!((area - average_precision(&scores)).abs() < 1e-14);
    }

    #[test]
    fn perfect_reversed_and_constant_scores() {
        let positive = [false, false, true, true];
        let cases = [
            ([0.0, 1.0, 2.0, 3.0], 1.0, 1.0, 0.0),
            // Reversed: hits at ranks 3 and 4, precision 1/3 and 2/4.
            ([3.0, 2.0, 1.0, 0.0], 0.0, 5.0 / 12.0, 1.0),
            ([7.0, 7.0, 7.0, 7.0], 0.5, 0.5, 1.0),
        ];
        for (scores, area, precision, rate) in cases {
            let scores = BinaryScores::new(&scores, &positive).unwrap();
            assert_eq!(auroc(&scores), area);
            assert!((average_precision(&scores) - precision).abs() < 4.0 * f64::EPSILON);
            assert_eq!(false_positive_rate_at(&scores, 0.95).unwrap(), rate);
        }
    }

    #[test]
    fn both_zeros_tie_and_infinities_rank() {
        let scores = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY];
        let scores = BinaryScores::new(&scores, &[true, false, true, false]).unwrap();
        // Four pairs: (0, −0) tied, the other three right.
        assert_eq!(auroc(&scores), 3.5 / 4.0);
    }

    #[test]
    fn a_rate_reached_exactly_counts() {
        // 19 of 20 positives above every negative.
        let mut scores: Vec<f64> = (0..40).map(f64::from).collect();
        scores[20] = -1.0;
        let positive: Vec<bool> = (0..40).map(|row| row >= 20).collect();
        let scores = BinaryScores::new(&scores, &positive).unwrap();
        assert_eq!(false_positive_rate_at(&scores, 0.95).unwrap(), 0.0);
        assert_eq!(false_positive_rate_at(&scores, 0.951).unwrap(), 1.0);
    }

    #[test]
    fn rejects_nan_one_kind_and_bad_rates() {
        assert_eq!(
            BinaryScores::new(&[0.0, f64::NAN], &[true, false])
                .unwrap_err()
                .row(),
            Some(1)
        );
        assert!(
            BinaryScores::new(&[0.0, 1.0], &[true, true])
                .unwrap_err()
                .is_data()
        );
        assert!(
            BinaryScores::new(&[0.0, 1.0], &[false, false])
                .unwrap_err()
                .is_data()
        );
        assert!(
            BinaryScores::new(&[0.0], &[true, false])
                .unwrap_err()
                .is_data()
        );
        assert!(BinaryScores::new(&[], &[]).unwrap_err().is_data());
        assert!(BinaryScores::separating(&[], &[1.0]).unwrap_err().is_data());
        assert_eq!(
            BinaryScores::separating(&[0.0], &[f64::NAN])
                .unwrap_err()
                .row(),
            Some(0)
        );
        let scores = BinaryScores::new(&[0.0, 1.0], &[true, false]).unwrap();
        assert!(
            false_positive_rate_at(&scores, 0.0)
                .unwrap_err()
                .is_config()
        );
    }

    #[test]
    fn one_against_the_rest_needs_every_class() {
        let values = [0.6, 0.3, 0.1, 0.2, 0.5, 0.3, 0.1, 0.2, 0.7];
        let table = ClassProbabilities::new(&values, 3, 3).unwrap();
        let complete = LabelledProbabilities::new(&table, &[0, 1, 2]).unwrap();
        assert_eq!(one_vs_rest_auroc(&complete), Some(1.0));
        let partial = LabelledProbabilities::new(&table, &[0, 1, 1]).unwrap();
        assert_eq!(one_vs_rest_auroc(&partial), None);
        let single = ClassProbabilities::new(&[1.0, 1.0], 2, 1).unwrap();
        assert_eq!(
            one_vs_rest_auroc(&LabelledProbabilities::new(&single, &[0, 0]).unwrap()),
            None
        );
    }
}
