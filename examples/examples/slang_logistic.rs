//! Logistic regression with SLANG: E5, the table of the SLANG poster.
//!
//! The full Gaussian and the mean-field Gaussian that are best by the variational bound are computed
//! with expectations by quadrature; SLANG of rank 1, 5 and 10 is trained as in the poster. The authors'
//! random halves cannot be made again: the two small sets have a published fixed split, a1a is used
//! as it comes, and of the images of 3 and 5 every second one is for training.
//!
//! `cargo run --release --example slang_logistic [-- --set breast --epochs 500]`, with the data in
//! `$BURN_BAYES_DATA` or `../shared/data`.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use burn::train::TrainStep;
use burn_bayes::prelude::*;
use burn_bayes::{
    DenseGaussian, FullMatrixStep, FullMatrixVon, InitialDeviation, InitialMean, Rate, SquareMatrix,
};
use burn_bayes_data::{Dataset, LibsvmOptions, Presplit, read_libsvm, read_numbers, read_presplit};
use burn_bayes_examples::{Arguments, LogisticRegressor, ToBatch, is_smoke};

/// A set with the poster's settings and results: −ELBO per row, test NLL and symmetric divergence.
struct Published {
    name: &'static str,
    prior: f64,
    batch: usize,
    mean_field: [f64; 3],
    slang: [[f64; 3]; 3],
    full: [f64; 2],
}

const RANKS: [usize; 3] = [1, 5, 10];

const PUBLISHED: [Published; 4] = [
    Published {
        name: "australian",
        prior: 1e-5,
        batch: 32,
        mean_field: [0.593, 0.341, 1946.0],
        slang: [
            [0.574, 0.342, 332.0],
            [0.569, 0.339, 84.0],
            [0.566, 0.338, 17.3],
        ],
        full: [0.558, 0.339],
    },
    Published {
        name: "breast",
        prior: 1.0,
        batch: 32,
        mean_field: [0.1205, 0.0937, 7.77],
        slang: [
            [0.1117, 0.0921, 0.911],
            [0.1114, 0.0919, 0.842],
            [0.1107, 0.0920, 0.638],
        ],
        full: [0.1086, 0.0912],
    },
    Published {
        name: "a1a",
        prior: 2.8072,
        batch: 128,
        mean_field: [0.3828, 0.3385, 129.0],
        slang: [
            [0.3766, 0.3386, 30.5],
            [0.3744, 0.3386, 17.3],
            [0.3732, 0.3386, 11.8],
        ],
        full: [0.3678, 0.3385],
    },
    Published {
        name: "usps",
        prior: 25.0,
        batch: 64,
        mean_field: [0.2672, 0.1383, 70.8],
        slang: [
            [0.2096, 0.1325, 14.9],
            [0.1979, 0.1317, 7.55],
            [0.1929, 0.1314, 4.48],
        ],
        full: [0.1860, 0.1300],
    },
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["set", "epochs"])?;
    let folder = std::env::var_os("BURN_BAYES_DATA").map_or("../shared/data".into(), PathBuf::from);
    if !folder.is_dir() {
        let shown = folder.display();
        println!("skipped: no data in {shown} (set BURN_BAYES_DATA)");
        return Ok(());
    }
    let epochs = arguments.get("epochs", if is_smoke() { 2 } else { 500 })?;
    let smallest = if is_smoke() { "breast" } else { "all" };
    let only: String = arguments.get("set", smallest.into())?;
    println!("{epochs} epochs (poster: 10000)");
    println!("−ELBO per row, test NLL, KL to the full Gaussian plus KL from it");
    for published in PUBLISHED
        .iter()
        .filter(|set| only == "all" || only == set.name)
    {
        let Presplit { train, test } = read(&folder, published.name)?;
        let [train, test] = [Rows::new(&train)?, Rows::new(&test)?];
        println!(
            "\n{}: {} rows of {}",
            published.name,
            train.targets.len(),
            train.width
        );
        let full = train.optimum(published.prior, false)?;
        let print = |method: &str, gaussian: &DenseGaussian, figures: &[f64]| {
            let prior = DenseGaussian::from_variances(
                vec![0.0; train.width],
                &vec![published.prior.recip(); train.width],
            )?;
            let divergence = gaussian.kl_divergence(&prior)?;
            let rows = train.targets.len() as f64;
            let bound = train.expected_loss(gaussian)? + divergence / rows;
            let apart = gaussian.kl_divergence(&full)? + full.kl_divergence(gaussian)?;
            let score = test.nll(gaussian)?;
            println!("{method:<11}{bound:>9.4}{score:>9.4}{apart:>10.3}   poster {figures:?}");
            Ok::<(), Box<dyn Error>>(())
        };
        print("full", &full, &published.full)?;
        let mean_field = train.optimum(published.prior, true)?;
        print("mean-field", &mean_field, &published.mean_field)?;
        for (rank, figures) in RANKS.into_iter().zip(&published.slang) {
            let found = slang(&train, published, rank.min(train.width), epochs)?;
            print(&format!("SLANG-{rank}"), &found, figures)?;
        }
    }
    Ok(())
}

/// The posterior of SLANG, trained as in the poster.
fn slang(
    train: &Rows,
    published: &Published,
    rank: usize,
    epochs: u64,
) -> Result<DenseGaussian, Box<dyn Error>> {
    let device = Device::default().autodiff();
    // ANCHOR: slang
    let rate = Rate::Reciprocal {
        initial: 0.05,
        power: 0.51,
    };
    let mut bayes = SlangConfig::new(train.targets.len())
        .with_rank(rank)
        .with_prior(Prior::isotropic(published.prior))
        .with_precision_rate(rate)
        .with_draws(12)
        .with_initial_mean(InitialMean::Zero)
        .with_initial_deviation(Some(InitialDeviation::Constant(1.0)))
        .try_init(LogisticRegressor::new(train.width, &device))?;
    // The step is SLANG's own; the optimiser is for parameters that stay point estimates.
    let mut optimizer = FusedAdamConfig::new().init();
    // ANCHOR_END: slang
    let (inputs, targets) = (narrow(&train.inputs), narrow(&train.targets));
    let rows = ToBatch {
        inputs: &inputs,
        targets: &targets,
    };
    for epoch in 0..epochs {
        for batch in rows.shuffled(published.batch, Noise::host(epoch), &device) {
            let output = TrainStep::step(&bayes, batch);
            let learning_rate = rate.at(bayes.steps());
            bayes = bayes.optimize(&mut optimizer, learning_rate.into(), output.grads);
        }
    }
    Ok(bayes.posterior().to_dense()?)
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

/// Inputs with a leading 1, and targets −1 and 1.
struct Rows {
    inputs: Vec<f64>,
    targets: Vec<f64>,
    width: usize,
}

impl Rows {
    fn new(data: &Dataset) -> Result<Self, Box<dyn Error>> {
        let classes = data
            .targets()
            .as_classes()
            .ok_or("targets are no classes")?;
        let features = data.features();
        let rows = (0..data.rows())
            .flat_map(|row| [1.0].into_iter().chain(features.row(row).iter().copied()));
        Ok(Self {
            inputs: rows.collect(),
            targets: classes
                .iter()
                .map(|&class| 2.0 * class as f64 - 1.0)
                .collect(),
            width: features.columns() + 1,
        })
    }

    /// Mean and variance of every row's margin t f.
    fn margins(&self, mean: &[f64], covariance: &[f64]) -> Vec<[f64; 2]> {
        let dot =
            |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(a, b)| a * b).sum::<f64>();
        let rows = self.inputs.chunks_exact(self.width).zip(&self.targets);
        rows.map(|(x, target)| {
            let products = covariance.chunks_exact(self.width).map(|row| dot(row, x));
            let variance = products.zip(x).map(|(product, x)| product * x).sum();
            [target * dot(mean, x), variance]
        })
        .collect()
    }

    /// The mean over rows of E log(1 + exp(−t f)).
    fn expected_loss(&self, gaussian: &DenseGaussian) -> Result<f64, Box<dyn Error>> {
        self.average(gaussian, |margin| softplus(-margin), |loss| loss)
    }

    /// The mean over rows of −log E σ(t f).
    fn nll(&self, gaussian: &DenseGaussian) -> Result<f64, Box<dyn Error>> {
        self.average(gaussian, sigmoid, |probability| -probability.ln())
    }

    fn average(
        &self,
        gaussian: &DenseGaussian,
        of_margin: impl Fn(f64) -> f64,
        of_row: impl Fn(f64) -> f64,
    ) -> Result<f64, Box<dyn Error>> {
        let margins = self.margins(gaussian.mean(), gaussian.covariance().as_slice());
        let count = margins.len() as f64;
        let values = margins
            .into_iter()
            .map(|margin| of_row(expectation(margin, &of_margin)));
        Ok(values.sum::<f64>() / count)
    }

    /// The best Gaussian by the variational bound, or the best of those without correlations:
    /// Newton's method with the expected gradient and Hessian.
    fn optimum(&self, prior: f64, is_diagonal: bool) -> Result<DenseGaussian, Box<dyn Error>> {
        let (len, count) = (self.width, self.targets.len());
        let mut von = FullMatrixVon::new(vec![0.0; len], SquareMatrix::identity(len))?;
        loop {
            let gaussian = match is_diagonal {
                true => {
                    let variances: Vec<f64> = von.precision().diagonal().map(f64::recip).collect();
                    DenseGaussian::from_variances(von.mean().to_vec(), &variances)?
                }
                false => von.gaussian()?,
            };
            let margins = self.margins(gaussian.mean(), gaussian.covariance().as_slice());
            let mut gradient = vec![0.0; len];
            let mut curvature = vec![0.0; len * len];
            let rows = self.inputs.chunks_exact(len).zip(&self.targets);
            for ((x, target), margin) in rows.zip(margins) {
                let slope = -target * expectation(margin, |margin| sigmoid(-margin)) / count as f64;
                let bend = expectation(margin, |margin| sigmoid(margin) * sigmoid(-margin));
                let bend = bend / count as f64;
                for (row, &value) in x.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                    gradient[row] += slope * value;
                    let products = curvature[row * len..][..len].iter_mut().zip(x);
                    products.for_each(|(sum, x)| *sum += bend * value * x);
                }
            }
            let before = von.mean().to_vec();
            von = von.stepped(FullMatrixStep {
                train_len: count,
                gradient: &gradient,
                curvature: &SquareMatrix::from_row_major(len, curvature)?,
                prior: &vec![prior; len],
                rate: 0.5,
                learning_rate: 0.5,
            })?;
            let scale = von.mean().iter().fold(0.0f64, |max, w| max.max(w.abs()));
            let moved = von
                .mean()
                .iter()
                .zip(&before)
                .map(|(new, old)| (new - old).abs());
            if moved.fold(0.0, f64::max) < 1e-9 * scale {
                return Ok(gaussian);
            }
        }
    }
}

/// E f(z) for z of this mean and variance: the trapezoidal rule, which for a Gaussian gains digits
/// as fast as its tails fall.
fn expectation([mean, variance]: [f64; 2], of: impl Fn(f64) -> f64) -> f64 {
    const REACH: i32 = 32;
    const STEP: f64 = 0.25;
    let deviation = variance.sqrt();
    let normaliser = STEP / std::f64::consts::TAU.sqrt();
    let terms = (-REACH..=REACH).map(|node| {
        let z = STEP * f64::from(node);
        normaliser * (-0.5 * z * z).exp() * of(mean + deviation * z)
    });
    terms.sum()
}

fn sigmoid(z: f64) -> f64 {
    (1.0 + (-z).exp()).recip()
}

fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

fn read(folder: &Path, name: &str) -> Result<Presplit, Box<dyn Error>> {
    match name {
        "a1a" => {
            let options = LibsvmOptions::default().with_features(123);
            let train = read_libsvm(folder.join("a1a/a1a"), &options)?;
            let test = read_libsvm(folder.join("a1a/a1a.t.gz"), &options)?;
            let levels = train.target_levels()?;
            Ok(Presplit {
                train: train.with_classes(&levels)?,
                test: test.with_classes(&levels)?,
            })
        }
        "usps" => {
            let numbers = read_numbers(folder.join("usps/usps_3vs5.txt.gz"))?;
            let pixels: Vec<usize> = (1..numbers.columns()).collect();
            let all = numbers.into_dataset(&pixels, 0)?;
            let levels = all.target_levels()?;
            let all = all.with_classes(&levels)?;
            let half = |from| (from..all.rows()).step_by(2).collect::<Vec<_>>();
            Ok(Presplit {
                train: all.select(&half(0))?,
                test: all.select(&half(1))?,
            })
        }
        _ => {
            let name = match name {
                "breast" => "breast_cancer_scale",
                _ => "australian_scale",
            };
            Ok(read_presplit(folder.join(name).join("presplit"), name)?)
        }
    }
}
