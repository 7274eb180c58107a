//! Scores of predictions.
//!
//! A score that is undefined for the rows is null, with a reason, and never NaN. Intervals are bootstrap intervals over
//! the units that are independent: rows, groups of rows, or periods.

mod baselines;
mod by_class;
mod by_group;
mod calibration_test;
mod classification;
mod conformal;
mod constant;
mod costs;
mod counts;
mod divergence;
mod holdout;
mod information;
mod member_disagreement;
mod regression;
mod row_costs;
mod score;
mod selective;
mod several_targets;
mod spec;
mod summary;
mod verdict;

use burn_bayes_data::Targets;
use serde::Serialize;

pub use baselines::{Baseline, BaselineModel, BaselineScores};
pub use by_class::ClassScores;
pub use by_group::{GROUP_LEVELS, GroupCoverage, GroupScores, GroupTaskScores, ScoresByGroup};
pub use calibration_test::{CalibrationTest, Difference, GroupTest};
pub use classification::{ClassificationScores, ReferredClasses, ReliabilityBin};
pub use conformal::{ConformalScores, CoverageByPart, PartCoverage};
pub(crate) use constant::Constant;
pub use costs::{CostScores, RuleCost};
pub use counts::CountScores;
pub(crate) use divergence::diverged_by;
pub use divergence::{Divergence, divergence};
pub use holdout::{DIVERGED, HoldoutScore, Measures};
pub(crate) use information::mutual_information;
pub use member_disagreement::MemberScores;
pub(crate) use regression::LEVELS;
pub use regression::{CoverageScores, QuantileFrequency, ReferredReals, RegressionScores};
pub(crate) use row_costs::row_costs;
pub(crate) use score::mean;
pub use score::{Interval, Intervals, Score};
pub use selective::SelectiveScores;
pub use several_targets::{
    JointLabels, JointNumbers, JointScores, SeveralTargetsScores, TargetScores,
};
pub use spec::{Better, ScoreSpec};
pub(crate) use spec::{Lines, NLL, ScoreLine};
pub use summary::Summary;
pub use verdict::Verdict;

use crate::error::Result;
use crate::predict::{Predictions, mismatched};

/// All scores of some rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub enum Scores {
    /// Scores of a classification.
    Classification(Box<ClassificationScores>),
    /// Scores of a regression.
    Regression(Box<RegressionScores>),
    /// Scores of counts.
    Counts(Box<CountScores>),
    /// Scores of several targets.
    SeveralTargets(Box<SeveralTargetsScores>),
}

impl Scores {
    /// Scores predictions against the true targets, with the second of two classes as positive class.
    pub fn of(
        predictions: &Predictions,
        targets: &Targets,
        intervals: Intervals<'_>,
    ) -> Result<Self> {
        Self::of_positive(predictions, targets, intervals, None)
    }

    /// Scores predictions, with the given positive class of F1.
    pub fn of_positive(
        predictions: &Predictions,
        targets: &Targets,
        intervals: Intervals<'_>,
        positive: Option<&str>,
    ) -> Result<Self> {
        match (predictions, targets) {
            (Predictions::Classes(predictions), Targets::Classes(labels)) => {
                let scores =
                    ClassificationScores::of_positive(predictions, labels, intervals, positive)?;
                Ok(Self::Classification(Box::new(scores)))
            }
            (Predictions::Reals(predictions), Targets::Real(targets)) => {
                let scores = RegressionScores::of(predictions, targets, intervals)?;
                Ok(Self::Regression(Box::new(scores)))
            }
            (Predictions::Counts(predictions), Targets::Real(counts)) => {
                let scores = CountScores::of(predictions, counts, intervals)?;
                Ok(Self::Counts(Box::new(scores)))
            }
            (Predictions::Several(_), Targets::Several(_)) => {
                let scores = SeveralTargetsScores::of(predictions, targets, intervals)?;
                Ok(Self::SeveralTargets(Box::new(scores)))
            }
            _ => Err(mismatched(predictions)),
        }
    }

    /// The NLL, and the error with its name: RMSE or the misclassification rate, of several targets in standard
    /// deviations or averaged over labels.
    pub fn headline(&self) -> (Option<f64>, Option<f64>, &'static str) {
        match self {
            Self::Classification(scores) => {
                let error = scores.accuracy.value.map(|accuracy| 1.0 - accuracy);
                (scores.nll.value, error, "error rate")
            }
            Self::Regression(scores) => (scores.nll.value, scores.rmse.value, "RMSE"),
            Self::Counts(scores) => (scores.nll.value, scores.rmse.value, "RMSE"),
            Self::SeveralTargets(scores) => {
                let (error, name) = scores.error();
                (scores.nll.value, error, name)
            }
        }
    }
}

impl Lines for Scores {
    fn lines(&self) -> Vec<ScoreLine> {
        match self {
            Self::Classification(scores) => scores.named_lines(),
            Self::Regression(scores) => scores.lines(),
            Self::Counts(scores) => scores.lines(),
            Self::SeveralTargets(scores) => scores.lines(),
        }
    }
}
