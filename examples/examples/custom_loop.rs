//! A custom training loop that calls `step` and `optimize`, without Burn's Learner.
//!
//! ```text
//! cargo run --example custom_loop
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;

use burn::tensor::Device;
use burn::train::TrainStep;
use burn_bayes::prelude::*;
use burn_bayes::{BayesianConfig, FusedAdamConfig};
use burn_bayes_examples::{
    Arguments, ClassBatch, ClassScores, Classifier, Glyphs, class_loader, is_smoke,
};

const BATCH: usize = 32;
const LEARNING_RATE: f64 = 2e-3;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "epochs"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let epochs: usize = arguments.get("epochs", if is_smoke() { 2 } else { 20 })?;
    let (count, held_out) = if is_smoke() { (160, 100) } else { (2000, 2000) };
    let digits = |seed| Glyphs { noise: 0.35, seed };
    let (train, test) = (
        digits(2 * seed + 1).rows(count),
        digits(2 * seed + 2).rows(held_out),
    );

    let device = Device::default();
    device.seed(seed);
    let training_device = device.clone().autodiff();
    let model = Classifier::new(Glyphs::PIXELS, 64, Glyphs::CLASSES, &training_device);
    let loader = class_loader(train, BATCH, Some(seed), &training_device);
    let held_out = ClassBatch::new(&test, &device);

    // Two antithetic draws for every mini-batch, which reduces the variance of the gradient.
    // ANCHOR: wrapper
    let mut bayesian = BayesianConfig::new(loader.num_items(), VifaConfig::new().with_rank(4))
        .with_draws(2)
        .with_antithetic(true)
        .with_seed(seed)
        .init(model);
    let mut optimizer = FusedAdamConfig::new().init();
    // ANCHOR_END: wrapper

    println!("epoch  training loss  test accuracy  test NLL");
    // ANCHOR: loop
    for epoch in 1..=epochs {
        let mut losses = Vec::new();
        for batch in loader.iter() {
            let output = TrainStep::step(&bayesian, batch?);
            bayesian = bayesian.optimize(&mut optimizer, LEARNING_RATE.into(), output.grads);
            losses.push(output.item.loss.into_scalar::<f64>());
        }
        if epoch.is_multiple_of(5) || epoch == epochs {
            let prediction = bayesian.predict(held_out.clone(), 20)?;
            let scores = ClassScores::new(prediction.draw_probabilities, &test)?;
            let loss = losses.iter().sum::<f64>() / losses.len() as f64;
            println!(
                "{epoch:>5}  {loss:>13.3}  {:>13.3}  {:>8.3}",
                scores.accuracy, scores.nll
            );
        }
    }
    // ANCHOR_END: loop
    println!("{} optimiser steps", bayesian.steps());
    Ok(())
}
