//! Metrics of uncertainty in Burn's Learner: those of the library and a custom one.
//!
//! ```text
//! cargo run --example metrics
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::tensor::{Device, TensorReadError};
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{
    Learner, LearnerSummary, MetricEarlyStoppingStrategy, StoppingCondition, SupervisedTraining,
};
use burn_bayes::eval::{TargetScale, variation_ratio};
use burn_bayes::likelihood::ClassificationDraws;
use burn_bayes::metric::{
    AverageNllMetric, Caption, CrpsMetric, ExpectedCalibrationErrorMetric, ExpectedEntropyMetric,
    IntervalCoverageMetric, MixtureNllMetric, MutualInformationMetric, PredictiveEntropyMetric,
    RmseOfMeanMetric, RowMeanMetric, RowScore,
};
use burn_bayes::prelude::*;
use burn_bayes::{BayesianConfig, FusedAdamConfig, Noise};
use burn_bayes_examples::{
    Activation, Arguments, Classifier, EpochLines, Glyphs, RealBatch, Regressor, ToBatch,
    class_loader, is_smoke,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "epochs", "out"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let epochs: usize = arguments.get("epochs", if is_smoke() { 2 } else { 60 })?;
    let folder = arguments.output_folder("metrics")?;
    classify(seed, epochs, &folder.join("digits"))?;
    regress(seed, 5 * epochs, &folder.join("curve"))
}

// ANCHOR: own
/// The fraction of draws that do not vote for the majority class.
#[derive(Clone, Debug)]
struct VariationRatio;

impl RowScore for VariationRatio {
    type Input = ClassificationDraws;

    fn caption(&self) -> Caption {
        Caption::new("Variation Ratio", "Share of draws outvoted by the others.")
    }

    fn scores(&self, batch: &ClassificationDraws) -> Result<Vec<f64>, TensorReadError> {
        Ok(variation_ratio(batch.read()?.draws()))
    }
}
// ANCHOR_END: own

/// Digits: decomposition of the uncertainty, and calibration.
fn classify(seed: u64, epochs: usize, folder: &Path) -> Result<(), Box<dyn Error>> {
    let [train, valid, _] = Glyphs::sets(seed);
    let device = Device::default();
    device.seed(seed);
    let training_device = device.clone().autodiff();
    let model = Classifier::new(Glyphs::PIXELS, 64, Glyphs::CLASSES, &training_device);
    let bayesian = BayesianConfig::new(train.len(), VifaConfig::new())
        .with_seed(seed)
        .init(model);
    let train = class_loader(train, 32, Some(seed), &training_device);
    let valid = class_loader(valid, 250, None, &device);

    // ANCHOR: classification
    let training = SupervisedTraining::new(folder, train, valid)
        .metrics((AccuracyMetric::new(), AverageNllMetric::new()))
        .metric_valid_numeric(PredictiveEntropyMetric::new())
        .metric_valid_numeric(ExpectedEntropyMetric::new())
        .metric_valid_numeric(MutualInformationMetric::new())
        .metric_valid_numeric(ExpectedCalibrationErrorMetric::new())
        .metric_valid_numeric(RowMeanMetric::of(VariationRatio))
        .num_epochs(epochs);
    // ANCHOR_END: classification
    // ANCHOR: stopping
    let training = training.early_stopping(MetricEarlyStoppingStrategy::new(
        &AverageNllMetric::new(),
        Aggregate::Mean,
        Direction::Lowest,
        Split::Valid,
        StoppingCondition::NoImprovementSince { n_epochs: 10 },
    ));
    // ANCHOR_END: stopping
    let interrupter = training.interrupter();
    training
        .label("digits")
        .with_application_logger(None)
        .renderer(EpochLines::renderer(20, interrupter))
        .launch(Learner::new(bayesian, FusedAdamConfig::new().init(), 2e-3));
    let names = [
        "Average NLL",
        "Predictive Entropy",
        "Expected Entropy",
        "Mutual Information",
        "Expected Calibration Error @ 15 bins",
        "Variation Ratio",
    ];
    report(folder, &names)
}

/// A noisy curve with standardised targets: scores in the original unit of the targets.
fn regress(seed: u64, epochs: usize, folder: &Path) -> Result<(), Box<dyn Error>> {
    const NOISE_DEVIATION: f32 = 0.2;
    const TRAIN_LEN: usize = 100;
    let noise = Noise::new(seed);
    let rows = |stream: u64, count: usize| -> (Vec<f32>, Vec<f32>) {
        let scatter = noise.fold(stream).latent(count);
        let x = |row| 4.0 * noise.fold(stream).row(row as u64).uniform() as f32 - 2.0;
        let inputs: Vec<f32> = (0..count).map(x).collect();
        let target = |(x, scatter): (&f32, f32)| (2.0 * x).sin() + NOISE_DEVIATION * scatter;
        let targets = inputs.iter().zip(scatter).map(target).collect();
        (inputs, targets)
    };
    let device = Device::default();
    device.seed(seed);
    let training_device = device.clone().autodiff();
    let batch = |(inputs, targets): (Vec<f32>, Vec<f32>), device: &Device| {
        let rows = ToBatch {
            inputs: &inputs,
            targets: &targets,
        };
        rows.all(device)
    };
    let train = one_batch(batch(rows(1, TRAIN_LEN), &training_device));
    let valid = one_batch(batch(rows(2, 400), &device));

    // ANCHOR: regression
    // The model learns (y − 50)/10; the scale reports scores of the original
    // targets.
    let noise_precision = f64::from(NOISE_DEVIATION).powi(-2);
    let scale = TargetScale {
        mean: 50.0,
        deviation: 10.0,
    };
    let training = SupervisedTraining::new(folder, train, valid)
        .metrics((LossMetric::new(),))
        .metric_valid_numeric(RmseOfMeanMetric::new().with_target_scale(scale))
        .metric_valid_numeric(MixtureNllMetric::new(noise_precision).with_target_scale(scale))
        .metric_valid_numeric(CrpsMetric::new(noise_precision).with_target_scale(scale))
        .metric_valid_numeric(IntervalCoverageMetric::new(0.9, noise_precision))
        .num_epochs(epochs);
    // ANCHOR_END: regression
    let model = Regressor::new(
        1,
        &[20],
        Activation::Tanh,
        noise_precision,
        &training_device,
    );
    let bayesian = BayesianConfig::new(TRAIN_LEN, VifaConfig::new())
        .with_seed(seed)
        .init(model);
    let interrupter = training.interrupter();
    training
        .label("curve")
        .with_application_logger(None)
        .renderer(EpochLines::renderer(100, interrupter))
        .launch(Learner::new(bayesian, FusedAdamConfig::new().init(), 2e-2));
    report(
        folder,
        &["RMSE", "Mixture NLL", "CRPS", "Interval Coverage @ 0.9"],
    )
}

/// A loader with one batch of all rows.
fn one_batch(batch: RealBatch) -> Arc<dyn DataLoader<RealBatch>> {
    #[derive(Clone)]
    struct AsItIs;
    impl Batcher<RealBatch, RealBatch> for AsItIs {
        fn batch(&self, mut batches: Vec<RealBatch>, _device: &Device) -> RealBatch {
            batches.swap_remove(0)
        }
    }
    DataLoaderBuilder::new(AsItIs).build(InMemDataset::new(vec![batch]))
}

/// The values of the last epoch, read from the folder of the training.
fn report(folder: &Path, names: &[&str]) -> Result<(), Box<dyn Error>> {
    println!("  at the end:");
    // ANCHOR: summary
    let summary = LearnerSummary::new(folder, names)?;
    for metric in &summary.metrics.valid {
        if let Some(last) = metric.entries.last() {
            println!("  {:<36} {:>8.3}", metric.name, last.value);
        }
    }
    // ANCHOR_END: summary
    Ok(())
}
