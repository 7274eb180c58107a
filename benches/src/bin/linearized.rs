//! Predictions in closed form with the linearised network, beside forward passes and draws, in turns.
//!
//! ```text
//! cargo run --profile bench --bin linearized
//! ```
#![allow(clippy::print_stdout, reason = "a program's report")]

use std::hint::black_box;
use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::tensor::{Device, Distribution, Tensor};
use burn_bayes::graph::Layout;
use burn_bayes::laplace::{LinearizedOutputs, ModelOutputs};
use burn_bayes::{Error, FactorPosterior, Noise, Predictor};
use burn_bayes_benches::{MlpClassifier, ratios};

const ROWS: usize = 1000;
const DRAWS: usize = 100;
const ROUNDS: usize = 9;

fn main() -> Result<(), Error> {
    for widths in [
        &[13, 50, 1][..],
        &[1, 50, 50, 1],
        &[64, 200, 200, 1],
        &[64, 200, 200, 10],
        &[784, 400, 400, 10],
    ] {
        for rank in [1, 10, 20] {
            compare(widths, rank)?;
        }
    }
    Ok(())
}

/// Times the predictions of a network with random weights and a random posterior of this rank, in both forms.
fn compare(widths: &[usize], rank: usize) -> Result<(), Error> {
    let device = Device::default();
    device.seed(0);
    let model = MlpClassifier::new(widths, &device);
    let layout = Arc::new(Layout::new(&model, &ParamGroup::all())?);
    let inputs = Tensor::<2>::random([ROWS, widths[0]], Distribution::Normal(0.0, 1.0), &device);
    let mean = layout.flatten(&model)?;
    let shape = [rank, layout.len()];
    let factors = Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), &device);
    let diagonal = Tensor::<1>::full([layout.len()], 1e-4, &device);
    let covariance = FactorPosterior::covariance(
        layout.clone(),
        mean.clone(),
        Some(factors.clone() * 1e-2),
        diagonal.clone(),
    )?;
    let precision = FactorPosterior::precision(layout, mean, Some(factors), diagonal.recip())?;
    let predictor = Predictor::new(model.clone(), covariance, Noise::new(0))?;
    let linearized = predictor.linearized()?;
    let of_precision = Predictor::new(model.clone(), precision, Noise::new(0))?.linearized()?;
    let model = model.valid();
    let mut forward = || {
        black_box(model.outputs(inputs.clone()).into_data());
    };
    let mut closed = || read(linearized.outputs(&inputs));
    let mut closed_of_precision = || read(of_precision.outputs(&inputs));
    let mut linear_draws = || {
        let draws = linearized.draws(&inputs, Noise::new(0), DRAWS);
        black_box(draws.expect("draws").var(0).into_data());
    };
    let mut draws = || {
        let outputs = predictor.map_draws(DRAWS, |net| net.outputs(inputs.clone()));
        let outputs: Tensor<3> = Tensor::stack(outputs.expect("draws"), 0);
        black_box(outputs.var(0).into_data());
    };
    let title = format!(
        "{widths:?}, {ROWS} rows, K = {rank}: at most {} forward passes",
        rank + 2
    );
    let mut works: [(&str, &mut dyn FnMut()); 5] = [
        ("forward pass", &mut forward),
        ("closed form, covariance", &mut closed),
        ("closed form, precision", &mut closed_of_precision),
        ("100 linearised draws", &mut linear_draws),
        ("100 draws of the network", &mut draws),
    ];
    ratios::in_turns(&title, ROUNDS, &mut works);
    Ok(())
}

/// Waits for the result.
fn read(outputs: burn_bayes::Result<LinearizedOutputs>) {
    let outputs = outputs.expect("a prediction");
    black_box((outputs.mean.into_data(), outputs.variance.into_data()));
}
