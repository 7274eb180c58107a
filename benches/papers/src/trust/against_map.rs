//! Every method against the point estimate, on held-out rows of ten data sets.

use std::path::Path;
use std::time::Instant;

use burn_bayes_data::{
    CsvOptions, Dataset, Preprocessor, PreprocessorConfig, Scaling, Split, Task, partition,
    read_csv, stratified_partition,
};

use burn_bayes_tabular::engine::fit;
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::jobs::{Job, Key};
use burn_bayes_tabular::scores::DIVERGED;
use burn_bayes_tabular::scores::Measures;
use burn_bayes_tabular::scores::Summary;
use burn_bayes_tabular::settings::{FitSettings, Method};

use super::generators::{housing_like, large};
use super::held_out::HeldOut;
use super::{FAILED_COLUMN, NLL, NLL_COLUMN, or_diverged};
use crate::experiment::{Column, Context, Experiment};
use crate::findings::{Finding, least_of};
use crate::results::Results;
use crate::sets::UciFolder;
use crate::shared::Shared;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "trust-map",
    title: "held-out likelihood at the defaults, each method against the point estimate",
    notes: "NLL of held-out rows in the target's own unit, mean over three splits (± its standard error), each with a fit \
            of its own seed; the published splits 0 to 2 of the UCI sets (wine is the quality of red wine), a \
            random fifth otherwise. `minus map` is the mean difference to map's NLL on the same rows, and \
            `its error` the standard error by rows. `fit, s` is the wall time of a fit.",
    needs: &["uci_regression", "sklearn"],
    columns: &[
        NLL_COLUMN,
        Column::mean(DIFFERENCE, "minus map"),
        Column::mean(ERROR, "its error"),
        Column::mean(FIT_SECONDS, "fit, s"),
        FAILED_COLUMN,
    ],
    published: "",
    jobs,
    findings,
};

const DIFFERENCE: &str = "difference";
/// The standard error of the difference, by rows.
const ERROR: &str = "difference_error";
const FIT_SECONDS: &str = "fit_seconds";

/// A data set with a split for every seed.
#[derive(Clone, Copy, Debug)]
struct Set {
    name: &'static str,
    source: Source,
    /// Whether it belongs to a short run.
    is_short: bool,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// A folder of UCI data with published splits.
    Uci(&'static str),
    /// A file of `sklearn`, its target, and whether that is a number.
    File(&'static str, &'static str, Task),
    Generated(fn() -> Result<Dataset>),
}

const SETS: [Set; 10] = [
    set(
        "diabetes",
        Source::File("diabetes_raw.csv", "target", Task::Regression),
        true,
    ),
    set("wine", Source::Uci("wine-quality-red"), false),
    set(
        "cancer",
        Source::File("breast_cancer.csv", "target", Task::Classification),
        true,
    ),
    set(
        "digits",
        Source::File("digits.csv", "digit", Task::Classification),
        false,
    ),
    set("energy", Source::Uci("energy"), false),
    set("boston", Source::Uci("bostonHousing"), false),
    set("concrete", Source::Uci("concrete"), false),
    set("yacht", Source::Uci("yacht"), true),
    set("housing-like", Source::Generated(housing_like), false),
    set("100 000 × 50", Source::Generated(large), false),
];

const fn set(name: &'static str, source: Source, is_short: bool) -> Set {
    Set {
        name,
        source,
        is_short,
    }
}

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    let is_wanted = |set: &Set| context.effort.choose(true, set.is_short);
    for set in SETS.into_iter().filter(is_wanted) {
        for seed in 0..context.effort.choose(3, 1) {
            let data = context.data.clone();
            let rows = Shared::new(move || set.source.rows(&data, seed));
            let settings = move |method| FitSettings {
                method,
                seed,
                ..FitSettings::default()
            };
            let map = {
                let rows = rows.clone();
                Shared::new(move || Outcome::of(&*rows.get()?, &settings(Method::Map)))
            };
            for method in std::iter::once(Method::Auto).chain(methods()) {
                let key = Key::new(set.name, method.to_string(), seed);
                let (rows, map, settings) = (rows.clone(), map.clone(), settings(method));
                let identity = settings.key();
                let work = move || {
                    let map = map.get()?;
                    let measured = match method {
                        Method::Map => map.measures(None),
                        _ => Outcome::of(&*rows.get()?, &settings)?.measures(Some(&map)),
                    };
                    or_diverged(measured)
                };
                jobs.push(Job::new(key, &(set.name, identity), work)?);
            }
        }
    }
    Ok(jobs)
}

impl Source {
    fn rows(&self, data: &Path, seed: u64) -> Result<HeldOut> {
        let (dataset, split) = match *self {
            Self::Uci(name) => {
                let folder = UciFolder::open(data.join("uci_regression").join(name))?;
                (folder.dataset().clone(), folder.split(seed as usize)?)
            }
            Self::File(name, target, task) => {
                let table = read_csv(data.join("sklearn").join(name), &CsvOptions::default())?;
                let config = PreprocessorConfig::new(target, task)
                    .with_scaling(Scaling::Keep)
                    .with_target_scaling(Scaling::Keep);
                let all = 0..table.rows();
                let dataset = Preprocessor::fit(&config, &table, all.clone())?;
                with_split(dataset.dataset(&table, all)?, seed)?
            }
            Self::Generated(make) => with_split(make()?, seed)?,
        };
        HeldOut::new(&dataset, &split, Scaling::Standardise)
    }
}

/// A fifth of the rows held out, of every class.
fn with_split(dataset: Dataset, seed: u64) -> Result<(Dataset, Split)> {
    let shares = [0.8, 0.2];
    let parts = match dataset.targets().as_classes() {
        Some(classes) => stratified_partition(classes, &shares, seed)?,
        None => partition(dataset.rows(), &shares, seed)?,
    };
    let [train, test] = <[Vec<usize>; 2]>::try_from(parts)
        .map_err(|_| TabularError::Data("a split has two parts".into()))?;
    Ok((dataset, Split { train, test }))
}

/// What came of a fit.
struct Outcome {
    /// −log p(target) of every held-out row; nothing of a fit that failed.
    losses: Option<Vec<f64>>,
    seconds: f64,
}

impl Outcome {
    fn of(rows: &HeldOut, settings: &FitSettings) -> Result<Self> {
        let start = Instant::now();
        let model = fit(&rows.train, settings, &mut ());
        let seconds = start.elapsed().as_secs_f64();
        let losses =
            model.and_then(|model| rows.losses(&model.predict(&rows.test, settings.draws)?));
        let losses = match losses {
            Ok(losses) => Some(losses),
            Err(
                TabularError::Numerical(_) | TabularError::Setting { .. } | TabularError::Usage(_),
            ) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { losses, seconds })
    }

    fn measures(&self, map: Option<&Self>) -> Result<Measures> {
        let mean = |values: &[f64]| Summary::of(values).map(|summary| summary.mean);
        let Some(losses) = &self.losses else {
            return Err(TabularError::Numerical("the fit failed".into()));
        };
        let mut measures = Measures::from([(FIT_SECONDS.into(), self.seconds)]);
        measures.extend(mean(losses).map(|mean| (NLL.into(), mean)));
        if let Some(other) = map.and_then(|map| map.losses.as_ref()) {
            let pairs = losses.iter().zip(other);
            let differences: Vec<f64> = pairs.map(|(ours, map)| ours - map).collect();
            if let Some(found) = Summary::of(&differences) {
                measures.insert(DIFFERENCE.into(), found.mean);
                measures.extend(found.standard_error.map(|error| (ERROR.into(), error)));
            }
        }
        Ok(measures)
    }
}

/// All but the reference, which takes many times as long.
fn methods() -> impl Iterator<Item = Method> {
    Method::general().filter(|method| *method != Method::Hmc)
}

fn findings(results: &Results<'_>) -> Vec<Finding> {
    let groups = results.groups();
    let mean = |set: &Set, method: &str, measure| results.mean(set.name, method, measure);
    let default = FitSettings::default().method.to_string();
    let against_map = SETS.each_ref().map(|set| {
        let runs = results.of(set.name, &default).count() as f64;
        // The splits are independent.
        let error = mean(set, &default, ERROR)? / runs.sqrt();
        Some((mean(set, &default, DIFFERENCE)?, error))
    });
    let better = against_map.map(|pair| Some((pair?.0, 0.0)));
    let mut findings = vec![
        Finding::mostly_at_most(
            format!("{default}: NLL at most map's plus one standard error on every set"),
            1.0,
            &against_map,
        ),
        Finding::mostly_at_most(
            format!("{default}: better than map on 6 of 10 sets"),
            0.6,
            &better,
        ),
    ];
    for method in methods().map(|method| method.to_string()) {
        let beside_best = SETS.each_ref().map(|set| {
            let methods = groups.iter().filter(|(case, _)| *case == set.name);
            let found = methods.filter_map(|(_, method)| mean(set, method, NLL));
            let best = least_of(found)?;
            Some((mean(set, &method, NLL)?, best + 0.1 * best.abs()))
        });
        let claim = format!("{method}: NLL within a tenth of the best method's on 8 of 10 sets");
        findings.push(Finding::mostly_at_most(claim, 0.8, &beside_best));
    }
    let diverged = groups
        .iter()
        .map(|(case, method)| Some((results.mean(case, method, DIVERGED)?, 0.0)));
    let diverged: Vec<_> = diverged.collect();
    findings.push(Finding::mostly_at_most("no fit fails", 1.0, &diverged));
    findings
}
