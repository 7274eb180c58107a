//! Coverage of conformal prediction sets and intervals on rows with known targets.
//!
//! The guarantee is about all rows together. Whether it also holds in parts of the rows is measured: by the size of
//! the sets, or by quartiles of the width of the intervals, and by the groups of columns. The p-values of the
//! hypothesis that a part is covered at the level are corrected for the number of parts. They allow for the chance of
//! the held-out rows that the thresholds come from.

use burn_bayes::eval::{GroupCoverage as Covered, conformal_coverage_by_group};
use burn_bayes_data::Targets;
use serde::Serialize;

use crate::distinct::distinct;
use crate::error::Result;
use crate::groups::Groups;
use crate::predict::{Conformal, ConformalTargets, Predictions, mismatched};
use crate::rows::Units;
use crate::scores::Interval;
use crate::scores::score::mean;

/// The coverage of conformal sets or intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConformalScores {
    /// The name of the target; only if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The level of the guarantee.
    pub level: f64,
    /// Number of held-out rows that calibrated the sets or intervals.
    pub calibration_rows: usize,
    /// The guarantee in words.
    pub guarantee: String,
    /// Fraction of rows inside.
    pub coverage: f64,
    /// Its 95 % Clopper–Pearson interval.
    pub interval: Interval,
    /// Mean number of classes in a set; only for a classification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_size: Option<f64>,
    /// Mean width of the intervals, in the unit of the target; only for a regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_width: Option<f64>,
    /// The coverage of parts of the rows.
    pub parts: Vec<CoverageByPart>,
}

/// The coverage of the parts that a property of the rows divides them into.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoverageByPart {
    /// The property: the size of the set, the width of the interval, or a column.
    pub by: String,
    /// One for each part.
    pub parts: Vec<PartCoverage>,
}

/// The coverage of a part of the rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartCoverage {
    /// What its rows have in common; null for missing values.
    pub part: Option<String>,
    /// Number of rows.
    pub rows: usize,
    /// Fraction of rows inside.
    pub coverage: f64,
    /// Its 95 % Clopper–Pearson interval.
    pub interval: Interval,
    /// p-value of the hypothesis that the coverage is at least the level, corrected for the number of parts.
    pub adjusted_p_value: f64,
}

impl ConformalScores {
    /// The coverage of predictions of each target, with the group of each row if groups have thresholds of their own, and
    /// in the groups of columns.
    ///
    /// # Errors
    /// If predictions, targets and groups do not match.
    pub(crate) fn of_targets(
        conformal: &ConformalTargets,
        groups: Option<&[usize]>,
        predictions: &Predictions,
        targets: &Targets,
        columns: &[Groups],
        units: &Units,
    ) -> Result<Vec<Self>> {
        let all = predictions.beside(targets).zip(conformal.iter());
        all.map(|((_, predictions, targets), (target, one))| {
            Ok(Self {
                target: target.map(String::from),
                guarantee: conformal.guarantee(),
                ..Self::of(one, groups, predictions, targets, columns, units)?
            })
        })
        .collect()
    }

    fn of(
        conformal: &Conformal,
        groups: Option<&[usize]>,
        predictions: &Predictions,
        targets: &Targets,
        columns: &[Groups],
        units: &Units,
    ) -> Result<Self> {
        let (hits, sizes, own): (_, Vec<f64>, _) = match (predictions, targets) {
            (Predictions::Classes(classes), Targets::Classes(labels)) => {
                let sets = conformal.sets(classes, groups)?;
                let sets = sets.ok_or_else(|| mismatched(predictions))?;
                let sizes = sets.sizes();
                let numbers = sizes.iter().map(|&size| size as f64).collect();
                let names = (0..=classes.kind.len()).map(|size| size.to_string());
                let own = parts("size of the set", names, sizes);
                (sets.covered(labels)?, numbers, own)
            }
            (Predictions::Reals(_) | Predictions::Counts(_), Targets::Real(targets)) => {
                let moments = predictions.moments()?.unwrap_or_default();
                let intervals = conformal.intervals(&moments, groups)?;
                let intervals = intervals.ok_or_else(|| mismatched(predictions))?;
                let widths = intervals.widths();
                let own = Groups::of_computed("width of the interval", &widths)?;
                (intervals.covered(targets)?, widths, own)
            }
            _ => return Err(mismatched(predictions)),
        };
        let with_threshold = match (conformal.groups(), groups, predictions, targets) {
            (Some(found), Some(places), ..) => Some(Groups {
                by: found.by.clone(),
                names: found.names.clone(),
                of_rows: places.to_vec(),
            }),
            (_, _, Predictions::Classes(found), Targets::Classes(labels))
                if conformal.is_by_class() =>
            {
                let names = found.kind.iter().cloned();
                Some(parts("true class", names, labels.clone()))
            }
            _ => None,
        };
        let level = conformal.level();
        let covered = |groups: &[usize], has_threshold: bool| {
            let known = |group| conformal.independent_rows(has_threshold.then_some(group));
            conformal_coverage_by_group(groups, &hits, level, units.clusters(), known)
        };
        let coverage = |(groups, has_threshold): (&Groups, bool)| -> Result<_> {
            let found = covered(&groups.of_rows, has_threshold)?;
            let part = |found: &Covered| PartCoverage {
                part: groups.names[found.group].clone(),
                rows: found.rows,
                coverage: found.coverage,
                interval: found.interval.into(),
                adjusted_p_value: found.adjusted_p_value,
            };
            Ok(CoverageByPart {
                by: groups.by.clone(),
                parts: found.iter().map(part).collect(),
            })
        };
        let with_threshold = with_threshold.iter().map(|groups| (groups, true));
        let others = columns.iter().map(|groups| (groups, false));
        let parts = [(&own, false)].into_iter();
        let parts = parts.chain(with_threshold).chain(others).map(coverage);
        // A column may group both the thresholds and the scores.
        let parts = distinct(parts.collect::<Result<Vec<_>>>()?, |found| {
            let rows = found
                .parts
                .iter()
                .map(|part| (part.part.clone(), part.rows));
            (found.by.clone(), rows.collect::<Vec<_>>())
        });
        let is_classification = matches!(predictions, Predictions::Classes(_));
        let all = covered(&vec![0; hits.len()], false)?;
        Ok(Self {
            target: None,
            level,
            calibration_rows: conformal.rows(),
            guarantee: conformal.guarantee(),
            coverage: all[0].coverage,
            interval: all[0].interval.into(),
            mean_size: is_classification.then(|| mean(&sizes)),
            mean_width: (!is_classification).then(|| mean(&sizes)),
            parts,
        })
    }
}

/// Parts with a name each.
fn parts(by: &str, names: impl Iterator<Item = String>, of_rows: Vec<usize>) -> Groups {
    Groups {
        by: by.into(),
        names: names.map(Some).collect(),
        of_rows,
    }
}
