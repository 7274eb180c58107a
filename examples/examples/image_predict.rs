//! Predictions with the posterior saved by `image_model`, for images like the training images,
//! corrupted images, and images without a digit.
//!
//! ```text
//! cargo run --example image_model
//! cargo run --example image_predict
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

// ANCHOR: imports
use std::error::Error;

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::Device;
use burn::tensor::activation::softmax;
use burn::train::metric::Adaptor;
use burn_bayes::Predictor;
use burn_bayes::eval::{accuracy, max_probability, mutual_information, predictive_entropy};
use burn_bayes::likelihood::ClassificationDraws;
use burn_bayes::prelude::*;
use burn_bayes_examples::{Arguments, ClassRow, Cnn, Glyphs, ImageBatcher};
// ANCHOR_END: imports

// ANCHOR: load
fn main() -> Result<(), Box<dyn Error>> {
    let folder = Arguments::read(&["out"])?.output_folder("image-model")?;
    let file = folder.join("posterior.safetensors");
    let device = Device::default();
    let posterior = FactorPosterior::load(&file, &device)?;
    let predictor = Predictor::restore(Cnn::new(&device), posterior)?;
    // ANCHOR_END: load

    // ANCHOR: pictures
    let [_, _, mut test] = Glyphs::sets(0);
    test.truncate(1000);
    let noisier = Glyphs {
        noise: 0.8,
        seed: 4,
    }
    .rows(test.len());
    let half_black = changed(&test, |pixels| pixels[54..].fill(0.0));
    let upside_down = changed(&test, <[f32]>::reverse);
    let negative = changed(&test, |pixels| {
        pixels.iter_mut().for_each(|p| *p = 1.0 - *p)
    });
    let sets = [
        ("as in training", test),
        ("more noise", noisier),
        ("lower half black", half_black),
        ("upside down", upside_down),
        ("negative", negative),
    ];
    // ANCHOR_END: pictures

    // ANCHOR: predict
    println!("                            confidence of");
    println!("pictures          accuracy  mean weights  draws  entropy  mutual information");
    for (name, rows) in sets {
        let batch = ImageBatcher.batch(rows, &device);
        let logits = predictor.mean_model()?.forward(batch.images.clone());
        let at_mean: f32 = softmax(logits, 1).max_dim(1).mean().into_scalar();
        let prediction: ClassificationDraws = predictor.predict(batch, 50)?.adapt();
        let prediction = prediction.read()?;
        println!(
            "{name:<16}  {:>8.3}  {at_mean:>12.3}  {:>5.3}  {:>7.3}  {:>18.3}",
            accuracy(&prediction.labelled()),
            mean(max_probability(prediction.average())),
            mean(predictive_entropy(prediction.average())),
            mean(mutual_information(prediction.draws())),
        );
    }
    Ok(())
}
// ANCHOR_END: predict

// ANCHOR: helpers
fn changed(rows: &[ClassRow], change: impl Fn(&mut [f32])) -> Vec<ClassRow> {
    let mut rows = rows.to_vec();
    rows.iter_mut().for_each(|row| change(&mut row.features));
    rows
}

fn mean(values: Vec<f64>) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
// ANCHOR_END: helpers
