//! A posterior over the last layer only; the other layers are trained as point estimates.
//!
//! ```text
//! cargo run --example last_layer
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;

use burn::module::{Module, ParamGroup};
use burn::tensor::Device;
use burn::tensor::activation::softmax;
use burn::train::{Learner, SupervisedTraining, metric::LossMetric};
use burn_bayes::prelude::*;
use burn_bayes::{BayesianConfig, FusedAdamConfig};
use burn_bayes_examples::{
    Arguments, ClassBatch, ClassScores, Classifier, EpochLines, Glyphs, class_loader, is_smoke,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "epochs", "out"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let epochs: usize = arguments.get("epochs", if is_smoke() { 2 } else { 40 })?;
    let folder = arguments.output_folder("last-layer")?;
    let [train, valid, test] = Glyphs::sets(seed);

    let device = Device::default();
    device.seed(seed);
    let training_device = device.clone().autodiff();
    let model = Classifier::new(Glyphs::PIXELS, 64, Glyphs::CLASSES, &training_device);
    let all = model.num_params();

    // ANCHOR: group
    // `println!("{model}")` shows the paths: `head.weight` and `head.bias` here.
    let bayesian = BayesianConfig::new(train.len(), VifaConfig::new().with_rank(4))
        .with_group(ParamGroup::from_predicate("head."))
        .with_seed(seed)
        .init(model);
    for entry in bayesian.layout().entries() {
        println!("random: {:<12} {:?}", entry.path, entry.shape);
    }
    println!("{} of {all} weights are random\n", bayesian.layout().len());
    // ANCHOR_END: group

    let training = SupervisedTraining::new(
        &folder,
        class_loader(train, 32, Some(seed), &training_device),
        class_loader(valid, 250, None, &device),
    )
    .metrics((LossMetric::new(),))
    .num_epochs(epochs)
    .with_application_logger(None);
    let interrupter = training.interrupter();
    let trained = training
        .renderer(EpochLines::renderer(10, interrupter))
        .launch(Learner::new(bayesian, FusedAdamConfig::new().init(), 2e-3))
        .model;

    let batch = ClassBatch::new(&test, &device);
    let prediction = trained.predict(batch.clone(), 100)?;
    let averaged = ClassScores::new(prediction.draw_probabilities, &test)?;
    let logits = trained.mean_model()?.forward(batch.inputs);
    let mean = ClassScores::new(softmax(logits, 1).unsqueeze(), &test)?;
    println!(
        "\n{} test rows               mean weights  100 draws",
        test.len()
    );
    println!(
        "accuracy                 {:>12.3}  {:>9.3}",
        mean.accuracy, averaged.accuracy
    );
    println!(
        "negative log-likelihood  {:>12.3}  {:>9.3}",
        mean.nll, averaged.nll
    );
    println!(
        "calibration error        {:>12.3}  {:>9.3}",
        mean.calibration_error, averaged.calibration_error
    );
    Ok(())
}
