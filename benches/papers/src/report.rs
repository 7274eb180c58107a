//! Results as tables: Markdown for people, CSV for programs.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::files::{csv_of, write_whole};

use super::experiment::{Column, Effort, Experiment, Statistic};
use super::findings::{Finding, significant};
use super::results::Results;

/// What there is to say about an experiment.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) effort: Effort,
    /// The command that makes it.
    pub(crate) command: &'a str,
    pub(crate) results: &'a Results<'a>,
    pub(crate) findings: &'a [Finding],
}

/// A measure of a method on a data set, averaged over its runs.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    data: String,
    method: String,
    measure: &'static str,
    runs: usize,
    mean: f64,
    standard_error: Option<f64>,
    published: Option<f64>,
    published_standard_error: Option<f64>,
    seconds: Option<f64>,
    median: Option<f64>,
    largest: Option<f64>,
}

impl Report<'_> {
    /// Writes `results.md` and `results.csv` into a folder; those of reduced settings have names of their
    /// own.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let stem = self.effort.choose("results", "results-quick");
        let path = |kind: &str| folder.join(format!("{stem}.{kind}"));
        write_whole(&path("md"), self.markdown().as_bytes())?;
        write_whole(&path("csv"), &self.csv()?)
    }

    /// A page with the command, the table and the findings.
    pub(crate) fn markdown(&self) -> String {
        let Experiment {
            name,
            title,
            notes,
            columns,
            ..
        } = self.experiment;
        let mut page = format!("## {name}: {title}\n\n`{}`\n\n{notes}\n\n", self.command);
        let titles = columns.iter().map(|column| column.title);
        let heads: Vec<_> = ["data", "method"].into_iter().chain(titles).collect();
        line(&mut page, heads.iter().copied().chain(["seconds"]));
        line(&mut page, vec!["---"; heads.len() + 1].into_iter());
        for (case, method) in self.rows() {
            let values = columns
                .iter()
                .map(|column| self.entry(case, method, column));
            let seconds = self.results.seconds(case, method);
            let seconds = seconds.map_or_else(|| "–".into(), significant);
            let entries = [case.to_string(), method.to_string()]
                .into_iter()
                .chain(values)
                .chain([seconds]);
            line(&mut page, entries);
        }
        if !self.findings.is_empty() {
            page.push_str("\n| finding | measured | |\n|---|---|---|\n");
        }
        for finding in self.findings {
            let entries = [&finding.claim, &finding.measured];
            let entries = entries.map(String::as_str).into_iter();
            line(&mut page, entries.chain([finding.verdict.words()]));
        }
        page
    }

    /// One line for every measure of every pair of data and method.
    fn csv(&self) -> Result<Vec<u8>> {
        let rows = self.measured();
        csv_of(|writer| rows.iter().try_for_each(|row| writer.serialize(row)))
    }

    /// Every measure of every pair of data and method.
    pub(crate) fn measured(&self) -> Vec<Row> {
        let groups = self.results.groups().into_iter();
        let rows = groups.flat_map(|(case, method)| {
            let columns = self.experiment.columns;
            // A measure may have several columns.
            let is_first = |&(at, column): &(usize, &Column)| {
                let mut earlier = columns[..at].iter();
                earlier.all(|other| other.measure != column.measure)
            };
            let measures = columns.iter().enumerate().filter(is_first);
            measures.filter_map(move |(_, column)| {
                let found = self.results.summary(case, method, column.measure)?;
                let published = self.results.published.figure(case, method, column.measure);
                Some(Row {
                    data: case.into(),
                    method: method.into(),
                    measure: column.measure,
                    runs: found.runs,
                    mean: found.mean,
                    standard_error: found.standard_error,
                    published: published.map(|figure| figure.value),
                    published_standard_error: published.and_then(|figure| figure.standard_error),
                    seconds: self.results.seconds(case, method),
                    median: self.results.quantile(case, method, column.measure, 0.5),
                    largest: self.results.quantile(case, method, column.measure, 1.0),
                })
            })
        });
        rows.collect()
    }

    /// What was computed, after the rows of a data set those that only the papers have.
    fn rows(&self) -> Vec<(&str, &str)> {
        let groups = self.results.groups();
        let mut cases: Vec<&str> = groups.iter().map(|(case, _)| *case).collect();
        cases.dedup();
        let published = self.results.published.rows().iter();
        let published: Vec<_> = published
            .map(|row| (row.case.as_str(), row.method.as_str()))
            .collect();
        let of_case = |case: &str| {
            let ours = groups.iter().filter(|row| row.0 == case);
            let theirs = published
                .iter()
                .filter(|row| row.0 == case && !groups.contains(row));
            ours.chain(theirs).copied().collect::<Vec<_>>()
        };
        cases.into_iter().flat_map(of_case).collect()
    }

    /// Ours, and beside a mean the published figure in brackets.
    fn entry(&self, case: &str, method: &str, column: &Column) -> String {
        let summary = self.results.summary(case, method, column.measure);
        let quantile = |share| {
            let found = self.results.quantile(case, method, column.measure, share);
            found.map_or_else(String::new, significant)
        };
        let entry = summary.map(|found| match column.statistic {
            Statistic::Mean => with_error(found.mean, found.standard_error),
            Statistic::Quartiles => {
                let [least, middle, most] = [0.25, 0.5, 0.75].map(quantile);
                format!("{middle} ({least} … {most})")
            }
            Statistic::Largest => quantile(1.0),
            Statistic::Count => {
                let count = found.mean * found.runs as f64;
                format!("{count:.0} of {}", found.runs)
            }
        });
        let mut entry = entry.unwrap_or_else(|| "–".into());
        if let (Statistic::Mean, Some(figure)) = (
            column.statistic,
            self.results.published.figure(case, method, column.measure),
        ) {
            let shown = with_error(figure.value, figure.standard_error);
            let _ = write!(entry, " ({shown})");
        }
        entry
    }
}

fn with_error(value: f64, standard_error: Option<f64>) -> String {
    match standard_error {
        Some(error) => format!("{} ± {}", significant(value), significant(error)),
        None => significant(value),
    }
}

fn line(page: &mut String, entries: impl Iterator<Item = impl AsRef<str>>) {
    for entry in entries {
        let _ = write!(page, "| {} ", entry.as_ref());
    }
    page.push_str("|\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn_bayes_tabular::experiments::jobs::{Key, Record};
    use burn_bayes_tabular::scores::Measures;

    const EXPERIMENT: Experiment = Experiment {
        name: "E0",
        title: "a test",
        notes: "No notes.",
        needs: &[],
        columns: &[
            Column::mean("loss", "mean loss"),
            Column::new(Statistic::Quartiles, "loss", "median"),
            Column::new(Statistic::Largest, "loss", "largest"),
            Column::new(Statistic::Count, "diverged", "diverged"),
        ],
        published: "data,method,loss,source\nset,ours,2.5,a paper\n",
        jobs: |_| Ok(Vec::new()),
        findings: |_| Vec::new(),
    };

    fn record(method: &str, seed: u64, loss: f64) -> Record {
        Record {
            key: Key::new("set", method, seed),
            settings: serde_json::Value::Null,
            computed: Measures::from([
                ("loss".into(), loss),
                ("diverged".into(), f64::from(u8::from(loss > 5.0))),
            ])
            .into(),
            seconds: 2.0,
        }
    }

    #[test]
    fn ours_stands_beside_the_published_figure() {
        let records = [
            record("ours", 0, 1.0),
            record("ours", 1, 3.0),
            record("other", 0, 7.0),
        ];
        let published = EXPERIMENT.published().unwrap();
        let results = Results::new(&records, &published);
        let findings = [Finding::falling("it falls", &[Some(2.0), Some(1.0)])];
        let report = Report {
            experiment: &EXPERIMENT,
            effort: Effort::Full,
            command: "papers E0",
            results: &results,
            findings: &findings,
        };
        let folder = tempfile::tempdir().unwrap();
        report.write(folder.path()).unwrap();
        let page = std::fs::read_to_string(folder.path().join("results.md")).unwrap();
        for line in [
            "`papers E0`",
            "| data | method | mean loss | median | largest | diverged | seconds |",
            "| set | ours | 2.000 ± 1.000 (2.500) | 2.000 (1.500 … 2.500) | 3.000 | 0 of 2 | 2.000 |",
            "| set | other | 7.000 | 7.000 (7.000 … 7.000) | 7.000 | 1 of 1 | 2.000 |",
            "| it falls | 2.000, 1.000 | holds |",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        let table = std::fs::read_to_string(folder.path().join("results.csv")).unwrap();
        let lines: Vec<_> = table.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "set,ours,loss,2,2.0,1.0,2.5,,2.0,2.0,3.0",
                "set,ours,diverged,2,0.0,0.0,,,2.0,0.0,0.0",
                "set,other,loss,1,7.0,,,,2.0,7.0,7.0",
                "set,other,diverged,1,1.0,,,,2.0,1.0,1.0"
            ]
        );
    }
}
