//! Logistic regression with SLANG, trained as on its authors' poster, on fixed halves of a small
//! data set.
//!
//! Prints the test score for each rank. `cargo run --release -p burn-bayes-papers -- E5` compares with
//! the best Gaussians and with the poster, on all four data sets.
//!
//! `cargo run --release --example slang_logistic [-- --set breast --epochs 500]`, with the data in
//! `$BURN_BAYES_DATA` or `../shared/data`.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::path::PathBuf;

use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;
use burn_bayes::BayesianConfig;
use burn_bayes::methods::{InitialDeviation, InitialMean, Rate};
use burn_bayes::prelude::*;
use burn_bayes_data::{Dataset, Presplit, read_presplit};
use burn_bayes_examples::{Arguments, LogisticRegressor, ToBatch, is_smoke};

/// Mini-batch size, and number of draws averaged for a prediction.
const BATCH: usize = 32;
const TEST_DRAWS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["set", "epochs"])?;
    let folder = std::env::var_os("BURN_BAYES_DATA").map_or("../shared/data".into(), PathBuf::from);
    if !folder.is_dir() {
        let shown = folder.display();
        println!("skipped: no data in {shown} (set BURN_BAYES_DATA)");
        return Ok(());
    }
    let epochs = arguments.get("epochs", if is_smoke() { 2 } else { 500 })?;
    let set: String = arguments.get("set", "breast".into())?;
    let (name, prior) = match set.as_str() {
        "australian" => ("australian_scale", 1e-5),
        "breast" => ("breast_cancer_scale", 1.0),
        _ => return Err(format!("--set {set}: use australian or breast").into()),
    };
    let Presplit { train, test } = read_presplit(folder.join(name).join("presplit"), name)?;
    let [train, test] = [Rows::new(&train)?, Rows::new(&test)?];
    println!("{set}, {epochs} epochs (poster: 10000)");
    for rank in [1, 5, 10] {
        let score = score(&train, &test, prior, rank, epochs)?;
        println!("SLANG-{rank}: test NLL {score:.4}");
    }
    Ok(())
}

/// Trains as on the poster and returns the mean of −log p(t | x) over the test rows, with p
/// averaged over draws.
fn score(
    train: &Rows,
    test: &Rows,
    prior: f64,
    rank: usize,
    epochs: u64,
) -> Result<f64, Box<dyn Error>> {
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
    .with_prior(Prior::isotropic(prior))
    .with_draws(12)
    .with_initial_mean(InitialMean::Zero)
    .try_init(LogisticRegressor::new(train.width(), &device))?;
    // SLANG updates the random weights; the optimiser is for parameters that stay point estimates.
    let mut optimizer = FusedAdamConfig::new().init();
    // ANCHOR_END: slang
    for epoch in 0..epochs {
        let batches = train
            .to_batch()
            .shuffled(BATCH, Noise::host(epoch), &device);
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
