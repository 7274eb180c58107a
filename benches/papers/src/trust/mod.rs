//! Fits at the defaults: how far they are from what is known to be true, with nothing tuned per data set.
//!
//! Every fit is the one that the program makes if only the data, the method and the seed are given, by the
//! public interface of `burn-bayes-tabular`.

mod against_map;
mod calibration;
mod gap;
mod gap_picture;
mod generators;
mod held_out;
mod learner;
mod linear;
mod logistic;
mod noise;
mod optimum;
mod relu_regression;
mod steps;
mod verdict;

use burn_bayes_tabular::engine::{self, TrainedModel};
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::rows::TrainingSet;
use burn_bayes_tabular::scores::DIVERGED;
use burn_bayes_tabular::scores::Measures;
use burn_bayes_tabular::scores::Verdict;
use burn_bayes_tabular::settings::{FitSettings, Method};

use crate::experiment::{Column, Statistic};
use crate::findings::Finding;
use crate::results::Results;

pub(crate) use against_map::EXPERIMENT as AGAINST_MAP;
pub(crate) use calibration::EXPERIMENT as CALIBRATION;
pub(crate) use gap::EXPERIMENT as GAP;
pub(crate) use gap_picture::draw as gap_picture;
pub(crate) use held_out::HeldOut;
pub(crate) use learner::EXPERIMENT as LEARNER;
pub(crate) use linear::EXPERIMENT as LINEAR;
pub(crate) use logistic::EXPERIMENT as LOGISTIC;
pub(crate) use noise::EXPERIMENT as NOISE;
pub(crate) use steps::EXPERIMENT as STEPS;
pub(crate) use verdict::EXPERIMENT as VERDICT;

/// The NLL of held-out rows.
const NLL: &str = "nll";
const NLL_COLUMN: Column = Column::mean(NLL, "NLL");
const FAILED_COLUMN: Column = Column::new(Statistic::Count, DIVERGED, "failed");

/// Whether an error is within its bound.
const WITHIN: &str = "within";
/// Whether a fit said that it can be trusted.
const TRUSTED: &str = "trusted";
/// Whether a fit said so although its error is beyond the bound.
const FALSE_TRUST: &str = "false_trust";

/// The columns of [`judged`] fits: their error, which is a measure with its title, two more columns, and how many
/// are within the bound, which has a title too.
const fn judged_columns(
    (error, title): (&'static str, &'static str),
    [first, second]: [Column; 2],
    within: &'static str,
) -> [Column; 8] {
    [
        Column::new(Statistic::Quartiles, error, title),
        Column::new(Statistic::Largest, error, "worst"),
        first,
        second,
        Column::new(Statistic::Count, WITHIN, within),
        FAILED_COLUMN,
        Column::new(Statistic::Count, TRUSTED, "trusted"),
        Column::new(Statistic::Count, FALSE_TRUST, "falsely"),
    ]
}

/// The methods that give a Gaussian.
fn gaussian_methods() -> impl Iterator<Item = Method> {
    let methods = Method::general();
    methods.filter(|method| *method != Method::Map && !method.is_sampled())
}

/// Whether a fit says that it can be trusted.
fn verdict(
    training_set: &TrainingSet,
    settings: &FitSettings,
    model: &TrainedModel,
) -> Result<Option<bool>> {
    let diagnosis = engine::diagnose(training_set, settings, model)?;
    Ok(diagnosis.map(|diagnosis| diagnosis.verdict == Verdict::Trust))
}

/// What was measured of a fit; one that failed or left the finite numbers is counted, and is not within any
/// bound.
fn or_diverged(measured: Result<Measures>) -> Result<Measures> {
    let diverged = |is: bool| (DIVERGED.to_string(), indicator(is));
    match measured {
        Ok(mut measures) if measures.values().all(|value| value.is_finite()) => {
            measures.extend([diverged(false)]);
            Ok(measures)
        }
        Ok(_)
        | Err(TabularError::Numerical(_) | TabularError::Setting { .. } | TabularError::Usage(_)) => {
            Ok(Measures::from([diverged(true), (WITHIN.into(), 0.0)]))
        }
        Err(error) => Err(error),
    }
}

/// The measures of an error and its bound, and of the fit's own verdict.
fn judged(is_trusted: Option<bool>, (name, error): (&str, f64), bound: f64) -> Measures {
    let is_within = error <= bound;
    let mut measures =
        Measures::from([(name.into(), error), (WITHIN.into(), indicator(is_within))]);
    if let Some(is_trusted) = is_trusted {
        measures.insert(TRUSTED.into(), indicator(is_trusted));
        measures.insert(FALSE_TRUST.into(), indicator(is_trusted && !is_within));
    }
    measures
}

fn indicator(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// For every method, that all its fits are within their bound or do not say that they can be trusted.
fn within_or_not_trusted(results: &Results<'_>, claim: &str) -> Vec<Finding> {
    let mut methods: Vec<&str> = Vec::new();
    let groups = results.groups();
    for (_, method) in &groups {
        if !methods.contains(method) {
            methods.push(method);
        }
    }
    let of_method = |method: &&str| {
        let cases = groups.iter().filter(|(_, other)| other == method);
        let runs = cases.flat_map(|(case, method)| results.of(case, method));
        let falls_short = runs.map(|run| {
            let measure = |name: &str| run.computed.measures.get(name).copied();
            let is_trusted = measure(TRUSTED).unwrap_or(1.0);
            Some(((1.0 - measure(WITHIN).unwrap_or(0.0)) * is_trusted, 0.0))
        });
        let falls_short: Vec<_> = falls_short.collect();
        Finding::mostly_at_most(format!("{method}: {claim}"), 1.0, &falls_short)
    };
    methods.iter().map(of_method).collect()
}
