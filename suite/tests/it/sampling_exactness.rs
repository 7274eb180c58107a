//! Samples of densities that are known otherwise: a funnel, and a logistic regression on a grid.

use burn_bayes::Result;
use burn_bayes::sampling::{Dynamics, LogDensity, MclmcConfig, SamplingConfig};

/// A standard deviation of a logarithm, and numbers whose logarithm of variance it is: steps that suit the mouth of the funnel are
/// too long for its neck.
#[derive(Clone)]
struct Funnel;

const WIDTH: f64 = 1.5;
const NUMBERS: usize = 8;

impl LogDensity for Funnel {
    fn evaluate(&mut self, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let (v, numbers) = (place[0], &place[1..]);
        let precision = (-v).exp();
        let squares: f64 = numbers.iter().map(|number| number * number).sum();
        gradient[0] = -v / (WIDTH * WIDTH) + 0.5 * (precision * squares - NUMBERS as f64);
        for (slope, number) in gradient[1..].iter_mut().zip(numbers) {
            *slope = -precision * number;
        }
        Ok(-0.5 * (v * v / (WIDTH * WIDTH) + precision * squares + NUMBERS as f64 * v))
    }
}

fn mclmc() -> SamplingConfig {
    let dynamics = MclmcConfig::new().with_energy_variance(5e-4);
    SamplingConfig::new()
        .with_warm_up_steps(0)
        .with_tuning_steps(5000)
        .with_steps(200_000)
        .with_draws(5000)
        .with_dynamics(Dynamics::Mclmc(dynamics))
}

fn hmc() -> SamplingConfig {
    SamplingConfig::hmc()
        .with_warm_up_steps(0)
        .with_tuning_steps(2000)
        .with_steps(50_000)
        .with_draws(5000)
}

/// The mean and the deviation of a function of the draws of two chains.
fn moments<D: LogDensity + Clone>(
    config: &SamplingConfig,
    density: &D,
    len: usize,
    of: impl Fn(&[f64]) -> f64,
) -> [f64; 2] {
    let starts = [0.5, -0.5].map(|start| vec![start; len]).to_vec();
    let chains = config.sample_density(vec![density.clone(); 2], starts);
    let values: Vec<f64> = chains
        .unwrap()
        .iter()
        .flatten()
        .map(|draw| of(draw))
        .collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    [mean, (squares.sum::<f64>() / count).sqrt()]
}

#[test]
fn a_funnel_is_sampled_from_its_neck_to_its_mouth() {
    for (name, config) in [("mclmc", mclmc()), ("hmc", hmc())] {
        let [mean, deviation] = moments(&config, &Funnel, NUMBERS + 1, |draw| draw[0]);
        assert!(mean.abs() < 0.1 * WIDTH, "{name}: mean {mean}");
        let ratio = deviation / WIDTH;
        assert!((0.9..1.1).contains(&ratio), "{name}: deviation {ratio}");
    }
}

/// A logistic regression with a normal prior, whose moments a grid has.
#[derive(Clone)]
struct Logistic;

impl Logistic {
    const ROWS: [([f64; 2], f64); 8] = [
        ([1.0, 0.2], 1.0),
        ([0.4, -1.0], 1.0),
        ([-0.3, 0.8], 0.0),
        ([-1.2, 0.1], 0.0),
        ([0.9, 1.5], 1.0),
        ([0.1, -0.4], 0.0),
        ([2.0, -0.7], 1.0),
        ([-0.8, -1.1], 1.0),
    ];
    const PRECISION: f64 = 0.25;
}

impl LogDensity for Logistic {
    fn evaluate(&mut self, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
        let mut log_density = 0.0;
        for (slope, weight) in gradient.iter_mut().zip(place) {
            *slope = -Self::PRECISION * weight;
            log_density += 0.5 * *slope * weight;
        }
        for (x, y) in Self::ROWS {
            let logit = x[0] * place[0] + x[1] * place[1];
            log_density += y * logit - logit.exp().ln_1p();
            let error = y - 1.0 / (1.0 + (-logit).exp());
            gradient[0] += error * x[0];
            gradient[1] += error * x[1];
        }
        Ok(log_density)
    }
}

#[test]
fn a_logistic_regression_has_the_moments_of_a_grid() {
    const STEP: f64 = 0.05;
    const HALF: i32 = 240;
    let mut sums = [0.0; 3];
    for first in -HALF..=HALF {
        for second in -HALF..=HALF {
            let place = [f64::from(first) * STEP, f64::from(second) * STEP];
            let density = Logistic.evaluate(&place, &mut [0.0; 2]).unwrap().exp();
            for (sum, power) in sums.iter_mut().zip(0..) {
                *sum += density * place[0].powi(power);
            }
        }
    }
    let mean = sums[1] / sums[0];
    let deviation = (sums[2] / sums[0] - mean * mean).sqrt();
    for (name, config) in [("mclmc", mclmc()), ("hmc", hmc())] {
        let [found_mean, found_deviation] = moments(&config, &Logistic, 2, |draw| draw[0]);
        let off = (found_mean - mean) / deviation;
        assert!(off.abs() < 0.06, "{name}: {off} deviations");
        let ratio = found_deviation / deviation;
        assert!(
            (ratio - 1.0).abs() < 0.05,
            "{name}: {ratio} of the deviation"
        );
    }
}
