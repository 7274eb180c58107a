//! Prediction intervals of new rows from the fits of a comparison, by cross-validation (CV+).
//!
//! Every row of the data is in one fold of the first repeat, and every fit of this repeat leaves out one fold. The
//! interval of a new row follows from the predictions of all these fits for it, and from their errors for the rows that
//! they have not seen; [`ConformalCross`] has the equations. No row is held out for the intervals, so they suit few rows.
//! A new row is covered with a probability of at least 2ℓ − 1 − √(2/n), and for stable methods of about ℓ.

use std::fmt::Write;
use std::path::Path;

use burn_bayes::eval::ConformalCross;
use burn_bayes_data::{FarValues, Preprocessor};
use serde::Serialize;

use super::{Comparison, Runs, cell, runs_of};
use crate::error::Result;
use crate::experiments::jobs::{LeftOut, Record};
use crate::files::{csv_bytes, write_whole};
use crate::rows::SplitTable;
use crate::text::{number, tick};

/// The intervals of new rows.
#[derive(Debug, Serialize)]
pub(super) struct CrossIntervals {
    /// The level.
    level: f64,
    /// Number of rows of the data.
    rows: usize,
    /// Number of new rows.
    new_rows: usize,
    /// What holds, in words.
    guarantee: String,
    /// One for each method; without those of which a fit has no scores.
    methods: Vec<MethodIntervals>,
    /// The places of the new rows in their file, from 1.
    #[serde(skip)]
    places: Vec<usize>,
    /// Their values that no row of the data is near to, by column.
    #[serde(skip)]
    far: Vec<FarValues>,
}

/// The intervals of a method.
#[derive(Debug, Serialize)]
struct MethodIntervals {
    method: String,
    mean_width: f64,
    /// Fraction of the new rows inside; null if their targets are unknown.
    coverage: Option<f64>,
    #[serde(skip)]
    limits: Vec<(f64, f64)>,
}

impl Comparison {
    /// Adds the intervals of the new rows that `runs` ask for, from its records; `rows` are those of the data file.
    ///
    /// # Errors
    /// If the new rows cannot be read again.
    pub fn with_intervals(
        mut self,
        runs: &Runs,
        rows: &SplitTable,
        records: &[Record],
    ) -> Result<Self> {
        let (Some(request), Some(new)) = (&runs.new_rows, runs.new_table(rows)?) else {
            return Ok(self);
        };
        let data = &runs.config().data;
        let target = new.table.column(&data.targets()?[0]).ok();
        let targets: Option<Vec<f64>> =
            target.and_then(|column| new.rows.iter().map(|&row| column.number(row)).collect());
        let mut methods = Vec::new();
        for name in runs.names() {
            let fits: Option<Vec<&LeftOut>> = runs_of(&name, records)
                .into_iter()
                .take(runs.folds)
                .map(|record| record.computed.left_out.as_ref())
                .collect();
            if let Some(fits) = fits {
                methods.push(MethodIntervals::of(
                    name,
                    &fits,
                    request.level,
                    targets.as_deref(),
                )?);
            }
        }
        let prepared = data.preprocessor(&rows.table)?;
        let prepared = Preprocessor::fit(&prepared, &rows.table, rows.train.iter().copied())?;
        let known = rows.train.len();
        self.intervals = Some(CrossIntervals {
            level: request.level,
            rows: known,
            new_rows: new.rows.len(),
            guarantee: guarantee(request.level, known, runs.folds),
            methods,
            places: new.rows.iter().map(|row| row + 1).collect(),
            far: prepared.far_values(&new.table, new.rows.iter().copied())?,
        });
        Ok(self)
    }
}

impl MethodIntervals {
    /// From the fits of one repeat.
    fn of(method: String, fits: &[&LeftOut], level: f64, targets: Option<&[f64]>) -> Result<Self> {
        // Only the errors matter: they are predictions of the target 0.
        let errors: Vec<f64> = fits
            .iter()
            .flat_map(|fit| fit.errors.iter().copied())
            .collect();
        let folds = fits.iter().enumerate();
        let folds: Vec<usize> = folds
            .flat_map(|(fold, fit)| std::iter::repeat_n(fold, fit.errors.len()))
            .collect();
        let cross = ConformalCross::new(&errors, &vec![0.0; errors.len()], &folds)?;
        let means: Vec<f64> = fits
            .iter()
            .flat_map(|fit| fit.new_means.iter().copied())
            .collect();
        let intervals = cross.intervals(&means, level)?;
        let limits = intervals
            .lower()
            .iter()
            .copied()
            .zip(intervals.upper().iter().copied());
        Ok(Self {
            method,
            mean_width: intervals.mean_width(),
            coverage: targets
                .map(|targets| intervals.coverage(targets))
                .transpose()?,
            limits: limits.collect(),
        })
    }
}

/// What holds for the intervals of every method.
fn guarantee(level: f64, rows: usize, folds: usize) -> String {
    let least = (2.0 * level - 1.0 - (2.0 / rows as f64).sqrt()).max(0.0);
    format!(
        "the interval of a new row contains its target with a probability of at least {} %, and for stable methods of about \
         {} %, if the row comes from the same distribution as the data; from {folds} fits, each without one fold of the {rows} \
         rows (CV+). It holds for each method, not for one that is chosen by its intervals of these rows.",
        tick((1000.0 * least).floor() / 10.0),
        tick(100.0 * level)
    )
}

impl CrossIntervals {
    pub(super) fn far(&self) -> &[FarValues] {
        &self.far
    }

    /// Writes one line for each method and row.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let rows = self.methods.iter().flat_map(|found| {
            self.places
                .iter()
                .zip(&found.limits)
                .map(|(place, (lower, upper))| {
                    [
                        place.to_string(),
                        found.method.clone(),
                        lower.to_string(),
                        upper.to_string(),
                    ]
                })
        });
        write_whole(
            path,
            &csv_bytes(&["row", "method", "lower", "upper"], rows)?,
        )
    }

    /// A table of the methods.
    pub(super) fn push_markdown(&self, page: &mut String) {
        let _ = writeln!(
            page,
            "\nIntervals of {} new rows at {}, in `intervals.csv`: {}\n",
            self.new_rows, self.level, self.guarantee
        );
        let _ = writeln!(page, "| method | mean width | coverage |\n|---|---|---|");
        for found in &self.methods {
            let coverage = found.coverage.map_or("–".into(), number);
            let _ = writeln!(
                page,
                "| {} | {} | {coverage} |",
                cell(&found.method),
                number(found.mean_width)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_that_all_fits_share_is_surrounded_by_the_errors() {
        let fit = |errors: &[f64]| LeftOut {
            errors: errors.to_vec(),
            new_means: vec![10.0, -1.0],
        };
        let fits = [fit(&[0.5, -1.0]), fit(&[1.5, 2.0])];
        let fits: Vec<&LeftOut> = fits.iter().collect();
        let found = MethodIntervals::of("map".into(), &fits, 0.6, Some(&[11.0, 5.0])).unwrap();
        // ⌈5 · 0.6⌉ = 3: the third of 0.5, 1, 1.5, 2.
        for (found, limits) in found.limits.iter().zip([(8.5, 11.5), (-2.5, 0.5)]) {
            let error = (found.0 - limits.0).abs().max((found.1 - limits.1).abs());
            assert!(error <= 4.0 * f64::EPSILON, "{found:?}");
        }
        assert!((found.mean_width - 3.0).abs() <= 4.0 * f64::EPSILON);
        assert_eq!(found.coverage, Some(0.5));
        assert!(
            guarantee(0.9, 200, 5).contains("at least 70 %"),
            "{}",
            guarantee(0.9, 200, 5)
        );
    }
}
