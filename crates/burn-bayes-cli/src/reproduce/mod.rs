//! The papers' experiments on the data at hand, each figure beside the published one.
//!
//! An experiment is a list of named, independent, deterministic cells: a data set, a method and a
//! seed. Every cell is computed once, in one of several processes and serially within, and its result is
//! written down as soon as it is known, so that a run that was stopped goes on where it was. From the
//! results come a table and the findings: what the paper claims, with what was measured.
//!
//! A new experiment is one file, and one line in [`EXPERIMENTS`].

mod distances;
mod e1;
mod e2;
mod e3;
mod e4;
mod e5;
mod e6;
mod e8;
mod experiment;
mod findings;
mod grid;
mod linear_model;
mod logistic;
mod logistic_sets;
mod report;
mod results;
mod sampling;
mod shared;
mod vifa_fit;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use burn_bayes_data::{NAMED_SETS, NamedSet};
use serde::Serialize;

use crate::commands::Fits;
use crate::console::{command_line, print, print_json};
use burn_bayes_tabular::cells::{self, Cell, Crew, Ledger};
use burn_bayes_tabular::distinct::distinct;
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::files::make_folder;
use burn_bayes_tabular::settings::refused;
use burn_bayes_tabular::shell::command_of;
use experiment::{Context, Experiment};
use findings::{Finding, Verdict};
use report::{Report, Row};
use results::Results;

pub(crate) use experiment::Effort;

/// All experiments, in the order in which they run.
const EXPERIMENTS: [Experiment; 7] = [
    e1::EXPERIMENT,
    e2::EXPERIMENT,
    e3::EXPERIMENT,
    e4::EXPERIMENT,
    e5::EXPERIMENT,
    e6::EXPERIMENT,
    e8::EXPERIMENT,
];

/// What to reproduce.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) experiments: Vec<String>,
    pub(crate) effort: Effort,
    pub(crate) out: PathBuf,
    pub(crate) only: Option<String>,
    pub(crate) threads: usize,
    pub(crate) data: PathBuf,
    /// One JSON object at the end in the place of tables.
    pub(crate) json: bool,
}

/// The name of all experiments together.
const ALL: &str = "all";

/// What came of an experiment.
#[derive(Debug, Serialize)]
struct Outcome {
    experiment: &'static str,
    /// The command that makes the same.
    command: String,
    rows: Vec<Row>,
    findings: Vec<Finding>,
}

/// Runs the experiments, prints their tables and writes them to files.
///
/// # Errors
///
/// An unknown experiment; one without its data, unless it is one of all; trouble with files; a finding
/// that does not hold.
pub(crate) fn run(request: &Request) -> Result<()> {
    let mut outcomes = Vec::new();
    let mut skipped = Vec::new();
    for experiment in chosen(&request.experiments)? {
        if let Some(missing) = missing(experiment, &request.data) {
            let problem = format!(
                "no data ({} is not there; give the folder with --data or BURN_BAYES_DATA, or {})",
                request.data.join(missing).display(),
                ways_to(missing)
            );
            let name = experiment.name;
            if request.experiments.iter().any(|asked| asked != ALL) {
                return Err(TabularError::Data(format!("{name}: {problem}")));
            }
            if !request.json {
                print(format_args!("{name} skipped: {problem}\n"))?;
            }
            skipped.push(name);
            continue;
        }
        outcomes.extend(reproduce(experiment, request)?);
    }
    if let (Some(only), true) = (&request.only, outcomes.is_empty()) {
        let problem =
            format!("is `{only}`, which is in the name of no cell, as in `boston, VIFA, 0`");
        return Err(refused("only", problem));
    }
    if request.json {
        print_json(&serde_json::json!({ "experiments": outcomes, "skipped": skipped }))?;
    }
    let findings = outcomes.iter().flat_map(|outcome| {
        let named = |finding| (outcome.experiment, finding);
        outcome.findings.iter().map(named)
    });
    let failed: Vec<String> = findings
        .filter(|(_, finding)| finding.verdict == Verdict::Fails)
        .map(|(name, finding)| format!("{name}: {}", finding.claim))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(TabularError::Finding(format!(
        "{} of the findings did not hold:\n  {}",
        failed.len(),
        failed.join("\n  ")
    )))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>> {
    let mut asked: Vec<&Experiment> = Vec::new();
    for name in names {
        let found: Vec<_> = EXPERIMENTS
            .iter()
            .filter(|experiment| name == ALL || name.eq_ignore_ascii_case(experiment.name))
            .collect();
        if found.is_empty() {
            let known = EXPERIMENTS.map(|experiment| experiment.name).join(", ");
            let message = format!("`{name}` is no experiment; use {known} or {ALL}");
            return Err(TabularError::Usage(message));
        }
        asked.extend(found);
    }
    Ok(distinct(asked, |experiment| experiment.name))
}

/// The first file or folder that the experiment needs and the data folder lacks.
fn missing(experiment: &Experiment, data: &Path) -> Option<&'static str> {
    let mut paths = experiment.needs.iter().copied();
    paths.find(|path| !data.join(path).exists())
}

/// How to come by a file or folder of the data folder.
fn ways_to(path: &str) -> String {
    let is_there = |set: &&NamedSet| set.files().any(|file| file.path.starts_with(path));
    let names: Vec<&str> = NAMED_SETS
        .iter()
        .filter(is_there)
        .map(|set| set.name)
        .collect();
    match names.is_empty() {
        true => "place it there by hand: no public copy is known that `data fetch` could bring, and the \
                 book's chapter on reproducing says what it holds"
            .into(),
        false => format!("bring it by `burn-bayes data fetch`, which knows {}", names.join(", ")),
    }
}

/// Computes what is not known of an experiment, and writes down all that is known now; nothing if no cell
/// is wanted.
fn reproduce(experiment: &'static Experiment, request: &Request) -> Result<Option<Outcome>> {
    let context = Context {
        data: request.data.clone(),
        effort: request.effort,
        only: request.only.clone(),
    };
    let cells = (experiment.cells)(&context)?;
    let order: Vec<_> = cells.iter().map(|cell| cell.key.clone()).collect();
    let is_wanted = |cell: &Cell| {
        let only = request.only.as_ref();
        only.is_none_or(|only| cell.key.to_string().contains(only))
    };
    let (wanted, others): (Vec<_>, Vec<_>) = cells.into_iter().partition(is_wanted);
    if wanted.is_empty() {
        return Ok(None);
    }
    let folder = request.out.join(experiment.name);
    make_folder(&folder)?;
    let ledger = Ledger::open(&folder.join("cells.jsonl"))?;
    let arguments = arguments(experiment, request);
    let command = command_of("burn-bayes", arguments.iter());
    let crew = Crew::processes(request.threads, arguments);
    let mut records = cells::run(
        &wanted,
        &ledger,
        &crew,
        &Fits::continued_by(experiment.name, command_line()),
    )?;
    records.extend(others.iter().filter_map(|cell| ledger.find(cell).cloned()));
    records.sort_by_cached_key(|record| order.iter().position(|key| *key == record.key));
    let results = Results::new(&records);
    let findings = (experiment.findings)(&results);
    let report = Report {
        experiment,
        effort: request.effort,
        command: &command,
        results: &results,
        findings: &findings,
    };
    report.write(&folder)?;
    if !request.json {
        print(report.markdown())?;
    }
    Ok(Some(Outcome {
        experiment: experiment.name,
        rows: report.measured(),
        command,
        findings,
    }))
}

/// The arguments of a process that makes the cells of this experiment alone.
fn arguments(experiment: &Experiment, request: &Request) -> Vec<OsString> {
    let option = |name: &str, value: &OsStr| {
        let mut option = OsString::from(name);
        option.push(value);
        option
    };
    let mut arguments = vec![
        "reproduce".into(),
        experiment.name.into(),
        option("--out=", request.out.as_ref()),
        option("--data=", request.data.as_ref()),
    ];
    if request.effort == Effort::Quick {
        arguments.push("--quick".into());
    }
    let only = request.only.iter();
    arguments.extend(only.map(|only| option("--only=", only.as_ref())));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_named_once_and_found_in_any_case() {
        let all = chosen(&["all".into()]).unwrap();
        assert_eq!(all.len(), EXPERIMENTS.len());
        for experiment in &EXPERIMENTS {
            let found = chosen(&[experiment.name.to_lowercase()]).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].name, experiment.name);
        }
        let twice = ["E2", "all", "e2"].map(String::from);
        let twice = chosen(&twice).unwrap();
        assert_eq!((twice.len(), twice[0].name), (EXPERIMENTS.len(), "E2"));
        let error = chosen(&["E99".into()]).unwrap_err();
        assert!(error.to_string().contains("E99"), "{error}");
    }

    #[test]
    fn missing_data_are_fetched_or_else_placed_by_hand() {
        assert!(ways_to("uci_regression").contains("fetch`, which knows boston, concrete, energy"));
        assert!(ways_to("medmnist/retinamnist.npz").ends_with("knows retinamnist"));
        for path in ["a1a", "usps"] {
            assert!(ways_to(path).contains("by hand"), "{path}");
        }
    }

    #[test]
    fn cells_have_names_of_their_own() {
        for experiment in &EXPERIMENTS {
            for effort in [Effort::Quick, Effort::Full] {
                // Data are read when a cell is computed.
                let data = PathBuf::from("absent");
                let only = None;
                let context = Context { data, effort, only };
                let cells = (experiment.cells)(&context).unwrap();
                let mut keys: Vec<_> = cells.iter().map(|cell| cell.key.to_string()).collect();
                let count = keys.len();
                keys.sort();
                keys.dedup();
                assert_eq!(keys.len(), count, "{} {effort:?}", experiment.name);
            }
        }
    }
}
