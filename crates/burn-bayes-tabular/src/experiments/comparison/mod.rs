//! Comparison of methods and settings: means over runs, and paired tests against the best fit.
//!
//! Runs share training rows, and those of several repeats also test rows, so they are not independent. Standard errors and
//! tests have the correction of C. Nadeau and Y. Bengio, "Inference for the generalization error" (2003): more repeats
//! do not make them smaller than the rows allow.

mod cross_intervals;
mod leaderboard;
mod runs;
mod variants;

pub use runs::Runs;
pub use variants::{Change, Variant};

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use burn_bayes::eval::{PairedLosses, resampled_t_test};
use burn_bayes_data::FarValues;
use cross_intervals::CrossIntervals;
use serde::Serialize;

use crate::error::{Result, TabularError};
use crate::experiments::jobs::Record;
use crate::experiments::search::Scored;
use crate::files::{csv_bytes, write_whole};
use crate::order::by_cost;
use crate::scores::{Better, DIVERGED, Lines, Measures, ScoreSpec, Summary};
use crate::settings::PlainName;
use crate::text::decimals;
use burn_bayes::eval::Bounded;

/// The minimum number of runs for a test: with few runs, differences may be equal by chance.
const FEWEST_TESTED: usize = 5;
/// The measure of the number of test rows divided by that of training rows.
const TEST_TO_TRAIN: &str = "test_to_train";

/// The measures that a job stores, without undefined scores.
fn measures(scored: &Scored) -> Measures {
    let ratio = (TEST_TO_TRAIN.to_string(), scored.test_to_train);
    let diverged = scored.diverged.then(|| (DIVERGED.to_string(), 1.0));
    let lines = scored.scores.iter().flat_map(Lines::lines);
    let compared = lines.filter(|line| line.spec.is_compared);
    compared
        .filter_map(|line| Some((line.spec.key.to_string(), line.score.value?)))
        .chain(diverged)
        .chain([ratio])
        .collect()
}

/// The result of a comparison.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The command line.
    command: String,
    /// The positive class of F1; null for more than two classes, and for regression.
    positive: Option<String>,
    /// Number of runs of every method.
    runs: usize,
    methods: Vec<Row>,
    /// Intervals of new rows; absent if they are not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    intervals: Option<CrossIntervals>,
}

/// A method, perhaps with the changes of a variant, or a plain model.
#[derive(Debug, Serialize)]
struct Row {
    method: String,
    is_plain: bool,
    /// Number of diverged runs; those with scores are included in the means.
    diverged: usize,
    scores: BTreeMap<&'static str, Entry>,
    /// Mean wall-clock time of a run.
    seconds: f64,
}

/// A score of a method.
#[derive(Clone, Copy, Debug, Serialize)]
struct Entry {
    /// Number of runs with the score.
    runs: usize,
    mean: f64,
    standard_error: Option<f64>,
    is_best: bool,
    /// The mean of the score minus that of the best method, over the runs of both; null for the best method.
    difference: Option<f64>,
    /// Its standard error.
    difference_standard_error: Option<f64>,
    /// The p-value of a corrected resampled t-test against the best method, Bonferroni-corrected; null for the best
    /// method, and without a test.
    p_value: Option<f64>,
}

impl Comparison {
    /// All files of a comparison in its folder: the finished runs, and those that are written from them.
    pub const FILES: [&str; 5] = [
        "runs.jsonl",
        "compare.csv",
        "compare.md",
        "intervals.csv",
        "leaderboard.html",
    ];

    /// From the records of all runs of the fits and plain models with these names, with the `positive` class of F1.
    pub fn of(
        command: String,
        positive: Option<&str>,
        names: &[String],
        records: &[Record],
    ) -> Result<Self> {
        let of = |name: &str| runs_of(name, records);
        let mut rows: Vec<Row> = names
            .iter()
            .map(|name| {
                let runs = of(name);
                let diverged = runs
                    .iter()
                    .filter(|run| run.computed.measures.contains_key(DIVERGED));
                let seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
                Row {
                    method: name.clone(),
                    is_plain: name.parse::<PlainName>().is_ok(),
                    diverged: diverged.count(),
                    scores: BTreeMap::new(),
                    seconds: Summary::of(&seconds).map_or(0.0, |summary| summary.mean),
                }
            })
            .collect();
        let mut ratio: f64 = 0.0;
        for run in records {
            let found = run.computed.measures.get(TEST_TO_TRAIN).ok_or_else(|| {
                let problem =
                    "a finished run lacks its number of test rows; compare without --resume";
                TabularError::Data(problem.into())
            })?;
            ratio = ratio.max(*found);
        }
        for column in ScoreSpec::compared() {
            let runs: Vec<Vec<Option<f64>>> = names
                .iter()
                .map(|name| {
                    let runs = of(name).into_iter();
                    runs.map(|run| run.computed.measures.get(column.key).copied())
                        .collect()
                })
                .collect();
            let diverged: Vec<usize> = rows.iter().map(|row| row.diverged).collect();
            for (row, entry) in
                rows.iter_mut()
                    .zip(entries(column.better, &runs, &diverged, ratio)?)
            {
                row.scores.extend(entry.map(|entry| (column.key, entry)));
            }
        }
        Ok(Self {
            command,
            positive: positive.map(String::from),
            runs: records.len() / names.len().max(1),
            methods: rows,
            intervals: None,
        })
    }

    /// Checks that there are scores.
    ///
    /// # Errors
    /// If every run of every method diverged.
    pub fn expect_scores(&self) -> Result<()> {
        let methods: Vec<&Row> = self.methods.iter().filter(|row| !row.is_plain).collect();
        let diverged: usize = methods.iter().map(|row| row.diverged).sum();
        match diverged < self.runs * methods.len() {
            true => Ok(()),
            false => Err(TabularError::Numerical(format!(
                "all {diverged} runs diverged; lower `learning_rate`, or set `clip`"
            ))),
        }
    }

    /// The values of the new rows that no row of the data is near to, by column; empty without new rows.
    pub fn far(&self) -> &[FarValues] {
        self.intervals.as_ref().map_or(&[], CrossIntervals::far)
    }

    /// Writes `compare.md` and `compare.csv`, and `intervals.csv` if there are new rows.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let [_, table, page, of_new, _] = Self::FILES;
        if let Some(intervals) = &self.intervals {
            intervals.write(&folder.join(of_new))?;
        }
        write_whole(&folder.join(page), self.markdown().as_bytes())?;
        write_whole(&folder.join(table), &self.csv()?)
    }

    /// A page with the command and the table.
    pub fn markdown(&self) -> String {
        let columns: Vec<ScoreSpec> = self.columns().collect();
        let mut page = format!("`{}`\n\n", self.command);
        let _ = writeln!(
            page,
            "Mean ± standard error over {} runs{}, with the best in bold. p: paired t-test against the best \
             method over runs, Bonferroni-corrected, for at least {FEWEST_TESTED} runs. Standard errors and p are corrected \
             for the rows that runs share (Nadeau and Bengio, 2003).\n",
            self.runs,
            self.fewer_runs()
        );
        let title = |column: &ScoreSpec| cell(&column.title_of(self.positive.as_deref()));
        let heads: Vec<String> = ["method".into()]
            .into_iter()
            .chain(columns.iter().map(title))
            .chain(["diverged".into(), "seconds".into()])
            .collect();
        let _ = writeln!(page, "| {} |", heads.join(" | "));
        let _ = writeln!(page, "|{}", "---|".repeat(heads.len()));
        for row in &self.methods {
            let scores = columns
                .iter()
                .map(|column| shown(row.scores.get(column.key), self.runs));
            let ends = [row.diverged.to_string(), format!("{:.2}", row.seconds)];
            let entries: Vec<String> = [cell(&row.method)]
                .into_iter()
                .chain(scores)
                .chain(ends)
                .collect();
            let _ = writeln!(page, "| {} |", entries.join(" | "));
        }
        if let Some(intervals) = &self.intervals {
            intervals.push_markdown(&mut page);
        }
        page
    }

    /// One row per method and score.
    fn csv(&self) -> Result<Vec<u8>> {
        let heads = [
            "method",
            "measure",
            "runs",
            "mean",
            "standard_error",
            "p_value",
            "diverged",
            "seconds",
        ];
        let text = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let entries = |row: &Row, measure: &str, entry: &Entry| {
            [
                row.method.clone(),
                measure.to_string(),
                entry.runs.to_string(),
                entry.mean.to_string(),
                text(entry.standard_error),
                text(entry.p_value),
                row.diverged.to_string(),
                row.seconds.to_string(),
            ]
        };
        let rows = self.methods.iter().flat_map(|row| {
            let scores = row.scores.iter();
            scores.map(move |(measure, entry)| entries(row, measure, entry))
        });
        csv_bytes(&heads, rows)
    }

    /// What is said of scores that some runs lack.
    fn fewer_runs(&self) -> &'static str {
        let mut scores = self.methods.iter().flat_map(|row| row.scores.values());
        match scores.any(|entry| entry.runs < self.runs) {
            true => {
                ", or as many as is said where some lack the score (the best is one of the methods that lack it in the fewest)"
            }
            false => "",
        }
    }

    /// The columns that some method has.
    fn columns(&self) -> impl Iterator<Item = ScoreSpec> {
        ScoreSpec::compared().into_iter().filter(|column| {
            let mut rows = self.methods.iter();
            rows.any(|row| row.scores.contains_key(column.key))
        })
    }
}

/// A text as a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The records of a method, in the order of runs.
fn runs_of<'r>(method: &str, records: &'r [Record]) -> Vec<&'r Record> {
    let mut runs: Vec<_> = records
        .iter()
        .filter(|run| run.key.method == method)
        .collect();
    runs.sort_by_key(|run| run.key.seed);
    runs
}

/// One score of all methods, from the runs of each method and its number of diverged runs; `None` for a
/// method without the score. The best method is chosen among those with the fewest runs that diverged or lack the score, by
/// the runs that all of these have.
fn entries(
    better: Better,
    runs: &[Vec<Option<f64>>],
    diverged: &[usize],
    test_to_train: f64,
) -> Result<Vec<Option<Entry>>> {
    let summary = |runs: &Vec<Option<f64>>| {
        let values: Vec<f64> = runs.iter().flatten().copied().collect();
        Summary::of_overlapping(&values, test_to_train)
    };
    let summaries: Vec<Option<Summary>> = runs.iter().map(summary).collect();
    let failures = |method: usize| {
        let found = summaries[method]?.runs;
        Some(failures(diverged[method], runs[method].len(), found))
    };
    let fewest = (0..runs.len()).filter_map(failures).min();
    let ranked = (0..runs.len()).filter(|&method| fewest.is_some() && failures(method) == fewest);
    let ranked: Vec<usize> = ranked.collect();
    let sign = if better == Better::Higher { -1.0 } else { 1.0 };
    let cost = |method: usize| {
        let has_score = |method: usize, run| runs[method].get(run).is_some_and(Option::is_some);
        let is_common = |run: &usize| ranked.iter().all(|&method| has_score(method, *run));
        let common = (0..runs[method].len()).filter(is_common);
        let common: Vec<f64> = common.filter_map(|run| runs[method][run]).collect();
        Summary::of(&common).map(|summary| sign * summary.mean)
    };
    let costs = ranked
        .iter()
        .filter_map(|&method| Some((method, cost(method)?)));
    let best = costs.min_by(|&(_, one), &(_, other)| by_cost(one, other));
    let best = best.map(|(method, _)| method);
    let others = runs.len() - 1;
    let entry = |method: usize| -> Result<Option<Entry>> {
        let Some(summary) = summaries[method] else {
            return Ok(None);
        };
        let (difference, p_value) = match best.filter(|best| *best != method) {
            None => (None, None),
            Some(best) => against_best(&runs[method], &runs[best], others, test_to_train)?,
        };
        Ok(Some(Entry {
            runs: summary.runs,
            mean: summary.mean,
            standard_error: summary.standard_error,
            is_best: best == Some(method),
            difference: difference.map(|found| found.mean),
            difference_standard_error: difference.and_then(|found| found.standard_error),
            p_value,
        }))
    };
    (0..runs.len()).map(entry).collect()
}

/// The number of runs that diverged or lack a score that `found` runs have.
fn failures(diverged: usize, runs: usize, found: usize) -> usize {
    diverged.max(runs - found)
}

/// The difference of two methods and its p-value, over the runs that both have.
fn against_best(
    these: &[Option<f64>],
    those: &[Option<f64>],
    tests: usize,
    test_to_train: f64,
) -> Result<(Option<Summary>, Option<f64>)> {
    let both = these.iter().zip(those);
    let both = both.filter_map(|(this, that)| Some((((*this)?), (*that)?)));
    let (these, those): (Vec<f64>, Vec<f64>) = both.unzip();
    if these.is_empty() {
        return Ok((None, None));
    }
    let pairs = PairedLosses::new(&these, &those)?;
    let test = resampled_t_test(&pairs, test_to_train)?;
    let test = test.filter(|_| these.len() >= FEWEST_TESTED);
    let p_value = test.map(|test| (test.p_value * tests as f64).at_most(1.0));
    let difference = Summary::of_overlapping(pairs.differences(), test_to_train);
    Ok((difference, p_value))
}

fn shown(entry: Option<&Entry>, runs: usize) -> String {
    let Some(entry) = entry else {
        return "–".into();
    };
    let mut text = decimals(entry.mean, 4);
    if let Some(error) = entry.standard_error {
        let _ = write!(text, " ± {}", decimals(error, 4));
    }
    if entry.is_best {
        text = format!("**{text}**");
    }
    if entry.runs < runs {
        let _ = write!(text, " ({} runs)", entry.runs);
    }
    if let Some(p_value) = entry.p_value {
        let _ = write!(text, " (p {p_value:.3})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::jobs::Key;

    fn record(method: &str, seed: u64, measures: &[(&str, f64)]) -> Record {
        // Of five folds.
        let measures = measures.iter().chain([&(TEST_TO_TRAIN, 0.25)]);
        let measures = measures.map(|&(name, value)| (name.to_string(), value));
        Record {
            key: Key::new("rows", method, seed),
            settings: serde_json::Value::Null,
            computed: measures.collect::<Measures>().into(),
            seconds: 2.0,
        }
    }

    fn compared(records: &[Record]) -> Comparison {
        let names = ["map", "vifa"].map(String::from);
        Comparison::of("burn-bayes compare".into(), None, &names, records).unwrap()
    }

    #[test]
    fn the_best_is_the_least_loss_or_the_most_accuracy() {
        let losses = [0.5, 0.75, 0.5, 0.75, 0.625].into_iter().zip(0..);
        let mut records: Vec<Record> = losses
            .flat_map(|(nll, run)| {
                [
                    record("map", run, &[("nll", nll), ("accuracy", 0.9)]),
                    record("vifa", run, &[("nll", 0.25), ("accuracy", 0.8)]),
                ]
            })
            .collect();
        let comparison = compared(&records);
        let [map, vifa] = &comparison.methods[..] else {
            panic!("two methods");
        };
        assert!(map.scores["accuracy"].is_best && vifa.scores["nll"].is_best);
        assert_eq!((map.diverged, vifa.diverged, comparison.runs), (0, 0, 5));
        assert_eq!(map.scores["nll"].mean, 0.625);
        assert_eq!(vifa.scores["nll"].p_value, None);
        assert_eq!(map.scores["nll"].difference, Some(0.375));
        let error = map.scores["nll"].difference_standard_error.unwrap();
        // 1/5 + 1/4 in the place of 1/5.
        assert!((error - 0.125 * 0.45f64.sqrt()).abs() < 1e-15);
        // Differences of mean 3/8 and standard deviation 1/8: t = 2√5 with four degrees of freedom, where
        // P(|T| ≤ t) = (3/4) (x − x³/3), x = t/√(4 + t²).
        let x: f64 = (20.0 / 24.0_f64).sqrt();
        let expected = 1.0 - 1.5 * (x - x.powi(3) / 3.0);
        assert!((map.scores["nll"].p_value.unwrap() - expected).abs() < 1e-12);
        let page = comparison.markdown();
        assert!(
            page.contains("| method | NLL | Accuracy | diverged | seconds |"),
            "{page}"
        );
        assert!(page.contains("**0.2500 ± 0.0000**"), "{page}");
        // With few runs, equal differences may be chance.
        records.truncate(8);
        assert_eq!(compared(&records).methods[0].scores["nll"].p_value, None);
    }

    #[test]
    fn more_repeats_of_equal_methods_are_no_evidence() {
        // Rows with a difference each, which the repeats test again and again.
        let rows = burn_bayes::eval::uniforms(100, 3);
        let p_value = |repeats: u64| {
            let runs = (0..5 * repeats).flat_map(|run| {
                let keys = burn_bayes::eval::uniforms(100, run / 5);
                let mut order: Vec<usize> = (0..100).collect();
                order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
                let test = &order[run as usize % 5 * 20..][..20];
                let sum: f64 = test.iter().map(|&row| rows[row] - 0.45).sum();
                [
                    record("map", run, &[("nll", sum / 20.0)]),
                    record("vifa", run, &[("nll", 0.0)]),
                ]
            });
            let found = compared(&runs.collect::<Vec<_>>());
            let mut p_values = found.methods.iter().map(|row| row.scores["nll"].p_value);
            p_values.find_map(|p_value| p_value).unwrap()
        };
        // The mean differs from zero by about one standard error of 100 rows.
        for repeats in [2, 20, 200] {
            assert!(p_value(repeats) > 0.1, "{repeats}: {}", p_value(repeats));
        }
    }

    #[test]
    fn a_method_that_diverged_is_not_the_best_by_its_other_runs() {
        let runs = (0..6).flat_map(|run| {
            let vifa = match run {
                5 => (DIVERGED, 1.0),
                _ => ("nll", 0.25),
            };
            [
                record("map", run, &[("nll", 0.5)]),
                record("vifa", run, &[vifa]),
            ]
        });
        let comparison = compared(&runs.collect::<Vec<_>>());
        let [map, vifa] = &comparison.methods[..] else {
            panic!("two methods");
        };
        assert_eq!((vifa.diverged, vifa.scores["nll"].mean), (1, 0.25));
        assert!(map.scores["nll"].is_best && !vifa.scores["nll"].is_best);
    }

    #[test]
    fn methods_are_ranked_by_the_same_runs() {
        let compared = |map: [Option<f64>; 3], vifa: [Option<f64>; 3]| {
            let runs = (0..3).zip(map.into_iter().zip(vifa));
            let runs = runs.flat_map(|(run, (map, vifa))| {
                [("map", map), ("vifa", vifa)].map(|(method, nll)| {
                    let nll = nll.map(|nll| ("nll", nll));
                    record(method, run, nll.as_slice())
                })
            });
            compared(&runs.collect::<Vec<_>>())
        };
        // The first run is the hardest, which one method lacks.
        for map in [
            [Some(1.0), Some(0.5), Some(0.5)],
            [Some(1.0), Some(0.5), None],
        ] {
            let found = compared(map, [None, Some(0.6), Some(0.6)]);
            let best = found.methods.iter().map(|row| row.scores["nll"].is_best);
            assert_eq!(best.collect::<Vec<_>>(), [true, false]);
            let page = found.markdown();
            for words in ["over 3 runs, or as many", "0.6000 ± 0.0000 (2 runs)"] {
                assert!(page.contains(words), "{words}: {page}");
            }
        }
        let found = compared([Some(1.0), None, None], [None, Some(0.6), Some(0.6)]);
        assert!(!found.methods[0].scores["nll"].is_best);
        // Of one run each, neither is better.
        let found = compared([Some(1.0), None, None], [None, Some(0.6), None]);
        assert!(found.methods.iter().all(|row| !row.scores["nll"].is_best));
        let full = compared([Some(1.0); 3], [Some(0.5); 3]).markdown();
        assert!(full.contains("over 3 runs, with the best"), "{full}");
    }

    #[test]
    fn a_method_that_always_diverged_has_no_scores() {
        let comparison = compared(&[
            record("map", 0, &[("rmse", 0.5)]),
            record("vifa", 0, &[(DIVERGED, 1.0)]),
        ]);
        assert!(comparison.methods[1].scores.is_empty());
        comparison.expect_scores().unwrap();
        assert!(comparison.markdown().contains("| vifa | – | 1 | 2.00 |"));
        let table = String::from_utf8(comparison.csv().unwrap()).unwrap();
        assert_eq!(table.lines().nth(1), Some("map,rmse,1,0.5,,,0,2"));
    }
}
