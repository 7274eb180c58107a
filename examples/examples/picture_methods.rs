//! A convolutional network with batch normalisation and dropout, trained in five ways and saved: plain,
//! VIFA, SWAG, with a Laplace approximation of its last layer, and five times.
//!
//! ```text
//! cargo run --release --example picture_methods
//! cargo run --release --example picture_predict
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

// ANCHOR: imports
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use burn::module::{Module, ParamGroup};
use burn::tensor::Device;
use burn::train::TrainStep;
use burn_bayes::laplace::Laplace;
use burn_bayes::methods::LearningRates;
use burn_bayes::posterior::{Mixture, PointPosterior};
use burn_bayes::prelude::*;
use burn_bayes::train::{Batches, PostHoc, Trainer, TrainerModel};
use burn_bayes::{FusedAdamConfig, Noise};
use burn_bayes_examples::{
    Arguments, AugmentedPictures, ImageBatch, PictureNet, Pictures, is_smoke, picture_batch,
};
// ANCHOR_END: imports

const BATCH: usize = 50;
const MEMBERS: u64 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "epochs", "out"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let epochs = arguments.get("epochs", if is_smoke() { 2 } else { 15 })?;
    let folder = arguments.output_folder("pictures")?;

    // ANCHOR: data
    let device = Device::default().autodiff();
    let [rows, _, _] = Pictures::digits(seed);
    let train_len = rows.len();
    let training = Training {
        pictures: AugmentedPictures {
            rows,
            batch_size: BATCH,
            noise: Noise::new(seed),
            device: device.clone(),
        },
        epochs,
    };
    let new_net = |seed| {
        device.seed(seed);
        PictureNet::new(&device)
    };
    // ANCHOR_END: data
    let weights = new_net(seed).num_params();
    println!("{train_len} pictures, {weights} weights, {epochs} epochs, seed {seed}");

    // ANCHOR: plain
    let start = Instant::now();
    let plain = training.run(new_net(seed), LearningRates::PLAIN, seed)?;
    let all = ParamGroup::all();
    let posterior = PointPosterior::of(&plain, &all)?;
    // ANCHOR_END: plain
    let costs = Costs::new(&folder, start.elapsed());
    costs.save("plain.safetensors", posterior.clone(), costs.plain)?;

    // ANCHOR: vifa
    let start = Instant::now();
    let config = BayesianConfig::new(train_len, VifaConfig::new()).with_seed(seed);
    let (rates, model) = (config.learning_rates(), config.init(new_net(seed)));
    let vifa = training.run(model, rates, seed)?;
    // ANCHOR_END: vifa
    costs.save("vifa.safetensors", vifa.posterior(), start.elapsed())?;

    // ANCHOR: swag
    let start = Instant::now();
    let config = BayesianConfig::new(train_len, SwagConfig::new())
        .with_steps(training.steps() as u64)
        .with_seed(seed);
    let (rates, model) = (config.learning_rates(), config.init(new_net(seed)));
    let swag = training.run(model, rates, seed)?;
    // ANCHOR_END: swag
    costs.save("swag.safetensors", swag.posterior(), start.elapsed())?;

    // ANCHOR: laplace
    let start = Instant::now();
    let laplace = Laplace::new(train_len).with_group(ParamGroup::from_predicate("head."));
    let as_they_are = training.pictures.rows.chunks(250);
    let as_they_are = as_they_are.map(|rows| picture_batch(rows, &device));
    let laplace = laplace.fit(&plain, as_they_are)?;
    // ANCHOR_END: laplace
    costs.save(
        "laplace.safetensors",
        laplace,
        costs.plain + start.elapsed(),
    )?;

    // ANCHOR: five
    let start = Instant::now();
    let mut members = vec![posterior];
    for member in 1..MEMBERS {
        let seed = seed + 1000 * member;
        let net = training.run(new_net(seed), LearningRates::PLAIN, seed)?;
        members.push(PointPosterior::of(&net, &all)?);
    }
    let five = Mixture::uniform(members)?;
    // ANCHOR_END: five
    costs.save("five", five, costs.plain + start.elapsed())?;
    println!("\nthe models are in {}", folder.display());
    Ok(())
}

// ANCHOR: training
/// What all trainings have in common.
struct Training {
    pictures: AugmentedPictures,
    epochs: usize,
}

impl Training {
    fn steps(&self) -> usize {
        self.epochs * self.pictures.per_epoch()
    }

    /// Trains a plain network, or one with a posterior.
    fn run<L>(&self, model: L, rates: LearningRates, seed: u64) -> Result<L, Box<dyn Error>>
    where
        L: TrainerModel + TrainStep<Input = ImageBatch>,
    {
        let rates = rates.over(self.steps());
        let trainer = Trainer::new(model, FusedAdamConfig::new().init(), rates.init())
            .with_epochs(self.epochs)
            .with_seed(seed);
        let run = trainer.run(&self.pictures, &mut ())?;
        if let Some(verdict) = run.verdict {
            println!("  verdict: {verdict}");
        }
        Ok(run.trainer.into_model())
    }
}
// ANCHOR_END: training

/// Saves models, and prints what they cost.
struct Costs<'a> {
    folder: &'a Path,
    /// The time of the plain training.
    plain: Duration,
}

impl<'a> Costs<'a> {
    fn new(folder: &'a Path, plain: Duration) -> Self {
        println!("\nfile                 seconds  × plain  kB");
        Self { folder, plain }
    }

    // ANCHOR: save
    fn save<P: Posterior>(
        &self,
        name: &str,
        posterior: P,
        time: Duration,
    ) -> Result<(), Box<dyn Error>> {
        let path = self.folder.join(name);
        posterior.save(&path)?;
        // ANCHOR_END: save
        println!(
            "{name:<20} {:>7.1}  {:>7.1}  {:>2.0}",
            time.as_secs_f64(),
            time.as_secs_f64() / self.plain.as_secs_f64(),
            bytes_in(&path)? as f64 / 1000.0,
        );
        Ok(())
    }
}

/// The size of a file, or of all files of a folder.
fn bytes_in(path: &Path) -> std::io::Result<u64> {
    if path.is_file() {
        return Ok(path.metadata()?.len());
    }
    let files = std::fs::read_dir(path)?;
    files.map(|file| bytes_in(&file?.path())).sum()
}
