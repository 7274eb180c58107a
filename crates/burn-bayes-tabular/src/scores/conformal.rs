//! Coverage of conformal prediction sets and intervals on rows with known targets.
//!
//! The guarantee is about all rows together. Whether it also holds in parts of the rows is measured: by the size of
//! the sets, or by quartiles of the width of the intervals, and by the groups of columns. The p-values of the
//! hypothesis that a part is covered at the level are corrected for the number of parts.

use burn_bayes::eval::{GroupCoverage as Covered, coverage_by_group};
use burn_bayes_data::Targets;
use serde::Serialize;

use crate::error::Result;
use crate::predict::{Conformal, Predictions};
use crate::quartiles::ValueGroups;
use crate::scores::{Interval, mismatched};
use crate::text::tick;

/// The coverage of conformal sets or intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConformalScores {
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
    /// The coverage of predictions, with the group of each row if groups have thresholds of their own; `columns` are
    /// columns with the names of their groups and the group of each row.
    ///
    /// # Errors
    /// If predictions, targets and groups do not match.
    pub(crate) fn of<'a>(
        conformal: &Conformal,
        groups: Option<&[usize]>,
        predictions: &Predictions,
        targets: &Targets,
        columns: impl IntoIterator<Item = (&'a str, &'a [Option<String>], &'a [usize])>,
    ) -> Result<Self> {
        let (hits, sizes, by, names, places): (_, Vec<f64>, _, Vec<_>, _) =
            match (predictions, targets) {
                (Predictions::Classes(classes), Targets::Classes(labels)) => {
                    let sets = conformal.sets(classes, groups)?;
                    let sets = sets.ok_or_else(|| mismatched(predictions))?;
                    let sizes = sets.sizes();
                    let name = |size: usize| Some(size.to_string());
                    let names: Vec<_> = (0..=classes.classes.len()).map(name).collect();
                    let numbers = sizes.iter().map(|&size| size as f64).collect();
                    (
                        sets.covered(labels)?,
                        numbers,
                        "size of the set",
                        names,
                        sizes,
                    )
                }
                (Predictions::Reals(_) | Predictions::Counts(_), Targets::Real(targets)) => {
                    let moments = predictions.moments()?.unwrap_or_default();
                    let intervals = conformal.intervals(&moments, groups)?;
                    let intervals = intervals.ok_or_else(|| mismatched(predictions))?;
                    let widths = intervals.widths();
                    let quartiles = ValueGroups::quartiles(&widths)?;
                    let limits = quartiles.limits.iter();
                    let name = |&(least, most)| Some(format!("{} to {}", tick(least), tick(most)));
                    let names = limits.map(name).collect();
                    let places = quartiles.of_values().to_vec();
                    let hits = intervals.covered(targets)?;
                    (hits, widths, "width of the interval", names, places)
                }
                _ => return Err(mismatched(predictions)),
            };
        let level = conformal.level();
        let of_parts = |by: &str, names: &[Option<String>], places: &[usize]| -> Result<_> {
            let found = coverage_by_group(places, &hits, level)?;
            let part = |found: &Covered| PartCoverage {
                part: names.get(found.group).cloned().flatten(),
                rows: found.rows,
                coverage: found.coverage,
                interval: found.interval.into(),
                adjusted_p_value: found.adjusted_p_value,
            };
            Ok(CoverageByPart {
                by: by.into(),
                parts: found.iter().map(part).collect(),
            })
        };
        let mut parts = vec![of_parts(by, &names, &places)?];
        if let (Some(found), Some(places)) = (conformal.groups(), groups) {
            let names: Vec<_> = found.names().iter().cloned().map(Some).collect();
            parts.push(of_parts(found.column(), &names, places)?);
        }
        if let (true, Predictions::Classes(found), Targets::Classes(labels)) =
            (conformal.is_by_class(), predictions, targets)
        {
            let names: Vec<_> = found.classes.iter().cloned().map(Some).collect();
            parts.push(of_parts("true class", &names, labels)?);
        }
        for (column, names, places) in columns {
            let coverage = of_parts(column, names, places)?;
            // A column that groups both the thresholds and the scores.
            if !parts.contains(&coverage) {
                parts.push(coverage);
            }
        }
        let mean = Some(sizes.iter().sum::<f64>() / sizes.len() as f64);
        let is_classification = matches!(predictions, Predictions::Classes(_));
        let all = coverage_by_group(&vec![0; hits.len()], &hits, level)?;
        Ok(Self {
            level,
            calibration_rows: conformal.rows(),
            guarantee: conformal.guarantee(),
            coverage: all[0].coverage,
            interval: all[0].interval.into(),
            mean_size: mean.filter(|_| is_classification),
            mean_width: mean.filter(|_| !is_classification),
            parts,
        })
    }
}
