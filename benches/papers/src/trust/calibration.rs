//! Simulation-based calibration of linear and logistic regressions.

use burn_bayes_data::{ColumnScale, Dataset, Targets};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::Serialize;

use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::jobs::{Job, Key};
use burn_bayes_tabular::experiments::simulation_based_calibration::{
    Check, Design, QuantityCheck, Simulator,
};
use burn_bayes_tabular::rows::{Target, TrainingSet};
use burn_bayes_tabular::scores::Measures;
use burn_bayes_tabular::settings::{FitSettings, Method, NetworkShape, NoisePrecision, Solver};

use super::generators::design;
use super::{FAILED_COLUMN, gaussian_methods, or_diverged};
use crate::experiment::{Column, Context, Experiment};
use crate::findings::{Finding, least_of};
use crate::results::Results;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "trust-calibration",
    title: "simulation-based calibration of linear and logistic regressions",
    notes: "100 rows of four normal features, whose covariance has the condition in the name of the data, and a \
            bias; prior and noise precision 1. Linear models are solved directly, except by swag and where they are \
            called trained: there by gradient steps at the defaults, as a network. Of each method, 300 simulations \
            draw weights from the prior and targets from the likelihood, and rank the truth among 99 posterior draws. \
            The p-value of uniform ranks is the smallest of all quantities, times their number. Spread is the \
            standardised spread of the ranks of the log-likelihood, the output at two rows of the data, the output \
            at two rows that mix columns of different rows, and the weights; of several, the one with the largest \
            absolute value. Above zero, posteriors are too narrow, below, too wide, and beyond ±4 hardly by chance. \
            So is location, of all quantities: above zero, posteriors are too low.",
    needs: &[],
    columns: &[
        Column::mean(P_VALUE, "p-value"),
        Column::mean(LOG_LIKELIHOOD, "spread: log-likelihood"),
        Column::mean(DATA_ROWS, "rows"),
        Column::mean(MIXED_ROWS, "mixed rows"),
        Column::mean(WEIGHTS, "weights"),
        Column::mean(LOCATION, "location"),
        Column::mean(DIVERGED_FITS, "diverged fits"),
        FAILED_COLUMN,
    ],
    published: "",
    jobs,
    findings,
};

const P_VALUE: &str = "p_value";
const LOG_LIKELIHOOD: &str = "spread_log_likelihood";
const DATA_ROWS: &str = "spread_rows";
const MIXED_ROWS: &str = "spread_mixed_rows";
const WEIGHTS: &str = "spread_weights";
const LOCATION: &str = "location";
const DIVERGED_FITS: &str = "diverged_fits";

const ROWS: usize = 100;
const FEATURES: usize = 4;
const DRAWS: usize = 99;
/// Exact posteriors have a smaller p-value once in a hundred.
const SIGNIFICANT: f64 = 0.01;
/// A standard normal is above it once in thirty thousand.
const TOO_NARROW: f64 = 4.0;

/// A kind of regression on a design.
#[derive(Clone, Copy, Debug, Serialize)]
struct Problem {
    kind: Kind,
    condition: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Kind {
    Linear,
    /// A linear regression by gradient steps, as a network is trained.
    Trained,
    Logistic,
}

const PROBLEMS: [Problem; 6] = [
    Problem::new(Kind::Linear, 1.0),
    Problem::new(Kind::Linear, 100.0),
    Problem::new(Kind::Trained, 1.0),
    Problem::new(Kind::Trained, 100.0),
    Problem::new(Kind::Logistic, 1.0),
    Problem::new(Kind::Logistic, 100.0),
];

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let simulations = context.effort.choose(300, 100);
    let mut jobs = Vec::new();
    for problem in PROBLEMS {
        for method in problem.methods() {
            let key = Key::new(problem.case(), method.to_string(), 0);
            let settings = FitSettings {
                method,
                model: Some(NetworkShape { hidden: Vec::new() }),
                solver: match problem.kind {
                    Kind::Trained => Solver::Gradient,
                    Kind::Linear | Kind::Logistic => Solver::Auto,
                },
                noise_precision: NoisePrecision::Given(1.0),
                ..FitSettings::default()
            };
            let identity = (problem, simulations, settings.key());
            let work = move || or_diverged(problem.measure(&settings, simulations));
            jobs.push(Job::new(key, &identity, work)?);
        }
    }
    Ok(jobs)
}

impl Problem {
    const fn new(kind: Kind, condition: f64) -> Self {
        Self { kind, condition }
    }

    fn case(&self) -> String {
        let kind = match self.kind {
            Kind::Linear => "linear",
            Kind::Trained => "linear, trained",
            Kind::Logistic => "logistic",
        };
        format!("{kind}, condition {}", self.condition)
    }

    fn methods(&self) -> Vec<Method> {
        match self.kind {
            Kind::Linear => gaussian_methods().chain([Method::Exact]).collect(),
            // These always train.
            Kind::Trained => gaussian_methods()
                .filter(|method| !matches!(method, Method::Swag | Method::FactorAnalysis))
                .collect(),
            Kind::Logistic => gaussian_methods().collect(),
        }
    }

    /// The rows, whose targets do not matter.
    fn design(&self) -> Result<Design> {
        let mut generator = StdRng::seed_from_u64(0);
        let features = design(ROWS, FEATURES, self.condition, &mut generator)?;
        let (targets, target) = match self.kind {
            Kind::Logistic => (
                Targets::Classes(vec![0; ROWS]),
                Target::Classes(["0", "1"].map(String::from).to_vec()),
            ),
            Kind::Linear | Kind::Trained => (
                Targets::Real(vec![0.0; ROWS]),
                Target::Real(ColumnScale::KEPT),
            ),
        };
        let rows = TrainingSet::new(&Dataset::new(features, targets)?, target)?;
        let columns = (1..=FEATURES).map(|column| format!("x{column}"));
        Ok(Design::new(rows, columns.collect()))
    }

    fn measure(&self, settings: &FitSettings, simulations: u64) -> Result<Measures> {
        let simulator = Simulator::new(&self.design()?, settings, DRAWS)?;
        let ranks = (0..simulations).map(|simulation| simulator.ranks(simulation));
        let ranks = ranks.collect::<Result<Vec<_>>>()?;
        measures(&Check::of(simulator.quantities(), DRAWS, &ranks)?)
    }
}

fn measures(check: &Check) -> Result<Measures> {
    let quantities = &check.quantities;
    let p_values = quantities.iter().map(|quantity| quantity.p_value);
    let smallest = quantities.len() as f64 * least_of(p_values).unwrap_or(1.0);
    let largest = |name: &str, score: fn(&QuantityCheck) -> f64| {
        let named = quantities.iter();
        let scores = named
            .filter(|quantity| quantity.name.contains(name))
            .map(score);
        let largest = scores.max_by(|a, b| a.abs().total_cmp(&b.abs()));
        largest.ok_or_else(|| TabularError::Data(format!("no quantity is called {name}")))
    };
    let spread = |name| largest(name, |quantity| quantity.spread_score);
    Ok(Measures::from([
        (P_VALUE.into(), if smallest > 1.0 { 1.0 } else { smallest }),
        (LOG_LIKELIHOOD.into(), spread("log-likelihood")?),
        (DATA_ROWS.into(), spread("at row")?),
        (MIXED_ROWS.into(), spread("at mixed row")?),
        (WEIGHTS.into(), spread("weight of")?),
        (
            LOCATION.into(),
            largest("", |quantity| quantity.location_score)?,
        ),
        (DIVERGED_FITS.into(), check.diverged as f64),
    ]))
}

fn findings(results: &Results<'_>) -> Vec<Finding> {
    let linear = PROBLEMS
        .iter()
        .filter(|problem| problem.kind == Kind::Linear);
    let linear: Vec<String> = linear.map(Problem::case).collect();
    // With as many factors as weights, these families contain every Gaussian.
    let exact = [Method::Exact, Method::Vifa, Method::Vafc, Method::Slang];
    let calibrated = exact.iter().flat_map(|method| {
        linear.iter().map(move |case| {
            let p_value = results.mean(case, &method.to_string(), P_VALUE);
            let claim = format!("{case}, {method}: the p-value is above {SIGNIFICANT}");
            Finding::falling(claim, &[p_value, Some(SIGNIFICANT)])
        })
    });
    let is_correlated =
        |problem: &&Problem| problem.condition > 1.0 && problem.kind != Kind::Trained;
    let narrow = PROBLEMS.iter().filter(is_correlated);
    let narrow = narrow.map(|problem| {
        let case = problem.case();
        let spread = results.mean(&case, &Method::MeanField.to_string(), WEIGHTS);
        let claim = format!("{case}, mean-field: the weights' posteriors are too narrow");
        Finding::falling(claim, &[spread, Some(TOO_NARROW)])
    });
    calibrated.chain(narrow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_those_of_the_worst_quantity() {
        let names = ["log-likelihood", "mean at row 1", "mean at mixed row 1"];
        let names: Vec<String> = names
            .into_iter()
            .chain(["weight of x1", "weight of x2"])
            .map(String::from)
            .collect();
        let ranks = (0..100).map(|simulation: usize| {
            let uniform = simulation % 10;
            Some(vec![
                uniform,
                uniform,
                uniform,
                uniform,
                9 * (simulation % 2),
            ])
        });
        let check = Check::of(&names, 9, &ranks.collect::<Vec<_>>()).unwrap();
        let found = measures(&check).unwrap();
        assert!(
            found[P_VALUE] < 1e-6 && found[WEIGHTS] > TOO_NARROW,
            "{found:?}"
        );
        assert!(found[LOG_LIKELIHOOD].abs() < 1e-9, "{found:?}");
    }
}
