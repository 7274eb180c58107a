//! Logistic regressions, whose predictive probabilities are known by sampling.

use std::path::Path;

use burn_bayes_contrib::methods::LogisticPosterior;
use burn_bayes_data::{Dataset, Scaling, Split, Targets};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use burn_bayes_tabular::engine::{TrainedModel, fit};
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::jobs::{Job, Key};
use burn_bayes_tabular::predict::Predictions;
use burn_bayes_tabular::scores::Measures;
use burn_bayes_tabular::settings::{FitSettings, Method, NetworkShape};

use super::generators::{design, linear_function};
use super::held_out::{HeldOut, with_bias};
use super::{judged, judged_columns, or_diverged, verdict, within_or_not_trusted};
use crate::experiment::{Column, Context, Effort, Experiment, Statistic};
use crate::linear_model::Rows;
use crate::logistic::{posterior, sigmoid};
use crate::logistic_sets;
use crate::sampling::Sampling;
use crate::shared::Shared;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "trust-logistic",
    title: "logistic regressions at the defaults against their posteriors by Monte Carlo",
    notes: "Mean absolute error of the predictive probability on test rows; the reference's is half the \
            mean difference of its two chains. `generated` is ten problems of 3 to 51 weights, 50 \
            to 2 000 rows, condition 1 to 1 000 and prior precision .1 to 10, with 200 test rows each; the other \
            two have fixed halves and prior precision 1. \"Of the posterior\" is the error with many \
            draws in the place of the default number. Median and quartiles are over problems and three seeds.",
    needs: &["australian_scale", "breast_cancer_scale"],
    columns: &judged_columns(
        (ERROR, "error of the probability"),
        [
            Column::new(Statistic::Quartiles, OF_POSTERIOR, "of the posterior"),
            Column::new(Statistic::Largest, REFERENCE, "reference's error"),
        ],
        "at most .01",
    ),
    published: "",
    jobs,
    findings: |results| {
        let claim = "error of the probability at most .01, or not trusted";
        within_or_not_trusted(results, claim)
    },
};

const ERROR: &str = "error";
const OF_POSTERIOR: &str = "of_posterior";
const REFERENCE: &str = "reference";

const BOUND: f64 = 0.01;
const TEST_ROWS: usize = 200;
/// So many draws add a thousandth to the error of a probability.
const MANY_DRAWS: usize = 10_000;

#[derive(Clone, Copy, Debug, Serialize)]
enum Source {
    /// Normal features, and classes by a linear function of deviation 2.
    Generated {
        rows: usize,
        features: usize,
        condition: f64,
        seed: u64,
    },
    /// One of the sets with fixed halves.
    Halves(&'static str),
}

/// A regression, all that it depends on.
#[derive(Clone, Copy, Debug, Serialize)]
struct Problem {
    source: Source,
    prior: f64,
    sampling: Sampling,
}

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let sampling = |seed| Sampling {
        draws: context.effort.choose(4000, 1000),
        leaps: 10,
        seed,
    };
    let halves = |name| Problem {
        source: Source::Halves(name),
        prior: 1.0,
        sampling: sampling(0),
    };
    let mut generator = StdRng::seed_from_u64(10);
    let generated = (0..10).map(|seed| {
        let mut between = |least: f64, most: f64| {
            let share = generator.random::<f64>();
            (least.ln() + share * (most / least).ln()).exp()
        };
        Problem {
            source: Source::Generated {
                rows: between(50.0, 2000.0).round() as usize,
                features: between(2.0, 50.0).round() as usize,
                condition: between(1.0, 1e3),
                seed,
            },
            prior: between(0.1, 10.0),
            sampling: sampling(seed),
        }
    });
    let generated: Vec<Problem> = generated.collect();
    let sets = match context.effort {
        Effort::Full => vec![
            ("generated", generated),
            ("australian", vec![halves("australian")]),
            ("breast", vec![halves("breast")]),
        ],
        Effort::Quick => vec![("generated, two", generated[..2].to_vec())],
    };
    let seeds = context.effort.choose(3, 1);
    let mut jobs = Vec::new();
    for (case, problems) in sets {
        for (number, problem) in (0..).zip(problems) {
            let data = context.data.clone();
            let known = Shared::new(move || Known::new(&data, &problem));
            for seed in 0..seeds {
                for method in Method::general() {
                    let key = Key::new(case, method.to_string(), seeds * number + seed);
                    let settings = FitSettings {
                        method,
                        model: Some(NetworkShape { hidden: Vec::new() }),
                        prior_precision: problem.prior.into(),
                        seed,
                        ..FitSettings::default()
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

impl Source {
    /// All rows, of which the first are for training.
    fn rows(&self, data: &Path) -> Result<(Dataset, usize)> {
        match *self {
            Self::Generated {
                rows,
                features,
                condition,
                seed,
            } => {
                let mut generator = StdRng::seed_from_u64(seed);
                let features = design(rows + TEST_ROWS, features, condition, &mut generator)?;
                let values = linear_function(&features, &mut generator);
                let class =
                    |value: f64| usize::from(generator.random::<f64>() < sigmoid(2.0 * value));
                let classes = values.into_iter().map(class).collect();
                Ok((Dataset::new(features, Targets::Classes(classes))?, rows))
            }
            Self::Halves(name) => {
                let halves = logistic_sets::read(data, name)?;
                let (mut all, rows) = (halves.train.clone(), halves.train.rows());
                all.append(halves.test)?;
                Ok((all, rows))
            }
        }
    }
}

/// A regression with the probabilities of the second class on its test rows.
struct Known {
    rows: HeldOut,
    probabilities: Vec<f64>,
    /// Half the mean absolute difference of the two chains.
    error: f64,
}

impl Known {
    fn new(data: &Path, problem: &Problem) -> Result<Self> {
        let (dataset, train) = problem.source.rows(data)?;
        let split = Split {
            train: (0..train).collect(),
            test: (train..dataset.rows()).collect(),
        };
        let rows = HeldOut::new(&dataset, &split, Scaling::Standardise)?;
        let classes = rows.train_rows.targets().as_classes().unwrap_or_default();
        let features = rows.train_rows.features();
        let model = Rows {
            inputs: with_bias(features),
            targets: classes
                .iter()
                .map(|&class| 2.0 * class as f64 - 1.0)
                .collect(),
            width: features.columns() + 1,
        };
        // A network has an output for each class, and their difference has twice the variance.
        let prior = 0.5 * problem.prior;
        let near = posterior(&model, prior, LogisticPosterior::Full)?;
        let inputs = with_bias(&rows.test);
        let [first, second] = problem
            .sampling
            .probabilities(&model, prior, &near, &inputs)?;
        let chains = || first.iter().zip(&second);
        Ok(Self {
            probabilities: chains().map(|(one, other)| 0.5 * (one + other)).collect(),
            error: 0.5 * mean_absolute_difference(&first, &second),
            rows,
        })
    }

    fn measure(&self, settings: &FitSettings) -> Result<Measures> {
        let model = fit(&self.rows.train, settings, &mut ())?;
        let error = self.error(&model, settings.draws)?;
        let is_trusted = verdict(&self.rows.train, settings, &model)?;
        let mut measures = judged(is_trusted, (ERROR, error), BOUND);
        measures.extend([
            (OF_POSTERIOR.into(), self.error(&model, MANY_DRAWS)?),
            (REFERENCE.into(), self.error),
        ]);
        Ok(measures)
    }

    fn error(&self, model: &TrainedModel, draws: usize) -> Result<f64> {
        let Predictions::Classes(predictions) = model.predict(&self.rows.test, draws)? else {
            return Err(TabularError::Data("the targets are no classes".into()));
        };
        let average = predictions.checked()?.average();
        let found = (0..average.rows()).map(|row| average.row(row)[1]);
        let found: Vec<f64> = found.collect();
        Ok(mean_absolute_difference(&found, &self.probabilities))
    }
}

fn mean_absolute_difference(left: &[f64], right: &[f64]) -> f64 {
    let pairs = left.iter().zip(right);
    pairs.map(|(l, r)| (l - r).abs()).sum::<f64>() / left.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_calibrated_and_its_chains_agree() {
        let problem = Problem {
            source: Source::Generated {
                rows: 2000,
                features: 1,
                condition: 1.0,
                seed: 5,
            },
            prior: 1.0,
            sampling: Sampling {
                draws: 500,
                leaps: 8,
                seed: 1,
            },
        };
        let known = Known::new(Path::new("absent"), &problem).unwrap();
        let labels = known.rows.targets.as_classes().unwrap();
        let share = labels.iter().sum::<usize>() as f64 / labels.len() as f64;
        let mean = known.probabilities.iter().sum::<f64>() / labels.len() as f64;
        // Four standard errors of 200 labels.
        assert!((mean - share).abs() < 0.14, "{mean} {share}");
        assert!(known.error < 0.005, "{}", known.error);
    }
}
