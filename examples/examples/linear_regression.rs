//! The distance of VIFA from an exact posterior: E1, the synthetic linear regression of the VIFA
//! paper (4.1, B.1), first with the paper's settings and then with ours.
//!
//! `cargo run --example linear_regression [-- --seeds 10 --epochs 5000]`
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;

use burn::grad_clipping::GradientClippingConfig;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;
use burn::optim::{GradientsAccumulator, ModuleOptimizer, SgdConfig};
use burn::tensor::Device;
use burn::train::TrainStep;
use burn_bayes::methods::Averaging;
use burn_bayes::posterior::{DenseGaussian, GaussianDistance, linear_regression_posterior};
use burn_bayes::prelude::*;
use burn_bayes::train::VifaPart;
use burn_bayes::{BayesianConfig, Noise};
use burn_bayes_examples::{Arguments, LinearRegressor, ToBatch, is_smoke};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

/// Number of rows, and mini-batch size.
const ROWS: usize = 1000;
const BATCH: usize = 100;
/// Number of mini-batches, each with its own draw, whose gradients are accumulated for one step.
const DRAWS: usize = ROWS / BATCH;
/// Precisions of the weights and of the noise.
const PRIOR: f64 = 0.01;
const NOISE: f64 = 0.1;
/// Seed of the true weights.
const WEIGHTS_SEED: u64 = 0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seeds", "epochs"])?;
    let (seeds, epochs) = if is_smoke() { (2, 40) } else { (10, 5000) };
    let seeds = arguments.get("seeds", seeds)?;
    let epochs = arguments.get("epochs", epochs)?;
    println!("1000 rows, 2 weights, {epochs} epochs; mean ± standard error over {seeds} seeds\n");
    println!(
        "{:<34}{:>19}{:>19}{:>19}",
        "", "relative mean", "relative covariance", "W/D"
    );
    println!(
        "{:<34}{:>19}{:>19}{:>19}",
        "published", ".0031 ± .0005", ".0983 ± .0129", ".0194 ± .0023"
    );
    for setting in [Setting::Paper, Setting::Ours] {
        let distances = distances(setting, seeds, epochs)?;
        println!(
            "{:<34}{:>19}{:>19}{:>19}",
            setting.name(),
            summary(&distances, |distance| distance.relative_mean),
            summary(&distances, |distance| distance.relative_covariance),
            summary(&distances, |distance| distance.scaled_wasserstein),
        );
        for (seed, distance) in distances.iter().enumerate() {
            println!(
                "  seed {seed:<27}{:>19.4}{:>19.4}{:>19.4}",
                distance.relative_mean, distance.relative_covariance, distance.scaled_wasserstein
            );
        }
    }
    Ok(())
}

/// The settings of training.
#[derive(Clone, Copy)]
enum Setting {
    /// One draw per mini-batch, constant learning rates, each gradient clipped at norm 10.
    Paper,
    /// Antithetic draws, no clipping, and averaging over the second half of the steps.
    Ours,
}

impl Setting {
    fn name(self) -> &'static str {
        match self {
            Self::Paper => "the paper's setting",
            Self::Ours => "pairs, averaging, no clipping",
        }
    }

    // ANCHOR: setting
    fn config(self, seed: u64, steps: u64) -> BayesianConfig<VifaConfig> {
        // The optimiser clips the accumulated gradient, as in the paper; `clip_norm` would clip the
        // gradient of each mini-batch instead.
        let config = BayesianConfig::paper(
            ROWS,
            VifaConfig::paper()
                .with_clip_norm(None)
                .with_accumulation(DRAWS),
        )
        .with_zero_mean()
        .with_prior(Prior::isotropic(PRIOR))
        .with_seed(seed);
        match self {
            Self::Paper => config,
            Self::Ours => config
                .with_draws(2)
                .with_antithetic(true)
                .with_averaging(Averaging::From(steps / 2)),
        }
    }

    fn optimizer(self) -> ModuleOptimizer {
        let clipping = match self {
            Self::Paper => Some(GradientClippingConfig::Norm(10.0)),
            Self::Ours => None,
        };
        SgdConfig::new().with_gradient_clipping(clipping).init()
    }
    // ANCHOR_END: setting

    // ANCHOR: rates
    /// Learning rates of the mean, the factors and the log-variances.
    fn learning_rates(self) -> ModuleLrScheduler {
        let mean = match self {
            Self::Paper => 0.01,
            Self::Ours => 0.003,
        };
        ModuleLrScheduler::new(mean)
            .with_group(VifaPart::Factors.group(), 1e-4)
            .with_group(VifaPart::LogVariance.group(), 0.01)
    }
    // ANCHOR_END: rates
}

/// One distance per seed; two threads share the seeds.
fn distances(
    setting: Setting,
    seeds: u64,
    epochs: u64,
) -> Result<Vec<GaussianDistance>, Box<dyn Error>> {
    let run = |seed: u64| distance(setting, seed, epochs).map_err(|error| error.to_string());
    let middle = seeds.div_ceil(2);
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(move || (0..middle).map(run).collect::<Vec<_>>());
        let second = (middle..seeds).map(run).collect::<Vec<_>>();
        (first.join(), second)
    });
    let first = first.map_err(|_| "a training thread panicked")?;
    Ok(first.into_iter().chain(second).collect::<Result<_, _>>()?)
}

/// Trains on a data set and compares with its exact posterior.
fn distance(setting: Setting, seed: u64, epochs: u64) -> Result<GaussianDistance, Box<dyn Error>> {
    let data = Data::generate(seed);
    let truth = data.exact_posterior()?;
    let device = Device::default().autodiff();
    let (inputs, targets) = (narrow(&data.inputs), narrow(&data.targets));
    let rows = ToBatch {
        inputs: &inputs,
        targets: &targets,
    };

    let model = LinearRegressor::new(2, NOISE, &device);
    let mut bayes = setting.config(seed, epochs).try_init(model)?;
    let mut optimizer = setting.optimizer();
    let mut learning_rates = setting.learning_rates();
    // ANCHOR: accumulation
    for epoch in 0..epochs {
        let mut sum = GradientsAccumulator::new();
        for batch in rows.shuffled(BATCH, Noise::new(seed).fold(epoch), &device) {
            let output = TrainStep::step(&bayes, batch);
            sum.accumulate(&bayes, output.grads);
        }
        bayes = bayes.optimize(&mut optimizer, learning_rates.step(), sum.grads());
    }
    // ANCHOR_END: accumulation
    // ANCHOR: distance
    Ok(GaussianDistance::between(
        &truth,
        &bayes.try_posterior()?.to_dense()?,
    )?)
    // ANCHOR_END: distance
}

/// Inputs with unit variances and covariance ½, and noisy linear targets.
struct Data {
    inputs: Vec<f64>,
    targets: Vec<f64>,
}

impl Data {
    /// As in the paper, the weights are the same for every seed; a seed determines the rows and the
    /// noise.
    fn generate(seed: u64) -> Self {
        let mut generator = StdRng::seed_from_u64(WEIGHTS_SEED);
        let weights = [(); 2].map(|()| {
            let weight: f64 = StandardNormal.sample(&mut generator);
            weight / PRIOR.sqrt()
        });
        let mut generator = StdRng::seed_from_u64(seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut generator) };
        let mut data = Self {
            inputs: Vec::new(),
            targets: Vec::new(),
        };
        for _ in 0..ROWS {
            let first = normal();
            let second = 0.5 * first + 0.75_f64.sqrt() * normal();
            let signal = weights[0] * first + weights[1] * second;
            data.inputs.extend([first, second]);
            data.targets.push(signal + normal() / NOISE.sqrt());
        }
        data
    }

    // ANCHOR: exact
    fn exact_posterior(&self) -> Result<DenseGaussian, Box<dyn Error>> {
        Ok(linear_regression_posterior(
            &self.inputs,
            &self.targets,
            PRIOR,
            NOISE,
        )?)
    }
    // ANCHOR_END: exact
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

/// Mean ± standard error.
fn summary(distances: &[GaussianDistance], of: impl Fn(&GaussianDistance) -> f64) -> String {
    let count = distances.len() as f64;
    let mean = distances.iter().map(&of).sum::<f64>() / count;
    let squares = distances
        .iter()
        .map(|distance| (of(distance) - mean).powi(2))
        .sum::<f64>();
    format!(
        "{mean:.4} ± {:.4}",
        (squares / (count - 1.0).max(1.0) / count).sqrt()
    )
}
