//! Scores of class probabilities averaged over draws.

use burn_bayes::eval::{
    ClassProbabilities, ConfusionMatrix, DrawProbabilities, LabelledProbabilities,
    MemberDisagreement, ReferralRow, ReliabilityDiagram, adaptive_calibration_error, brier_losses,
    classwise_calibration_error, log_losses, one_vs_rest_auroc, referral_table_of_class,
    smooth_calibration_error, top_label_calibration_error, zero_one_losses,
};
use rayon::prelude::*;
use serde::Serialize;

use super::by_class::ClassScores;
use super::member_disagreement::MemberScores;
use super::selective::KEPT_FRACTIONS;
use super::spec::{F1, Lines, ScoreLine, scores};
use crate::error::Result;
use crate::order::selected;
use crate::predict::{ClassPredictions, Uncertainty, members};
use crate::scores::{Interval, Intervals, Score, SelectiveScores};

/// Number of bins of the calibration errors and the reliability diagram.
pub(super) const BINS: usize = 15;
/// Level of the intervals of their accuracy.
const LEVEL: f64 = 0.95;
const NO_CALIBRATION_INTERVAL: &str =
    "no interval: duplicate rows in resamples make bins look worse calibrated";

scores! {
    /// All scores of a classification.
    ClassificationScores {
        /// Number of rows.
        rows: usize;
        /// Number of draws of the weights.
        draws: usize;
        /// Names of the classes.
        classes: Vec<String>;
        /// Fraction of rows classified correctly.
        accuracy: Score = ("Accuracy", Higher, compared);
        /// Mean negative log-probability of the true class, in nats; confident errors cost most.
        nll: Score = ("NLL", Lower, compared);
        /// Expected calibration error: mean gap between confidence and accuracy, in 15 bins of equal width.
        ece: Score = ("ECE", Lower, compared);
        /// Probability that a row of a class is ranked above a row of another class; for more than two classes, averaged
        /// over classes.
        auroc: Score = ("AUROC", Higher, compared);
        /// Mean squared error of the class probabilities, summed over classes; between 0 and 2.
        brier: Score = ("Brier score", Lower, compared);
        /// Recall, averaged over the true classes.
        balanced_accuracy: Score = ("Balanced accuracy", Higher);
        /// Harmonic mean of precision and recall, averaged over classes.
        macro_f1: Score = ("Macro F1", Higher);
        /// The positive class of `f1`; null for more than two classes.
        positive: Option<String>;
        /// Harmonic mean of precision and recall of the positive class.
        f1: Score = ("F1", Higher, compared);
        /// Expected calibration error in 15 bins with equal numbers of rows.
        ece_equal_mass: Score = ("ECE (equal mass)", Lower, further);
        /// Maximum calibration error over the 15 bins of equal width.
        mce: Score = ("MCE", Lower, further);
        /// Expected calibration error of the probability of each class, averaged over classes.
        classwise_ece: Score = ("Classwise ECE", Lower, further);
        /// Expected calibration error smoothed by a kernel instead of bins; its bandwidth follows from the rows.
        smooth_ece: Score = ("Smooth ECE", Lower, further);
        /// As classwise, in 15 bins with equal numbers of rows.
        adaptive_ece: Score = ("Adaptive ECE", Lower, further);
        /// Expected calibration error among the rows with the same predicted class, averaged over rows.
        top_label_ece: Score = ("Top-label ECE", Lower, further);
        /// Confusion matrix: the number of rows of each true class, by predicted class.
        confusion: Vec<Vec<usize>>;
        /// Precision, recall and F1 of each class, in the order of `classes`.
        by_class: Vec<ClassScores>;
        /// Confidence and accuracy in the bins of `ece`.
        reliability: Vec<ReliabilityBin>;
        /// Selective prediction by each uncertainty score.
        selective: Vec<SelectiveScores<ReferredClasses>>;
        /// The disagreement within the members of an ensemble and between them; null for a single fit.
        members: Option<MemberScores> = (each);
    }
}

/// A bin of the reliability diagram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReliabilityBin {
    /// Lower limit of confidence, exclusive except for 0.
    pub lower: f64,
    /// Upper limit of confidence, inclusive.
    pub upper: f64,
    /// Number of rows.
    pub rows: usize,
    /// Mean confidence; null without rows.
    pub confidence: Option<f64>,
    /// Accuracy; null without rows.
    pub accuracy: Option<f64>,
    /// The 95 % Clopper–Pearson interval of the accuracy; null without rows.
    pub interval: Option<Interval>,
}

/// Scores of the rows with the lowest uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReferredClasses {
    /// Fraction of rows kept.
    pub kept_fraction: f64,
    /// Number of rows kept.
    pub kept: usize,
    /// Accuracy.
    pub accuracy: f64,
    /// Mean recall over the classes that occur.
    pub balanced_accuracy: f64,
    /// F1 of the positive class; null for more than two classes, or if undefined.
    pub f1: Option<f64>,
    /// F1 averaged over classes.
    pub macro_f1: f64,
    /// Area under the ROC curve; null if a class has no rows or all.
    pub auroc: Option<f64>,
}

impl ClassificationScores {
    /// The lines with the name of the positive class; without F1 if there is none.
    pub(super) fn named_lines(&self) -> Vec<ScoreLine> {
        let mut lines = self.lines();
        lines.retain(|line| line.spec.key != F1 || self.positive.is_some());
        for line in &mut lines {
            line.title = line.spec.title_of(self.positive.as_deref());
        }
        lines
    }

    /// The title of the F1 score of the positive class, or that of the average if there is none.
    pub(crate) fn f1_title(&self) -> String {
        let key = self.positive.as_ref().map_or("macro_f1", |_| F1);
        let spec = Self::specs().into_iter().find(|spec| spec.key == key);
        spec.map_or_else(String::new, |spec| spec.title_of(self.positive.as_deref()))
    }

    /// Scores probabilities against the indices of the true classes. The default positive class is the
    /// second one.
    pub(super) fn of_positive(
        predictions: &ClassPredictions,
        labels: &[usize],
        intervals: Intervals<'_>,
        positive: Option<&str>,
    ) -> Result<Self> {
        let classes = &predictions.kind;
        let positive = classes
            .iter()
            .position(|class| Some(class.as_str()) == positive)
            .unwrap_or(1);
        let draws = predictions.checked()?;
        let average = draws.average();
        let labelled = LabelledProbabilities::new(&average, labels)?;
        let hits: Vec<f64> = zero_one_losses(&labelled)
            .iter()
            .map(|loss| 1.0 - loss)
            .collect();
        let decisions = Decisions {
            predicted: average.predicted_classes(),
            labels,
            classes: draws.classes(),
            intervals,
        };
        let width = ReliabilityDiagram::equal_width(&labelled, BINS)?;
        let mass = ReliabilityDiagram::equal_mass(&labelled, BINS)?;
        let calibration = |error| Score::alone(error, NO_CALIBRATION_INTERVAL);
        let few_bins = BINS.min(draws.rows());
        let selective = Uncertainty::ALL
            .par_iter()
            .map(|&by| selective(by, &draws, &labelled, positive, intervals))
            .collect::<Result<_>>()?;
        let (costs, distances) = (log_losses(&labelled), brier_losses(&labelled));
        let [accuracy, nll, brier] = intervals.of_means([&hits, &costs, &distances]);
        let accuracy = intervals.of_fraction(accuracy, &hits);
        let parts = members(&predictions.members)
            .map(|members| MemberDisagreement::of_classes(&draws, &members));
        let parts = parts.transpose()?;
        Ok(Self {
            rows: draws.rows(),
            draws: draws.draws(),
            classes: classes.clone(),
            accuracy,
            balanced_accuracy: decisions.score(|matrix| Some(matrix.balanced_accuracy())),
            positive: classes
                .get(positive)
                .filter(|_| classes.len() == 2)
                .cloned(),
            f1: decisions.f1(positive),
            macro_f1: decisions.score(|matrix| Some(matrix.macro_f1())),
            auroc: auroc(&labelled, intervals),
            nll,
            brier,
            ece: calibration(width.expected_calibration_error()),
            ece_equal_mass: calibration(mass.expected_calibration_error()),
            mce: calibration(width.maximum_calibration_error()),
            classwise_ece: calibration(classwise_calibration_error(&labelled, BINS)?),
            smooth_ece: calibration(smooth_calibration_error(&labelled)),
            adaptive_ece: calibration(adaptive_calibration_error(&labelled, few_bins)?),
            top_label_ece: calibration(top_label_calibration_error(&labelled, few_bins)?),
            confusion: decisions.counts(),
            by_class: ClassScores::of_all(classes, &ConfusionMatrix::from_probabilities(&labelled)),
            reliability: width
                .bins()
                .iter()
                .map(reliability_bin)
                .collect::<Result<_>>()?,
            selective,
            members: parts.map(|parts| MemberScores::of(&parts, intervals)),
        })
    }
}

/// The predicted and the true class of every row.
struct Decisions<'a> {
    predicted: Vec<usize>,
    labels: &'a [usize],
    classes: usize,
    intervals: Intervals<'a>,
}

impl Decisions<'_> {
    fn counts(&self) -> Vec<Vec<usize>> {
        let mut counts = vec![vec![0; self.classes]; self.classes];
        for (&label, &predicted) in self.labels.iter().zip(&self.predicted) {
            counts[label][predicted] += 1;
        }
        counts
    }

    fn f1(&self, positive: usize) -> Score {
        if self.classes == 2 {
            self.score(|matrix| matrix.f1(positive))
        } else {
            Score::absent("it needs exactly two classes; see macro_f1")
        }
    }

    fn score(&self, of: impl Fn(&ConfusionMatrix) -> Option<f64>) -> Score {
        let scored = |rows: &[usize]| {
            let (predicted, labels) =
                (selected(&self.predicted, rows), selected(self.labels, rows));
            of(&ConfusionMatrix::new(&predicted, &labels, self.classes).ok()?)
        };
        let rows = self.labels.len();
        match scored(&(0..rows).collect::<Vec<_>>()) {
            Some(value) => self
                .intervals
                .of_labelled_rows(value, self.labels, rows, |rows| {
                    scored(rows).unwrap_or(f64::NAN)
                }),
            None => Score::absent("no row has the class, and none is predicted as it"),
        }
    }
}

fn auroc(labelled: &LabelledProbabilities<'_>, intervals: Intervals<'_>) -> Score {
    let Some(value) = one_vs_rest_auroc(labelled) else {
        return Score::absent("a class has no rows, or all of them");
    };
    let table = labelled.probabilities();
    let (rows, classes) = (table.rows(), table.classes());
    intervals.of_labelled_rows(value, labelled.labels(), rows * classes, |drawn| {
        let values: Vec<f64> = drawn
            .iter()
            .flat_map(|&row| table.row(row))
            .copied()
            .collect();
        let labels: Vec<usize> = drawn.iter().map(|&row| labelled.labels()[row]).collect();
        ClassProbabilities::new(values, drawn.len(), classes)
            .and_then(|table| {
                Ok(one_vs_rest_auroc(&LabelledProbabilities::new(
                    &table, &labels,
                )?))
            })
            .ok()
            .flatten()
            .unwrap_or(f64::NAN)
    })
}

fn selective(
    by: Uncertainty,
    draws: &DrawProbabilities<'_>,
    labelled: &LabelledProbabilities<'_>,
    positive: usize,
    intervals: Intervals<'_>,
) -> Result<SelectiveScores<ReferredClasses>> {
    if by.needs_draws() && draws.draws() == 1 {
        return Ok(SelectiveScores::of_one_draw(by.name()));
    }
    let uncertainty = by.of(draws);
    let referral = referral_table_of_class(labelled, &uncertainty, &KEPT_FRACTIONS, positive)?;
    SelectiveScores::of(
        by.name(),
        &uncertainty,
        &zero_one_losses(labelled),
        referral.iter().map(referred).collect(),
        intervals,
    )
}

fn referred(row: &ReferralRow) -> ReferredClasses {
    ReferredClasses {
        kept_fraction: row.kept_fraction,
        kept: row.kept,
        accuracy: row.accuracy,
        balanced_accuracy: row.balanced_accuracy,
        f1: row.binary_f1,
        macro_f1: row.macro_f1,
        auroc: row.auroc,
    }
}

fn reliability_bin(bin: &burn_bayes::eval::ReliabilityBin) -> Result<ReliabilityBin> {
    let interval = bin.accuracy_interval(LEVEL)?;
    Ok(ReliabilityBin {
        lower: bin.lower,
        upper: bin.upper,
        rows: bin.count,
        confidence: bin.mean_confidence,
        accuracy: bin.accuracy,
        interval: interval.map(Interval::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::Predictions;
    use crate::rows::Units;
    use crate::scores::Scores;
    use burn_bayes_data::Targets;

    fn predictions(classes: usize, draws: usize, probabilities: &[f64]) -> ClassPredictions {
        let names = (0..classes).map(|class| format!("class {class}"));
        ClassPredictions::new(names.collect::<Vec<_>>(), draws, probabilities.to_vec())
    }

    fn scored(predictions: &ClassPredictions, labels: &[usize]) -> ClassificationScores {
        let units = Units::rows(labels.len());
        let intervals = Intervals::Bootstrapped(&units);
        ClassificationScores::of_positive(predictions, labels, intervals, None).unwrap()
    }

    #[test]
    fn two_classes_are_scored_as_by_hand() {
        // The averages of class 1 are .8, .4, .6 and .1: the third row is wrong.
        let draws = [
            0.3, 0.7, 0.5, 0.5, 0.2, 0.8, 0.9, 0.1, // draw 0
            0.1, 0.9, 0.7, 0.3, 0.6, 0.4, 0.9, 0.1, // draw 1
        ];
        let scores = scored(&predictions(2, 2, &draws), &[1, 0, 0, 0]);
        let close = |score: &Score, expected: f64| {
            let value = score.value.unwrap();
            assert!((value - expected).abs() < 1e-12, "{value} {expected}");
        };
        close(&scores.accuracy, 0.75);
        close(&scores.balanced_accuracy, (1.0 + 2.0 / 3.0) / 2.0);
        close(&scores.f1, 2.0 / 3.0);
        close(&scores.auroc, 1.0);
        assert_eq!(scores.confusion, [[2, 1], [0, 1]]);
        close(&scores.brier, 2.0 * (0.04 + 0.16 + 0.36 + 0.01) / 4.0);
        let log: f64 = [0.8f64, 0.6, 0.4, 0.9].iter().map(|p| -p.ln()).sum();
        close(&scores.nll, log / 4.0);
        // The draws differ by .4 for the wrong row, and by .2 for two others.
        let disagreement = &scores.selective[3];
        assert_eq!(disagreement.by, "disagreement");
        close(&disagreement.e_aurc, 0.0);
        assert_eq!(disagreement.referral[5].kept, 2);
        assert_eq!(disagreement.referral[5].accuracy, 1.0);
    }

    #[test]
    fn an_interval_holds_its_score() {
        let positive: Vec<f64> = burn_bayes::eval::uniforms(300, 5);
        let labels: Vec<usize> = burn_bayes::eval::uniforms(300, 6)
            .iter()
            .zip(&positive)
            .map(|(uniform, p)| usize::from(uniform < p))
            .collect();
        let values: Vec<f64> = positive.iter().flat_map(|p| [1.0 - p, *p]).collect();
        let scores = scored(&predictions(2, 1, &values), &labels);
        let aurc = &scores.selective[0].aurc;
        for score in [
            &scores.accuracy,
            &scores.nll,
            &scores.auroc,
            &scores.f1,
            aurc,
        ] {
            let (value, interval) = (score.value.unwrap(), score.interval.unwrap());
            assert!(
                interval.lower < value && value < interval.upper,
                "{score:?}"
            );
            assert_eq!(score.absent, None);
        }
        // The labels were drawn with the predicted probabilities.
        let half_width = 1.96 * (0.25f64 / 300.0).sqrt();
        assert!(scores.ece.value.unwrap() < 3.0 * half_width);
    }

    #[test]
    fn a_rare_class_has_intervals() {
        // 3 of 100 rows are of the second class; both classes have certain and uncertain rows.
        let positive: Vec<f64> = (0..100)
            .map(|row| f64::from(row * 37 % 101) / 101.0)
            .collect();
        let labels: Vec<usize> = (0..100).map(|row| usize::from(row % 40 == 2)).collect();
        let values: Vec<f64> = positive.iter().flat_map(|p| [1.0 - p, *p]).collect();
        let scores = scored(&predictions(2, 1, &values), &labels);
        for score in [&scores.auroc, &scores.balanced_accuracy, &scores.f1] {
            assert!(score.interval.is_some(), "{score:?}");
        }
    }

    #[test]
    fn what_rows_leave_undefined_is_absent_and_says_why() {
        let one_row = scored(&predictions(2, 1, &[0.2, 0.8]), &[1]);
        assert_eq!(one_row.accuracy.value, Some(1.0));
        // A share of hits of .025 has one of one that often.
        let interval = one_row.accuracy.interval.unwrap();
        assert!((interval.lower - 0.025).abs() < 1e-12 && interval.upper == 1.0);
        assert!(one_row.auroc.absent.as_ref().unwrap().contains("class"));
        let absent: Vec<_> = one_row
            .selective
            .iter()
            .filter(|scores| scores.aurc.value.is_none())
            .map(|scores| scores.by)
            .collect();
        assert_eq!(
            absent,
            ["mutual_information", "disagreement", "variation_ratio"]
        );

        let one_class = scored(&predictions(1, 2, &[1.0; 4]), &[0, 0]);
        assert_eq!(one_class.nll.value, Some(0.0));
        assert_eq!(one_class.auroc.value, None);

        let certain = predictions(2, 1, &[1.0, 0.0, 0.5, 0.5]);
        let wrong = scored(&certain, &[1, 0]);
        assert!(wrong.nll.absent.as_ref().unwrap().contains("row 0"));
    }

    #[test]
    fn f1_is_of_the_positive_class() {
        // The predicted classes are 1, 0, 1, 0.
        let draws = predictions(2, 1, &[0.3, 0.7, 0.8, 0.2, 0.4, 0.6, 0.9, 0.1]);
        let of = |positive| {
            let intervals = Intervals::Omitted;
            ClassificationScores::of_positive(&draws, &[1, 0, 0, 0], intervals, positive).unwrap()
        };
        for (asked, name, f1) in [
            (None, "class 1", 2.0 / 3.0),
            (Some("class 1"), "class 1", 2.0 / 3.0),
            (Some("class 0"), "class 0", 0.8),
        ] {
            let scores = of(asked);
            assert_eq!(scores.positive.as_deref(), Some(name));
            assert_eq!(scores.f1.value, Some(f1), "{asked:?}");
            assert_eq!(scores.selective[0].referral[0].f1, Some(f1), "{asked:?}");
        }
        assert_eq!(of(None).auroc, of(Some("class 0")).auroc);
    }

    #[test]
    fn values_do_not_depend_on_intervals() {
        let draws = predictions(2, 1, &[0.3, 0.7, 0.8, 0.2, 0.4, 0.6, 0.9, 0.1]);
        let (labels, omitted) = (&[1, 0, 0, 1], Intervals::Omitted);
        let with = scored(&draws, labels);
        let without = ClassificationScores::of_positive(&draws, labels, omitted, None).unwrap();
        for (one, other) in [
            (&with.accuracy, &without.accuracy),
            (&with.nll, &without.nll),
            (&with.macro_f1, &without.macro_f1),
            (&with.auroc, &without.auroc),
            (&with.selective[0].aurc, &without.selective[0].aurc),
        ] {
            assert_eq!(one.value, other.value);
            assert!(
                one.interval.is_some() && other.interval.is_none(),
                "{one:?}"
            );
        }
    }

    #[test]
    fn names_in_files_are_stable_and_numbers_finite_or_null() {
        let scores = Scores::of(
            &Predictions::Classes(predictions(3, 1, &[0.2, 0.3, 0.5, 0.0, 0.0, 1.0])),
            &Targets::Classes(vec![2, 0]),
            Intervals::Bootstrapped(&Units::rows(2)),
        )
        .unwrap();
        let json = serde_json::to_value(&scores).unwrap();
        assert_eq!(json["task"], "classification");
        assert_eq!(json["accuracy"]["value"], 0.5);
        assert!(json["nll"]["value"].is_null() && json["nll"]["absent"].is_string());
        assert!(json["f1"]["absent"].as_str().unwrap().contains("macro_f1"));
        assert_eq!(json["selective"][0]["by"], "entropy");
        assert_eq!(json["selective"][0]["referral"][5]["kept_fraction"], 0.5);
        assert_eq!(json["reliability"].as_array().unwrap().len(), BINS);
    }
}
