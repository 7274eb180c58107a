//! A posterior saved by one program and used for predictions by another.
//!
//! `cargo run --example predict_from_files`
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::path::Path;

use burn::module::ParamGroup;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use burn_bayes::posterior::{Mixture, PointPosterior, Posterior};
use burn_bayes::{Predictor, Result};

fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("burn-bayes-ensemble-{}", std::process::id()));
    first_program(&folder)?;
    second_program(&folder)?;
    std::fs::remove_dir_all(&folder).ok();
    Ok(())
}

/// Models trained from five initialisations form a deep ensemble.
fn first_program(folder: &Path) -> Result<()> {
    let device = Device::default();
    let members = (0..5).map(|_| {
        let trained = LinearConfig::new(2, 3).init(&device);
        PointPosterior::of(&trained, &ParamGroup::all())
    });
    Mixture::uniform(members.collect::<Result<_>>()?)?.save(folder)
}

fn second_program(folder: &Path) -> Result<()> {
    let device = Device::default();
    // ANCHOR: predict
    let model = LinearConfig::new(2, 3).init(&device);
    let ensemble = Mixture::<PointPosterior>::load(folder, &device)?;
    let predictor = Predictor::restore(model, ensemble)?;

    let input = Tensor::<2>::from_data([[0.5, -1.0]], &device);
    let outputs = predictor.map_draws(20, |model: &Linear| {
        softmax(model.forward(input.clone()), 1)
    })?;
    // ANCHOR_END: predict
    let outputs = Tensor::cat(outputs, 0);
    println!(
        "mean probabilities: {}",
        outputs.clone().mean_dim(0).to_data()
    );
    println!(
        "deviation between draws: {}",
        outputs.var(0).sqrt().to_data()
    );
    Ok(())
}
