//! SLANG on a convolutional network: a low-rank precision learned from per-example gradients,
//! compared with the same network trained without a posterior.
//!
//! ```text
//! cargo run --example slang_cnn
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::tensor::activation::softmax;
use burn::train::TrainStep;
use burn_bayes::BayesianConfig;
use burn_bayes::methods::Rate;
use burn_bayes::prelude::*;
use burn_bayes_examples::{
    Arguments, ClassRow, ClassScores, Cnn, Glyphs, ImageBatch, ImageBatcher, is_smoke,
};

const BATCH: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "epochs", "rank"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let epochs: usize = arguments.get("epochs", if is_smoke() { 2 } else { 15 })?;
    let rank: usize = arguments.get("rank", 4)?;
    let (count, held_out) = if is_smoke() { (160, 100) } else { (2000, 2000) };
    let digits = |seed| Glyphs { noise: 0.35, seed };
    let train = digits(2 * seed + 1).rows(count);
    let test = digits(2 * seed + 2).rows(held_out);

    let device = Device::default();
    device.seed(seed);
    let training_device = device.clone().autodiff();
    let model = Cnn::new(&training_device);
    let batch = ImageBatcher.batch(test.clone(), &device);

    let plain = trained_plainly(model.clone(), train.clone(), epochs, seed)?.valid();
    let probabilities = softmax(plain.forward(batch.images.clone()), 1);
    report(
        "plain",
        &ClassScores::new(probabilities.unsqueeze(), &test)?,
    );

    let loader = shuffled(train, seed);
    // ANCHOR: training
    let mut bayesian = BayesianConfig::new(
        loader.num_items(),
        SlangConfig::new()
            .with_rank(rank)
            .with_momentum(0.9)
            .with_covariance_rate(Rate::Constant(0.05)),
    )
    .with_draws(2)
    .with_prior(Prior::isotropic(10.0))
    .with_seed(seed)
    .init(model);
    // `optimize` takes an optimiser, but SLANG's updates are in closed form.
    let mut optimizer = AdamConfig::new().init();
    for epoch in 0..epochs {
        let learning_rate = 0.1 / (1.0 + epoch as f64);
        for batch in loader.iter() {
            let output = TrainStep::step(&bayesian, batch?);
            bayesian = bayesian.optimize(&mut optimizer, learning_rate.into(), output.grads);
        }
    }
    let prediction = bayesian.predict(batch, 50)?;
    // ANCHOR_END: training
    report(
        &format!("SLANG-{rank}"),
        &ClassScores::new(prediction.draw_probabilities, &test)?,
    );
    Ok(())
}

/// Mini-batches, shuffled in every epoch.
fn shuffled(rows: Vec<ClassRow>, seed: u64) -> Arc<dyn DataLoader<ImageBatch>> {
    DataLoaderBuilder::new(ImageBatcher)
        .batch_size(BATCH)
        .shuffle(seed)
        .set_device(Device::default().autodiff())
        .build(InMemDataset::new(rows))
}

/// The same network with Adam.
fn trained_plainly(
    mut model: Cnn,
    train: Vec<ClassRow>,
    epochs: usize,
    seed: u64,
) -> Result<Cnn, Box<dyn Error>> {
    let loader = shuffled(train, seed);
    let mut optimizer = AdamConfig::new().init();
    for _ in 0..epochs {
        for batch in loader.iter() {
            let output = TrainStep::step(&model, batch?);
            model = model.optimize(&mut optimizer, 2e-3.into(), output.grads);
        }
    }
    Ok(model)
}

fn report(name: &str, scores: &ClassScores) {
    let [first, .., last] = &scores.by_entropy[..] else {
        return;
    };
    println!(
        "{name:<8}  accuracy {:.3}  NLL {:.3}  ECE {:.3}  accuracy at 90 % kept {first:.3}, at 50 % {last:.3}",
        scores.accuracy, scores.nll, scores.calibration_error
    );
}
