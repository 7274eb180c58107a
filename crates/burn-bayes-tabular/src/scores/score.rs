//! A score with a confidence interval, or the reason why it is missing.

use burn_bayes::eval::{Bootstrap, EvalError, ScoreInterval, coverage_by_group};
use serde::Serialize;

use crate::rows::Units;

/// A score of some rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The value; null if undefined.
    pub value: Option<f64>,
    /// The 95 % confidence interval; null if unknown.
    pub interval: Option<Interval>,
    /// Why the value or the interval is null.
    pub absent: Option<String>,
}

impl From<&Self> for Score {
    fn from(score: &Self) -> Self {
        score.clone()
    }
}

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower limit.
    pub lower: f64,
    /// Upper limit.
    pub upper: f64,
}

impl From<ScoreInterval> for Interval {
    fn from(found: ScoreInterval) -> Self {
        Self {
            lower: found.lower,
            upper: found.upper,
        }
    }
}

/// Confidence level.
const LEVEL: f64 = 0.95;
/// Default number of resamples.
const RESAMPLES: usize = 1000;
/// Minimum number of resamples for a 95 % interval.
const FEWEST_RESAMPLES: usize = 100;
/// Maximum count of numbers sorted in all resamples of one score: a fraction of a second.
const SORTED_NUMBERS: usize = 4_000_000;
/// Relative width below which an interval is rounding error.
const ROUNDING: f64 = 1e-12;
/// Reason for an omitted interval.
const OMITTED: &str = "no interval: it was not requested";
/// Fixed, so that the same rows are resampled for every score and every run.
const SEED: u64 = 1;

/// Whether to compute intervals, which is most of the work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Intervals<'a> {
    /// Bootstrap intervals, of which these units are drawn.
    Bootstrapped(&'a Units),
    /// No intervals.
    Omitted,
}

impl Intervals<'_> {
    /// Scores that are means over rows.
    pub(crate) fn of_means<const N: usize>(self, columns: [&[f64]; N]) -> [Score; N] {
        match self {
            Self::Omitted => return columns.map(|values| Score::alone(mean(values), OMITTED)),
            Self::Bootstrapped(units) if units.are_rows() => {}
            Self::Bootstrapped(units) => {
                let members = units.members();
                return columns.map(|values| {
                    let of_rows = |rows: &[usize]| {
                        rows.iter().map(|&row| values[row]).sum::<f64>() / rows.len() as f64
                    };
                    // Nothing is sorted.
                    self.of_units(mean(values), &members, 1, of_rows)
                });
            }
        }
        match Bootstrap::of_means(columns, RESAMPLES, SEED) {
            Ok(resampled) => resampled.map(|bootstrap| {
                // The BCa interval needs two rows, and resamples on both sides of the mean.
                let interval = bootstrap
                    .bca_interval(LEVEL)
                    .or_else(|_| bootstrap.percentile_interval(LEVEL));
                Score::with(bootstrap.estimate(), interval)
            }),
            // An undefined mean must not affect the others, so each is resampled on its own.
            Err(_) if N > 1 => columns.map(|values| {
                let [score] = self.of_means([values]);
                score
            }),
            Err(error) => columns.map(|values| {
                let row = values.iter().position(|value| !value.is_finite());
                Score::absent(row.map_or_else(
                    || error.to_string(),
                    |row| format!("the value of row {row} (from 0) is {}", values[row]),
                ))
            }),
        }
    }

    /// The fraction of rows that are hits, from [`of_means`](Self::of_means): where all or none are, resamples say nothing, and the
    /// limits are those of a binomial distribution.
    pub(crate) fn of_fraction(self, score: Score, hits: &[f64]) -> Score {
        let Self::Bootstrapped(units) = self else {
            return score;
        };
        let is_one_sided = score
            .value
            .is_some_and(|share| share == 0.0 || share == 1.0);
        if score.interval.is_some() || !is_one_sided {
            return score;
        }
        let hits: Vec<bool> = hits.iter().map(|&hit| hit > 0.5).collect();
        // The level matters for the p-value only.
        let found = coverage_by_group(&vec![0; hits.len()], &hits, 0.5, units.clusters());
        match found.ok().and_then(|groups| groups.first().copied()) {
            Some(all) => Score {
                interval: Some(all.interval.into()),
                absent: None,
                ..score
            },
            None => score,
        }
    }

    /// Any score of a set of rows, whose computation sorts `sorted` numbers; NaN if it is undefined for
    /// the rows.
    pub(crate) fn of_rows(
        self,
        value: f64,
        rows: usize,
        sorted: usize,
        score: impl Fn(&[usize]) -> f64,
    ) -> Score {
        match self {
            Self::Bootstrapped(units) if !units.are_rows() => {
                self.of_units(value, &units.members(), sorted, score)
            }
            Self::Bootstrapped(_) | Self::Omitted => {
                self.of_resamples(value, sorted, |resamples| {
                    Bootstrap::of_score(rows, resamples, SEED, score)
                })
            }
        }
    }

    /// The same with the rows of each unit.
    fn of_units(
        self,
        value: f64,
        members: &[Vec<usize>],
        sorted: usize,
        score: impl Fn(&[usize]) -> f64,
    ) -> Score {
        self.of_resamples(value, sorted, |resamples| {
            Bootstrap::of_score(members.len(), resamples, SEED, move |units| {
                let rows = units.iter().flat_map(|&unit| &members[unit]).copied();
                score(&rows.collect::<Vec<_>>())
            })
        })
    }

    /// As [`of_rows`](Self::of_rows), with resampling of independent rows stratified by true class, so that every resample
    /// contains the rare classes.
    pub(crate) fn of_labelled_rows(
        self,
        value: f64,
        labels: &[usize],
        sorted: usize,
        score: impl Fn(&[usize]) -> f64,
    ) -> Score {
        if let Self::Bootstrapped(units) = self
            && !units.are_rows()
        {
            return self.of_rows(value, labels.len(), sorted, score);
        }
        self.of_resamples(value, sorted, |resamples| {
            Bootstrap::of_score_within(labels, resamples, SEED, score)
        })
    }

    fn of_resamples<'a>(
        self,
        value: f64,
        sorted: usize,
        resampled: impl FnOnce(usize) -> Result<Bootstrap<'a>, EvalError>,
    ) -> Score {
        let resamples = (SORTED_NUMBERS / sorted.max(1)).min(RESAMPLES);
        match self {
            Self::Omitted => Score::alone(value, OMITTED),
            Self::Bootstrapped(_) if resamples < FEWEST_RESAMPLES => {
                Score::alone(value, "no interval: too many rows for resampling")
            }
            Self::Bootstrapped(_) => Score::with(
                value,
                resampled(resamples).and_then(|bootstrap| bootstrap.percentile_interval(LEVEL)),
            ),
        }
    }
}

impl Score {
    /// A score that is undefined for these rows.
    pub(crate) fn absent(reason: impl Into<String>) -> Self {
        Self {
            value: None,
            interval: None,
            absent: Some(reason.into()),
        }
    }

    /// A score without an interval, with the reason.
    pub(crate) fn alone(value: f64, reason: impl Into<String>) -> Self {
        if !value.is_finite() {
            return Self::absent(format!("the score is {value}"));
        }
        Self {
            value: Some(value),
            interval: None,
            absent: Some(reason.into()),
        }
    }

    /// The square root of a mean.
    ///
    /// Quantiles commute with increasing functions, so the limits of the interval are square roots too.
    pub(crate) fn root(self) -> Self {
        let root = |interval: Interval| Interval {
            lower: interval.lower.sqrt(),
            upper: interval.upper.sqrt(),
        };
        Self {
            value: self.value.map(f64::sqrt),
            interval: self.interval.map(root),
            absent: self.absent,
        }
    }

    fn with(value: f64, interval: Result<ScoreInterval, EvalError>) -> Self {
        match interval {
            // Means of equal numbers may differ by rounding errors.
            Ok(interval) if interval.upper - interval.lower > ROUNDING * value.abs() => Self {
                value: Some(value),
                interval: Some(interval.into()),
                absent: None,
            },
            Ok(_) => Self::alone(value, "no interval: all resamples have the same score"),
            Err(_) => Self::alone(
                value,
                "no interval: the score is undefined for some resamples",
            ),
        }
    }
}

/// The mean of numbers.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hits_have_the_limits_of_a_binomial_distribution() {
        let hits = [1.0; 20];
        let of = |units: &Units| {
            let intervals = Intervals::Bootstrapped(units);
            let [score] = intervals.of_means([&hits]);
            intervals.of_fraction(score, &hits)
        };
        // A share of hits of .025^(1/n) has n of n in one of forty sets of rows.
        let lower = |rows: f64| 0.025_f64.powf(rows.recip());
        let groups: Vec<usize> = (0..20).map(|row| row / 4).collect();
        for (units, rows) in [(Units::rows(20), 20.0), (Units::of(&groups), 5.0)] {
            let found = of(&units).interval.unwrap();
            assert!((found.lower - lower(rows)).abs() < 1e-9, "{found:?}");
            assert_eq!(found.upper, 1.0);
        }
    }
}
