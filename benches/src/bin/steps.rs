//! The time of a step in [`Trainer`]: small networks, epochs of 455 rows in mini-batches of 10, one thread.
//!
//! ```text
//! cargo run --profile bench --bin steps -- adam vifa von slang
//! ```
//!
//! The words choose methods; without any, all are timed.
#![allow(clippy::print_stdout, reason = "a program's report")]

use std::ops::ControlFlow;
use std::time::Instant;

use burn::optim::ModuleOptimizer;
use burn::tensor::Device;
use burn_bayes::methods::{BayesianConfig, MeanStage, VonConfig};
use burn_bayes::train::{Batches, EpochSummary, Trainer, TrainerModel, TrainingObserver};
use burn_bayes::{Error, FusedAdamConfig, SlangConfig, SwagConfig, VifaConfig};
use burn_bayes_benches::{MlpClassifier, MlpRegressor, classification_batch, regression_batch};

const ROWS: usize = 455;
const BATCH: usize = 10;
const EPOCHS: usize = 200;

fn main() {
    let device = Device::default().autodiff();
    let regression: Vec<_> = sizes()
        .map(|rows| regression_batch(rows, 13, &device))
        .collect();
    let classes: Vec<_> = sizes()
        .map(|rows| classification_batch(rows, 13, 2, &device))
        .collect();
    let regressor = || MlpRegressor::new(&[13, 50, 1], &device);
    let classifier = || MlpClassifier::new(&[13, 50, 2], &device);
    let adam = || FusedAdamConfig::new().init();
    println!("median µs of a step");
    report("adam, 13-50-1", regressor(), adam(), &regression);
    for draws in [1, 4, 16] {
        let config = BayesianConfig::new(ROWS, VifaConfig::new())
            .with_draws(draws)
            .with_mean_stage(MeanStage::None);
        let model = config.init(regressor()).with_batched_draws();
        report(
            &format!("vifa, 13-50-1, draws {draws}"),
            model,
            adam(),
            &regression,
        );
    }
    let swag = BayesianConfig::new(ROWS, SwagConfig::new()).with_steps(4600);
    let swag = swag.init(regressor()).with_batched_draws();
    report("swag, 13-50-1", swag, adam(), &regression);
    let von = BayesianConfig::new(ROWS, VonConfig::new()).with_mean_stage(MeanStage::None);
    let von = von.init(regressor()).with_batched_draws();
    report("von, 13-50-1", von, adam(), &regression);
    for rank in [1, 8, 32] {
        let config = BayesianConfig::new(ROWS, SlangConfig::new().with_rank(rank))
            .with_mean_stage(MeanStage::None);
        let model = config.init(classifier());
        report(
            &format!("slang, 13-50-2, rank {rank}"),
            model,
            adam(),
            &classes,
        );
    }
}

/// The rows of every mini-batch.
fn sizes() -> impl Iterator<Item = usize> {
    (0..ROWS)
        .step_by(BATCH)
        .map(|first| BATCH.min(ROWS - first))
}

struct InMemory<'a, B>(&'a [B]);

impl<B: Clone> Batches for InMemory<'_, B> {
    type Batch = B;

    fn per_epoch(&self) -> usize {
        self.0.len()
    }

    fn epoch(&self, _epoch: usize, first: usize) -> impl Iterator<Item = B> {
        self.0[first..].iter().cloned()
    }
}

/// The times at which epochs ended.
struct Clock(Vec<Instant>);

impl<L> TrainingObserver<L> for Clock {
    type Error = Error;

    fn epoch(&mut self, _summary: &EpochSummary, _model: &L) -> Result<ControlFlow<()>, Error> {
        self.0.push(Instant::now());
        Ok(ControlFlow::Continue(()))
    }
}

fn report<L>(name: &str, model: L, optimizer: ModuleOptimizer, batches: &[L::Input])
where
    L: TrainerModel<Input: Clone>,
{
    let mut words = std::env::args().skip(1).peekable();
    if words.peek().is_some() && !words.any(|word| name.contains(&word)) {
        return;
    }
    let trainer = Trainer::new(model, optimizer, 1e-3)
        .with_epochs(EPOCHS)
        .without_verdict();
    let mut clock = Clock(Vec::new());
    let run = trainer.run(&InMemory(batches), &mut clock);
    run.unwrap_or_else(|error| panic!("{name}: {error}"));
    let steps = batches.len() as f64;
    let mut times: Vec<f64> = clock
        .0
        .windows(2)
        .map(|ends| (ends[1] - ends[0]).as_secs_f64() / steps)
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:28} {:7.1}", times[times.len() / 2] * 1e6);
}
