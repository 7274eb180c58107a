//! Complete SLANG steps, as in the script of the peer libraries: one draw, the per-example
//! gradients of the mini-batch, the new precision, the new mean.
//!
//! ```text
//! cargo run --profile bench --bin slang_step
//! ```
#![allow(clippy::print_stdout, reason = "a program's report")]

use std::time::Instant;

use burn::module::Module;
use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::train::TrainStep;
use burn_bayes::graph::ExampleBatch;
use burn_bayes::{BayesianConfig, ExampleLoss, SlangConfig};
use burn_bayes_benches::{
    MlpClassifier, MlpRegressor, classification_batch, regression_batch, wait,
};

fn main() {
    let device = Device::default();
    device.seed(0);
    let trained = device.clone().autodiff();
    for rank in [1, 8, 32] {
        let model = MlpClassifier::new(&[784, 400, 400, 10], &trained);
        let batch = classification_batch(64, 784, 10, &device);
        let name = format!("784-400-400-10, M = 64, L = {rank}");
        measure(&name, model, rank, 60_000, batch, [7, 10]);
    }
    for rank in [1, 8, 32] {
        let model = MlpRegressor::new(&[13, 50, 1], &trained);
        let batch = regression_batch(10, 13, &device);
        let name = format!("13-50-1, M = 10, L = {rank}");
        measure(&name, model, rank, 455, batch, [9, 200]);
    }
}

/// Prints the median time of a step over rounds.
fn measure<M, B>(
    name: &str,
    model: M,
    rank: usize,
    train_len: usize,
    batch: B,
    [rounds, steps]: [usize; 2],
) where
    M: Module + burn::module::ModuleDisplay + ExampleLoss + TrainStep<Input = B> + 'static,
    M: TrainStep<Output: burn_bayes::likelihood::MixDraws>,
    B: ExampleBatch,
{
    let config = BayesianConfig::new(train_len, SlangConfig::new().with_rank(rank));
    let mut bayesian = Some(config.init(model));
    let mut optimizer = AdamConfig::new().init();
    let mut run = |steps: usize| {
        let start = Instant::now();
        for _ in 0..steps {
            bayesian = bayesian.take().map(|bayesian| {
                let output = TrainStep::step(&bayesian, batch.clone());
                bayesian.optimize(&mut optimizer, 1e-4.into(), output.grads)
            });
        }
        wait();
        start.elapsed().as_secs_f64() / steps as f64
    };
    run(steps);
    let mut times: Vec<f64> = (0..rounds).map(|_| run(steps)).collect();
    times.sort_by(f64::total_cmp);
    println!("{name}: {:.4} ms a step", 1e3 * times[rounds / 2]);
}
