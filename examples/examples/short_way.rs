//! A fit in one call, its verdict, and a second program that predicts from its file.
//!
//! `cargo run --example short_way`
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::path::Path;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::tanh;
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_bayes::prelude::*;
use burn_bayes_examples::is_smoke;

/// One hidden layer.
#[derive(Module, Debug)]
struct Net {
    hidden: Linear,
    head: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        Self {
            hidden: LinearConfig::new(1, 20).init(device),
            head: LinearConfig::new(20, 1).init(device),
        }
    }

    fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.head.forward(tanh(self.hidden.forward(inputs)))
    }
}

fn main() -> burn_bayes::Result<()> {
    let file = std::env::temp_dir().join(format!(
        "burn-bayes-sine-{}.safetensors",
        std::process::id()
    ));
    first_program(&file)?;
    second_program(&file)?;
    std::fs::remove_file(&file).ok();
    Ok(())
}

fn first_program(file: &Path) -> burn_bayes::Result<()> {
    let device = Device::default();
    device.seed(0);
    // A sine curve between −1 and 1, with noise of deviation 0.1.
    let x = Tensor::<1, Int>::arange(-100..100, &device)
        .float()
        .reshape([200, 1])
        / 100.0;
    let noise = Tensor::random([200, 1], Distribution::Normal(0.0, 0.1), &device);
    let y = (x.clone() * 3.0).sin() + noise;
    let auto = match is_smoke() {
        true => Auto::new().with_budget(Some(0.01)),
        false => Auto::new(),
    };

    // ANCHOR: fit
    let likelihood = Likelihood::Gaussian {
        noise_precision: 1.0,
    };
    let model = Supervised::new(Net::new(&device), Net::forward, likelihood);
    let fit = Fit::new(auto).with_learned_noise();
    let (fitted, verdict) = fit.run(model, (x, y))?;
    println!("{verdict}");
    println!("{:?}", fitted.likelihood());
    fitted.save(file)?;
    // ANCHOR_END: fit
    Ok(())
}

fn second_program(file: &Path) -> burn_bayes::Result<()> {
    let device = Device::default();
    // ANCHOR: load
    let fitted: Fitted<Net> = Fitted::load(file, Net::new(&device), Net::forward)?;
    let prediction = fitted.predict(Tensor::from_data([[0.5], [3.0]], &device))?;
    println!("mean {}", prediction.mean());
    println!("deviation {}", prediction.deviation());
    println!("95 % lie below {}", prediction.quantiles(0.95)?);
    // ANCHOR_END: load
    Ok(())
}
