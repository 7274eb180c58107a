//! A posterior trained in stages, first the mean, then also factors and variances, with a
//! checkpoint after every epoch. An interrupted run resumes from a checkpoint and ends in exactly
//! the same posterior as an uninterrupted one.
//!
//! ```text
//! cargo run --example staged -- --out target/staged
//! cargo run --example staged -- --out target/staged --resume 12
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;

use burn::tensor::Device;
use burn::train::metric::LossMetric;
use burn::train::{Learner, SupervisedTraining};
use burn_bayes::methods::MeanStage;
use burn_bayes::metric::ModelDisagreementMetric;
use burn_bayes::prelude::*;
use burn_bayes::train::StagedLearningRate;
use burn_bayes::{BayesianConfig, FusedAdamConfig};
use burn_bayes_examples::{
    Arguments, ClassBatch, ClassScores, Classifier, EpochLines, Glyphs, class_loader, is_smoke,
};

const BATCH: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "epochs", "resume", "out"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let epochs: usize = arguments.get("epochs", if is_smoke() { 3 } else { 30 })?;
    let finished: usize = arguments.get("resume", 0)?;
    let folder = arguments.output_folder("staged")?;
    let [train, valid, test] = Glyphs::sets(seed);

    let device = Device::default();
    device.seed(seed);
    let training_device = device.clone().autodiff();
    let model = Classifier::new(Glyphs::PIXELS, 64, Glyphs::CLASSES, &training_device);

    // ANCHOR: stages
    // The first third of the steps trains only the mean, the learning rates of the
    // covariance ramp up in the next sixth, and all learning rates decay in the second half.
    let steps = epochs * train.len().div_ceil(BATCH);
    let rates = StagedLearningRate::new(2e-3, 2e-3, 1e-2)
        .with_mean_only_steps(steps / 3)
        .with_ramp_steps(steps / 6)
        .with_time_constant(Some(steps as f64 / 4.0))
        .init();
    // ANCHOR_END: stages

    // ANCHOR: checkpoints
    // A new run and a resumed run are set up in the same way.
    // The schedule below has the stages.
    let bayesian = BayesianConfig::new(train.len(), VifaConfig::new().with_rank(4))
        .with_mean_stage(MeanStage::None)
        .with_seed(seed)
        .init(model);
    // The rows have the same order in every epoch, because Burn does not save the state of a
    // shuffle.
    let train = class_loader(train, BATCH, None, &training_device);
    let valid = class_loader(valid, 250, None, &device);
    let mut training = SupervisedTraining::new(&folder, train, valid)
        .metrics((LossMetric::new(), ModelDisagreementMetric::new()))
        .num_epochs(epochs)
        .with_default_checkpointers();
    if finished > 0 {
        training = training.checkpoint(finished);
    }
    // ANCHOR_END: checkpoints
    let interrupter = training.interrupter();
    let trained = training
        .with_application_logger(None)
        .renderer(EpochLines::renderer(1, interrupter))
        .launch(Learner::new(bayesian, FusedAdamConfig::new().init(), rates))
        .model;

    let posterior = trained.posterior();
    let prediction = trained.predict(ClassBatch::new(&test, &device), 100)?;
    let scores = ClassScores::new(prediction.draw_probabilities, &test)?;
    println!(
        "\n{} steps; {:.3} nats of entropy per weight",
        trained.steps(),
        posterior.entropy()? / posterior.len() as f64
    );
    println!(
        "{} test rows: accuracy {:.3}, negative log-likelihood {:.3}, calibration error {:.3}",
        test.len(),
        scores.accuracy,
        scores.nll,
        scores.calibration_error
    );
    let file = folder.join("posterior.safetensors");
    posterior.save(&file)?;
    println!("The posterior is in {}", file.display());
    Ok(())
}
