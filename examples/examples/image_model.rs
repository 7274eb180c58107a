//! A convolutional network with a posterior over its weights, trained by Burn's Learner and saved
//! for predictions in another program.
//!
//! ```text
//! cargo run --example image_model
//! cargo run --example image_predict
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

// ANCHOR: imports
use std::error::Error;
use std::sync::Arc;

use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{Learner, SupervisedTraining};
use burn_bayes::BayesianConfig;
use burn_bayes::metric::{MutualInformationMetric, PredictiveEntropyMetric};
use burn_bayes::prelude::*;
use burn_bayes_examples::{
    Arguments, ClassRow, Cnn, EpochLines, Glyphs, ImageBatch, ImageBatcher, is_smoke,
};
// ANCHOR_END: imports

// ANCHOR: data
fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["epochs", "out"])?;
    let epochs = arguments.get("epochs", if is_smoke() { 2 } else { 60 })?;
    let folder = arguments.output_folder("image-model")?;

    let device = Device::default();
    device.seed(0);
    let [train_rows, valid_rows, _] = Glyphs::sets(0);
    let train_len = train_rows.len();
    let train = loader(train_rows, 32, device.clone().autodiff());
    let valid = loader(valid_rows, 250, device.clone());
    // ANCHOR_END: data

    // ANCHOR: wrap
    let model = Cnn::new(&device.autodiff());
    let bayesian = BayesianConfig::new(train_len, VifaConfig::new()).init(model);
    // ANCHOR_END: wrap

    // ANCHOR: train
    let training = SupervisedTraining::new(&folder, train, valid)
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .metric_valid_numeric(PredictiveEntropyMetric::new())
        .metric_valid_numeric(MutualInformationMetric::new())
        .num_epochs(epochs);
    let display = EpochLines::renderer(10, training.interrupter());
    let trained =
        training
            .renderer(display)
            .launch(Learner::new(bayesian, AdamConfig::new().init(), 5e-3));
    // ANCHOR_END: train

    // ANCHOR: save
    let file = folder.join("posterior.safetensors");
    trained.model.posterior().save(&file)?;
    println!("the posterior is in {}", file.display());
    Ok(())
}
// ANCHOR_END: save

// ANCHOR: loader
fn loader(
    rows: Vec<ClassRow>,
    batch_size: usize,
    device: Device,
) -> Arc<dyn DataLoader<ImageBatch>> {
    DataLoaderBuilder::new(ImageBatcher)
        .batch_size(batch_size)
        .shuffle(0)
        .set_device(device)
        .build(InMemDataset::new(rows))
}
// ANCHOR_END: loader
