//! ResNet-18 from torchvision: its weights are read from a file, its last layer is replaced, and posteriors over that layer and
//! over all layers learn a new task from few pictures.
//!
//! ```text
//! cargo run --release --example resnet
//! cargo run --release --example resnet -- --weights resnet18.pth
//! ```
//!
//! Without a file, the program trains a narrow network for letters and writes it as PyTorch would.
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Int, Tensor};
use burn_bayes::Inputs;
use burn_bayes::diagnostics::Verdict;
use burn_bayes::prelude::*;
use burn_bayes_examples::{
    Arguments, ClassRow, ClassScores, PictureKind, Pictures, ResNet, is_smoke, picture_batch,
};
use burn_store::{
    BurnToPyTorchAdapter, ModuleSnapshot, PyTorchToBurnAdapter, PytorchStore, SafetensorsStore,
};

/// The channels of the network that the program trains itself; torchvision's has four times as many.
const NARROW: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["weights", "out"])?;
    let folder = arguments.output_folder("resnet")?;
    let device = Device::default();
    device.seed(0);
    let file: String = arguments.get("weights", String::new())?;
    let (file, width) = match file.as_str() {
        "" => (trained_elsewhere(&folder, &device)?, NARROW),
        file => (PathBuf::from(file), ResNet::WIDTH),
    };

    // ANCHOR: load
    let mut net = ResNet::new(width, Pictures::CLASSES, &device);
    // All but the last layer, which is for other classes.
    let is_wanted = |path: &str, _: &str| !path.starts_with("fc.");
    let found = match file.extension().is_some_and(|end| end == "pth") {
        true => net.load_from(
            &mut PytorchStore::from_file(&file)
                .with_predicate(is_wanted)
                .allow_partial(true),
        )?,
        false => net.load_from(
            &mut SafetensorsStore::from_file(&file)
                .with_predicate(is_wanted)
                .with_from_adapter(PyTorchToBurnAdapter)
                .allow_partial(true),
        )?,
    };
    assert_eq!(found.skipped.len(), 2, "{found}");
    // ANCHOR_END: load
    println!("{} tensors from {}", found.applied.len(), file.display());

    // ANCHOR: task
    let digits = |seed, count| {
        let kind = PictureKind::Digits;
        Pictures { kind, seed }.rows(count)
    };
    let (few, test) = match is_smoke() {
        true => (digits(1, 40), digits(2, 20)),
        false => (digits(1, 200), digits(2, 1000)),
    };
    let (images, classes) = tensors(&few, &device);
    let (test_images, _) = tensors(&test, &device);
    // ANCHOR_END: task

    let mut table = Table::new(&test);
    // ANCHOR: head
    // The other layers stay as they are, so that every picture passes them once.
    let features = |images: &Tensor<4>| {
        let parts = images.clone().split(100, 0).into_iter();
        Tensor::cat(parts.map(|images| net.features(images)).collect(), 0)
    };
    let (of_train, of_test) = (features(&images), features(&test_images));
    let head = Supervised::new(net.fc.clone(), Linear::forward, Likelihood::Categorical);
    let sampled = Fit::new(Auto::new().with_budget(is_smoke().then_some(0.01)));
    let (fitted, verdict) = sampled.run(head.clone(), (of_train.clone(), classes.clone()))?;
    // ANCHOR_END: head
    table.add("last layer, sampled", &fitted, &of_test, &verdict)?;

    // ANCHOR: onnx
    let whole = |head: &Supervised<_, Tensor<2>, _>, images: Tensor<4>| {
        // Not of a clone: its running statistics would be those of `net`.
        let net = net.valid().to_device(&images.device());
        head.forward(net.features(images))
    };
    let predictor = fitted.predictor();
    predictor.save_onnx(
        folder.join("digits.onnx"),
        &images,
        100,
        fitted.likelihood(),
        whole,
    )?;
    // ANCHOR_END: onnx

    let (fitted, verdict) = Fit::new(VifaConfig::new()).run(head, (of_train, classes.clone()))?;
    table.add("last layer, VIFA", &fitted, &of_test, &verdict)?;

    // ANCHOR: all
    let model = Supervised::new(net.clone(), ResNet::forward, Likelihood::Categorical);
    let epochs = if is_smoke() { 8 } else { 100 };
    let vifa = Fit::new(VifaConfig::new()).with_epochs(epochs);
    let (fitted, verdict) = vifa.run(model.clone(), (images.clone(), classes.clone()))?;
    // ANCHOR_END: all
    table.add("all layers, VIFA", &fitted, &test_images, &verdict)?;
    let swag = Fit::new(SwagConfig::new()).with_epochs(epochs);
    let (fitted, verdict) = swag.run(model, (images, classes))?;
    table.add("all layers, SWAG", &fitted, &test_images, &verdict)?;
    println!("\nthe files are in {}", folder.display());
    Ok(())
}

/// Pictures of three colours and 32×32 pixels, `[rows, 3, 32, 32]`, and their classes.
fn tensors(rows: &[ClassRow], device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    let batch = picture_batch(rows, device);
    let [count, height, width] = batch.images.dims();
    let pixels = batch.images.reshape([count, 1, height, 1, width, 1]);
    let large = pixels.expand([count, 3, height, 2, width, 2]);
    let images = large.reshape([count, 3, 2 * height, 2 * width]);
    (images, batch.labels)
}

/// Prints scores of test pictures.
struct Table<'a> {
    test: &'a [ClassRow],
    start: Instant,
}

impl<'a> Table<'a> {
    fn new(test: &'a [ClassRow]) -> Self {
        println!("\n                      accuracy  mean weights' NLL  draws' NLL  seconds");
        let start = Instant::now();
        Self { test, start }
    }

    fn add<M, X, P>(
        &mut self,
        name: &str,
        fitted: &Fitted<M, X, Tensor<1, Int>, P>,
        inputs: &X,
        verdict: &Verdict,
    ) -> Result<(), Box<dyn Error>>
    where
        M: Module + 'static,
        X: Inputs,
        P: Posterior,
    {
        let fitted = fitted.clone().with_draws(if is_smoke() { 3 } else { 30 });
        let probabilities = fitted.predict(inputs.clone())?.probabilities()?;
        let of_draws = ClassScores::new(probabilities.unsqueeze(), self.test)?;
        let mean = fitted.predictor().mean_model()?.forward(inputs.clone());
        let of_mean = ClassScores::new(softmax(mean, 1).unsqueeze(), self.test)?;
        println!(
            "{name:<22}{:>8.3}  {:>17.3}  {:>10.3}  {:>7.1}",
            of_draws.accuracy,
            of_mean.nll,
            of_draws.nll,
            self.start.elapsed().as_secs_f64()
        );
        println!("  {verdict}");
        self.start = Instant::now();
        Ok(())
    }
}

/// Stands for the program in PyTorch: a network for letters, in a file as PyTorch writes it.
fn trained_elsewhere(folder: &Path, device: &Device) -> Result<PathBuf, Box<dyn Error>> {
    let kind = PictureKind::Letters;
    let (count, epochs) = if is_smoke() { (80, 2) } else { (3000, 6) };
    let (images, classes) = tensors(&Pictures { kind, seed: 0 }.rows(count), device);
    let net = ResNet::new(NARROW, Pictures::CLASSES, device);
    let model = Supervised::new(net, ResNet::forward, Likelihood::Categorical);
    let swag = Fit::new(SwagConfig::new()).with_learning_rate(0.001);
    let (fitted, _) = swag.with_epochs(epochs).run(model, (images, classes))?;
    let file = folder.join("letters.safetensors");
    let mut store = SafetensorsStore::from_file(&file)
        .with_to_adapter(BurnToPyTorchAdapter)
        .overwrite(true);
    fitted.mean_network()?.save_into(&mut store)?;
    Ok(file)
}
