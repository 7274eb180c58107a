//! A network from an ONNX file: its layers become Burn code, and a new last layer and all layers get posteriors.
//!
//! ```text
//! cargo run --example from_onnx
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Bytes, Device, Int, Tensor};
use burn_bayes::Inputs;
use burn_bayes::prelude::*;
use burn_bayes_examples::digit_features::Model;
use burn_bayes_examples::{ClassBatch, ClassRow, ClassScores, DigitNet, Glyphs, is_smoke};

// ANCHOR: whole
/// The layers from the file, and a new last one.
#[derive(Module, Debug)]
struct Whole {
    features: Model,
    last: Linear,
}

impl Whole {
    fn forward(&self, pictures: Tensor<4>) -> Tensor<2> {
        self.last.forward(self.features.forward(pictures))
    }
}
// ANCHOR_END: whole

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    device.seed(0);
    // ANCHOR: load
    let weights = Bytes::from_bytes_vec(include_bytes!("../data/digit_features.bpk").to_vec());
    let features = Model::from_bytes(weights, &device);
    // ANCHOR_END: load

    let question = |seed, count| Glyphs { noise: 0.6, seed }.with_loops(count);
    let (few, test) = (question(11, 80), question(12, 2000));
    let [(pictures, classes), (test_pictures, _)] = [&few, &test].map(|rows| {
        let [height, width] = Glyphs::SHAPE;
        let ClassBatch { inputs, targets } = ClassBatch::new(rows, &device);
        (inputs.reshape([rows.len(), 1, height, width]), targets)
    });

    println!("                 accuracy  negative log-likelihood");
    // ANCHOR: head
    let last = LinearConfig::new(DigitNet::FEATURES, 2).init(&device);
    let model = Supervised::new(last.clone(), Linear::forward, Likelihood::Categorical);
    let auto = Auto::new().with_budget(is_smoke().then_some(0.01));
    let data = (features.forward(pictures.clone()), classes.clone());
    let (fitted, verdict) = Fit::new(auto).run(model, data)?;
    // ANCHOR_END: head
    show(
        "last layer",
        &fitted,
        features.forward(test_pictures.clone()),
        &test,
    )?;
    println!("  {verdict}");

    // ANCHOR: all
    let model = Supervised::new(
        Whole { features, last },
        Whole::forward,
        Likelihood::Categorical,
    );
    let vifa = Fit::new(VifaConfig::new()).with_epochs(if is_smoke() { 8 } else { 300 });
    let (fitted, verdict) = vifa.run(model, (pictures, classes))?;
    // ANCHOR_END: all
    show("all layers", &fitted, test_pictures, &test)?;
    println!("  {verdict}");
    Ok(())
}

fn show<M: Module + 'static, X: Inputs, P: Posterior>(
    name: &str,
    fitted: &Fitted<M, X, Tensor<1, Int>, P>,
    inputs: X,
    test: &[ClassRow],
) -> Result<(), Box<dyn Error>> {
    let probabilities = fitted.predict(inputs)?.probabilities()?.unsqueeze();
    let scores = ClassScores::new(probabilities, test)?;
    println!("{name:<16} {:>8.3}  {:>23.3}", scores.accuracy, scores.nll);
    Ok(())
}
