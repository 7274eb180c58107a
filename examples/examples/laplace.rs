//! The Laplace approximation of a trained network: its marginal likelihood, and three ways to predict with it.
//!
//! ```text
//! cargo run --example laplace
//! cargo run --example laplace -- --seed 1 --rank 50
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::optim::decay::WeightDecayConfig;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::TrainStep;
use burn_bayes::laplace::{Laplace, Linearized, PriorSharing, Structure};
use burn_bayes::prelude::*;
use burn_bayes::{FusedAdamConfig, Noise};
use burn_bayes_data::{gap_function, gap_regression};
use burn_bayes_examples::{Activation, Arguments, RealBatch, Regressor, ToBatch, is_smoke};

const ROWS: usize = 100;
const NEW_ROWS: usize = 1000;
const NOISE_DEVIATION: f64 = 0.1;
const DRAWS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "steps", "rank"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let steps: usize = arguments.get("steps", if is_smoke() { 50 } else { 3000 })?;
    let rank: usize = arguments.get("rank", 20)?;

    let (batch, alpha) = (training_rows(seed)?, 1.0);
    let model = train(&batch, alpha, seed, steps);
    let laplace = Laplace::new(ROWS)
        .with_prior(Prior::isotropic(alpha))
        .with_structure(Structure::LowRank { rank });
    let fit = laplace.gauss_newton(&model, [batch])?;
    let evidence = fit.log_marginal_likelihood()?;
    let best = fit.clone().with_optimal_prior(PriorSharing::Global)?;
    let precision = best.prior().segments()[0].1;
    println!("log marginal likelihood {evidence:.1} nats with prior precision {alpha}");
    println!(
        "and at most {:.1} nats, with {precision:.2}\n",
        best.log_marginal_likelihood()?
    );

    let inputs: Vec<f32> = (0..NEW_ROWS)
        .map(|row| (4.0 * row as f64 / NEW_ROWS as f64 - 2.0) as f32)
        .collect();
    let rows = TensorData::new(inputs.clone(), [NEW_ROWS, 1]);
    let rows = Tensor::<2>::from_data(rows, &Device::default());
    let posterior = fit.posterior()?;
    let linearized = Linearized::new(model.valid(), posterior.clone())?;
    let predictor = Predictor::new(model, posterior, Noise::new(seed))?;

    let closed = || -> burn_bayes::Result<Moments> {
        let outputs = linearized.outputs(&rows)?;
        Ok(Moments {
            mean: numbers(outputs.mean),
            deviation: numbers(outputs.variance.sqrt()),
        })
    };
    let linear_draws = || {
        Ok(Moments::of(linearized.draws(
            &rows,
            Noise::new(seed),
            DRAWS,
        )?))
    };
    let draws = || {
        let outputs = predictor.map_draws(DRAWS, |net: &Regressor| net.forward(rows.clone()))?;
        Ok(Moments::of(Tensor::stack(outputs, 0)))
    };
    println!(
        "{DRAWS} draws, {NEW_ROWS} rows             error of the mean   deviation at the data   in the gap   time"
    );
    print_row("linearised, closed form", &inputs, closed)?;
    print_row("linearised, draws", &inputs, linear_draws)?;
    print_row("draws of the network", &inputs, draws)?;
    Ok(())
}

/// The mean and the standard deviation of every output.
struct Moments {
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

impl Moments {
    /// Of draws, `[draws, rows, 1]`.
    fn of(draws: Tensor<3>) -> Self {
        Self {
            mean: numbers(draws.clone().mean_dim(0)),
            deviation: numbers(draws.var(0).sqrt()),
        }
    }
}

fn numbers<const R: usize>(tensor: Tensor<R>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn print_row(
    name: &str,
    inputs: &[f32],
    predict: impl Fn() -> burn_bayes::Result<Moments>,
) -> Result<(), Box<dyn Error>> {
    // The first prediction records the network.
    predict()?;
    let start = Instant::now();
    let moments = predict()?;
    let time: Duration = start.elapsed();
    let is_gap = |row: &usize| inputs[*row].abs() < 0.7;
    let mean_of = |rows: Vec<usize>, value: &dyn Fn(usize) -> f64| {
        rows.iter().map(|&row| value(row)).sum::<f64>() / rows.len() as f64
    };
    let (gap, data): (Vec<usize>, Vec<usize>) = (0..inputs.len()).partition(is_gap);
    let error = |row: usize| (moments.mean[row] - gap_function(inputs[row].into())).powi(2);
    let deviation = |row: usize| moments.deviation[row];
    println!(
        "{name:<34} {:>10.3} {:>22.3} {:>15.3} {:>8.1?}",
        mean_of(data.clone(), &error).sqrt(),
        mean_of(data, &deviation),
        mean_of(gap, &deviation),
        time
    );
    Ok(())
}

/// Noisy values of a curve, with a gap.
fn training_rows(seed: u64) -> Result<RealBatch, Box<dyn Error>> {
    let data = gap_regression(ROWS, NOISE_DEVIATION, seed)?;
    let narrow = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<_>>();
    let inputs = narrow(data.features().values());
    let targets = narrow(data.targets().as_real().unwrap_or_default());
    let rows = ToBatch {
        inputs: &inputs,
        targets: &targets,
    };
    Ok(rows.all(&Device::default().autodiff()))
}

/// Ordinary training, with the prior as weight decay α/N.
fn train(batch: &RealBatch, alpha: f64, seed: u64, steps: usize) -> Regressor {
    let device = Device::default();
    device.seed(seed);
    let precision = NOISE_DEVIATION.powi(-2);
    let hidden = [50, 50];
    let mut model = Regressor::new(
        1,
        &hidden,
        Activation::Rectifier,
        precision,
        &device.autodiff(),
    );
    let decay = WeightDecayConfig::new((alpha / ROWS as f64) as f32);
    let mut optimizer = FusedAdamConfig::new().with_weight_decay(Some(decay)).init();
    for step in 0..steps {
        let gradients = TrainStep::step(&model, batch.clone()).grads;
        let rate = 1e-2 * (1.0 - step as f64 / steps as f64);
        model = model.optimize(&mut optimizer, rate.into(), gradients);
    }
    model
}
