//! A curve with a gap in its data, by a network with a prior over its weights and by one with a smooth prior over functions.
//!
//! ```text
//! cargo run --example function_prior
//! cargo run --example function_prior -- --seed 1 --steps 2000
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::TrainStep;
use burn_bayes::laplace::Linearized;
use burn_bayes::methods::{MeanStage, Rate, Slang};
use burn_bayes::prelude::*;
use burn_bayes::{BayesianConfig, FusedAdamConfig, Noise};
// ANCHOR: imports
use burn_bayes_contrib::function_prior::{FunctionPrior, WithFunctionPrior};
use burn_bayes_contrib::functional::{
    FunctionPrediction, GaussianProcess, Kernel, MarginalLikelihood, MeasurementPoints, Points,
};
// ANCHOR_END: imports
use burn_bayes_examples::{Activation, Arguments, RealBatch, Regressor, ToBatch, is_smoke};

const ROWS: usize = 90;
const NOISE_DEVIATION: f64 = 0.1;
/// The absolute values of the inputs of the data.
const DATA: (f64, f64) = (0.7, 2.0);
/// The share of white noise in the prior of the Laplace approximation.
const LAPLACE_JITTER: f64 = 1e-4;
/// The predictions are from −LIMIT to LIMIT.
const LIMIT: f64 = 3.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "steps", "points", "rank", "jitter", "rate"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let steps: usize = arguments.get("steps", if is_smoke() { 30 } else { 3000 })?;
    let count: usize = arguments.get("points", 40)?;
    let rank: usize = arguments.get("rank", 90)?;
    let jitter: f64 = arguments.get("jitter", 1e-3)?;
    let rate: f64 = arguments.get("rate", 0.1)?;

    let inputs: Vec<f64> = (0..ROWS)
        .map(|row| {
            let size = DATA.0 + (DATA.1 - DATA.0) * (row / 2) as f64 / (ROWS / 2) as f64;
            if row % 2 == 0 { size } else { -size }
        })
        .collect();
    let noise = Noise::new(seed).fold(1).latent(ROWS);
    let targets = inputs.iter().zip(noise);
    let targets: Vec<f64> = targets
        .map(|(x, z)| curve(*x) + NOISE_DEVIATION * f64::from(z))
        .collect();

    // ANCHOR: learn
    let points = Points::new(1, inputs.clone())?;
    let start: Kernel = "rbf".parse()?;
    let start = start
        .with_median_length_scales(&points)?
        .with_term_variances();
    let start = GaussianProcess::new(start, 0.1)?;
    let process = MarginalLikelihood::new().maximise(&start, &points, &targets)?;
    println!("kernel          {}", process.kernel());
    println!("noise variance  {:.4}\n", process.noise_variance());
    // ANCHOR_END: learn

    let weights = slang(rank, seed, steps, 1.0)
        .init(network(seed))
        .with_gauss_newton();
    // ANCHOR: prior
    let everywhere = MeasurementPoints::uniform(vec![-LIMIT], vec![LIMIT])?;
    let prior = FunctionPrior::new(process.kernel().clone(), everywhere, count)?;
    // A network is never exactly such a function: the jitter is the share of the variance that may be noise.
    let prior = prior.with_jitter(jitter);
    let functions = slang(rank, seed, steps, 0.01)
        .init(network(seed))
        .with_gauss_newton()
        .with_function_prior(prior.clone())?;
    // ANCHOR_END: prior
    let prior = prior.with_jitter(LAPLACE_JITTER);
    let mean_alone = slang(0, seed, 2 * steps, 0.01)
        .init(network(seed))
        .with_function_prior(prior.clone())?;

    let batch = batch(&inputs, &targets);
    let grid: Vec<f64> = (0..200)
        .map(|i| LIMIT * (f64::from(i) / 100.0 - 1.0))
        .collect();
    let exact = process
        .fit(&points, &targets)?
        .predict(&Points::new(1, grid.clone())?)?;
    println!("                     at the data                  in the gap and beyond");
    println!("                     RMSE   deviation  of exact   RMSE   deviation  of exact");
    print_row("exact process", &grid, &exact, &exact);
    for (name, bayesian) in [("weight prior", weights), ("function prior", functions)] {
        let bayesian = trained(bayesian, &batch, steps, rate)?;
        let linearized = Linearized::new(bayesian.template().valid(), bayesian.try_posterior()?)?;
        print_row(name, &grid, &predicted(&linearized, &grid)?, &exact);
    }
    let bayesian = trained(mean_alone, &batch, steps, rate)?;
    // ANCHOR: laplace
    let model = bayesian.mean_model()?;
    let posterior = prior.laplace(&model, ROWS, &Prior::isotropic(0.01), [batch])?;
    let linearized = Linearized::new(model, posterior)?;
    // ANCHOR_END: laplace
    print_row(
        "with Laplace",
        &grid,
        &predicted(&linearized, &grid)?,
        &exact,
    );
    Ok(())
}

fn curve(x: f64) -> f64 {
    (1.5 * x).sin() + 0.3 * x
}

fn slang(rank: usize, seed: u64, steps: usize, precision: f64) -> BayesianConfig<SlangConfig> {
    BayesianConfig::new(
        ROWS,
        SlangConfig::new()
            .with_rank(rank)
            .with_covariance_rate(Rate::Constant(0.02)),
    )
    .with_seed(seed)
    .with_prior(Prior::isotropic(precision))
    .with_mean_stage(MeanStage::Steps(steps as u64 / 2))
}

fn network(seed: u64) -> Regressor {
    let device = Device::default();
    device.seed(seed);
    let precision = NOISE_DEVIATION.powi(-2);
    Regressor::new(1, &[30], Activation::Tanh, precision, &device.autodiff())
}

fn batch(inputs: &[f64], targets: &[f64]) -> RealBatch {
    let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<_>>();
    let rows = ToBatch {
        inputs: &narrow(inputs),
        targets: &narrow(targets),
    };
    rows.all(&Device::default().autodiff())
}

/// After training with all rows in every step.
fn trained(
    mut bayesian: Bayesian<Regressor, Slang>,
    batch: &RealBatch,
    steps: usize,
    rate: f64,
) -> Result<Bayesian<Regressor, Slang>, Box<dyn Error>> {
    let mut optimizer = FusedAdamConfig::new().init();
    for _ in 0..steps {
        let gradients = TrainStep::step(&bayesian, batch.clone()).grads;
        bayesian = bayesian.optimize(&mut optimizer, rate.into(), gradients);
    }
    if let Some(fault) = bayesian.fault() {
        return Err(fault.to_string().into());
    }
    Ok(bayesian)
}

fn predicted(
    linearized: &Linearized<Regressor>,
    grid: &[f64],
) -> Result<FunctionPrediction, Box<dyn Error>> {
    let rows: Vec<f32> = grid.iter().map(|&x| x as f32).collect();
    let rows = TensorData::new(rows, [grid.len(), 1]);
    let outputs = linearized.outputs(&Tensor::from_data(rows, &Device::default()))?;
    let numbers = |values: Tensor<2>| values.into_data().iter::<f64>().collect();
    Ok(FunctionPrediction {
        mean: numbers(outputs.mean),
        variance: numbers(outputs.variance),
    })
}

/// The error against the curve, the mean deviation, and its mean absolute difference from the exact one, as a share.
fn print_row(name: &str, grid: &[f64], found: &FunctionPrediction, exact: &FunctionPrediction) {
    print!("{name:<18}");
    for is_inside in [true, false] {
        let places: Vec<usize> = (0..grid.len())
            .filter(|&at| ((DATA.0..DATA.1).contains(&grid[at].abs())) == is_inside)
            .collect();
        let mean = |value: &dyn Fn(usize) -> f64| {
            places.iter().map(|&at| value(at)).sum::<f64>() / places.len() as f64
        };
        let error = mean(&|at| (found.mean[at] - curve(grid[at])).powi(2)).sqrt();
        let deviation = |prediction: &FunctionPrediction, at: usize| prediction.variance[at].sqrt();
        let difference = mean(&|at| (deviation(found, at) - deviation(exact, at)).abs());
        let share = difference / mean(&|at| deviation(exact, at));
        let own = mean(&|at| deviation(found, at));
        print!(" {error:>6.3} {own:>11.3} {:>7.0} % ", 100.0 * share);
    }
    println!();
}
