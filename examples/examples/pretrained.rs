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
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{AvgPool2d, AvgPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::activation::{relu, softmax};
use burn::tensor::{Device, Int, Tensor};
use burn_bayes::prelude::*;
use burn_bayes_examples::{Arguments, ClassBatch, ClassRow, ClassScores, Glyphs, is_smoke};
use burn_store::{BurnToPyTorchAdapter, ModuleSnapshot, PyTorchToBurnAdapter, SafetensorsStore};

const LEARNING_RATE: f64 = 5e-3;

// ANCHOR: model
/// The fields have the names of the layers in PyTorch.
#[derive(Module, Debug)]
struct Net {
    conv1: Conv2d,
    bn1: BatchNorm,
    pool: AvgPool2d,
    conv2: Conv2d,
    bn2: BatchNorm,
    fc: Linear,
}

impl Net {
    const FEATURES: usize = 16 * 3 * 2;

    fn new(classes: usize, device: &Device) -> Self {
        Self {
            conv1: Conv2dConfig::new([1, 8], [3, 3]).init(device),
            bn1: BatchNormConfig::new(8).init(device),
            pool: AvgPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            conv2: Conv2dConfig::new([8, 16], [2, 2]).init(device),
            bn2: BatchNormConfig::new(16).init(device),
            fc: LinearConfig::new(Self::FEATURES, classes).init(device),
        }
    }

    /// What the last layer sees.
    fn features(&self, pixels: Tensor<2>) -> Tensor<2> {
        let ([rows, _], [height, width]) = (pixels.dims(), Glyphs::SHAPE);
        let images = pixels.reshape([rows, 1, height, width]);
        let hidden = relu(self.bn1.forward(self.conv1.forward(images)));
        let hidden = self.conv2.forward(self.pool.forward(hidden));
        relu(self.bn2.forward(hidden)).flatten(1, 3)
    }

    fn forward(&self, pixels: Tensor<2>) -> Tensor<2> {
        self.fc.forward(self.features(pixels))
    }
}
// ANCHOR_END: model

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Arguments::read(&["out"])?.output_folder("pretrained")?;
    std::fs::create_dir_all(&folder)?;
    let file = folder.join("digits.safetensors");
    let device = Device::default();
    device.seed(0);
    let elsewhere = trained_elsewhere(&file, &device)?;

    // ANCHOR: load
    let mut net = Net::new(Glyphs::CLASSES, &device);
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
    let difference = |one: &Net, other: &Net| {
        let [one, other] = [one, other].map(|net| net.forward(pictures.clone()));
        (one - other).abs().max().into_scalar::<f32>()
    };
    assert!(difference(&net, &elsewhere) < 1e-5);

    // ANCHOR: task
    // A new question about noisier digits, with few answers: does it have a loop?
    let question = |seed, count| {
        let rows = Glyphs { noise: 0.6, seed }.rows(count).into_iter();
        let has_loop = |digit| usize::from([0, 6, 8, 9].contains(&digit));
        let rows = rows.map(|row| ClassRow {
            class: has_loop(row.class),
            ..row
        });
        rows.collect::<Vec<_>>()
    };
    let (few, test) = (question(11, 80), question(12, 2000));
    let of_features = |rows: &[ClassRow]| {
        let batch = ClassBatch::new(rows, &device);
        (net.features(batch.inputs), batch.targets)
    };
    // ANCHOR_END: task

    // ANCHOR: fit
    let head = LinearConfig::new(Net::FEATURES, 2).init(&device);
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
        let head = fitted.predictor().drawn_model(draw)?.network().clone();
        let net = Net {
            fc: head,
            ..net.clone()
        };
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

    let mut first = Net::new(2, &device);
    first.load_from(
        &mut SafetensorsStore::from_file(folder.join("draw-0.safetensors"))
            .with_from_adapter(PyTorchToBurnAdapter),
    )?;
    let drawn = Net {
        fc: fitted.predictor().drawn_model(0)?.network().clone(),
        ..net
    };
    assert!(difference(&first, &drawn) < 1e-5);
    println!("\nten draws and an ONNX file are in {}", folder.display());
    Ok(())
}

/// Stands for the program in PyTorch: a plain network for all ten digits, in a file as PyTorch writes it.
fn trained_elsewhere(file: &Path, device: &Device) -> Result<Net, Box<dyn Error>> {
    let [rows, _, _] = Glyphs::sets(0);
    let training_device = device.clone().autodiff();
    let mut net = Net::new(Glyphs::CLASSES, &training_device);
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
