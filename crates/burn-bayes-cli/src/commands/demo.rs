//! `demo`: four methods on two generated data sets with known distributions.
//!
//! The rows cover a part of the input space. Among them all methods predict well. Outside of it, the samples of the default are
//! as uncertain as the posterior of the network, which Hamiltonian Monte Carlo has, and a single network is not. Each fit is an
//! ordinary run with a folder of its own, by the defaults of its method, but for fewer steps of the reference; a page shows the
//! runs side by side.

use std::path::{Path, PathBuf};

use burn_bayes_data::GeneratedSet;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::OutputFlags;
use super::data::write_csv;
use crate::console::{command_line, print, print_json};
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::files::make_folder;
use burn_bayes_tabular::predict::{Predictions, Uncertainty};
use burn_bayes_tabular::report::{self, FitCaption, Problem, SideBySide};
use burn_bayes_tabular::rows::PreparedRows;
use burn_bayes_tabular::run::{FolderFit, Run, RunFolder, Start};
use burn_bayes_tabular::scores::Scores;
use burn_bayes_tabular::settings::{
    Config, DataSettings, FitSettings, Method, TargetColumns, TaskName, refused,
};

/// Where to write the pages.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// New folder for the data, the runs and the page that compares the methods
    #[arg(long, value_name = "DIR", default_value = "burn-bayes-demo")]
    out: PathBuf,
    /// Random seed of the data and the fits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputFlags,
}

/// The scores of a method on a data set.
#[derive(Debug, Serialize)]
struct Outcome {
    problem: &'static str,
    method: String,
    nll: Option<f64>,
    /// Why the fit diverged; null if it did not.
    diverged: Option<String>,
    /// The expected calibration error, or that of quantiles for a regression.
    calibration: Option<f64>,
    /// Mean uncertainty of the training rows.
    unsure: f64,
    /// Mean uncertainty at all places of the chart, most of which are outside of the training distribution.
    in_chart: f64,
    report: PathBuf,
}

const METHODS: [Method; 4] = [Method::Map, Method::Slang, Method::Mclmc, Method::Hmc];
/// The chains of the reference.
const REFERENCE_CHAINS: usize = 2;
/// Rows of a data set, half of which are held out.
const ROWS: usize = 400;

/// A generated set.
struct DemoCase {
    name: &'static str,
    about: &'static str,
    task: TaskName,
    /// The name of the uncertainty score.
    unsure: &'static str,
    /// The epochs of the reference: fewer than by default, which would take minutes.
    reference_epochs: usize,
}

const CASES: [DemoCase; 2] = [
    DemoCase {
        name: "two-moons",
        about: "two classes of points in a plane",
        task: TaskName::Classification,
        unsure: "entropy",
        reference_epochs: 500,
    },
    DemoCase {
        name: "gap",
        about: "a curve without training rows in its middle",
        task: TaskName::Regression,
        unsure: "deviation",
        reference_epochs: 250,
    },
];

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.out.exists() {
        let problem = format!(
            "is {}, which exists; name a new folder",
            arguments.out.display()
        );
        return Err(refused("out", problem));
    }
    let mut outcomes = Vec::new();
    let mut problems = Vec::new();
    for case in CASES {
        if !arguments.output.json {
            print(format_args!("{}: {}", case.name, case.about))?;
            print(format_args!(
                "{:<12}{:>10}{:>14}{:>18}{:>18}",
                "method", "NLL", "calibration", case.unsure, "in the chart"
            ))?;
        }
        let folder = arguments.out.join(case.name);
        let (config, rows) = case.rows(&folder, arguments.seed)?;
        let mut problem = Problem::new(case.name, case.about, &rows.train)?;
        for method in METHODS {
            let mut config = config.clone();
            config.fit.method = method;
            if method == Method::Hmc {
                config.fit.chains = REFERENCE_CHAINS;
                config.fit.epochs = Some(case.reference_epochs);
            }
            let outcome = case.fit(config, rows.clone(), &folder, &mut problem)?;
            if !arguments.output.json {
                outcome.print()?;
            }
            outcomes.push(outcome);
        }
        problems.push(problem);
        if !arguments.output.json {
            print("")?;
        }
    }
    let page = arguments.out.join("index.html");
    let content = SideBySide {
        title: "Unsure where there are no data",
        text: "Four fits to each of two generated data sets, by the defaults of their methods, with fewer steps of the reference. Among the training rows they predict about equally well. Away from them, a single network (map) is as sure as before. A Gaussian around it (slang) is less sure, but hardly so in the gap of the curve. Samples of the weights (mclmc, the default of burn-bayes fit) are as unsure as the exact posterior of the network (hmc, the reference, which takes many times as long).",
        command: &command_line(),
        problems: &problems,
    };
    report::write_side_by_side(&content, &page)?;
    match arguments.output.json {
        true => print_json(&json!({ "fits": outcomes, "page": page })),
        false => print(format_args!("the methods side by side: {}", page.display())),
    }
}

impl Outcome {
    fn print(&self) -> Result<()> {
        print(format_args!(
            "{:<12}{:>10.3}{:>14.3}{:>18.3}{:>18.3}{}",
            self.method,
            self.nll.unwrap_or(f64::NAN),
            self.calibration.unwrap_or(f64::NAN),
            self.unsure,
            self.in_chart,
            self.diverged.as_ref().map_or("", |_| "  diverged"),
        ))
    }
}

impl DemoCase {
    /// Generates the rows, as a file that `fit` reads.
    fn rows(&self, folder: &Path, seed: u64) -> Result<(Config, PreparedRows)> {
        make_folder(folder)?;
        let set = GeneratedSet::find(self.name)?;
        let path = folder.join("rows.csv");
        write_csv(&set.table(ROWS, seed)?, Some(&path))?;
        let mut config = Config {
            data: DataSettings {
                path: Some(path),
                target: Some(TargetColumns::from(set.target)),
                task: Some(self.task),
                validation: 0.5,
                // The charts have the units of the file.
                no_standardize: true,
                ..DataSettings::default()
            },
            fit: FitSettings {
                seed,
                ..FitSettings::default()
            },
        };
        let rows = super::prepared(&mut config)?;
        Ok((config, rows))
    }

    /// Fits one method, as `fit` does, and adds the run to the page of the problem.
    fn fit(
        &self,
        config: Config,
        rows: PreparedRows,
        folder: &Path,
        problem: &mut Problem,
    ) -> Result<Outcome> {
        let method = config.fit.method.to_string();
        let draws = config.fit.draws;
        let path = folder.join(&method);
        let command = command_line();
        let mut fit = FolderFit::new(&path, config, rows, Start::New(&command))?;
        let trained = fit.train(&mut ())?;
        let scores = fit.finish(&trained)?.scores;
        let diverged = scores.as_ref().and_then(|scores| scores.diverged.clone());
        let (nll, calibration) = match scores.map(|scores| scores.scores) {
            Some(Scores::Classification(scores)) => (scores.nll.value, scores.ece.value),
            Some(Scores::Regression(scores)) => {
                (scores.nll.value, scores.quantile_calibration_error.value)
            }
            _ => (None, None),
        };
        let run = Run::load(&RunFolder::open(&path)?, None)?;
        let around = run.predict(&problem.places()?, draws)?;
        let unsure = unsureness(&run.predict(problem.inputs(), draws)?)?;
        let in_chart = unsureness(&around)?;
        let caption = FitCaption {
            method: &method,
            diverged: diverged.as_deref(),
            scores: &[
                ("NLL, held-out rows", nll),
                ("calibration error, held-out rows", calibration),
                (&format!("{}, training rows", self.unsure), Some(unsure)),
                (&format!("{}, in the chart", self.unsure), Some(in_chart)),
            ],
            report: &format!("{}/{method}/report.html", self.name),
        };
        problem.add(&around, caption)?;
        Ok(Outcome {
            problem: self.name,
            nll,
            calibration,
            unsure,
            in_chart,
            report: path.join("report.html"),
            method,
            diverged,
        })
    }
}

/// The mean uncertainty of predictions: entropy for classes, standard deviation for numbers.
fn unsureness(predictions: &Predictions) -> Result<f64> {
    let values = match predictions {
        Predictions::Classes(classes) => Uncertainty::Entropy.of(&classes.checked()?),
        Predictions::Reals(reals) => {
            let variances = reals.checked()?.variance().into_iter();
            variances.map(f64::sqrt).collect()
        }
        _ => unreachable!("every case has classes or numbers"),
    };
    Ok(values.iter().sum::<f64>() / values.len() as f64)
}
