//! `demo`: four methods on two generated data sets with known distributions.
//!
//! The training rows cover a part of the input space. A good method predicts new rows from that part
//! accurately, is calibrated, and is more uncertain outside of it. A page shows the fits side by side.

use std::f64::consts::TAU;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use burn_bayes_data::{
    ColumnScale, Dataset, Features, Scaling, Targets, gap_regression, two_moons,
};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::console::{command_line, print, print_json};
use burn_bayes_tabular::engine::{self, EpochRecord, Observer, TrainedModel};
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::files::make_folder;
use burn_bayes_tabular::predict::Predictions;
use burn_bayes_tabular::predict::Uncertainty;
use burn_bayes_tabular::report::{
    self, FitCaption, FurtherScores, PosteriorSummary, Problem, Report, ScoredRows, SideBySide,
};
use burn_bayes_tabular::rows::{Target, TrainingSet};
use burn_bayes_tabular::run::{EpochMetrics, curves};
use burn_bayes_tabular::scores::{Intervals, Scores};
use burn_bayes_tabular::search::divergence;
use burn_bayes_tabular::settings::{Config, FitSettings, Method, NetworkShape};

/// Where to write the pages.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the page that compares the methods and the reports of the fits
    #[arg(long, value_name = "DIR", default_value = "burn-bayes-demo")]
    out: PathBuf,
    /// Random seed of the data and the fits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object at the end instead of tables
    #[arg(long)]
    json: bool,
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
    /// Mean uncertainty of the test rows.
    unsure: f64,
    /// Mean uncertainty of rows outside the training distribution.
    outside: f64,
    report: PathBuf,
}

const METHODS: [Method; 4] = [Method::Map, Method::MeanField, Method::Vifa, Method::Slang];
/// The file name of a report.
const REPORT: &str = "report.html";
const TRAINING_ROWS: usize = 200;
const TEST_ROWS: usize = 500;
/// Rows outside the training distribution.
const OUTSIDE_ROWS: usize = 100;

/// Training rows, test rows, and rows outside the training distribution.
struct DemoCase {
    name: &'static str,
    about: &'static str,
    /// The name of the uncertainty score.
    unsure: &'static str,
    training_set: TrainingSet,
    test: Dataset,
    outside: Features,
}

/// Records the training curve of a fit.
struct Recorder(Vec<EpochMetrics>);

impl Observer for Recorder {
    fn epoch(
        &mut self,
        record: &EpochRecord,
        _so_far: &dyn Fn() -> Result<TrainedModel>,
    ) -> ControlFlow<()> {
        self.0.push(EpochMetrics {
            record: record.clone(),
            validation: None,
        });
        ControlFlow::Continue(())
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut outcomes = Vec::new();
    let mut problems = Vec::new();
    for case in [moons(arguments.seed)?, gap(arguments.seed)?] {
        if !arguments.json {
            print(format_args!("{}: {}", case.name, case.about))?;
            print(format_args!(
                "{:<12}{:>10}{:>14}{:>18}{:>18}",
                "method", "NLL", "calibration", case.unsure, "outside"
            ))?;
        }
        let mut problem = Problem::new(case.name, case.about, &case.training_set)?;
        for method in METHODS {
            let outcome = case.run(method, arguments, &mut problem)?;
            if !arguments.json {
                outcome.print()?;
            }
            outcomes.push(outcome);
        }
        problems.push(problem);
        if !arguments.json {
            print("")?;
        }
    }
    let page = arguments.out.join("index.html");
    let content = SideBySide {
        title: "A good method is unsure where it has no data",
        text: "Four methods, fitted to two generated data sets. Among the training rows they should be accurate and calibrated, which is a low NLL and calibration error of the test rows. The uncertainty of the outside rows should be larger than that of the test rows.",
        command: &command_line(),
        problems: &problems,
    };
    report::write_side_by_side(&content, &page)?;
    match arguments.json {
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
            self.outside,
            self.diverged.as_ref().map_or("", |_| "  diverged"),
        ))
    }
}

/// Two half moons; the outside rows lie on a circle around them.
fn moons(seed: u64) -> Result<DemoCase> {
    let classes = ["upper", "lower"].map(String::from).to_vec();
    let ring = (0..OUTSIDE_ROWS).flat_map(|row| {
        let (sine, cosine) = (TAU * row as f64 / OUTSIDE_ROWS as f64).sin_cos();
        [0.5 + 4.0 * cosine, 0.25 + 4.0 * sine]
    });
    let train = two_moons(TRAINING_ROWS, 0.2, seed)?;
    Ok(DemoCase {
        name: "two-moons",
        about: "two classes of points in a plane; the outside rows lie on a circle around all of them",
        unsure: "entropy",
        training_set: TrainingSet::new(&train, Target::Classes(classes))?,
        test: two_moons(TEST_ROWS, 0.2, seed + 1)?,
        outside: Features::new(OUTSIDE_ROWS, 2, ring.collect())?,
    })
}

/// A curve with a gap; the outside rows lie in the gap and beyond the ends.
fn gap(seed: u64) -> Result<DemoCase> {
    let train = gap_regression(TRAINING_ROWS, 0.1, seed)?;
    let values = train.targets().as_real().unwrap_or_default();
    let scale = ColumnScale::fit(values.iter().copied(), Scaling::Standardise)?;
    let scaled = values.iter().map(|&value| scale.apply(value)).collect();
    let train = Dataset::new(train.features().clone(), Targets::Real(scaled))?;
    let beyond = (0..OUTSIDE_ROWS).map(|row| {
        let place = row as f64 / (OUTSIDE_ROWS - 1) as f64;
        match row % 2 {
            0 => place - 0.5,
            _ => (place - 0.5).signum() * (2.5 + place),
        }
    });
    Ok(DemoCase {
        name: "gap",
        about: "a curve without training rows in its middle; the outside rows lie there and beyond its ends",
        unsure: "deviation",
        training_set: TrainingSet::new(&train, Target::Real(scale))?,
        test: gap_regression(TEST_ROWS, 0.1, seed + 1)?,
        outside: Features::new(OUTSIDE_ROWS, 1, beyond.collect())?,
    })
}

/// Why a match need not know several targets.
const ONE_TARGET: &str = "every case has one target";

impl DemoCase {
    /// Fits one method, writes a report, and adds the fit to the page of the problem.
    fn run(&self, method: Method, arguments: &Arguments, problem: &mut Problem) -> Result<Outcome> {
        let settings = FitSettings {
            method,
            model: NetworkShape { hidden: vec![50] },
            // A half moon is curved more sharply than functions of the default prior.
            prior_precision: 0.1.into(),
            seed: arguments.seed,
            ..FitSettings::default()
        };
        let mut recorder = Recorder(Vec::new());
        let model = engine::fit(&self.training_set, &settings, &mut recorder)?;
        let inside = model.predict(self.test.features(), settings.draws)?;
        let outside = model.predict(&self.outside, settings.draws)?;
        let scores = Scores::of(&inside, self.test.targets(), Intervals::Bootstrapped)?;
        let (nll, calibration) = match &scores {
            Scores::Classification(scores) => (&scores.nll, &scores.ece),
            Scores::Regression(scores) => (&scores.nll, &scores.quantile_calibration_error),
            Scores::Counts(scores) => (&scores.nll, &scores.quantile_calibration_error),
            Scores::SeveralTargets(_) => unreachable!("{ONE_TARGET}"),
        };
        let diverged = divergence(&self.training_set, &inside, self.test.targets())?;
        let diverged = diverged.map(|found| found.to_string());
        let rows = ScoredRows {
            part: "test rows",
            predictions: &inside,
            targets: self.test.targets(),
            scores: &scores,
            inputs: None,
            further: FurtherScores::default(),
        };
        let (unsure, outside) = (unsureness(&inside)?, unsureness(&outside)?);
        let method = method.to_string();
        let relative = format!("{}/{method}/{REPORT}", self.name);
        let caption = FitCaption {
            method: &method,
            diverged: diverged.as_deref(),
            scores: &[
                ("NLL, test rows", nll.value),
                ("calibration error, test rows", calibration.value),
                (&format!("{}, test rows", self.unsure), Some(unsure)),
                (&format!("{}, outside rows", self.unsure), Some(outside)),
            ],
            report: &relative,
        };
        problem.add(&model, &self.training_set, settings.draws, caption)?;
        let folder = arguments.out.join(self.name).join(&method);
        let metrics = &recorder.0;
        let reason = diverged.as_deref();
        Ok(Outcome {
            problem: self.name,
            nll: nll.value,
            calibration: calibration.value,
            unsure,
            outside,
            report: self.report(&model, metrics, rows, reason, settings, &folder)?,
            method,
            diverged,
        })
    }

    fn report(
        &self,
        model: &TrainedModel,
        metrics: &[EpochMetrics],
        rows: ScoredRows<'_>,
        diverged: Option<&str>,
        settings: FitSettings,
        folder: &Path,
    ) -> Result<PathBuf> {
        let method = settings.method;
        make_folder(folder)?;
        let posterior = model.posterior().map(PosteriorSummary::of).transpose()?;
        let config = Config {
            fit: settings,
            ..Config::default()
        };
        let report = Report {
            title: &format!("{}: {method}", self.name),
            command: &command_line(),
            config: &config.to_toml()?,
            training: &curves(metrics, model.target()),
            target: "target",
            rows: Some(rows),
            diverged,
            assessment: None,
            posterior: posterior.as_ref(),
        };
        let page = folder.join(REPORT);
        report::write(&report, &page)?;
        Ok(page)
    }
}

fn roots(variances: Vec<f64>) -> Vec<f64> {
    variances.into_iter().map(f64::sqrt).collect()
}

/// The mean uncertainty of predictions: entropy for classes, standard deviation for numbers and counts.
fn unsureness(predictions: &Predictions) -> Result<f64> {
    let values = match predictions {
        Predictions::Classes(classes) => Uncertainty::Entropy.of(&classes.checked()?),
        Predictions::Reals(reals) => roots(reals.checked()?.variance()),
        Predictions::Counts(counts) => roots(counts.checked()?.variance()),
        Predictions::Several(_) => unreachable!("{ONE_TARGET}"),
    };
    Ok(values.iter().sum::<f64>() / values.len() as f64)
}
