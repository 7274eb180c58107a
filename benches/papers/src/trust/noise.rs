//! The noise that a regression learns, where it is known.

use burn_bayes::eval::{
    GaussianMixture, NoisePrecision, PredictionIntervals, TargetedMixture, mixture_nll,
};
use burn_bayes_contrib::methods::BayesianRidge;
use burn_bayes_data::{Dataset, Scaling, Split, Targets};
use rand::SeedableRng;
use rand::rngs::StdRng;

use burn_bayes_tabular::engine::fit;
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::jobs::{Job, Key};
use burn_bayes_tabular::predict::Predictions;
use burn_bayes_tabular::scores::Measures;
use burn_bayes_tabular::settings::{FitSettings, Method, NetworkShape};

use super::generators::{design, linear_function, normals};
use super::held_out::HeldOut;
use super::{FAILED_COLUMN, NLL, NLL_COLUMN, or_diverged};
use crate::experiment::{Column, Context, Experiment, Statistic};
use crate::findings::Finding;
use crate::logistic::dot;
use crate::results::Results;
use crate::shared::Shared;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "trust-noise",
    title: "the noise learnt at the defaults, where its deviation is 1",
    notes: "Linear regressions on independent features, whose signal has a deviation near 2; fifty sets of \
            each size, with 500 test rows. Coverage is that of central intervals of the predictions; the \
            evidence's ridge regression has the prior and noise precisions that maximise the evidence.",
    needs: &[],
    columns: &[
        Column::new(Statistic::Quartiles, DEVIATION, "learnt deviation"),
        Column::mean(HALF, "coverage of 50 %"),
        Column::mean(MOST, "coverage of 90 %"),
        NLL_COLUMN,
        FAILED_COLUMN,
    ],
    published: "",
    jobs,
    findings,
};

const DEVIATION: &str = "deviation";
const HALF: &str = "coverage_50";
const MOST: &str = "coverage_90";

const RIDGE: &str = "ridge by evidence";
/// Rows and features.
const SIZES: [(usize, usize); 3] = [(50, 20), (300, 50), (1000, 50)];
const TEST_ROWS: usize = 500;

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for seed in 0..context.effort.choose(50, 5) {
        for (rows, features) in SIZES {
            let known = Shared::new(move || data(rows, features, seed));
            let key = |method: &str| Key::new(case((rows, features)), method, seed);
            let ridge = {
                let known = known.clone();
                move || or_diverged(by_evidence(&*known.get()?))
            };
            jobs.push(Job::new(key(RIDGE), &(rows, features), ridge)?);
            for method in methods() {
                let settings = FitSettings {
                    method,
                    model: Some(NetworkShape { hidden: Vec::new() }),
                    seed,
                    ..FitSettings::default()
                };
                let (known, identity) = (known.clone(), settings.key());
                let work = move || or_diverged(by_method(&*known.get()?, &settings));
                let key = key(&method.to_string());
                jobs.push(Job::new(key, &(rows, features, identity), work)?);
            }
        }
    }
    Ok(jobs)
}

fn case((rows, features): (usize, usize)) -> String {
    format!("{rows} × {features}")
}

fn data(rows: usize, features: usize, seed: u64) -> Result<HeldOut> {
    let mut generator = StdRng::seed_from_u64(seed);
    let count = rows + TEST_ROWS;
    let features = design(count, features, 1.0, &mut generator)?;
    let values = linear_function(&features, &mut generator);
    let noise = normals(count, &mut generator);
    let targets = values.iter().zip(noise);
    let targets = targets.map(|(value, noise)| 2.0 * value + noise).collect();
    let dataset = Dataset::new(features, Targets::Real(targets))?;
    let split = Split {
        train: (0..rows).collect(),
        test: (rows..count).collect(),
    };
    HeldOut::new(&dataset, &split, Scaling::Standardise)
}

fn by_method(rows: &HeldOut, settings: &FitSettings) -> Result<Measures> {
    let model = fit(&rows.train, settings, &mut ())?;
    match model.predict(&rows.test, settings.draws)? {
        Predictions::Reals(predictions) => {
            measures(rows, predictions.noise_deviation(), &predictions.checked()?)
        }
        Predictions::Counts(_) | Predictions::Classes(_) | Predictions::Several(_) => {
            Err(TabularError::Data("the targets are no numbers".into()))
        }
    }
}

/// Ridge regression with the precisions of the greatest evidence, on the same scaled rows.
fn by_evidence(rows: &HeldOut) -> Result<Measures> {
    let targets = rows.train_rows.targets().as_real().unwrap_or_default();
    let ridge = BayesianRidge::fit(rows.train_rows.features().values(), targets)?;
    let (posterior, noise) = (ridge.posterior(), ridge.noise_precision().recip());
    let (mut means, mut precisions) = (Vec::new(), Vec::new());
    for row in 0..rows.test.rows() {
        let x = rows.test.row(row);
        let variance = noise + dot(x, &posterior.covariance().multiply_vector(x)?);
        means.push(rows.target_scale.undo(dot(x, posterior.mean())));
        precisions.push((rows.target_scale.spread.powi(2) * variance).recip());
    }
    let count = means.len();
    let noise_deviation = rows.target_scale.spread * noise.sqrt();
    let each = NoisePrecision::PerPrediction(&precisions);
    let mixture = GaussianMixture::new(means, 1, count, each)?;
    measures(rows, noise_deviation, &mixture)
}

fn measures(rows: &HeldOut, deviation: f64, mixture: &GaussianMixture<'_>) -> Result<Measures> {
    let targets = rows.targets.as_real().unwrap_or_default();
    let coverage = |level| -> Result<f64> {
        Ok(PredictionIntervals::central(mixture, level)?.coverage(targets)?)
    };
    Ok(Measures::from([
        (DEVIATION.into(), deviation),
        (HALF.into(), coverage(0.5)?),
        (MOST.into(), coverage(0.9)?),
        (
            NLL.into(),
            mixture_nll(&TargetedMixture::new(mixture, targets)?),
        ),
    ]))
}

/// Those with one noise precision, which they learn.
fn methods() -> impl Iterator<Item = Method> {
    Method::named().filter(|method| !method.is_sampled())
}

fn findings(results: &Results<'_>) -> Vec<Finding> {
    let methods: Vec<_> = methods().map(|method| method.to_string()).collect();
    let of_method = |method: &String| {
        let cases = SIZES.map(case);
        let off = |measure: &'static str, wanted: f64, allowed: f64| {
            cases.each_ref().map(|case| {
                let found = match measure {
                    DEVIATION => results.quantile(case, method, measure, 0.5),
                    _ => results.mean(case, method, measure),
                };
                (found.map(|found| (found - wanted).abs()), allowed)
            })
        };
        let beside_ridge = cases.each_ref().map(|case| {
            let ridge = results.mean(case, RIDGE, NLL);
            let ours = results.mean(case, method, NLL);
            (ours, ridge.map_or(f64::NAN, |ridge| ridge + 0.02))
        });
        [
            Finding::at_most(
                format!("{method}: the median deviation is within 5 % of 1"),
                &off(DEVIATION, 1.0, 0.05),
            ),
            Finding::at_most(
                format!("{method}: 50 % intervals cover within 3 points"),
                &off(HALF, 0.5, 0.03),
            ),
            Finding::at_most(
                format!("{method}: 90 % intervals cover within 3 points"),
                &off(MOST, 0.9, 0.03),
            ),
            Finding::at_most(
                format!("{method}: NLL at most that of {RIDGE} plus .02"),
                &beside_ridge,
            ),
        ]
    };
    methods.iter().flat_map(of_method).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_finds_the_noise_and_covers() {
        let found: Vec<Measures> = (0..4)
            .map(|seed| by_evidence(&data(300, 50, seed).unwrap()).unwrap())
            .collect();
        let mean = |name: &str| found.iter().map(|one| one[name]).sum::<f64>() / 4.0;
        // Standard errors: 1/√(2·250·4) of the deviation, 1/√(4·500·4) of the coverage.
        assert!((mean(DEVIATION) - 1.0).abs() < 0.09, "{found:?}");
        assert!((mean(HALF) - 0.5).abs() < 0.05, "{found:?}");
        assert!((mean(MOST) - 0.9).abs() < 0.04, "{found:?}");
    }
}
