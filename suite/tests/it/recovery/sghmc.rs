//! SGHMC and SGLD against the exact posterior of a quadratic loss with correlations.

use burn_bayes::BayesianConfig;
use burn_bayes::eval::Chains;
use burn_bayes::methods::{Algorithm, FromGradients, StepId, Update};
use burn_bayes::posterior::{DenseGaussian, Posterior};
use burn_bayes_contrib::methods::{SamplingSchedule, Sghmc, SghmcConfig};

use super::{CURVATURE, LEN, PRIOR, TARGET, TRAIN_LEN, likelihood_gradient, model, prior};
use crate::support::values;

const STEPS: u64 = 16_000;
const INTERVAL: u64 = 8;

/// The mean and the covariance of the posterior, whose precision is N H + diag(α).
fn exact() -> ([f64; LEN], DenseGaussian) {
    let scale = TRAIN_LEN as f64;
    let mut precision = Vec::with_capacity(LEN * LEN);
    for (row, curvature) in CURVATURE.iter().enumerate() {
        for (column, value) in curvature.iter().enumerate() {
            let prior = if row == column { PRIOR[row] } else { 0.0 };
            precision.push(scale * value + prior);
        }
    }
    let centred = DenseGaussian::from_precision(vec![0.0; LEN], precision).unwrap();
    // N H t.
    let linear = CURVATURE.map(|row| {
        let terms = row.iter().zip(TARGET);
        scale
            * terms
                .map(|(curvature, target)| curvature * target)
                .sum::<f64>()
    });
    let mean = std::array::from_fn(|row| {
        let terms = linear.iter().enumerate();
        terms
            .map(|(column, value)| centred.covariance().get(row, column) * value)
            .sum()
    });
    (mean, centred)
}

fn sampled(config: &BayesianConfig<SghmcConfig>) -> Vec<Vec<f64>> {
    let mut sghmc: Sghmc = config.build(&model()).unwrap();
    for step in 0..STEPS {
        let proposal = sghmc.propose(StepId { step, pass: 0 }).unwrap();
        let pieces = vec![likelihood_gradient(&proposal.draws[0].weights)];
        let Update::Gradients(sums) = sghmc.step(proposal, pieces, 1).unwrap() else {
            panic!("sums are additive");
        };
        let update = sghmc.update_from_sum(step + 1, &mut sums.into()).unwrap();
        sghmc = sghmc.apply_step(update.unwrap(), 0.02);
        sghmc = sghmc.after_step(step + 1);
    }
    let posterior = sghmc.posterior(STEPS).unwrap();
    let count = posterior.weights().len();
    let point = |index| values(&posterior.component(index).unwrap().mean_weights().unwrap());
    (0..count).map(point).collect()
}

/// The mean of values, its standard error by their autocorrelation, and their number if they were independent.
fn estimate(values: &[f64]) -> [f64; 3] {
    let chain = Chains::new(values, 1, values.len()).unwrap();
    let independent = chain.bulk_effective_sample_size().unwrap();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    let variance = squares.sum::<f64>() / values.len() as f64;
    [mean, (variance / independent).sqrt(), independent]
}

fn check(config: &BayesianConfig<SghmcConfig>) {
    let (mean, exact) = exact();
    let samples = sampled(config);
    assert_eq!(samples.len(), config.method.max_samples);
    for row in 0..LEN {
        for column in 0..=row {
            let products: Vec<f64> = samples
                .iter()
                .map(|sample| (sample[row] - mean[row]) * (sample[column] - mean[column]))
                .collect();
            let [found, error, independent] = estimate(&products);
            let expected = exact.covariance().get(row, column);
            // The bias of the step size is ½ℓλ/N, at most 2 %.
            let variances = exact.variances();
            let bias = 0.02 * (variances[row] * variances[column]).sqrt();
            assert!(
                (found - expected).abs() < 4.0 * error + bias,
                "{row}, {column}: {found} ± {error}, not {expected}"
            );
            assert!(independent > 200.0, "{independent} independent samples");
        }
        let weights: Vec<f64> = samples.iter().map(|sample| sample[row]).collect();
        let [found, error, _] = estimate(&weights);
        let expected = mean[row];
        assert!(
            (found - expected).abs() < 4.0 * error,
            "{found} ± {error}, not {expected}"
        );
    }
}

fn schedule() -> SamplingSchedule {
    SamplingSchedule::Constant {
        start: 801,
        interval: INTERVAL,
    }
}

/// The number of samples in the schedule.
const SAMPLES: usize = ((STEPS - 801) / INTERVAL + 1) as usize;

#[test]
fn sghmc_samples_a_correlated_gaussian() {
    let method = SghmcConfig::new(schedule()).with_friction(0.2);
    let config = BayesianConfig::paper(TRAIN_LEN, method.with_max_samples(SAMPLES));
    check(&config.with_prior(prior()));
}

#[test]
fn sgld_samples_a_correlated_gaussian() {
    let method = SghmcConfig::sgld(schedule()).with_max_samples(SAMPLES);
    let config = BayesianConfig::paper(TRAIN_LEN, method);
    check(&config.with_prior(prior()));
}

#[test]
fn the_configuration_of_the_book_is_valid() {
    // ANCHOR: config
    use burn_bayes_contrib::methods::{SamplingSchedule, SghmcConfig};

    // Four cycles in 20 000 steps, with five samples from each.
    let cycles = SamplingSchedule::Cyclical {
        length: 5_000,
        exploration: 0.8,
        samples: 5,
    };
    let sghmc = BayesianConfig::new(60_000, SghmcConfig::new(cycles));
    let sgld = BayesianConfig::new(60_000, SghmcConfig::sgld(cycles));
    // ANCHOR_END: config
    assert!(sghmc.validate().is_ok() && sgld.validate().is_ok());
    assert_eq!([sghmc.method.friction, sgld.method.friction], [0.1, 1.0]);
}
