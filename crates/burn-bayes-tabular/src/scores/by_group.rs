//! Scores by group: is a model as good, and as well calibrated, for the rows of every group?
//!
//! The calibration of each group is tested, with p-values that are corrected for the number of groups, and count rows that
//! are alike as one. A p-value below
//! 0.05 says that at least one group is badly calibrated, with a risk of 5 % that none is.

use burn_bayes::eval::{
    LabelledProbabilities, ReliabilityDiagram, brier, coverage_by_group, rmse, subgroup_calibration,
};
use burn_bayes_data::Targets;
use serde::Serialize;

use super::classification::BINS;
use crate::error::Result;
use crate::groups::Groups;
use crate::order::selected;
use crate::predict::{ClassPredictions, NumberMixture, Predictions, mismatched};
use crate::rows::Units;
use crate::scores::{Summary, row_costs};

/// Groups with fewer rows are marked as small: their calibration error is mostly noise.
const FEWEST_ROWS: usize = 30;
/// Levels of the prediction intervals; the second is tested.
pub const GROUP_LEVELS: [f64; 2] = [0.5, 0.9];

/// The scores of the groups of a column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoresByGroup {
    /// The column.
    pub column: String,
    /// The name of the target; only if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// One for each group.
    pub groups: Vec<GroupScores>,
}

/// The scores of one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupScores {
    /// The category, or the range of numbers; null for missing values.
    pub group: Option<String>,
    /// Number of rows.
    pub rows: usize,
    /// Whether there are fewer than 30 rows, so that the scores are uncertain.
    pub is_small: bool,
    /// Mean negative log-likelihood per row, in nats and in the unit of the target.
    pub nll: f64,
    /// Its standard error; null for a single row.
    pub nll_standard_error: Option<f64>,
    /// The scores of the task.
    #[serde(flatten)]
    pub of_task: GroupTaskScores,
    /// p-value of the hypothesis that the group is calibrated: that as many rows are predicted correctly as their
    /// confidences say, or that the 90 % intervals cover at least 90 %.
    pub p_value: f64,
    /// The same, corrected for the number of groups.
    pub adjusted_p_value: f64,
}

/// The scores of a group that depend on the task.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum GroupTaskScores {
    /// Of a classification.
    Classification {
        /// Fraction of rows classified wrongly.
        error_rate: f64,
        /// Mean confidence in the predicted class.
        mean_confidence: f64,
        /// Expected calibration error over 15 bins of equal width.
        ece: f64,
        /// Mean squared error of the class probabilities, summed over classes.
        brier: f64,
    },
    /// Of a regression or counts, in the unit of the target.
    Regression {
        /// Root mean squared error of the predictive mean.
        rmse: f64,
        /// Central intervals.
        intervals: Vec<GroupCoverage>,
    },
}

/// Coverage and width of the central intervals of a group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GroupCoverage {
    /// Nominal probability.
    pub level: f64,
    /// Fraction of targets in their interval.
    pub coverage: f64,
    /// Mean width, in the unit of the target.
    pub mean_width: f64,
}

/// The scores of a task and the p-values of each group.
struct OfTask {
    scores: GroupTaskScores,
    p_value: f64,
    adjusted_p_value: f64,
}

impl ScoresByGroup {
    /// The scores of predictions in the groups of each column, of each target.
    ///
    /// # Errors
    /// If predictions, targets and groups do not match.
    pub(crate) fn of_targets(
        columns: &[Groups],
        predictions: &Predictions,
        targets: &Targets,
        units: &Units,
    ) -> Result<Vec<Self>> {
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        let pairs = predictions.beside(targets).map(|(name, found, targets)| {
            let costs = row_costs(found, targets)?;
            Ok((name, found, targets, costs))
        });
        let pairs = pairs.collect::<Result<Vec<_>>>()?;
        let of_column = |groups| {
            pairs.iter().map(move |(name, found, targets, costs)| {
                Ok(Self {
                    target: name.map(String::from),
                    ..Self::of(groups, found, targets, costs, units)?
                })
            })
        };
        columns.iter().flat_map(of_column).collect()
    }

    /// The scores of the predictions of one target, with the NLL of each row.
    fn of(
        all: &Groups,
        predictions: &Predictions,
        targets: &Targets,
        costs: &[f64],
        units: &Units,
    ) -> Result<Self> {
        let rows = all.members();
        let of_task = match (predictions, predictions.mixture()?, targets) {
            (Predictions::Classes(predictions), _, Targets::Classes(labels)) => {
                of_classes(predictions, labels, all, units)?
            }
            (_, Some(mixture), Targets::Real(targets)) => {
                of_numbers(&mixture, targets, all, units)?
            }
            _ => return Err(mismatched(predictions)),
        };
        let groups = all.names.iter().zip(&rows).zip(of_task);
        let groups = groups.map(|((name, rows), of_task)| {
            let costs = selected(costs, rows);
            let summary = Summary::of_rows(&costs, &units.select(rows));
            GroupScores {
                group: name.clone(),
                rows: rows.len(),
                is_small: rows.len() < FEWEST_ROWS,
                nll: summary.map_or(f64::NAN, |summary| summary.mean),
                nll_standard_error: summary.and_then(|summary| summary.standard_error),
                of_task: of_task.scores,
                p_value: of_task.p_value,
                adjusted_p_value: of_task.adjusted_p_value,
            }
        });
        Ok(Self {
            groups: groups.collect(),
            column: all.by.clone(),
            target: None,
        })
    }
}

fn of_classes(
    predictions: &ClassPredictions,
    labels: &[usize],
    groups: &Groups,
    units: &Units,
) -> Result<Vec<OfTask>> {
    let draws = predictions.checked()?;
    let average = draws.average();
    let all = LabelledProbabilities::new(&average, labels)?;
    let rows = groups.members();
    let calibration = subgroup_calibration(&all, &groups.of_rows, units.clusters())?;
    let scored = calibration.iter().zip(&rows).map(|(group, rows)| {
        let table = average.select(rows)?;
        let labels = selected(labels, rows);
        let labelled = LabelledProbabilities::new(&table, &labels)?;
        // Equal widths need no more rows than bins; the bins without rows are left out.
        let diagram = ReliabilityDiagram::equal_width(&labelled, BINS)?;
        Ok(OfTask {
            scores: GroupTaskScores::Classification {
                error_rate: 1.0 - group.accuracy,
                mean_confidence: group.mean_confidence,
                ece: diagram.expected_calibration_error(),
                brier: brier(&labelled),
            },
            p_value: group.p_value,
            adjusted_p_value: group.adjusted_p_value,
        })
    });
    scored.collect()
}

fn of_numbers(
    mixture: &NumberMixture<'_>,
    targets: &[f64],
    groups: &Groups,
    units: &Units,
) -> Result<Vec<OfTask>> {
    let means = mixture.mean();
    let (mut hits, mut widths) = (Vec::new(), Vec::new());
    for level in GROUP_LEVELS {
        let intervals = mixture.central_intervals(level)?;
        hits.push(intervals.covered(targets)?);
        widths.push(intervals.widths());
    }
    let [_, most] = GROUP_LEVELS;
    let rows = groups.members();
    let tested = coverage_by_group(&groups.of_rows, &hits[1], most, units.clusters())?;
    let scored = tested.iter().zip(&rows).map(|(group, rows)| {
        let count = rows.len() as f64;
        let intervals = GROUP_LEVELS.iter().zip(&hits).zip(&widths);
        let intervals = intervals.map(|((&level, hits), widths)| GroupCoverage {
            level,
            coverage: rows.iter().filter(|&&row| hits[row]).count() as f64 / count,
            mean_width: selected(widths, rows).iter().sum::<f64>() / count,
        });
        Ok(OfTask {
            scores: GroupTaskScores::Regression {
                rmse: rmse(&selected(&means, rows), &selected(targets, rows))?,
                intervals: intervals.collect(),
            },
            p_value: group.p_value,
            adjusted_p_value: group.adjusted_p_value,
        })
    });
    scored.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::RealPredictions;
    use crate::scores::{Intervals, Scores};

    fn named(names: [&str; 2], of_rows: Vec<usize>) -> Groups {
        Groups {
            by: "c".into(),
            names: names.map(|name| Some(name.to_string())).to_vec(),
            of_rows,
        }
    }

    #[test]
    fn the_scores_of_a_group_are_those_of_its_rows_alone() {
        let probabilities: Vec<f64> = (0..40)
            .map(|row| f64::from(row + 1) / 42.0)
            .flat_map(|p| [p, 1.0 - p])
            .collect();
        let labels: Vec<usize> = (0..40).map(|row| row % 3 % 2).collect();
        let groups: Vec<usize> = (0..40).map(|row| usize::from(row % 4 == 0)).collect();
        let predictions = |rows: &[usize]| {
            let of_row = |&row: &usize| [probabilities[2 * row], probabilities[2 * row + 1]];
            Predictions::Classes(ClassPredictions::new(
                ["a", "b"].map(String::from).to_vec(),
                1,
                rows.iter().flat_map(of_row).collect(),
            ))
        };
        let all: Vec<usize> = (0..40).collect();
        let targets = |rows: &[usize]| Targets::Classes(selected(&labels, rows));
        let columns = [
            named(["most", "few"], groups.clone()),
            named(
                ["one", "other"],
                groups.iter().map(|group| 1 - group).collect(),
            ),
        ];
        let (all_rows, truths) = (predictions(&all), targets(&all));
        let of_columns =
            ScoresByGroup::of_targets(&columns, &all_rows, &truths, &Units::rows(40)).unwrap();
        let [found, other] = &of_columns[..] else {
            panic!("one for each column");
        };
        assert_eq!(other.groups[1].nll, found.groups[0].nll);
        assert_eq!(
            (found.groups[0].rows, found.groups[0].is_small),
            (30, false)
        );
        assert_eq!((found.groups[1].rows, found.groups[1].is_small), (10, true));
        for (group, scored) in found.groups.iter().enumerate() {
            let rows: Vec<usize> = (0..40).filter(|&row| groups[row] == group).collect();
            let alone =
                Scores::of(&predictions(&rows), &targets(&rows), Intervals::Omitted).unwrap();
            let Scores::Classification(alone) = alone else {
                panic!("classes");
            };
            let GroupTaskScores::Classification {
                error_rate,
                ece,
                brier,
                ..
            } = scored.of_task
            else {
                panic!("classes");
            };
            // The order of summation differs.
            let near =
                |a: f64, b: Option<f64>| assert!((a - b.unwrap()).abs() < 1e-14, "{a} {b:?}");
            near(scored.nll, alone.nll.value);
            near(1.0 - error_rate, alone.accuracy.value);
            near(ece, alone.ece.value);
            near(brier, alone.brier.value);
            assert!(scored.adjusted_p_value >= scored.p_value);
        }
    }

    #[test]
    fn a_group_outside_of_its_intervals_is_found() {
        let means = vec![0.0; 80];
        // The first half is at the quantiles of the predicted distribution, the other far away.
        let targets: Vec<f64> = (0..80)
            .map(|row| match row < 40 {
                true => f64::from(row - 20) / 20.0,
                false => 5.0,
            })
            .collect();
        let groups: Vec<usize> = (0..80).map(|row| usize::from(row >= 40)).collect();
        let predictions = Predictions::Reals(RealPredictions::new(1.0, 1, means));
        let found = ScoresByGroup::of_targets(
            &[named(["near", "far"], groups)],
            &predictions,
            &Targets::Real(targets),
            &Units::rows(80),
        );
        let found = &found.unwrap()[0];
        assert_eq!(found.groups[0].adjusted_p_value, 1.0);
        assert!(found.groups[1].adjusted_p_value < 1e-20);
        let GroupTaskScores::Regression { rmse, intervals } = &found.groups[1].of_task else {
            panic!("numbers");
        };
        assert_eq!((*rmse, intervals[1].coverage), (5.0, 0.0));
        // The 90 % interval of a standard normal is 2 · 1.645 wide.
        assert!((intervals[1].mean_width - 3.289_707).abs() < 1e-5);
    }
}
