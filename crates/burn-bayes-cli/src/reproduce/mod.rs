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

use crate::cells::{self, Crew, Ledger};
use crate::console::print;
use crate::failure::{Failure, Result};
use crate::files::at;
use experiment::{Context, Experiment};
use findings::{Finding, Verdict};
use report::Report;
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
}

/// Runs the experiments, prints their tables and writes them to files.
///
/// # Errors
///
/// An unknown experiment; trouble with data or files; a finding that does not hold.
pub(crate) fn run(request: &Request) -> Result<()> {
    let mut failed = Vec::new();
    for experiment in chosen(&request.experiments)? {
        if let Some(missing) = missing(experiment, &request.data) {
            print(format_args!(
                "{} skipped: no data ({} is not there; give the folder with --data or \
                 BURN_BAYES_DATA)\n",
                experiment.name,
                missing.display()
            ))?;
            continue;
        }
        let findings = reproduce(experiment, request)?;
        let fails = findings
            .iter()
            .filter(|finding| finding.verdict == Verdict::Fails);
        failed.extend(fails.map(|finding| format!("{}: {}", experiment.name, finding.claim)));
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Finding(format!(
        "{} of the findings did not hold:\n  {}",
        failed.len(),
        failed.join("\n  ")
    )))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>> {
    let mut chosen: Vec<&Experiment> = Vec::new();
    for name in names {
        let found: Vec<_> = EXPERIMENTS
            .iter()
            .filter(|experiment| name == "all" || name.eq_ignore_ascii_case(experiment.name))
            .collect();
        if found.is_empty() {
            let known = EXPERIMENTS.map(|experiment| experiment.name).join(", ");
            let message = format!("`{name}` is no experiment; use {known} or all");
            return Err(Failure::Usage(message));
        }
        chosen.extend(found);
    }
    chosen.dedup_by_key(|experiment| experiment.name);
    Ok(chosen)
}

/// The first file or folder that the experiment needs and the data folder lacks.
fn missing(experiment: &Experiment, data: &Path) -> Option<PathBuf> {
    let paths = experiment.needs.iter().map(|path| data.join(path));
    paths.into_iter().find(|path| !path.exists())
}

fn reproduce(experiment: &'static Experiment, request: &Request) -> Result<Vec<Finding>> {
    let context = Context {
        data: request.data.clone(),
        effort: request.effort,
        only: request.only.clone(),
    };
    let mut cells = (experiment.cells)(&context)?;
    if let Some(only) = &request.only {
        cells.retain(|cell| cell.key.to_string().contains(only.as_str()));
        if cells.is_empty() {
            print(format_args!(
                "{}: no cell contains `{only}`\n",
                experiment.name
            ))?;
            return Ok(Vec::new());
        }
    }
    let folder = request.out.join(experiment.name);
    std::fs::create_dir_all(&folder).map_err(at(&folder))?;
    let ledger = Ledger::open(&folder.join("cells.jsonl"))?;
    let crew = Crew::processes(request.threads, worker_arguments(experiment, request));
    let records = cells::run(experiment.name, &cells, &ledger, &crew)?;
    let results = Results::new(&records);
    let findings = (experiment.findings)(&results);
    let report = Report {
        experiment,
        command: command(experiment, request),
        results: &results,
        findings: &findings,
    };
    report.write(&folder)?;
    print(report.markdown())?;
    Ok(findings)
}

/// The arguments of a process that makes the cells of this experiment alone.
fn worker_arguments(experiment: &Experiment, request: &Request) -> Vec<OsString> {
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

/// The command that makes the same tables.
fn command(experiment: &Experiment, request: &Request) -> String {
    let mut command = format!("burn-bayes reproduce {}", experiment.name);
    if request.effort == Effort::Quick {
        command.push_str(" --quick");
    }
    if let Some(only) = &request.only {
        command.push_str(&format!(" --only '{only}'"));
    }
    command
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
        let error = chosen(&["E99".into()]).unwrap_err();
        assert!(error.to_string().contains("E99"), "{error}");
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
