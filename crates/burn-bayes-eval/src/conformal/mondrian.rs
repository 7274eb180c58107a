//! One conformal method per group of rows (Mondrian conformal prediction), and coverage by group.
//!
//! A common threshold covers rows at the level on average, and may cover a group much less. With
//! one threshold per group, fitted to the calibration rows of the group, the guarantee holds in
//! every group. The groups must be known for a new row before its answer is: a hospital, an age
//! band, a bin of the predicted width ([`equal_mass_groups`]). For groups by the true class, see
//! [`ConformalByClass`](crate::ConformalByClass).
//!
//! Coverage by group is shown with Clopper–Pearson limits and a p-value of the hypothesis that it
//! is at least the level, adjusted for the number of groups by [`holm`]. The groups may be
//! quartiles of an input column or of the width of the intervals: intervals with the right coverage
//! on average are often too wide where the target is easy to predict, and too narrow elsewhere.
//!
//! Reference: V. Vovk, A. Gammerman and G. Shafer, "Algorithmic learning in a random world" (2005).

use std::collections::BTreeMap;

use crate::check;
use crate::comparison::{ScoreInterval, effective_rows, holm};
use crate::conformal::sets::PredictionSets;
use crate::error::{EvalError, Place};
use crate::order::{ascending, rank, rows_by_group, tie_groups};
use crate::regression::PredictionIntervals;
use crate::special::binomial;

/// A conformal method for each group of rows.
///
/// ```
/// use burn_bayes_eval::{ConformalNormalisedResidual, Mondrian};
///
/// let (predicted, targets) = ([0.0; 6], [1.0, 1.0, 1.0, 5.0, 5.0, 5.0]);
/// let pick = |of: &[f64], rows: &[usize]| rows.iter().map(|&row| of[row]).collect::<Vec<_>>();
/// let mondrian = Mondrian::calibrate(&[0, 0, 0, 1, 1, 1], |rows| {
///     let (predicted, targets) = (pick(&predicted, rows), pick(&targets, rows));
///     ConformalNormalisedResidual::calibrate(&predicted, &vec![1.0; rows.len()], &targets, 0.7)
/// })?;
/// let new = [10.0, 20.0];
/// let intervals = mondrian.intervals(&[1, 0], |conformal, rows| {
///     conformal.intervals(&pick(&new, rows), &vec![1.0; rows.len()])
/// })?;
/// assert_eq!((intervals.lower(), intervals.upper()), (&[5.0, 19.0][..], &[15.0, 21.0][..]));
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Mondrian<C> {
    by_group: BTreeMap<usize, C>,
}

impl<C> Mondrian<C> {
    /// Calibrates a method on the rows of each group; `groups` has one number per calibration row.
    ///
    /// # Errors
    /// A data error if there are no rows, and those of `calibrate`.
    pub fn calibrate(
        groups: &[usize],
        mut calibrate: impl FnMut(&[usize]) -> Result<C, EvalError>,
    ) -> Result<Self, EvalError> {
        check::not_empty("groups", groups.len())?;
        let by_group = rows_by_group(groups).into_iter();
        let fitted = by_group.map(|(group, rows)| Ok((group, calibrate(&rows)?)));
        Ok(Self {
            by_group: fitted.collect::<Result<_, EvalError>>()?,
        })
    }

    /// The method of a group.
    pub fn of_group(&self, group: usize) -> Option<&C> {
        self.by_group.get(&group)
    }

    /// The intervals of new rows: `predict` makes those of given rows by the method of their group.
    ///
    /// # Errors
    /// A data error if there are no rows or a group had no calibration row, and those of `predict`.
    pub fn intervals(
        &self,
        groups: &[usize],
        mut predict: impl FnMut(&C, &[usize]) -> Result<PredictionIntervals<'static>, EvalError>,
    ) -> Result<PredictionIntervals<'static>, EvalError> {
        let (mut lower, mut upper) = (vec![f64::NAN; groups.len()], vec![f64::NAN; groups.len()]);
        self.for_each(groups, |conformal, rows| {
            let found = predict(conformal, rows)?;
            check::same_length("intervals", found.lower().len(), rows.len())?;
            for (index, &row) in rows.iter().enumerate() {
                lower[row] = found.lower()[index];
                upper[row] = found.upper()[index];
            }
            Ok(())
        })?;
        PredictionIntervals::new(lower, upper)
    }

    /// The prediction sets of new rows: `predict` makes those of given rows by the method of their
    /// group.
    ///
    /// # Errors
    /// A data error if there are no rows, a group had no calibration row, or groups have different
    /// numbers of classes, and those of `predict`.
    pub fn sets(
        &self,
        groups: &[usize],
        mut predict: impl FnMut(&C, &[usize]) -> Result<PredictionSets, EvalError>,
    ) -> Result<PredictionSets, EvalError> {
        let (mut held, mut classes) = (Vec::new(), None);
        self.for_each(groups, |conformal, rows| {
            let found = predict(conformal, rows)?;
            check::same_length("prediction sets", found.rows(), rows.len())?;
            let count = *classes.get_or_insert(found.classes());
            check::same_length("classes", found.classes(), count)?;
            held.resize(groups.len() * count, false);
            for (index, &row) in rows.iter().enumerate() {
                for class in found.classes_of(index) {
                    held[row * count + class] = true;
                }
            }
            Ok(())
        })?;
        Ok(PredictionSets::of_flags(held, classes.unwrap_or(0)))
    }

    fn for_each(
        &self,
        groups: &[usize],
        mut apply: impl FnMut(&C, &[usize]) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        check::not_empty("groups", groups.len())?;
        for (group, rows) in rows_by_group(groups) {
            let conformal = self.by_group.get(&group).ok_or_else(|| {
                EvalError::data(
                    "groups",
                    Place::row(rows[0]),
                    format!("group {group}, which has no calibration row"),
                    "a group of the calibration rows",
                    "a new or rare group: pool rare groups before the calibration",
                )
            })?;
            apply(conformal, &rows)?;
        }
        Ok(())
    }
}

/// Numbers rows by the quantile group of a value: 0 for the smallest of `count` equal groups. Equal
/// values are in one group, so groups may differ in size or be missing.
///
/// ```
/// use burn_bayes_eval::equal_mass_groups;
///
/// assert_eq!(equal_mass_groups(&[0.3, 9.0, 0.1, 4.0], 2)?, [0, 1, 0, 1]);
/// assert_eq!(equal_mass_groups(&[1.0, 1.0, 1.0, 4.0], 2)?, [0, 0, 0, 1]);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A config error if `count` is zero; a data error if there are fewer values than groups or one is
/// NaN.
pub fn equal_mass_groups(values: &[f64], count: usize) -> Result<Vec<usize>, EvalError> {
    check::rows_for_bins(values.len(), count)?;
    check::comparable("values", values)?;
    let order = ascending(values);
    let mut groups = vec![0; values.len()];
    let mut before = 0;
    for tied in tie_groups(&order, values) {
        for &row in tied {
            groups[row] = before * count / values.len();
        }
        before += tied.len();
    }
    Ok(groups)
}

/// The coverage of the rows of one group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupCoverage {
    /// The group, as given.
    pub group: usize,
    /// Number of rows.
    pub rows: usize,
    /// Fraction of rows whose answer is covered.
    pub coverage: f64,
    /// The 95 % Clopper–Pearson interval of the coverage.
    pub interval: ScoreInterval,
    /// p-value of the hypothesis that the coverage is at least the level.
    pub p_value: f64,
    /// The same, corrected for the number of groups.
    pub adjusted_p_value: f64,
}

/// The coverage of each group, by increasing group, from [`PredictionIntervals::covered`] or
/// [`PredictionSets::covered`].
///
/// If rows are not independent, such as those of one patient, `clusters` has one number per row, and limits and p-values are
/// those of as many independent rows as say as much about the coverage.
///
/// ```
/// use burn_bayes_eval::{PredictionIntervals, coverage_by_group, equal_mass_groups};
///
/// let intervals = PredictionIntervals::new(&[-1.0; 8], &[1.0; 8])?;
/// let targets = [0.0, 0.5, -0.5, 0.2, 3.0, 4.0, 0.9, -6.0];
/// let income = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
/// let groups = equal_mass_groups(&income, 2)?;
/// let found = coverage_by_group(&groups, &intervals.covered(&targets)?, 0.9, None)?;
/// assert_eq!((found[0].coverage, found[1].coverage), (1.0, 0.25));
/// assert!(found[1].adjusted_p_value < 0.01); // 1 of 4 or fewer at 0.9, twice
///
/// // Of six patients with five rows each, two are never covered.
/// let covered: Vec<bool> = (0..30).map(|row| row / 5 > 1).collect();
/// let patients: Vec<usize> = (0..30).map(|row| row / 5).collect();
/// let all = [0; 30];
/// let rows = coverage_by_group(&all, &covered, 0.9, None)?;
/// let found = coverage_by_group(&all, &covered, 0.9, Some(&patients))?;
/// assert_eq!(found[0].coverage, rows[0].coverage);
/// assert!(rows[0].p_value < 0.001 && found[0].p_value > 0.1); // 20 of 30 rows, 4 of 6 patients
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// A data error if the lengths differ or there are no rows; a config error if the level is not
/// strictly between 0 and 1.
pub fn coverage_by_group(
    groups: &[usize],
    covered: &[bool],
    level: f64,
    clusters: Option<&[usize]>,
) -> Result<Vec<GroupCoverage>, EvalError> {
    let p_value = |_, hits, rows| binomial::lower_tail(hits, rows, level);
    coverage_with(groups, covered, level, clusters, p_value)
}

/// The coverage of each group by conformal intervals or sets, as [`coverage_by_group`], whose thresholds are those of as many
/// calibration rows as the function says of the group.
///
/// The coverage of a threshold varies with the calibration rows, with a standard deviation of about √(ℓ(1 − ℓ)/n). The
/// p-values allow for that: covered rows are beta-binomial, not binomial.
///
/// ```
/// use burn_bayes_eval::{conformal_coverage_by_group, coverage_by_group};
///
/// let covered: Vec<bool> = (0..500).map(|row| row >= 70).collect();
/// let fixed = coverage_by_group(&[0; 500], &covered, 0.9, None)?;
/// let calibrated = conformal_coverage_by_group(&[0; 500], &covered, 0.9, None, |_| 100)?;
/// assert_eq!(fixed[0].interval, calibrated[0].interval);
/// assert!(fixed[0].p_value < 0.01 && calibrated[0].p_value > 0.05);
/// # Ok::<(), burn_bayes_eval::EvalError>(())
/// ```
///
/// # Errors
/// As [`coverage_by_group`].
pub fn conformal_coverage_by_group(
    groups: &[usize],
    covered: &[bool],
    level: f64,
    clusters: Option<&[usize]>,
    calibration_rows: impl Fn(usize) -> usize,
) -> Result<Vec<GroupCoverage>, EvalError> {
    let p_value = |group, hits, rows| {
        let known = calibration_rows(group).max(1);
        let rank = rank(level, known + 1).min(known);
        binomial::conformal_lower_tail(hits, rows, rank, known)
    };
    coverage_with(groups, covered, level, clusters, p_value)
}

/// The coverage of each group, with the p-value of a group, its covered rows and all of its rows.
fn coverage_with(
    groups: &[usize],
    covered: &[bool],
    level: f64,
    clusters: Option<&[usize]>,
    p_value: impl Fn(usize, usize, usize) -> f64,
) -> Result<Vec<GroupCoverage>, EvalError> {
    check::open_unit("level", level)?;
    check::not_empty("groups", groups.len())?;
    check::same_length("covered rows", covered.len(), groups.len())?;
    if let Some(clusters) = clusters {
        check::same_length("clusters", clusters.len(), groups.len())?;
    }
    let of_group = |(group, rows): (usize, Vec<usize>)| {
        let of_rows: Vec<bool> = rows.iter().map(|&row| covered[row]).collect();
        let count = of_rows.iter().filter(|&&hit| hit).count();
        let coverage = count as f64 / rows.len() as f64;
        let (hits, effective) = match clusters {
            None => (count, rows.len()),
            Some(clusters) => {
                let clusters: Vec<usize> = rows.iter().map(|&row| clusters[row]).collect();
                let effective = effective_rows(&of_rows, &clusters)?;
                ((coverage * effective as f64).round() as usize, effective)
            }
        };
        let p_value = p_value(group, hits, effective);
        Ok(GroupCoverage {
            group,
            rows: rows.len(),
            coverage,
            interval: ScoreInterval {
                lower: binomial::lower_limit(hits, effective, 0.025),
                upper: binomial::upper_limit(hits, effective, 0.025),
            },
            p_value,
            adjusted_p_value: p_value,
        })
    };
    let found = rows_by_group(groups).into_iter().map(of_group);
    let mut found = found.collect::<Result<Vec<GroupCoverage>, EvalError>>()?;
    let p_values: Vec<f64> = found.iter().map(|group| group.p_value).collect();
    for (group, adjusted) in found.iter_mut().zip(holm(&p_values)?) {
        group.adjusted_p_value = adjusted;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClassProbabilities, ConformalSets, LabelledProbabilities, SetScore};

    #[test]
    fn sets_go_back_to_their_rows_and_unknown_groups_are_errors() {
        let table = ClassProbabilities::binary(&[0.9, 0.6, 0.8, 0.6]).unwrap();
        let labels = [1, 1, 1, 0];
        let mondrian = Mondrian::calibrate(&[0, 1, 0, 1], |rows| {
            let labels: Vec<usize> = rows.iter().map(|&row| labels[row]).collect();
            let table = table.select(rows)?;
            ConformalSets::calibrate(
                &LabelledProbabilities::new(&table, &labels)?,
                0.6,
                SetScore::Lac,
            )
        })
        .unwrap();
        let sets = mondrian
            .sets(&[0, 1, 0, 1], |conformal, rows| {
                conformal.sets(&table.select(rows)?)
            })
            .unwrap();
        let found: Vec<usize> = sets.sizes();
        assert_eq!(found, [1, 2, 1, 2]);
        assert!(mondrian.of_group(2).is_none());
        let error = mondrian
            .sets(&[0, 2], |c, rows| c.sets(&table.select(rows)?))
            .unwrap_err();
        assert_eq!(error.row(), Some(1));
    }

    #[test]
    fn lengths_and_empty_groups_are_checked() {
        assert!(
            coverage_by_group(&[], &[], 0.9, None)
                .unwrap_err()
                .is_data()
        );
        assert!(
            coverage_by_group(&[0], &[], 0.9, None)
                .unwrap_err()
                .is_data()
        );
        assert!(
            coverage_by_group(&[0], &[true], 1.0, None)
                .unwrap_err()
                .is_config()
        );
        let found = coverage_by_group(&[3, 1, 3], &[true, false, true], 0.5, None).unwrap();
        let numbers: Vec<(usize, usize)> = found.iter().map(|g| (g.group, g.rows)).collect();
        assert_eq!(numbers, [(1, 1), (3, 2)]);
        assert_eq!((found[0].p_value, found[1].p_value), (0.5, 1.0));
        assert!(equal_mass_groups(&[1.0], 2).unwrap_err().is_data());
        assert_eq!(
            equal_mass_groups(&[1.0, f64::NAN], 2).unwrap_err().row(),
            Some(1)
        );
    }
}
