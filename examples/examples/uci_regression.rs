//! Small regression networks on UCI data: E6 for Energy and Boston, with one setting for both.
//!
//! One hidden layer of 50 rectifiers, 120 epochs, batches of 10 rows, inputs and target standardised
//! on the training rows. The noise precision is estimated on training rows that a first fit has not
//! seen; nothing looks at test rows before they are scored.
//!
//! `cargo run --example uci_regression [-- --method slang --set energy --splits 3]`, with the data in
//! `$BURN_BAYES_DATA` or `../shared/data`.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use burn::lr_scheduler::LrScheduler;
use burn::module::ParamGroup;
use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;
use burn_bayes::eval::{GaussianMixture, NoisePrecision, TargetScale, TargetedMixture, nmll, rmse};
use burn_bayes::prelude::*;
use burn_bayes::{Inference, InitialDeviation, PowerDecayConfig, Rate, Supply};
use burn_bayes_examples::{Activation, Arguments, RealBatch, Regressor, ToBatch, is_smoke};

const BATCH: usize = 10;
/// Draws averaged for a prediction.
const TEST_DRAWS: usize = 100;

/// What may be chosen, and was chosen on training rows of the first three splits.
#[derive(Clone, Copy, Debug)]
struct Settings {
    method: Method,
    epochs: usize,
    learning_rate: f64,
    /// Share of the epochs after which the learning rate has halved.
    half_life: f64,
    prior_precision: f64,
    initial_deviation: f64,
}

/// Published test RMSE and log-likelihood of VIFA and of SLANG.
struct Published {
    set: &'static str,
    folder: &'static str,
    vifa: [f64; 2],
    slang: [f64; 2],
}

const PUBLISHED: [Published; 2] = [
    Published {
        set: "energy",
        folder: "energy",
        vifa: [2.90, -2.53],
        slang: [0.64, -1.12],
    },
    Published {
        set: "boston",
        folder: "bostonHousing",
        vifa: [3.64, -2.66],
        slang: [3.21, -2.58],
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&[
        "method",
        "set",
        "splits",
        "epochs",
        "learning-rate",
        "half-life",
        "prior-precision",
        "deviation",
        "validate",
    ])?;
    let folder = std::env::var_os("BURN_BAYES_DATA").map_or("../shared/data".into(), PathBuf::from);
    let folder = folder.join("uci_regression");
    if !folder.is_dir() {
        println!(
            "skipped: no data in {} (set BURN_BAYES_DATA)",
            folder.display()
        );
        return Ok(());
    }
    let settings = Settings {
        method: arguments.get("method", Method::Vifa)?,
        epochs: arguments.get("epochs", if is_smoke() { 2 } else { 120 })?,
        learning_rate: arguments.get("learning-rate", 0.01)?,
        half_life: arguments.get("half-life", 0.1)?,
        prior_precision: arguments.get("prior-precision", 1.0)?,
        initial_deviation: arguments.get("deviation", 0.03)?,
    };
    let splits: usize = arguments.get("splits", if is_smoke() { 1 } else { 3 })?;
    let validate: bool = arguments.get("validate", false)?;
    let only: String = arguments.get("set", "all".into())?;

    println!("{settings:?}");
    for published in PUBLISHED
        .iter()
        .filter(|row| only == "all" || only == row.set)
    {
        let data = Table::read(&folder.join(published.folder))?;
        let scores = (0..splits)
            .map(|split| {
                let rows = data.split(split)?;
                let rows = if validate {
                    rows.held_out_training_rows()
                } else {
                    rows
                };
                let score = score(&rows, settings, split as u64)?;
                println!(
                    "{} split {split}: RMSE {:.3}, LL {:.3}, noise precision {:.2}",
                    published.set, score.rmse, score.log_likelihood, score.noise_precision
                );
                Ok(score)
            })
            .collect::<Result<Vec<_>, Box<dyn Error>>>()?;
        println!(
            "{}: RMSE {}, LL {}; published VIFA {:.2} / {:.2}, SLANG {:.2} / {:.2}",
            published.set,
            summary(&scores, |score| score.rmse),
            summary(&scores, |score| score.log_likelihood),
            published.vifa[0],
            published.vifa[1],
            published.slang[0],
            published.slang[1],
        );
    }
    Ok(())
}

/// Test scores on the original scale of the target.
struct Score {
    rmse: f64,
    log_likelihood: f64,
    noise_precision: f64,
}

/// Fits the training rows and scores the test rows.
fn score(rows: &Rows, settings: Settings, seed: u64) -> Result<Score, Box<dyn Error>> {
    // Where the noise is unknown, a network is fitted under a first guess, the errors on rows it
    // has not seen give a second one, and so on.
    let held_out = rows.held_out_training_rows();
    let mut noise_precision = 10.0;
    for _ in 0..2 {
        let fit = Fit::new(&held_out, settings, noise_precision, seed)?;
        let errors = rmse(&fit.mean(), &fit.standardised.targets(&held_out.test))?;
        noise_precision = errors.powi(-2).clamp(0.5, 1e4);
    }
    let fit = Fit::new(rows, settings, noise_precision, seed)?;
    let (scale, targets) = (fit.standardised.target, rows.test.targets.as_slice());
    let shared = NoisePrecision::Shared(noise_precision);
    let mixture = GaussianMixture::new(&fit.draws, TEST_DRAWS, targets.len(), shared)?;
    let mixture = mixture.unnormalised(TargetScale {
        mean: scale.mean,
        deviation: scale.deviation,
    })?;
    Ok(Score {
        rmse: rmse(&mixture.mean(), targets)?,
        log_likelihood: -nmll(&TargetedMixture::new(&mixture, targets)?),
        noise_precision,
    })
}

/// Predictions of test rows by a network trained on the training rows, on the standardised scale.
struct Fit {
    standardised: Standardised,
    /// Draw by draw.
    draws: Vec<f64>,
    rows: usize,
}

impl Fit {
    fn new(
        rows: &Rows,
        settings: Settings,
        noise_precision: f64,
        seed: u64,
    ) -> Result<Self, Box<dyn Error>> {
        let standardised = Standardised::new(&rows.train);
        let (inputs, targets) = standardised.narrow(&rows.train);
        let train = ToBatch {
            inputs: &inputs,
            targets: &targets,
        };
        let device = Device::default().autodiff();
        device.seed(seed);

        let width = standardised.inputs.len();
        let model = Regressor::new(
            width,
            &[50],
            Activation::Rectifier,
            noise_precision,
            &device,
        );
        let count = rows.train.targets.len();
        let steps = settings.epochs * count.div_ceil(BATCH);
        let (inputs, targets) = standardised.narrow(&rows.test);
        let test = ToBatch {
            inputs: &inputs,
            targets: &targets,
        }
        .all(&device.clone().inner());
        let draws = match settings.method {
            Method::Vifa => {
                // ANCHOR: network
                let bayes = VifaConfig::new(count)
                    .with_draws(4)
                    .with_prior(Prior::isotropic(settings.prior_precision))
                    .with_initial_deviation(InitialDeviation::OverRootFan(
                        settings.initial_deviation,
                    ))
                    .with_seed(seed)
                    .try_init(model)?;
                let half_life = settings.half_life * steps as f64;
                let mut rates = PowerDecayConfig::new(settings.learning_rate, half_life).init()?;
                // ANCHOR_END: network
                let rates = || LrScheduler::step(&mut rates);
                predicted(bayes, train, test, settings.epochs, rates, seed, &device)?
            }
            Method::Slang => {
                // ANCHOR: slang
                let prior = Prior::isotropic(settings.prior_precision)
                    .with_group(ParamGroup::from_predicate("bias"), 1e-6);
                let bayes = SlangConfig::new(count)
                    .with_draws(4)
                    .with_prior(prior)
                    .with_precision_rate(Rate::Constant(settings.learning_rate))
                    .with_momentum(0.9)
                    .with_initial_deviation(Some(InitialDeviation::OverRootFan(
                        settings.initial_deviation,
                    )))
                    .with_seed(seed)
                    .try_init(model)?;
                // ANCHOR_END: slang
                let rates = || settings.learning_rate;
                predicted(bayes, train, test, settings.epochs, rates, seed, &device)?
            }
        };
        Ok(Self {
            standardised,
            draws,
            rows: targets.len(),
        })
    }

    /// The mean over draws.
    fn mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.rows];
        for draw in self.draws.chunks(self.rows) {
            for (mean, value) in mean.iter_mut().zip(draw) {
                *mean += value / TEST_DRAWS as f64;
            }
        }
        mean
    }
}

/// Trains, and predicts the test rows draw by draw.
fn predicted<A>(
    mut bayes: Bayesian<Regressor, A>,
    train: ToBatch<'_>,
    test: RealBatch,
    epochs: usize,
    mut rates: impl FnMut() -> f64,
    seed: u64,
    device: &Device,
) -> Result<Vec<f64>, Box<dyn Error>>
where
    A: Inference,
    A::Evidence: Supply<Regressor, A>,
{
    let mut optimizer = FusedAdamConfig::new().init();
    for epoch in 0..epochs as u64 {
        for batch in train.shuffled(BATCH, Noise::host(seed).fold(epoch), device) {
            let output = TrainStep::step(&bayes, batch);
            bayes = bayes.optimize(&mut optimizer, rates().into(), output.grads);
        }
    }
    let outputs: Tensor<3> = bayes.predict(test, TEST_DRAWS)?.draw_outputs;
    Ok(outputs.into_data().iter::<f64>().collect())
}

/// How the posterior is found.
#[derive(Clone, Copy, Debug)]
enum Method {
    Vifa,
    /// With the settings of the SLANG paper: a learning rate of 0.01 for mean and precision, momentum
    /// 0.9, hardly a prior on biases.
    Slang,
}

impl std::str::FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "vifa" => Ok(Self::Vifa),
            "slang" => Ok(Self::Slang),
            _ => Err("use vifa or slang".into()),
        }
    }
}

/// Mean and standard deviation of a column.
#[derive(Clone, Copy)]
struct Scale {
    mean: f64,
    deviation: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / count;
        let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        Self { mean, deviation }
    }

    fn apply(self, value: f64) -> f64 {
        (value - self.mean) / self.deviation
    }
}

/// The scales of the training rows.
struct Standardised {
    inputs: Vec<Scale>,
    target: Scale,
}

impl Standardised {
    fn new(rows: &Examples) -> Self {
        let column = |column: usize| Scale::new(rows.inputs.iter().map(move |row| row[column]));
        Self {
            inputs: (0..rows.inputs.first().map_or(0, Vec::len))
                .map(column)
                .collect(),
            target: Scale::new(rows.targets.iter().copied()),
        }
    }

    fn targets(&self, rows: &Examples) -> Vec<f64> {
        rows.targets
            .iter()
            .map(|&value| self.target.apply(value))
            .collect()
    }

    fn narrow(&self, rows: &Examples) -> (Vec<f32>, Vec<f32>) {
        let inputs = rows.inputs.iter().flat_map(|row| {
            row.iter()
                .zip(&self.inputs)
                .map(|(&value, scale)| scale.apply(value) as f32)
        });
        let targets = self.targets(rows).into_iter().map(|value| value as f32);
        (inputs.collect(), targets.collect())
    }
}

/// Inputs and targets.
#[derive(Clone, Default)]
struct Examples {
    inputs: Vec<Vec<f64>>,
    targets: Vec<f64>,
}

/// Training and test rows.
struct Rows {
    train: Examples,
    test: Examples,
}

impl Rows {
    /// The training rows alone, every fifth of them in the place of the test rows. The published
    /// splits are in random order, so every fifth row is a random fifth.
    fn held_out_training_rows(&self) -> Self {
        let mut rows = Self {
            train: Examples::default(),
            test: Examples::default(),
        };
        let examples = self.train.inputs.iter().zip(&self.train.targets);
        for (index, (inputs, &target)) in examples.enumerate() {
            let part = if index % 5 == 0 {
                &mut rows.test
            } else {
                &mut rows.train
            };
            part.inputs.push(inputs.clone());
            part.targets.push(target);
        }
        rows
    }
}

/// A data set with its published splits.
struct Table {
    folder: PathBuf,
    all: Examples,
}

impl Table {
    fn read(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let columns = indices(&folder.join("index_features.txt"))?;
        let target = indices(&folder.join("index_target.txt"))?[0];
        let mut all = Examples::default();
        for (number, line) in read_to_string(folder.join("data.txt"))?.lines().enumerate() {
            let row = line
                .split_whitespace()
                .map(str::parse::<f64>)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| format!("{} line {}: {error}", folder.display(), number + 1))?;
            if !row.is_empty() {
                all.inputs
                    .push(columns.iter().map(|&column| row[column]).collect());
                all.targets.push(row[target]);
            }
        }
        Ok(Self {
            folder: folder.into(),
            all,
        })
    }

    fn split(&self, split: usize) -> Result<Rows, Box<dyn Error>> {
        let part = |name: &str| -> Result<Examples, Box<dyn Error>> {
            let rows = indices(&self.folder.join(format!("index_{name}_{split}.txt")))?;
            Ok(Examples {
                inputs: rows
                    .iter()
                    .map(|&row| self.all.inputs[row].clone())
                    .collect(),
                targets: rows.iter().map(|&row| self.all.targets[row]).collect(),
            })
        };
        Ok(Rows {
            train: part("train")?,
            test: part("test")?,
        })
    }
}

/// Whole numbers, which some files write as decimals.
fn indices(path: &Path) -> Result<Vec<usize>, Box<dyn Error>> {
    let text = read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let numbers = text
        .split_whitespace()
        .map(|word| word.parse::<f64>().map(|value| value as usize));
    Ok(numbers
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{}: {error}", path.display()))?)
}

/// Mean ± standard error.
fn summary(scores: &[Score], of: impl Fn(&Score) -> f64) -> String {
    let count = scores.len() as f64;
    let mean = scores.iter().map(&of).sum::<f64>() / count;
    let squares = scores
        .iter()
        .map(|score| (of(score) - mean).powi(2))
        .sum::<f64>();
    format!(
        "{mean:.3} ± {:.3}",
        (squares / (count - 1.0).max(1.0) / count).sqrt()
    )
}
