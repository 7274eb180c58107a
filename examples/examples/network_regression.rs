//! A small regression network on a generated curve, with VIFA or SLANG.
//!
//! One hidden layer of 50 ReLU units. Inputs and targets are standardised with the training rows, and the
//! noise precision is that of the data. `cargo run --release -p burn-bayes-papers -- E6` runs the papers'
//! data sets, splits and searches.
//!
//! `cargo run --example network_regression [-- --method slang --seed 3]`
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::error::Error;

use burn::lr_scheduler::LrScheduler;
use burn::module::ParamGroup;
use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;
use burn_bayes::eval::{
    GaussianMixture, NoisePrecision, TargetScale, TargetedMixture, mixture_nll, rmse,
};
use burn_bayes::methods::{Algorithm, InitialDeviation, Rate};
use burn_bayes::prelude::*;
use burn_bayes::train::{Gather, RateSchedule};
use burn_bayes::{BayesianConfig, FusedAdamConfig, Noise};
use burn_bayes_data::{ColumnScale, Scaler, Scaling, gap_regression, partition};
use burn_bayes_examples::{Activation, Arguments, RealBatch, Regressor, ToBatch, is_smoke};

/// Number of rows, and the standard deviation of the noise in the original unit of the target.
const ROWS: usize = 400;
const NOISE: f64 = 0.1;
const BATCH: usize = 10;
/// Number of draws averaged for a prediction.
const TEST_DRAWS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["method", "seed", "epochs"])?;
    let method: String = arguments.get("method", "vifa".into())?;
    let seed: u64 = arguments.get("seed", 0)?;
    let epochs: usize = arguments.get("epochs", if is_smoke() { 2 } else { 120 })?;

    let rows = Rows::generated(seed)?;
    let device = Device::default().autodiff();
    device.seed(seed);
    let (count, steps) = (
        rows.train.0.len(),
        epochs * rows.train.0.len().div_ceil(BATCH),
    );
    let noise_precision = (rows.target.spread / NOISE).powi(2);
    let model = Regressor::new(
        rows.width,
        &[50],
        Activation::Rectifier,
        noise_precision,
        &device,
    );
    let draws = match method.as_str() {
        "vifa" => {
            // ANCHOR: network
            let bayes = BayesianConfig::new(
                count,
                VifaConfig::new().with_initial_deviation(InitialDeviation::FanInScaled(0.03)),
            )
            .with_draws(4)
            .with_prior(Prior::isotropic(1.0))
            .try_init(model)?;
            let mut rates = RateSchedule::new(Rate::Power {
                initial: 0.01,
                time_constant: 0.1 * steps as f64,
                power: 0.75,
            })?;
            // ANCHOR_END: network
            predicted(
                bayes,
                &rows,
                epochs,
                || LrScheduler::step(&mut rates),
                &device,
            )?
        }
        "slang" => {
            // ANCHOR: slang
            let prior = Prior::isotropic(1.0).with_group(ParamGroup::from_predicate("bias"), 1e-6);
            let bayes = BayesianConfig::new(
                count,
                SlangConfig::new()
                    .with_covariance_rate(Rate::Constant(0.01))
                    .with_momentum(0.9)
                    .with_initial_deviation(Some(InitialDeviation::FanInScaled(1.0))),
            )
            .with_draws(4)
            .with_prior(prior)
            .try_init(model)?;
            // ANCHOR_END: slang
            predicted(bayes, &rows, epochs, || 0.01, &device)?
        }
        _ => return Err("use --method vifa or --method slang".into()),
    };

    let targets = rows.targets.as_slice();
    let shared = NoisePrecision::Shared(noise_precision);
    let mixture = GaussianMixture::new(&draws, TEST_DRAWS, targets.len(), shared)?;
    let mixture = mixture.unnormalised(TargetScale {
        mean: rows.target.centre,
        deviation: rows.target.spread,
    })?;
    println!(
        "{method}, seed {seed}: RMSE {:.3}, log-likelihood {:.3} on {} test rows",
        rmse(&mixture.mean(), targets)?,
        -mixture_nll(&TargetedMixture::new(&mixture, targets)?),
        targets.len()
    );
    Ok(())
}

/// Trains, and predicts the test rows at every draw.
fn predicted<A>(
    mut bayes: Bayesian<Regressor, A>,
    rows: &Rows,
    epochs: usize,
    mut rates: impl FnMut() -> f64,
    device: &Device,
) -> Result<Vec<f64>, Box<dyn Error>>
where
    A: Algorithm,
    A::Signal: Gather<Regressor, A>,
{
    let mut optimizer = FusedAdamConfig::new().init();
    for epoch in 0..epochs as u64 {
        for batch in rows
            .train()
            .shuffled(BATCH, Noise::new(0).fold(epoch), device)
        {
            let output = TrainStep::step(&bayes, batch);
            bayes = bayes.optimize(&mut optimizer, rates().into(), output.grads);
        }
    }
    let outputs: Tensor<3> = bayes.predict(rows.test(device), TEST_DRAWS)?.draw_outputs;
    Ok(outputs.into_data().iter::<f64>().collect())
}

/// Training and test rows, standardised with the training rows.
struct Rows {
    /// Features in a row.
    width: usize,
    /// Targets and features.
    train: (Vec<f32>, Vec<f32>),
    test: Vec<f32>,
    /// Targets of the test rows, on the original scale.
    targets: Vec<f64>,
    target: ColumnScale,
}

impl Rows {
    fn generated(seed: u64) -> Result<Self, Box<dyn Error>> {
        let data = gap_regression(ROWS, NOISE, seed)?;
        let parts = partition(ROWS, &[0.9, 0.1], seed)?;
        let (train, test) = (&parts[0], &parts[1]);
        let targets = data.targets().as_real().unwrap_or_default();
        let of = |rows: &[usize]| rows.iter().map(|&row| targets[row]).collect::<Vec<_>>();
        let scaler = Scaler::fit(data.features(), train, Scaling::Standardise)?;
        let target = ColumnScale::fit(of(train), Scaling::Standardise)?;
        let scaled = of(train)
            .into_iter()
            .map(|value| target.apply(value) as f32);
        let features = scaler.apply(data.features().clone())?;
        Ok(Self {
            width: features.columns(),
            train: (scaled.collect(), features.select(train)?.to_f32()),
            test: features.select(test)?.to_f32(),
            targets: of(test),
            target,
        })
    }

    fn train(&self) -> ToBatch<'_> {
        ToBatch {
            inputs: &self.train.1,
            targets: &self.train.0,
        }
    }

    /// The test rows; predictions do not use the targets.
    fn test(&self, device: &Device) -> RealBatch {
        let targets = vec![0.0; self.targets.len()];
        ToBatch {
            inputs: &self.test,
            targets: &targets,
        }
        .all(&device.clone().inner())
    }
}
