//! Samples from the posterior of a network by four chains, and whether they agree.
//!
//! `cargo run --release --example sampling`
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::silu;
use burn::tensor::{Device, Distribution, Int, Tensor};
use burn_bayes::Noise;
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::likelihood::Prediction;
use burn_bayes::prelude::*;
use burn_bayes::sampling::SamplingConfig;
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
            hidden: LinearConfig::new(1, 16).init(device),
            head: LinearConfig::new(16, 1).init(device),
        }
    }

    fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        self.head.forward(silu(self.hidden.forward(inputs)))
    }
}

fn main() -> burn_bayes::Result<()> {
    let device = Device::default();
    device.seed(0);
    // A sine curve on both sides of a gap between −.7 and .7, with noise of deviation 0.1.
    let x = Tensor::<1, Int>::arange(0..100, &device).float() / 100.0;
    let x = Tensor::cat(vec![x.clone() - 1.7, x + 0.7], 0).reshape([200, 1]);
    let noise = Tensor::random([200, 1], Distribution::Normal(0.0, 0.1), &device);
    let y = (x.clone() * 3.0).sin() + noise;
    let config = SamplingConfig::new();
    let config = match is_smoke() {
        true => config
            .with_warm_up_steps(50)
            .with_tuning_steps(50)
            .with_steps(50),
        false => config,
    };

    // ANCHOR: sample
    let model = || {
        let likelihood = Likelihood::Gaussian {
            noise_precision: 100.0,
        };
        Supervised::new(Net::new(&device), Net::forward, likelihood)
    };
    // Four chains, which start at networks with initial weights of their own.
    let models: Vec<_> = (0..4).map(|_| model()).collect();
    let samples = config.sample(&models, &[(x.clone(), y)])?;
    if let Some(agreement) = samples.agreement(&models[0], &x)? {
        println!("{agreement}");
    }
    let predictor = Predictor::new(models[0].clone(), samples.posterior()?, Noise::new(0))?;
    let inputs = Tensor::<2>::from_data([[-1.2], [0.0], [1.2], [3.0]], &device);
    let outputs = predictor.map_draws(200, |model| model.forward(inputs.clone()))?;
    let prediction = Prediction::new(model().likelihood(), Tensor::stack(outputs, 0));
    println!("mean {}", prediction.mean());
    println!("deviation {}", prediction.deviation());
    // ANCHOR_END: sample
    Ok(())
}
