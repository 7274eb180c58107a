//! A network whose weights were trained in PyTorch: loaded, given a new last layer with a posterior, and written back as files
//! that PyTorch reads, one for each draw, and as one ONNX file with all of them.
//!
//! ```text
//! cargo run --example pretrained
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::path::Path;

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Int, Tensor};
use burn_bayes::graph::{self, OnnxModel};
use burn_bayes::laplace::{Laplace, Linearized, Structure};
use burn_bayes::prelude::*;
use burn_bayes_examples::{
    Arguments, ClassBatch, ClassRow, ClassScores, DigitNet, Glyphs, LogitVariances, is_smoke,
};
use burn_store::{BurnToPyTorchAdapter, ModuleSnapshot, PyTorchToBurnAdapter, SafetensorsStore};

const LEARNING_RATE: f64 = 5e-3;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Arguments::read(&["out"])?.output_folder("pretrained")?;
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("digits.safetensors");
    let device = Device::default();
    device.seed(0);
    let elsewhere = trained_elsewhere(&file, &device)?;

    // ANCHOR: load
    let mut net = DigitNet::new(Glyphs::CLASSES, &device);
    let mut source = SafetensorsStore::from_file(&file)
        .with_key_remapping(r"^module\.", "")
        .with_from_adapter(PyTorchToBurnAdapter);
    let found = net.load_from(&mut source)?;
    println!(
        "{} tensors, {} unused",
        found.applied.len(),
        found.unused.len()
    );
    // ANCHOR_END: load
    let [_, _, pictures] = Glyphs::sets(0);
    let pictures = ClassBatch::new(&pictures, &device).inputs;
    let difference = |one: &DigitNet, other: &DigitNet| {
        let [one, other] = [one, other].map(|net| net.forward(pictures.clone()));
        (one - other).abs().max().into_scalar::<f32>()
    };
    assert!(difference(&net, &elsewhere) < 1e-5);

    // ANCHOR: task
    // A new question about noisier digits, with few answers: does it have a loop?
    let question = |seed, count| Glyphs { noise: 0.6, seed }.with_loops(count);
    let (few, test) = (question(11, 80), question(12, 2000));
    let of_features = |rows: &[ClassRow]| {
        let batch = ClassBatch::new(rows, &device);
        (net.features(batch.inputs), batch.targets)
    };
    // ANCHOR_END: task

    // ANCHOR: fit
    let head = LinearConfig::new(DigitNet::FEATURES, 2).init(&device);
    let model = Supervised::new(head.clone(), Linear::forward, Likelihood::Categorical);
    let auto = match is_smoke() {
        true => Auto::new().with_budget(Some(0.01)),
        false => Auto::new(),
    };
    let (fitted, verdict) = Fit::new(auto).run(model, of_features(&few))?;
    println!("{verdict}");
    // ANCHOR_END: fit

    let (inputs, _) = of_features(&test);
    let plain = trained_head(head, of_features(&few));
    let of_plain = softmax(plain.forward(inputs.clone()), 1).unsqueeze();
    let of_draws = fitted.predict(inputs)?.probabilities()?.unsqueeze();
    println!("last layer       accuracy  negative log-likelihood");
    for (name, probabilities) in [("plain", of_plain), ("posterior", of_draws)] {
        let scores = ClassScores::new(probabilities, &test)?;
        println!("{name:<16} {:>8.3}  {:>23.3}", scores.accuracy, scores.nll);
    }

    // ANCHOR: export
    for draw in 0..10 {
        let mut net = net.clone();
        net.fc = fitted.predictor().drawn_model(draw)?.network().clone();
        let mut file = SafetensorsStore::from_file(folder.join(format!("draw-{draw}.safetensors")))
            .with_to_adapter(BurnToPyTorchAdapter)
            .overwrite(true);
        net.save_into(&mut file)?;
    }
    // ANCHOR_END: export

    // ANCHOR: onnx
    let whole = |head: &Supervised<_, Tensor<2>, _>, pixels: Tensor<2>| {
        // Not of a clone: its running statistics would be those of `net`.
        let net = net.valid().to_device(&pixels.device());
        head.forward(net.features(pixels))
    };
    let (file, likelihood) = (folder.join("digits.onnx"), fitted.likelihood());
    let predictor = fitted.predictor();
    predictor.save_onnx(file, &pictures, 100, likelihood, whole)?;
    // ANCHOR_END: onnx

    // ANCHOR: closed
    // The Laplace approximation of the layer that was trained as usual.
    let model = Supervised::new(plain, Linear::forward, Likelihood::Categorical);
    let laplace = Laplace::new(few.len()).with_structure(Structure::Full);
    let posterior = laplace
        .gauss_newton(&model, [of_features(&few)])?
        .posterior()?;
    let variances = LogitVariances::new(&posterior.to_dense()?, 2, &device);
    let logits = |model: &Supervised<_, Tensor<2>, Tensor<1, Int>>, pixels: Tensor<2>| {
        let features = net.valid().to_device(&pixels.device()).features(pixels);
        let variances = variances.at(&features);
        Tensor::cat(vec![model.forward(features), variances], 1)
    };
    let (layout, mean) = (posterior.layout().clone(), |_| {
        Ok::<_, graph::Error>(model.clone())
    });
    let part = |of: usize| move |found: Tensor<3>| found.squeeze_dim::<2>(0).narrow(1, 2 * of, 2);
    let closed = OnnxModel::of_draws(1, mean, layout, &pictures, logits)?
        .with_output("mean", part(0))?
        .with_output("variance", part(1))?
        .into_bytes(&[])?;
    std::fs::write(folder.join("closed.onnx"), closed)?;
    // ANCHOR_END: closed
    let features = net.features(pictures.clone());
    let expected = Linearized::new(model, posterior)?
        .outputs(&features)?
        .variance;
    let difference_of = (variances.at(&features) / expected - 1.0).abs().max();
    assert!(difference_of.into_scalar::<f32>() < 1e-3);

    let mut first = DigitNet::new(2, &device);
    first.load_from(
        &mut SafetensorsStore::from_file(folder.join("draw-0.safetensors"))
            .with_from_adapter(PyTorchToBurnAdapter),
    )?;
    net.fc = fitted.predictor().drawn_model(0)?.network().clone();
    assert!(difference(&first, &net) < 1e-5);
    println!("\nten draws and an ONNX file are in {}", folder.display());
    Ok(())
}

/// Stands for the program in PyTorch: a plain network for all ten digits, in a file as PyTorch writes it.
fn trained_elsewhere(file: &Path, device: &Device) -> Result<DigitNet, Box<dyn Error>> {
    let [rows, _, _] = Glyphs::sets(0);
    let training_device = device.clone().autodiff();
    let mut net = DigitNet::new(Glyphs::CLASSES, &training_device);
    let mut optimizer = AdamConfig::new().init();
    for _ in 0..if is_smoke() { 1 } else { 10 } {
        for rows in rows.chunks(50) {
            let batch = ClassBatch::new(rows, &training_device);
            let loss = cross_entropy(net.forward(batch.inputs), batch.targets);
            let gradients = GradientsParams::from_grads(loss.backward(), &net);
            net = optimizer.step(LEARNING_RATE, net, gradients);
        }
    }
    let net = net.valid();
    let mut store = SafetensorsStore::from_file(file)
        .with_key_remapping("^", "module.")
        .with_to_adapter(BurnToPyTorchAdapter)
        .overwrite(true);
    net.save_into(&mut store)?;
    Ok(net)
}

/// The last layer as it is usually trained.
fn trained_head(head: Linear, (features, classes): (Tensor<2>, Tensor<1, Int>)) -> Linear {
    let device = features.device().autodiff();
    let (features, classes) = (features.to_device(&device), classes.to_device(&device));
    let mut head = head.train();
    let mut optimizer = AdamConfig::new().init();
    for _ in 0..if is_smoke() { 10 } else { 500 } {
        let loss = cross_entropy(head.forward(features.clone()), classes.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &head);
        head = optimizer.step(LEARNING_RATE, head, gradients);
    }
    head.valid()
}

fn cross_entropy(logits: Tensor<2>, classes: Tensor<1, Int>) -> Tensor<1> {
    let device = logits.device();
    CrossEntropyLossConfig::new()
        .init(&device)
        .forward(logits, classes)
}
