//! A regression whose noise is learned while the weights are, with held-out rows in the first half of the epochs.
//!
//! ```text
//! cargo run --example learned_noise
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;

use burn::tensor::Device;
use burn_bayes::BayesianConfig;
use burn_bayes::methods::Vifa;
use burn_bayes::prelude::*;
use burn_bayes::train::{Batches, EpochSummary, Trainer, TrainingObserver};
use burn_bayes_examples::{Activation, Arguments, RealBatch, Regressor, ToBatch, is_smoke};

const NOISE_DEVIATION: f64 = 0.3;
/// β = 1/σ² at the start.
const FIRST_GUESS: f64 = 1.0;
const ROWS: usize = 400;
const HELD_OUT: usize = 80;
const BATCH: usize = 32;
const DRAWS: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "epochs"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let epochs: usize = arguments.get("epochs", if is_smoke() { 4 } else { 400 })?;

    let device = Device::default();
    device.seed(seed);
    let rows = Rows::new(seed, epochs / 2, &device.clone().autodiff());
    let model = Regressor::new(1, &[20], Activation::Tanh, FIRST_GUESS, &rows.device);
    let bayesian = BayesianConfig::new(ROWS, VifaConfig::new())
        .with_seed(seed)
        .init(model);
    let mut noise = LearnedNoise {
        held_out: rows.held_out(&device),
        last: epochs / 2,
        every: (epochs / 20).max(1),
        precision: FIRST_GUESS,
    };
    let trainer = Trainer::new(bayesian, FusedAdamConfig::new().init(), 1e-2).with_epochs(epochs);
    trainer.run(&rows, &mut noise)?;
    let learned = noise.precision.sqrt().recip();
    println!("learned standard deviation of the noise {learned:.3}, true {NOISE_DEVIATION}");
    Ok(())
}

// ANCHOR: observer
/// Sets the noise precision to the value under which held-out rows are most likely.
struct LearnedNoise {
    held_out: RealBatch,
    /// The last epoch in which rows are held out.
    last: usize,
    /// Epochs between two estimates.
    every: usize,
    precision: f64,
}

impl TrainingObserver<Bayesian<Regressor, Vifa>> for LearnedNoise {
    type Error = burn_bayes::Error;

    fn adjusted(
        &mut self,
        summary: &EpochSummary,
        model: Bayesian<Regressor, Vifa>,
    ) -> burn_bayes::Result<Bayesian<Regressor, Vifa>> {
        let epoch = summary.epoch;
        let is_due = epoch == self.last || (epoch < self.last && epoch.is_multiple_of(self.every));
        if !is_due {
            return Ok(model);
        }
        let predictions = model.predict(self.held_out.clone(), DRAWS)?;
        self.precision = predictions.most_likely_noise_precision(1e-2..=1e6)?;
        Ok(model.map_template(|model| model.with_noise_precision(self.precision)))
    }
}
// ANCHOR_END: observer

/// A noisy curve. The last rows train only in the second half of the epochs.
struct Rows {
    inputs: Vec<f32>,
    targets: Vec<f32>,
    seed: u64,
    /// The number of epochs in which rows are held out.
    holding_out: usize,
    device: Device,
}

impl Rows {
    fn new(seed: u64, holding_out: usize, device: &Device) -> Self {
        let noise = Noise::host(seed);
        let inputs = noise.fold(1).latent(ROWS);
        let scatter = noise.fold(2).latent(ROWS);
        let rows = inputs.iter().zip(scatter);
        let target = |(x, noise): (&f32, f32)| (2.0 * x).sin() + NOISE_DEVIATION as f32 * noise;
        Self {
            targets: rows.map(target).collect(),
            inputs,
            seed,
            holding_out,
            device: device.clone(),
        }
    }

    fn held_out(&self, device: &Device) -> RealBatch {
        let rows = ToBatch {
            inputs: &self.inputs[ROWS - HELD_OUT..],
            targets: &self.targets[ROWS - HELD_OUT..],
        };
        rows.all(device)
    }
}

impl Batches for Rows {
    type Batch = RealBatch;

    fn per_epoch(&self) -> usize {
        (ROWS - HELD_OUT).div_ceil(BATCH)
    }

    fn epoch(&self, epoch: usize, first: usize) -> impl Iterator<Item = RealBatch> {
        let rows = if epoch < self.holding_out {
            ROWS - HELD_OUT
        } else {
            ROWS
        };
        let rows = ToBatch {
            inputs: &self.inputs[..rows],
            targets: &self.targets[..rows],
        };
        let noise = Noise::host(self.seed).fold(3).row(epoch as u64);
        let batches = rows.shuffled(BATCH, noise, &self.device);
        batches.into_iter().take(self.per_epoch()).skip(first)
    }
}
