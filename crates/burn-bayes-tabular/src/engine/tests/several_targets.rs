//! Several targets: each is fitted as alone, with noise of its own.

use burn_bayes::Noise;
use burn_bayes::posterior::linear_regression_posterior;
use burn_bayes_data::{ColumnScale, Dataset, Features, Targets};

use crate::engine::fit;
use crate::predict::Predictions;
use crate::rows::{Target, TrainingSet};
use crate::settings::{FitSettings, LikelihoodName, Method, NetworkShape, NoisePrecision};

const ROWS: usize = 200;

fn normals(stream: u64, count: usize) -> Vec<f64> {
    let normals = Noise::new(9).row(stream).latent(count).into_iter();
    normals.map(f64::from).collect()
}

fn data(width: usize, columns: Vec<Targets>) -> Dataset {
    let rows = columns[0].len();
    let features = Features::new(rows, width, normals(0, rows * width)).unwrap();
    Dataset::new(features, Targets::Several(columns)).unwrap()
}

fn numbers(scales: &[ColumnScale]) -> Target {
    let named = ["a", "b"].iter().zip(scales);
    let target = |(name, &scale): (&&str, &ColumnScale)| (name.to_string(), Target::Real(scale));
    Target::Several(named.map(target).collect())
}

fn labels() -> Target {
    let classes = ["no", "yes"].map(String::from).to_vec();
    let label = |name: &str| (name.to_string(), Target::Classes(classes.clone()));
    Target::Several(["a", "b"].map(label).to_vec())
}

fn scale(spread: f64) -> ColumnScale {
    ColumnScale {
        centre: 1.0,
        spread,
        ..ColumnScale::KEPT
    }
}

/// |x| and −2 x with noise of the standard deviations 0.1 and 0.5, on scales of 1 and 10.
fn two_numbers() -> (Dataset, Target) {
    let inputs = normals(0, ROWS);
    let noisy = |of: fn(f64) -> f64, deviation: f64, stream: u64| {
        let rows = inputs.iter().zip(normals(stream, ROWS));
        let targets = rows.map(|(&input, normal)| of(input) + deviation * normal);
        Targets::Real(targets.collect())
    };
    let columns = vec![noisy(f64::abs, 0.1, 1), noisy(|input| -2.0 * input, 0.5, 2)];
    (data(1, columns), numbers(&[scale(1.0), scale(10.0)]))
}

fn settings(method: Method) -> FitSettings {
    FitSettings {
        method,
        model: Some(NetworkShape { hidden: vec![20] }),
        rank: Some(2),
        epochs: Some(match method {
            // A step each.
            Method::Mclmc => 1500,
            Method::Hmc => 300,
            _ => 80,
        }),
        batch_size: 20,
        draws: 20,
        ..FitSettings::default()
    }
}

/// The mean predictions of each target, or the probabilities of its second class.
fn means(predictions: &Predictions) -> Vec<f64> {
    match predictions {
        Predictions::Reals(predictions) => predictions.checked().unwrap().mean(),
        Predictions::Classes(predictions) => {
            let average = predictions.checked().unwrap().average();
            (0..average.rows()).map(|row| average.row(row)[1]).collect()
        }
        _ => panic!("numbers or labels were fitted"),
    }
}

#[test]
fn every_method_learns_several_numbers_and_their_noise() {
    let (data, target) = two_numbers();
    let training_set = TrainingSet::new(&data, target).unwrap();
    let Targets::Several(columns) = data.targets() else {
        panic!("there are several targets");
    };
    for method in Method::general() {
        let model = fit(&training_set, &settings(method), &mut ()).unwrap();
        let Predictions::Several(found) = model.predict(data.features(), 20).unwrap() else {
            panic!("several targets were fitted");
        };
        for ((found, column), (noise, spread)) in
            found.iter().zip(columns).zip([(0.1, 1.0), (0.5, 10.0)])
        {
            // The training set has the numbers on its own scale.
            let own = column.as_real().unwrap().iter();
            let own: Vec<f64> = own.map(|value| 1.0 + spread * value).collect();
            let error = burn_bayes::eval::rmse(&means(&found.predictions), &own).unwrap();
            assert_eq!(found.unit, spread);
            assert!(
                error < 2.5 * noise * spread,
                "{method}, {}: {error}",
                found.name
            );
            let Predictions::Reals(reals) = &found.predictions else {
                panic!("numbers were fitted");
            };
            let ratio = reals.noise_deviation() / (noise * spread);
            assert!(
                (0.7..2.5).contains(&ratio),
                "{method}, {}: {ratio}",
                found.name
            );
        }
    }
}

#[test]
fn every_method_learns_labels() {
    let inputs = normals(0, ROWS);
    let classes = |is_positive: fn(f64) -> bool| {
        Targets::Classes(
            inputs
                .iter()
                .map(|&x| usize::from(is_positive(x)))
                .collect(),
        )
    };
    let columns = vec![classes(|x| x > 0.5), classes(|x| x.abs() < 1.0)];
    let data = data(1, columns.clone());
    let training_set = TrainingSet::new(&data, labels()).unwrap();
    assert_eq!(
        training_set.true_targets(),
        Targets::Several(columns.clone())
    );
    for method in Method::general() {
        let model = fit(&training_set, &settings(method), &mut ()).unwrap();
        assert_eq!(model.noise_precisions_in_target_units(), None);
        let Predictions::Several(found) = model.predict(data.features(), 20).unwrap() else {
            panic!("several targets were fitted");
        };
        for (found, column) in found.iter().zip(&columns) {
            let classes = column.as_classes().unwrap().iter();
            let right = means(&found.predictions).into_iter().zip(classes);
            let right = right.filter(|&(positive, &class)| (positive > 0.5) == (class == 1));
            let accuracy = right.count() as f64 / ROWS as f64;
            assert!(accuracy > 0.85, "{method}, {}: {accuracy}", found.name);
        }
    }
}

/// The posterior of a linear model of several targets is the product of those of each target.
#[test]
fn a_linear_regression_of_several_targets_has_the_exact_posterior_of_each() {
    const WIDTH: usize = 3;
    let columns = [normals(1, ROWS), normals(2, ROWS)];
    let data = data(WIDTH, columns.clone().map(Targets::Real).to_vec());
    let spreads = [0.5, 2.0];
    let training_set = TrainingSet::new(&data, numbers(&spreads.map(scale))).unwrap();
    let settings = FitSettings {
        method: Method::Laplace,
        model: Some(NetworkShape { hidden: Vec::new() }),
        rank: Some(2 * WIDTH),
        // All rows in every step, so that the training ends at the mode.
        batch_size: ROWS,
        epochs: Some(2000),
        no_intercept: true,
        prior_precision: 0.7.into(),
        noise_precision: NoisePrecision::Given(3.0),
        ..FitSettings::default()
    };
    let model = fit(&training_set, &settings, &mut ()).unwrap();
    let found = model.posterior().unwrap().to_dense().unwrap();
    let (mean, covariance) = (found.mean(), found.covariance());
    for (target, (column, spread)) in columns.iter().zip(spreads).enumerate() {
        let noise = 3.0 * spread * spread;
        let values = data.features().values();
        let exact = linear_regression_posterior(values, column, 0.7, noise).unwrap();
        // The weight of input i for output k is number i·K + k.
        let weight = |input: usize| 2 * input + target;
        for input in 0..WIDTH {
            let variance = exact.covariance().row(input)[input];
            let distance = (mean[weight(input)] - exact.mean()[input]).abs() / variance.sqrt();
            assert!(distance < 0.01, "{target}, {input}: {distance}");
            for other in 0..WIDTH {
                let found = covariance.row(weight(input));
                let expected = exact.covariance().row(input)[other];
                let off = (found[weight(other)] - expected).abs();
                assert!(off < 1e-4 * variance, "{target}, {input}, {other}: {off}");
                let across = found[2 * other + 1 - target].abs();
                assert!(
                    across < 1e-4 * variance,
                    "{target}, {input}, {other}: {across}"
                );
            }
        }
    }
}

#[test]
fn the_noise_of_several_targets_may_depend_on_the_input() {
    let (data, target) = two_numbers();
    let training_set = TrainingSet::new(&data, target).unwrap();
    let settings = FitSettings {
        likelihood: Some(LikelihoodName::Heteroscedastic),
        epochs: Some(200),
        ..settings(Method::Vifa)
    };
    let model = fit(&training_set, &settings, &mut ()).unwrap();
    assert_eq!(model.noise_precisions_in_target_units(), None);
    let Predictions::Several(found) = model.predict(data.features(), 20).unwrap() else {
        panic!("several targets were fitted");
    };
    for (found, expected) in found.iter().zip([0.1, 5.0]) {
        let Predictions::Reals(reals) = &found.predictions else {
            panic!("numbers were fitted");
        };
        let ratio = reals.noise_deviation() / expected;
        assert!((0.7..2.0).contains(&ratio), "{}: {ratio}", found.name);
    }
}

#[test]
fn what_several_targets_cannot_have_is_refused_by_name() {
    let (data, target) = two_numbers();
    let training_set = TrainingSet::new(&data, target).unwrap();
    let refused = |settings: FitSettings| {
        let failure = fit(&training_set, &settings, &mut ()).unwrap_err();
        failure.to_string()
    };
    let linear = NetworkShape { hidden: Vec::new() };
    let exact = refused(FitSettings {
        model: Some(linear),
        ..settings(Method::Exact)
    });
    assert!(
        exact.starts_with("`method`") && exact.contains("one target"),
        "{exact}"
    );
    let prior = refused(FitSettings {
        prior: "gp:rbf".parse().unwrap(),
        ..settings(Method::Vifa)
    });
    assert!(
        prior.starts_with("`prior`") && prior.contains("one target"),
        "{prior}"
    );
    let labels = refused(FitSettings {
        likelihood: Some(LikelihoodName::Bernoulli),
        ..settings(Method::Vifa)
    });
    assert!(labels.starts_with("`likelihood`"), "{labels}");

    let counts = [
        (
            "a",
            Target::Counts {
                mean: 1.0,
                has_exposure: false,
            },
        ),
        ("b", Target::Real(scale(1.0))),
    ];
    let counts = counts.map(|(name, target)| (name.to_string(), target));
    let failure = TrainingSet::new(&data, Target::Several(counts.to_vec())).unwrap_err();
    assert!(
        failure.to_string().contains("fit others alone"),
        "{failure}"
    );
}
