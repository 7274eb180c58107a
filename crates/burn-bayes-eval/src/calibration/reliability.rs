//! Calibration: are predictions with confidence 0.8 correct in 80 % of the cases?
//!
//! Rows are grouped into B bins by confidence (the probability of the predicted class). With n_b
//! rows in bin b, with mean confidence conf_b and accuracy acc_b:
//!
//!   ECE = Σ_b (n_b/N) |acc_b − conf_b|,   MCE = max_b |acc_b − conf_b| over bins with rows,
//!   classwise ECE = (1/C) Σ_c Σ_b (n_bc/N) |frequency of class c − mean p_c|.
//!
//! **Equal width**: bin b contains the confidences in (b/B, (b+1)/B]; 0 is in the first bin.
//! **Equal mass**: rows are sorted by confidence, and bin b contains ranks ⌊bN/B⌋ to ⌊(b+1)N/B⌋. If
//! a bin ends among rows with equal confidence, each of these rows counts with their mean accuracy,
//! so the result does not depend on the order of the rows.
//!
//! All these estimates are biased upwards for few rows and depend on the binning: report both.
//!
//! References: M. P. Naeini et al., "Obtaining well calibrated probabilities using Bayesian binning"
//! (2015), for ECE and MCE; C. Guo et al., "On calibration of modern neural networks" (2017), for
//! the confidence of the predicted class; M. Kull et al., "Beyond temperature scaling" (2019), for
//! classwise ECE.

use crate::Bounded;
use crate::check;
use crate::classification::zero_one_losses;
use crate::comparison::ScoreInterval;
use crate::error::EvalError;
use crate::order::{ascending, tie_groups};
use crate::special::binomial;
use crate::uncertainty::max_probability;
use crate::views::LabelledProbabilities;

/// Confidence and accuracy per bin, and the resulting calibration errors.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, ReliabilityDiagram};
///
/// let table = ClassProbabilities::binary(&[0.75, 0.75, 0.75, 0.75])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 1, 0, 0])?;
/// let diagram = ReliabilityDiagram::equal_width(&labelled, 10)?;
/// assert_eq!(diagram.expected_calibration_error(), 0.25);
/// assert_eq!(diagram.bins()[7].accuracy, Some(0.5)); // the bin (0.7, 0.8]
/// assert_eq!(diagram.bins()[0].accuracy, None); // nobody was that unsure
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ReliabilityDiagram {
    bins: Vec<ReliabilityBin>,
}

/// One bin of a [`ReliabilityDiagram`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReliabilityBin {
    /// Lower limit of confidence: excluded for equal width (except 0), the smallest confidence in
    /// the bin for equal mass.
    pub lower: f64,
    /// Upper limit of confidence, included.
    pub upper: f64,
    /// Number of rows.
    pub count: usize,
    /// Mean confidence of the rows; `None` without rows.
    pub mean_confidence: Option<f64>,
    /// Fraction of correctly predicted rows; `None` without rows.
    pub accuracy: Option<f64>,
}

impl ReliabilityBin {
    /// Accuracy minus mean confidence, negative for overconfidence; `None` without rows.
    pub fn gap(&self) -> Option<f64> {
        Some(self.accuracy? - self.mean_confidence?)
    }

    /// The Clopper–Pearson interval of the probability that a prediction in this bin is correct;
    /// `None` without rows. A bin that shares tied rows with its neighbours has a fractional number
    /// of correct rows, which is rounded outwards.
    ///
    /// ```
    /// # use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, ReliabilityDiagram};
    /// let table = ClassProbabilities::binary(&[0.75; 10])?;
    /// let labelled = LabelledProbabilities::new(&table, &[1; 10])?;
    /// let diagram = ReliabilityDiagram::equal_width(&labelled, 4)?;
    /// let interval = diagram.bins()[2].accuracy_interval(0.95)?.expect("there are ten rows");
    /// assert!((interval.lower - 0.025f64.powf(0.1)).abs() < 1e-12 && interval.upper == 1.0);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A config error if the level is not strictly between 0 and 1.
    pub fn accuracy_interval(&self, level: f64) -> Result<Option<ScoreInterval>, EvalError> {
        check::open_unit("level", level)?;
        let tail = 0.5 * (1.0 - level);
        Ok(self.accuracy.map(|accuracy| {
            let hits = accuracy * self.count as f64;
            let rounding = 1e-9 * self.count as f64;
            let fewest = (hits - rounding).max(0.0).ceil() as usize;
            let is_whole = (hits - hits.round()).abs() <= rounding;
            let (fewest, most) = match is_whole {
                true => (hits.round() as usize, hits.round() as usize),
                false => (fewest - 1, fewest),
            };
            ScoreInterval {
                lower: binomial::lower_limit(fewest, self.count, tail),
                upper: binomial::upper_limit(most, self.count, tail),
            }
        }))
    }
}

impl ReliabilityDiagram {
    /// Bins of equal width over [0, 1].
    ///
    /// # Errors
    /// A config error if `bins` is zero or above a million.
    pub fn equal_width(
        labelled: &LabelledProbabilities<'_>,
        bins: usize,
    ) -> Result<Self, EvalError> {
        check::count("bins", bins, 1..=check::MOST_BINS)?;
        let sums = confidence_sums(labelled, bins);
        Ok(Self::of_sums(&sums))
    }

    /// Bins of equal width from their sums.
    pub(crate) fn of_sums(sums: &[BinSums]) -> Self {
        let edge = |index: usize| index as f64 / sums.len() as f64;
        let bin = |(index, sums): (usize, &BinSums)| sums.bin(edge(index), edge(index + 1));
        Self {
            bins: sums.iter().enumerate().map(bin).collect(),
        }
    }

    /// Bins with equal numbers of rows, to within one; as many bins as rows if there are fewer rows
    /// than `bins`.
    ///
    /// ```
    /// # use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, ReliabilityDiagram};
    /// let table = ClassProbabilities::binary(&[0.6, 0.7, 0.8, 0.9])?;
    /// let labelled = LabelledProbabilities::new(&table, &[1, 0, 1, 1])?;
    /// let diagram = ReliabilityDiagram::equal_mass(&labelled, 2)?;
    /// assert!(diagram.bins().iter().all(|bin| bin.count == 2));
    /// assert_eq!(diagram.bins()[1].accuracy, Some(1.0));
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    ///
    /// # Errors
    /// A config error if `bins` is zero.
    pub fn equal_mass(
        labelled: &LabelledProbabilities<'_>,
        bins: usize,
    ) -> Result<Self, EvalError> {
        check::at_least_one("bins", bins)?;
        let sorted = sorted_with_common_accuracy(&outcomes(labelled));
        let (rows, bins) = (sorted.len(), bins.min(sorted.len()));
        let bin = |index: usize| {
            let rows = &sorted[index * rows / bins..(index + 1) * rows / bins];
            let mut sums = BinSums::default();
            rows.iter().for_each(|outcome| sums.add(*outcome));
            sums.bin(rows[0].confidence, rows[rows.len() - 1].confidence)
        };
        Ok(Self {
            bins: (0..bins).map(bin).collect(),
        })
    }

    /// The bins, by increasing confidence.
    pub fn bins(&self) -> &[ReliabilityBin] {
        &self.bins
    }

    /// ECE: the mean gap between confidence and accuracy, each bin weighted by its rows.
    pub fn expected_calibration_error(&self) -> f64 {
        let rows: usize = self.bins.iter().map(|bin| bin.count).sum();
        let gaps = self
            .bins
            .iter()
            .filter_map(|bin| Some(bin.count as f64 * bin.gap()?.abs()));
        gaps.sum::<f64>() / rows as f64
    }

    /// MCE: the largest gap of a bin with rows.
    pub fn maximum_calibration_error(&self) -> f64 {
        let gaps = self.bins.iter().filter_map(ReliabilityBin::gap);
        gaps.fold(0.0, |widest, gap| widest.at_least(gap.abs()))
    }
}

/// Classwise ECE: the equal-width calibration error of the probability of each class, predicted or
/// not, averaged over classes.
///
/// ```
/// use burn_bayes_eval::{ClassProbabilities, LabelledProbabilities, classwise_calibration_error};
///
/// let table = ClassProbabilities::binary(&[0.75, 0.75, 0.75, 0.75])?;
/// let labelled = LabelledProbabilities::new(&table, &[1, 1, 0, 0])?;
/// assert_eq!(classwise_calibration_error(&labelled, 10)?, 0.25);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A config error if `bins` is zero or above a million.
pub fn classwise_calibration_error(
    labelled: &LabelledProbabilities<'_>,
    bins: usize,
) -> Result<f64, EvalError> {
    check::count("bins", bins, 1..=check::MOST_BINS)?;
    let classes = labelled.probabilities().classes();
    let error_of_class = |class: usize| {
        let outcomes = labelled.iter().map(|(probabilities, label)| Outcome {
            confidence: probabilities[class],
            hit: if label == class { 1.0 } else { 0.0 },
        });
        let sums = equal_width_sums(outcomes, bins);
        // n_b |a/n_b − b/n_b| = |a − b|
        let gaps = sums.iter().map(|sums| (sums.hits - sums.confidence).abs());
        gaps.sum::<f64>() / labelled.labels().len() as f64
    };
    Ok((0..classes).map(error_of_class).sum::<f64>() / classes as f64)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) confidence: f64,
    pub(super) hit: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct BinSums {
    count: usize,
    confidence: f64,
    hits: f64,
}

impl BinSums {
    fn add(&mut self, outcome: Outcome) {
        self.count += 1;
        self.confidence += outcome.confidence;
        self.hits += outcome.hit;
    }

    /// Adds the rows of another sum.
    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.confidence += other.confidence;
        self.hits += other.hits;
    }

    fn bin(self, lower: f64, upper: f64) -> ReliabilityBin {
        let mean = |sum: f64| (self.count > 0).then(|| sum / self.count as f64);
        let (mean_confidence, accuracy) = (mean(self.confidence), mean(self.hits));
        ReliabilityBin {
            lower,
            upper,
            count: self.count,
            mean_confidence,
            accuracy,
        }
    }
}

pub(super) fn outcomes(labelled: &LabelledProbabilities<'_>) -> Vec<Outcome> {
    let confidences = max_probability(labelled.probabilities());
    let losses = zero_one_losses(labelled);
    let outcome = |(confidence, loss)| Outcome {
        confidence,
        hit: 1.0 - loss,
    };
    confidences.into_iter().zip(losses).map(outcome).collect()
}

/// The sums of the confidences in the predicted class.
pub(crate) fn confidence_sums(labelled: &LabelledProbabilities<'_>, bins: usize) -> Vec<BinSums> {
    equal_width_sums(outcomes(labelled).into_iter(), bins)
}

fn equal_width_sums(outcomes: impl Iterator<Item = Outcome>, bins: usize) -> Vec<BinSums> {
    // Compares with the edges, because ⌈confidence · bins⌉ would misplace values on an edge.
    let inner: Vec<f64> = (1..bins).map(|index| index as f64 / bins as f64).collect();
    let mut sums = vec![BinSums::default(); bins];
    for outcome in outcomes {
        sums[inner.partition_point(|&edge| edge < outcome.confidence)].add(outcome);
    }
    sums
}

pub(super) fn sorted_with_common_accuracy(outcomes: &[Outcome]) -> Vec<Outcome> {
    let confidences: Vec<f64> = outcomes.iter().map(|outcome| outcome.confidence).collect();
    let order = ascending(&confidences);
    let mut sorted = Vec::with_capacity(outcomes.len());
    for group in tie_groups(&order, &confidences) {
        let hits: f64 = group.iter().map(|&row| outcomes[row].hit).sum();
        let hit = hits / group.len() as f64;
        sorted.extend(group.iter().map(|&row| Outcome {
            confidence: confidences[row],
            hit,
        }));
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassProbabilities;

    fn binary(positive: &[f64]) -> ClassProbabilities<'static> {
        ClassProbabilities::binary(positive).unwrap()
    }

    #[test]
    fn a_confidence_on_an_edge_belongs_below_it() {
        let table = binary(&[0.75, 0.5, 0.25]);
        let labelled = LabelledProbabilities::new(&table, &[1, 1, 0]).unwrap();
        let diagram = ReliabilityDiagram::equal_width(&labelled, 4).unwrap();
        let counts: Vec<usize> = diagram.bins().iter().map(|bin| bin.count).collect();
        assert_eq!(counts, [0, 1, 2, 0]);
        assert_eq!(
            (diagram.bins()[2].lower, diagram.bins()[2].upper),
            (0.5, 0.75)
        );
    }

    #[test]
    fn hand_worked_errors() {
        // Bin (.5, .75]: two rows at .75, one right, gap −.25. Bin (.75, 1]: one row at 1, wrong.
        let table = binary(&[0.75, 0.25, 1.0]);
        let labelled = LabelledProbabilities::new(&table, &[1, 1, 0]).unwrap();
        let diagram = ReliabilityDiagram::equal_width(&labelled, 4).unwrap();
        assert_eq!(diagram.bins()[2].gap(), Some(-0.25));
        assert_eq!(
            diagram.expected_calibration_error(),
            (2.0 * 0.25 + 1.0) / 3.0
        );
        assert_eq!(diagram.maximum_calibration_error(), 1.0);
    }

    #[test]
    fn classwise_counts_every_class() {
        // Class 1: p = .5, 1 with frequencies 0, 1 in bins (.25,.5] and (.75,1]; class 0 likewise.
        let table = binary(&[0.5, 1.0]);
        let labelled = LabelledProbabilities::new(&table, &[0, 1]).unwrap();
        assert_eq!(classwise_calibration_error(&labelled, 4).unwrap(), 0.25);
    }

    #[test]
    fn all_right_and_certain_is_calibrated_all_wrong_and_certain_is_not() {
        let table = binary(&[1.0, 0.0, 1.0]);
        for (labels, error) in [([1, 0, 1], 0.0), ([0, 1, 0], 1.0)] {
            let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
            let width = ReliabilityDiagram::equal_width(&labelled, 15).unwrap();
            let mass = ReliabilityDiagram::equal_mass(&labelled, 15).unwrap();
            for diagram in [&width, &mass] {
                assert_eq!(diagram.expected_calibration_error(), error);
                assert_eq!(diagram.maximum_calibration_error(), error);
            }
            assert_eq!(classwise_calibration_error(&labelled, 15).unwrap(), error);
        }
    }

    #[test]
    fn equal_mass_splits_ties_by_their_common_accuracy() {
        let table = binary(&[0.75, 0.75, 0.75, 0.75]);
        for labels in [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]] {
            let labelled = LabelledProbabilities::new(&table, &labels).unwrap();
            let diagram = ReliabilityDiagram::equal_mass(&labelled, 2).unwrap();
            for bin in diagram.bins() {
                assert_eq!((bin.count, bin.accuracy), (2, Some(0.5)));
                assert_eq!((bin.lower, bin.upper), (0.75, 0.75));
            }
        }
    }

    #[test]
    fn equal_mass_makes_no_empty_bins() {
        let table = binary(&[0.6, 0.7, 0.9]);
        let labelled = LabelledProbabilities::new(&table, &[1, 1, 1]).unwrap();
        let diagram = ReliabilityDiagram::equal_mass(&labelled, 10).unwrap();
        assert_eq!(diagram.bins().len(), 3);
        assert!(diagram.bins().iter().all(|bin| bin.count == 1));
        let uneven = ReliabilityDiagram::equal_mass(&labelled, 2).unwrap();
        let counts: Vec<usize> = uneven.bins().iter().map(|bin| bin.count).collect();
        assert_eq!(counts, [1, 2]);
    }

    #[test]
    fn no_bins_and_too_many_are_setting_errors() {
        let table = binary(&[0.6]);
        let labelled = LabelledProbabilities::new(&table, &[1]).unwrap();
        for bins in [0, usize::MAX] {
            let width = ReliabilityDiagram::equal_width(&labelled, bins);
            assert!(width.unwrap_err().is_config());
            let classwise = classwise_calibration_error(&labelled, bins);
            assert!(classwise.unwrap_err().is_config());
        }
        let mass = ReliabilityDiagram::equal_mass(&labelled, 0);
        assert!(mass.unwrap_err().is_config());
        let mass = ReliabilityDiagram::equal_mass(&labelled, usize::MAX).unwrap();
        assert_eq!(mass.bins().len(), 1); // no more bins than rows
    }
}
