//! The papers' experiments on the data at hand, each figure beside the published one.
//!
//! An experiment is a list of named, independent, deterministic jobs: a data set, a method and a
//! seed. Every job is computed once, several at the same time, and its result is
//! written down as soon as it is known, so that a run that was stopped goes on where it was. From the
//! results come a table and the findings: what the paper claims, with what was measured.
//!
//! A new experiment is one file, and one line in [`EXPERIMENTS`].

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use burn_bayes_tabular::distinct::distinct;
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::jobs::{self, ResultCache};
use burn_bayes_tabular::files::{make_folder, write_whole};
use burn_bayes_tabular::settings::refused;
use serde::Serialize;

use crate::console::{Lines, command_line, print, print_json, tell};
use crate::experiment::{Context, Effort, Experiment};
use crate::findings::{Finding, Verdict};
use crate::report::{Report, Row};
use crate::results::Results;
use crate::sets::{NAMED_SETS, NamedSet};
use crate::{e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, e12, trust};

/// All experiments, in the order in which they run; those of the papers first.
const EXPERIMENTS: [Experiment; 22] = [
    e1::EXPERIMENT,
    e2::EXPERIMENT,
    e3::EXPERIMENT,
    e4::EXPERIMENT,
    e5::EXPERIMENT,
    e6::EXPERIMENT,
    e7::EXPERIMENT,
    e8::EXPERIMENT,
    e9::EXPERIMENT,
    e10::EXPERIMENT,
    e6::GAP,
    e12::EXPERIMENT,
    e6::SAMPLING,
    trust::LINEAR,
    trust::LEARNER,
    trust::LOGISTIC,
    trust::AGAINST_MAP,
    trust::NOISE,
    trust::CALIBRATION,
    trust::GAP,
    trust::STEPS,
    trust::VERDICT,
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
    /// Whether experiments without data are left out on purpose.
    pub(crate) skips_missing: bool,
    /// One JSON object at the end in the place of tables.
    pub(crate) json: bool,
}

/// The name of the papers' experiments together.
const ALL: &str = "all";
/// The name of the others together, with which theirs begin.
const TRUST: &str = "trust";

/// What came of an experiment.
#[derive(Debug, Serialize)]
struct Outcome {
    experiment: &'static str,
    /// The command that makes the same.
    command: String,
    rows: Vec<Row>,
    findings: Vec<Finding>,
}

/// Runs the experiments, prints their tables and writes them to files; the findings that did not hold.
///
/// # Errors
///
/// An unknown experiment; one without its data, unless it is to be skipped; trouble with files.
pub(crate) fn run(request: &Request) -> Result<Vec<String>> {
    let mut outcomes = Vec::new();
    let mut skipped = Vec::new();
    let chosen = chosen(&request.experiments)?;
    for &experiment in &chosen {
        if let Some(missing) = missing(experiment, &request.data) {
            let problem = format!(
                "no data ({} is not there; give the folder with --data or BURN_BAYES_DATA, or {})",
                request.data.join(missing).display(),
                ways_to(missing)
            );
            let name = experiment.name;
            if request
                .experiments
                .iter()
                .any(|asked| asked != ALL && asked != TRUST)
            {
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
            format!("is `{only}`, which is in the name of no job, as in `boston, VIFA, 0`");
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
    tell_skipped(request, &skipped, chosen.len())?;
    // Findings that failed are the worse news.
    if failed.is_empty() && !skipped.is_empty() && !request.skips_missing {
        let problem = "experiments without their data sets are not checked; bring the data sets as said above, or leave \
                       the experiments out with --skip-missing";
        return Err(TabularError::Data(problem.into()));
    }
    Ok(failed)
}

/// Says how many experiments were skipped, and writes their names to `skipped.txt` among the results.
fn tell_skipped(request: &Request, skipped: &[&str], chosen: usize) -> Result<()> {
    let file = request.out.join("skipped.txt");
    if skipped.is_empty() {
        return match file.exists() {
            true => Ok(std::fs::remove_file(file)?),
            false => Ok(()),
        };
    }
    tell(format_args!(
        "{} of {chosen} experiments skipped, because their data sets are missing: {}",
        skipped.len(),
        skipped.join(", ")
    ));
    make_folder(&request.out)?;
    let lines: String = skipped.iter().map(|name| format!("{name}\n")).collect();
    write_whole(&file, lines.as_bytes())
}

fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>> {
    let mut asked: Vec<&Experiment> = Vec::new();
    for name in names {
        let found: Vec<_> = EXPERIMENTS
            .iter()
            .filter(|experiment| is_called(experiment, name))
            .collect();
        if found.is_empty() {
            let known = EXPERIMENTS.map(|experiment| experiment.name).join(", ");
            let message = format!("`{name}` is no experiment; use {known}, {TRUST} or {ALL}");
            return Err(TabularError::Usage(message));
        }
        asked.extend(found);
    }
    Ok(distinct(asked, |experiment| experiment.name))
}

fn is_called(experiment: &Experiment, name: &str) -> bool {
    match name {
        ALL => !experiment.name.starts_with(TRUST),
        TRUST => experiment.name.starts_with(TRUST),
        _ => name.eq_ignore_ascii_case(experiment.name),
    }
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
        true => "place it there by hand: no public copy is known that `papers fetch` could bring, and the \
                 book's chapter on reproducing says what it holds"
            .into(),
        false => format!("bring it by `papers fetch`, which knows {}", names.join(", ")),
    }
}

/// Computes what is not known of an experiment, and writes down all that is known now; nothing if no job
/// is wanted.
fn reproduce(experiment: &'static Experiment, request: &Request) -> Result<Option<Outcome>> {
    let folder = request.out.join(experiment.name);
    let context = Context {
        data: request.data.clone(),
        out: folder.clone(),
        effort: request.effort,
        only: request.only.clone(),
    };
    let jobs = (experiment.jobs)(&context)?;
    let order: Vec<_> = jobs.iter().map(|job| job.key.clone()).collect();
    let (wanted, others): (Vec<_>, Vec<_>) =
        jobs.into_iter().partition(|job| context.wants(&job.key));
    if wanted.is_empty() {
        return Ok(None);
    }
    make_folder(&folder)?;
    let cache = ResultCache::open(&folder.join("cells.jsonl"))?;
    let command = command_line(&arguments(experiment, request));
    let lines = Lines::of(experiment.name);
    let mut records = jobs::run(&wanted, &cache, request.threads, &lines)?;
    records.extend(others.iter().filter_map(|job| cache.find(job).cloned()));
    records.sort_by_cached_key(|record| order.iter().position(|key| *key == record.key));
    let published = experiment.published()?;
    let results = Results::new(&records, &published);
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

/// The arguments of the command for this experiment alone.
fn arguments(experiment: &Experiment, request: &Request) -> Vec<OsString> {
    let option = |name: &str, value: &OsStr| {
        let mut option = OsString::from(name);
        option.push(value);
        option
    };
    let mut arguments = vec![
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
    use burn_bayes_tabular::experiments::jobs::Job;

    use super::*;

    #[test]
    fn experiments_are_named_once_and_found_in_any_case() {
        let all = chosen(&[ALL.into()]).unwrap();
        let both = chosen(&[ALL.into(), TRUST.into()]).unwrap();
        assert_eq!(both.len(), EXPERIMENTS.len());
        assert!(!all.is_empty() && all.len() < both.len());
        for experiment in &EXPERIMENTS {
            let found = chosen(&[experiment.name.to_lowercase()]).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].name, experiment.name);
        }
        let twice = ["E2", "all", "e2"].map(String::from);
        let twice = chosen(&twice).unwrap();
        assert_eq!((twice.len(), twice[0].name), (all.len(), "E2"));
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

    /// The jobs of an experiment. They read no data before they are computed.
    fn jobs(experiment: &Experiment, effort: Effort, only: Option<String>) -> Vec<Job> {
        let context = Context {
            data: "absent".into(),
            out: "absent".into(),
            effort,
            only,
        };
        (experiment.jobs)(&context).unwrap()
    }

    #[test]
    fn cells_have_names_of_their_own() {
        for experiment in &EXPERIMENTS {
            for effort in [Effort::Quick, Effort::Full] {
                let jobs = jobs(experiment, effort, None);
                let mut keys: Vec<_> = jobs.iter().map(|job| job.key.to_string()).collect();
                let count = keys.len();
                keys.sort();
                keys.dedup();
                assert_eq!(keys.len(), count, "{} {effort:?}", experiment.name);
            }
        }
    }

    #[test]
    fn every_published_figure_has_its_place_in_the_table() {
        // Methods of the papers that no job computes.
        let others = [
            "dropout",
            "published: plain ResNet-18, APTOS",
            "published: VIFA ResNet-18, APTOS",
        ];
        for experiment in &EXPERIMENTS {
            let published = experiment.published().unwrap();
            let cases = published.rows().iter().map(|row| row.case.as_str());
            // Large sets have jobs only if they are named.
            let jobs = jobs(experiment, Effort::Full, Some(cases.collect()));
            for row in published.rows() {
                let is_known = jobs.iter().any(|Job { key, .. }| {
                    key.case == row.case
                        && (key.method == row.method || others.contains(&row.method.as_str()))
                });
                assert!(
                    is_known,
                    "{}: {}, {}",
                    experiment.name, row.case, row.method
                );
                for measure in row.figures.keys() {
                    let mut columns = experiment.columns.iter();
                    let is_column = columns.any(|column| column.measure == measure);
                    assert!(is_column, "{}: {measure}", experiment.name);
                }
            }
        }
    }
}
