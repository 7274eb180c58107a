//! Logistic regression with SLANG, trained as on its authors' poster, on generated data.
//!
//! Prints the test score for each rank. `cargo run --release -p burn-bayes-papers -- E5` compares with
//! the best Gaussians and with the poster, on the poster's four data sets.
//!
//! `cargo run --release --example slang_logistic [-- --epochs 500]`
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;

use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;
use burn_bayes::methods::{InitialDeviation, Rate};
use burn_bayes::prelude::*;
use burn_bayes::{BayesianConfig, FusedAdamConfig, Noise};
use burn_bayes_data::{Dataset, LinearModelConfig};
use burn_bayes_examples::{Arguments, LogisticRegressor, ToBatch, is_smoke};

/// Mini-batch size, and number of draws averaged for a prediction.
const BATCH: usize = 32;
const TEST_DRAWS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["epochs"])?;
    let epochs = arguments.get("epochs", if is_smoke() { 2 } else { 500 })?;
    let config = LinearModelConfig {
        rows: 600,
        features: 14,
        prior_precision: 1.0,
        ..LinearModelConfig::default()
    };
    let all = config.classification(1)?.dataset;
    let half = |start| (start..all.rows()).step_by(2).collect::<Vec<_>>();
    let [train, test] = [
        Rows::new(&all.select(&half(0))?)?,
        Rows::new(&all.select(&half(1))?)?,
    ];
    println!("{epochs} epochs");
    for rank in [1, 5, 10] {
        let score = score(&train, &test, rank, epochs)?;
        println!("SLANG-{rank}: test NLL {score:.4}");
    }
    Ok(())
}

/// Trains as on the poster and returns the mean of −log p(t | x) over the test rows, with p
/// averaged over draws.
fn score(train: &Rows, test: &Rows, rank: usize, epochs: u64) -> Result<f64, Box<dyn Error>> {
    let device = Device::default().autodiff();
    // ANCHOR: slang
    let rate = Rate::Reciprocal {
        initial: 0.05,
        power: 0.51,
    };
    let mut bayes = BayesianConfig::paper(
        train.targets.len(),
        SlangConfig::paper()
            .with_rank(rank)
            .with_covariance_rate(rate)
            .with_initial_deviation(Some(InitialDeviation::Constant(1.0))),
    )
    .with_draws(12)
    .with_zero_mean()
    .try_init(LogisticRegressor::new(train.width(), &device))?;
    // SLANG updates the random weights; the optimiser is for parameters that stay point estimates.
    let mut optimizer = FusedAdamConfig::new().init();
    // ANCHOR_END: slang
    for epoch in 0..epochs {
        let batches = train.to_batch().shuffled(BATCH, Noise::new(epoch), &device);
        for batch in batches {
            let output = TrainStep::step(&bayes, batch);
            let learning_rate = rate.at(bayes.steps());
            bayes = bayes.optimize(&mut optimizer, learning_rate.into(), output.grads);
        }
    }
    let mut probabilities = vec![0.0; test.targets.len()];
    for draw in 0..TEST_DRAWS as u64 {
        let batch = test.to_batch().all(&device.clone().inner());
        let outputs: Tensor<2> = bayes.drawn_model(draw)?.forward(batch.inputs);
        let outputs: Vec<f32> = outputs.into_data().iter().collect();
        for ((sum, output), target) in probabilities.iter_mut().zip(outputs).zip(&test.targets) {
            *sum += 1.0 / (1.0 + f64::from(-target * output).exp());
        }
    }
    let losses = probabilities
        .iter()
        .map(|sum| -(sum / TEST_DRAWS as f64).ln());
    Ok(losses.sum::<f64>() / test.targets.len() as f64)
}

/// Inputs with a leading 1, and targets −1 and 1.
struct Rows {
    inputs: Vec<f32>,
    targets: Vec<f32>,
}

impl Rows {
    fn new(data: &Dataset) -> Result<Self, Box<dyn Error>> {
        let classes = data.targets().as_classes();
        let classes = classes.ok_or("targets are no classes")?;
        let features = data.features();
        let rows = (0..data.rows()).flat_map(|row| {
            let values = features.row(row).iter().map(|&value| value as f32);
            [1.0].into_iter().chain(values)
        });
        Ok(Self {
            inputs: rows.collect(),
            targets: classes
                .iter()
                .map(|&class| 2.0 * class as f32 - 1.0)
                .collect(),
        })
    }

    fn width(&self) -> usize {
        self.inputs.len() / self.targets.len()
    }

    fn to_batch(&self) -> ToBatch<'_> {
        ToBatch {
            inputs: &self.inputs,
            targets: &self.targets,
        }
    }
}
