//! Linear regressions, whose posterior and the best Gaussian of each family are known.

use std::sync::{Mutex, PoisonError};

use burn_bayes::algebra::SquareMatrix;
use burn_bayes::posterior::{DenseGaussian, FormKind, linear_regression_posterior};
use burn_bayes_data::{Dataset, Scaling, Split, Targets};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use serde::Serialize;

use burn_bayes_tabular::engine::fit;
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::jobs::{Job, Key};
use burn_bayes_tabular::scores::Measures;
use burn_bayes_tabular::settings::{FitSettings, NetworkShape, NoisePrecision};

use super::generators::{design, linear_function};
use super::held_out::{HeldOut, with_bias};
use super::optimum::least_divergence;
use super::{
    gaussian_methods, judged, judged_columns, or_diverged, verdict, within_or_not_trusted,
};
use crate::experiment::{Column, Context, Effort, Experiment, Statistic};
use crate::logistic::dot;
use crate::shared::Shared;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "trust-linear",
    title: "linear regressions at the defaults against their exact posteriors",
    notes: "`given` is 71 problems: 2 to 200 weights, 50 to 5 000 rows (100 000 in the last), designs of \
            condition 1 to 10⁴, noise of .1 to 3 times the deviation of the signal, prior precision .01 to \
            100, with and without standardising; prior and noise are given to the fit, and each has three \
            seeds. `held out` is 200 others. The excess is KL(q‖p) in nats over the least of the posterior's own \
            family (diagonal, FᵀF + ψ or (UᵀU + d)⁻¹ of its rank), found in double precision; \"of the mean\" \
            is the part of KL that a wrong mean makes. An excess counts as within the bound up to .05 per \
            weight or a tenth of the least. Median and quartiles are over problems and seeds.",
    needs: &[],
    columns: &judged_columns(
        (EXCESS, "excess KL, nats"),
        [
            Column::new(Statistic::Quartiles, OF_MEAN, "of the mean"),
            Column::new(Statistic::Quartiles, LEAST, "least KL of the family"),
        ],
        "within the bound",
    ),
    published: "",
    jobs,
    findings: |results| {
        let claim = "excess at most max(.05 D nats, 10 %), or not trusted";
        within_or_not_trusted(results, claim)
    },
};

const EXCESS: &str = "excess";
const OF_MEAN: &str = "of_mean";
const LEAST: &str = "least";

/// Seeds of the two lists.
const GIVEN: u64 = 71;
const HELD_OUT: u64 = 200;
/// The sizes of problems in a short run.
const SHORT_ROWS: usize = 500;
const SHORT_WEIGHTS: usize = 60;

/// A regression, all that it depends on.
#[derive(Clone, Copy, Debug, Serialize)]
struct Problem {
    rows: usize,
    /// D, with the bias.
    weights: usize,
    condition: f64,
    /// The deviation of the noise, relative to that of the signal.
    noise: f64,
    /// The deviation of the signal.
    unit: f64,
    prior: f64,
    standardised: bool,
    seed: u64,
}

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let (given, held_out) = (problems(GIVEN, 70), problems(HELD_OUT, 200));
    let large = Problem {
        rows: 100_000,
        weights: 50,
        condition: 10.0,
        standardised: true,
        ..given[0]
    };
    let sets = match context.effort {
        Effort::Full => vec![
            ("given", [given, vec![large]].concat(), 3),
            ("held out", held_out, 1),
        ],
        Effort::Quick => {
            let is_short =
                |problem: &Problem| problem.rows <= SHORT_ROWS && problem.weights <= SHORT_WEIGHTS;
            let short = given.into_iter().filter(is_short).take(6);
            vec![("given, six short", short.collect(), 1)]
        }
    };
    let mut jobs = Vec::new();
    for (case, problems, seeds) in sets {
        for (number, problem) in (0..).zip(problems) {
            let known = Shared::new(move || Known::new(&problem));
            for seed in 0..seeds {
                for method in gaussian_methods() {
                    let key = Key::new(case, method.to_string(), seeds * number + seed);
                    let settings = FitSettings {
                        method,
                        seed,
                        ..problem.settings()
                    };
                    let (known, identity) = (known.clone(), settings.key());
                    let work = move || or_diverged(known.get()?.measure(&settings));
                    jobs.push(Job::new(key, &(problem, identity), work)?);
                }
            }
        }
    }
    Ok(jobs)
}

/// Problems drawn from the ranges of the notes.
fn problems(seed: u64, count: u64) -> Vec<Problem> {
    let mut generator = StdRng::seed_from_u64(seed);
    let problem = |number| {
        let mut between = |least: f64, most: f64| {
            let share = generator.random::<f64>();
            (least.ln() + share * (most / least).ln()).exp()
        };
        Problem {
            rows: between(50.0, 5000.0).round() as usize,
            weights: between(2.0, 200.0).round() as usize,
            condition: between(1.0, 1e4),
            noise: between(0.1, 3.0),
            unit: between(0.1, 10.0),
            prior: between(0.01, 100.0),
            standardised: number % 2 == 0,
            seed: 1000 * seed + number,
        }
    };
    (0..count).map(problem).collect()
}

impl Problem {
    /// The noise precision in the unit of the target.
    fn noise_precision(&self) -> f64 {
        (self.noise * self.unit).powi(-2)
    }

    /// What a person gives who knows prior and noise.
    fn settings(&self) -> FitSettings {
        FitSettings {
            model: Some(NetworkShape { hidden: Vec::new() }),
            prior_precision: self.prior.into(),
            noise_precision: NoisePrecision::Given(self.noise_precision()),
            ..FitSettings::default()
        }
    }
}

/// A regression with its posterior, both as the network has them.
struct Known {
    rows: HeldOut,
    posterior: DenseGaussian,
    precision: SquareMatrix,
    /// The least KL by form and rank, as far as they are known.
    least: Mutex<Vec<((FormKind, usize), f64)>>,
}

impl Known {
    fn new(problem: &Problem) -> Result<Self> {
        let mut generator = StdRng::seed_from_u64(problem.seed);
        let columns = problem.weights - 1;
        let features = design(problem.rows, columns, problem.condition, &mut generator)?;
        let signal = linear_function(&features, &mut generator);
        let targets = signal.into_iter().map(|value| {
            let noise: f64 = StandardNormal.sample(&mut generator);
            problem.unit * (value + problem.noise * noise)
        });
        let dataset = Dataset::new(features, Targets::Real(targets.collect()))?;
        let split = Split {
            train: (0..problem.rows).collect(),
            test: vec![0],
        };
        let scaling = match problem.standardised {
            true => Scaling::Standardise,
            false => Scaling::Keep,
        };
        let rows = HeldOut::new(&dataset, &split, scaling)?;
        let targets = rows.train_rows.targets().as_real().unwrap_or_default();
        let targets: Vec<f64> = targets
            .iter()
            .map(|&value| f64::from(value as f32))
            .collect();
        let posterior = linear_regression_posterior(
            &with_bias(rows.train_rows.features()),
            &targets,
            problem.prior,
            problem.noise_precision() * rows.target_scale.spread.powi(2),
        )?;
        Ok(Self {
            precision: posterior.precision(),
            posterior,
            rows,
            least: Mutex::default(),
        })
    }

    fn measure(&self, settings: &FitSettings) -> Result<Measures> {
        let model = fit(&self.rows.train, settings, &mut ())?;
        let Some(found) = model.posterior() else {
            let problem = format!("{} has no posterior", settings.method);
            return Err(TabularError::Usage(problem));
        };
        let is_trusted = verdict(&self.rows.train, settings, &model)?;
        let least = self.least((found.kind(), found.rank()))?;
        let found = found.to_dense()?;
        let divergence = found.kl_divergence(&self.posterior)?;
        let pairs = found.mean().iter().zip(self.posterior.mean());
        let apart: Vec<f64> = pairs.map(|(found, known)| found - known).collect();
        let of_mean = 0.5 * dot(&apart, &self.precision.multiply_vector(&apart)?);
        let bound = (0.05 * apart.len() as f64).max(0.1 * least);
        let mut measures = judged(is_trusted, (EXCESS, divergence - least), bound);
        measures.extend([(OF_MEAN.into(), of_mean), (LEAST.into(), least)]);
        Ok(measures)
    }

    /// The least KL of a family.
    fn least(&self, family: (FormKind, usize)) -> Result<f64> {
        let mut known = self.least.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, least)) = known.iter().find(|(other, _)| *other == family) {
            return Ok(*least);
        }
        let (form, rank) = family;
        let found = least_divergence(&self.posterior, form, rank);
        // Nothing that a fit is to blame for.
        let least = found.map_err(|error| TabularError::Data(error.to_string()))?;
        known.push((family, least));
        Ok(least)
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes_tabular::settings::Method;

    use super::*;

    #[test]
    fn problems_cover_their_ranges() {
        let problems = problems(GIVEN, 70);
        let reaches = |of: fn(&Problem) -> f64, least: f64, most: f64| {
            let values = problems.iter().map(of);
            let all: Vec<f64> = values.collect();
            assert!(
                all.iter().all(|value| (least..=most).contains(value)),
                "{all:?}"
            );
            assert!(
                all.iter()
                    .any(|value| *value < least.powf(0.9) * most.powf(0.1))
            );
            assert!(
                all.iter()
                    .any(|value| *value > least.powf(0.1) * most.powf(0.9))
            );
        };
        reaches(|problem| problem.rows as f64, 50.0, 5000.0);
        reaches(|problem| problem.weights as f64, 2.0, 200.0);
        reaches(|problem| problem.condition, 1.0, 1e4);
        reaches(|problem| problem.prior, 0.01, 100.0);
    }

    #[test]
    fn a_long_fit_of_an_easy_problem_finds_the_exact_posterior() {
        // Also that weights and bias have the order that the exact posterior assumes.
        let problem = Problem {
            rows: 200,
            weights: 3,
            condition: 1.0,
            noise: 1.0,
            unit: 2.0,
            prior: 1.0,
            standardised: false,
            seed: 3,
        };
        let known = Known::new(&problem).unwrap();
        let settings = FitSettings {
            method: Method::MeanField,
            epochs: Some(400),
            ..problem.settings()
        };
        let found = known.measure(&settings).unwrap();
        assert!(found[LEAST] < 0.1, "{found:?}");
        assert!(found[EXCESS] < 1.0 && found[OF_MEAN] < 0.5, "{found:?}");
    }
}
