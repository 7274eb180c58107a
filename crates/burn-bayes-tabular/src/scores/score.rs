//! One number with how sure it is, or the reason why there is none.

use burn_bayes::eval::{Bootstrap, EvalError, ScoreInterval};
use serde::Serialize;

/// A score of some rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The score of the rows; null where it is not defined.
    pub value: Option<f64>,
    /// Where it would lie on other rows of the same kind, at 95 %; null where that is not known.
    pub interval: Option<Interval>,
    /// Why the value or else the interval is null.
    pub absent: Option<String>,
}

/// A bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower limit.
    pub lower: f64,
    /// Upper limit.
    pub upper: f64,
}

/// The level of the intervals.
const LEVEL: f64 = 0.95;
/// Resamples of a score that is cheap to compute.
const RESAMPLES: usize = 1000;
/// Fewer resamples than these place no 95 % interval.
const FEWEST_RESAMPLES: usize = 100;
/// Numbers that all resamples of one score may sort together: a fraction of a second.
const SORTED_NUMBERS: usize = 4_000_000;
/// Relative error of a sum that is no difference.
const ROUNDING: f64 = 1e-12;
/// What stands where there is no interval.
const OMITTED: &str = "no interval: it was not asked for";
/// The same rows are resampled for every score and every run.
const SEED: u64 = 1;

/// Whether scores get intervals: resampling the rows is most of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intervals {
    /// By the bootstrap.
    Bootstrapped,
    /// Of scores that are compared with those of other rows.
    Omitted,
}

impl Intervals {
    /// The means of several values of each row.
    pub(crate) fn of_means<const N: usize>(self, columns: [&[f64]; N]) -> [Score; N] {
        if self == Self::Omitted {
            return columns.map(|values| Score::alone(mean(values), OMITTED));
        }
        match Bootstrap::of_means(columns, RESAMPLES, SEED) {
            Ok(resampled) => resampled.map(|bootstrap| {
                // The corrected interval needs two rows and resamples on either side of the mean.
                let interval = bootstrap
                    .bca_interval(LEVEL)
                    .or_else(|_| bootstrap.percentile_interval(LEVEL));
                Score::with(bootstrap.estimate(), interval)
            }),
            // One that is not defined takes nothing from the others.
            Err(_) if N > 1 => columns.map(|values| {
                let [score] = self.of_means([values]);
                score
            }),
            Err(error) => columns.map(|values| {
                let row = values.iter().position(|value| !value.is_finite());
                Score::absent(row.map_or_else(
                    || error.to_string(),
                    |row| format!("row {row}, from 0, makes the mean {}", values[row]),
                ))
            }),
        }
    }

    /// Any score of a set of rows, which sorts `sorted` numbers to be computed once; NaN where the
    /// rows leave it undefined.
    pub(crate) fn of_rows(
        self,
        value: f64,
        rows: usize,
        sorted: usize,
        score: impl Fn(&[usize]) -> f64,
    ) -> Score {
        self.of_resamples(value, sorted, |resamples| {
            Bootstrap::of_score(rows, resamples, SEED, score)
        })
    }

    /// As [`of_rows`](Self::of_rows), with as many rows of each true class in every resample as there
    /// are: no resample is without a rare class.
    pub(crate) fn of_labelled_rows(
        self,
        value: f64,
        labels: &[usize],
        sorted: usize,
        score: impl Fn(&[usize]) -> f64,
    ) -> Score {
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
            Self::Bootstrapped if resamples < FEWEST_RESAMPLES => {
                Score::alone(value, "no interval: too many rows to score again and again")
            }
            Self::Bootstrapped => Score::with(
                value,
                resampled(resamples).and_then(|bootstrap| bootstrap.percentile_interval(LEVEL)),
            ),
        }
    }
}

impl Score {
    /// A score that is not defined for these rows.
    pub(crate) fn absent(reason: impl Into<String>) -> Self {
        Self {
            value: None,
            interval: None,
            absent: Some(reason.into()),
        }
    }

    /// A score without an interval, for a reason.
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

    /// The root of a mean.
    ///
    /// Quantiles go through a rising function, so the interval is that of the mean, rooted.
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
            // Means of equal numbers may differ by rounding.
            Ok(interval) if interval.upper - interval.lower > ROUNDING * value.abs() => Self {
                value: Some(value),
                interval: Some(Interval {
                    lower: interval.lower,
                    upper: interval.upper,
                }),
                absent: None,
            },
            Ok(_) => Self::alone(value, "no interval: resampled rows all score alike"),
            Err(_) => Self::alone(
                value,
                "no interval: some resamples leave the score undefined",
            ),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
