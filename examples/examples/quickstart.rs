//! A classifier trained twice with Burn's Learner: without and with a posterior over its weights.
//!
//! ```text
//! cargo run --example quickstart
//! cargo run --example quickstart -- --seed 1 --out target/quickstart
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::path::Path;

use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::tensor::activation::softmax;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{InferenceStep, Learner, LearnerModel, SupervisedTraining, TrainStep};
use burn_bayes::prelude::*;
use burn_bayes::{BayesianConfig, FusedAdamConfig};
use burn_bayes_examples::{
    Arguments, ClassBatch, ClassRow, ClassScores, Classifier, EpochLines, Glyphs, class_loader,
    is_smoke,
};

const HIDDEN: usize = 64;
const BATCH: usize = 32;
const LEARNING_RATE: f64 = 2e-3;

struct Data {
    train: Vec<ClassRow>,
    valid: Vec<ClassRow>,
    test: Vec<ClassRow>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "epochs", "out"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let epochs: usize = arguments.get("epochs", if is_smoke() { 2 } else { 40 })?;
    let folder = arguments.output_folder("quickstart")?;
    let data = data(seed);
    let device = Device::default();
    let test = ClassBatch::new(&data.test, &device);

    // The plain model.
    device.seed(seed);
    let model = Classifier::new(
        Glyphs::PIXELS,
        HIDDEN,
        Glyphs::CLASSES,
        &device.clone().autodiff(),
    );
    let plain = training(&data, seed, epochs, "plain model", &folder.join("plain"))
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .launch(Learner::new(
            model.clone(),
            AdamConfig::new().init(),
            LEARNING_RATE,
        ))
        .model;
    let logits = plain.forward(test.inputs.clone());
    let plain = ClassScores::new(softmax(logits, 1).unsqueeze(), &data.test)?;

    // ANCHOR: posterior
    // The same model with a posterior over its weights.
    let config =
        BayesianConfig::new(data.train.len(), VifaConfig::new().with_rank(4)).with_seed(seed);
    let bayesian = training(&data, seed, epochs, "posterior", &folder.join("posterior"))
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .launch(Learner::new(
            config.init(model),
            FusedAdamConfig::new().init(),
            LEARNING_RATE,
        ))
        .model;
    // ANCHOR_END: posterior
    let prediction = bayesian.predict(test, 100)?;
    let averaged = ClassScores::new(prediction.draw_probabilities, &data.test)?;
    // ANCHOR: save
    let file = folder.join("posterior.safetensors");
    bayesian.posterior().save(&file)?;
    // ANCHOR_END: save

    print(&plain, &averaged, data.test.len());
    println!("\nThe posterior is in {}", file.display());
    Ok(())
}

/// Disjoint training, validation and test rows.
fn data(seed: u64) -> Data {
    let [train, valid, test] = Glyphs::sets(seed);
    Data { train, valid, test }
}

// ANCHOR: training
/// Burn's training of any model with these mini-batches.
fn training<M>(
    data: &Data,
    seed: u64,
    epochs: usize,
    name: &str,
    folder: &Path,
) -> SupervisedTraining<M>
where
    M: LearnerModel + TrainStep<Input = ClassBatch> + InferenceStep<Input = ClassBatch>,
{
    let device = Device::default();
    let train = class_loader(
        data.train.clone(),
        BATCH,
        Some(seed),
        &device.clone().autodiff(),
    );
    let valid = class_loader(data.valid.clone(), 250, None, &device);
    let training = SupervisedTraining::new(folder, train, valid)
        .num_epochs(epochs)
        .label(name)
        .with_application_logger(None);
    let interrupter = training.interrupter();
    training.renderer(EpochLines::renderer(10, interrupter))
}
// ANCHOR_END: training

fn print(plain: &ClassScores, averaged: &ClassScores, rows: usize) {
    println!("\n{rows} test rows              plain  posterior");
    let lines = [
        ("accuracy", plain.accuracy, averaged.accuracy),
        ("mean confidence", plain.confidence, averaged.confidence),
        ("negative log-likelihood", plain.nll, averaged.nll),
        (
            "calibration error",
            plain.calibration_error,
            averaged.calibration_error,
        ),
    ];
    for (name, plain, averaged) in lines {
        println!("{name:<24} {plain:>9.3}  {averaged:>9.3}");
    }
    println!("\naccuracy on the rows that are kept when the least certain are referred");
    println!("kept   plain, entropy  posterior, entropy  posterior, disagreement");
    for (index, kept) in ClassScores::KEPT.iter().enumerate() {
        let disagreement = averaged
            .by_disagreement
            .as_ref()
            .map(|column| column[index]);
        println!(
            "{:>3.0} %  {:>14.3}  {:>18.3}  {:>23.3}",
            100.0 * kept,
            plain.by_entropy[index],
            averaged.by_entropy[index],
            disagreement.unwrap_or(f64::NAN),
        );
    }
}
