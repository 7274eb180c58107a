//! A segmentation with a posterior over the weights, trained by Burn's Learner and scored batch by
//! batch, without keeping any pixel.
//!
//! Test images also show crosses, a kind of shape that no training image has. Their pixels have no
//! correct class; the uncertainty should be higher there.
//!
//! ```text
//! cargo run --example segmentation
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use burn::train::metric::AccuracyMetric;
use burn::train::{Learner, SupervisedTraining};
use burn_bayes::eval::{
    ClassificationTotals, DrawProbabilities, EvalError, PatchTotals, RankingTotals,
    mutual_information, predictive_entropy,
};
use burn_bayes::metric::{
    ExpectedCalibrationErrorMetric, MeanIntersectionOverUnionMetric, MutualInformationMetric,
};
use burn_bayes::prelude::*;
use burn_bayes::{BayesianConfig, FusedAdamConfig};
use burn_bayes_examples::{
    Arguments, EpochLines, SegmentationBatch, SegmentationBatcher, SegmentationNet, ShapeImage,
    Shapes, is_smoke, probabilities_of,
};

const BATCH_SIZE: usize = 10;
const DRAWS: usize = 20;
/// Of the mean predictive entropy of a certain patch, in nats.
const THRESHOLDS: [f64; 3] = [0.1, 0.2, 0.4];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "epochs", "out"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let epochs = arguments.get("epochs", if is_smoke() { 1 } else { 100 })?;
    let folder = arguments.output_folder("segmentation")?;
    let [train_len, valid_len, test_len] = if is_smoke() {
        [40, 20, 40]
    } else {
        [200, 50, 500]
    };
    let set = |set: u64, has_crosses: bool| Shapes {
        has_crosses,
        seed: 3 * seed + set,
    };

    let device = Device::default();
    device.seed(seed);
    let training_device = device.clone().autodiff();
    let train = loader(
        set(0, false).images(0..train_len),
        seed,
        training_device.clone(),
    );
    let valid = loader(set(1, false).images(0..valid_len), seed, device.clone());

    // ANCHOR: wrap
    // The loss is a mean over pixels, which are independent given the weights: N counts pixels.
    let pixels = train_len as usize * Shapes::PIXELS;
    let model = SegmentationNet::new(&training_device);
    let bayesian = BayesianConfig::new(pixels, VifaConfig::new())
        .with_seed(seed)
        .init(model);
    let training = SupervisedTraining::new(&folder, train, valid)
        .metrics((AccuracyMetric::new(),))
        .metric_valid_numeric(MeanIntersectionOverUnionMetric::new())
        .metric_valid_numeric(ExpectedCalibrationErrorMetric::new())
        .metric_valid_numeric(MutualInformationMetric::new())
        .num_epochs(epochs);
    // ANCHOR_END: wrap
    let interrupter = training.interrupter();
    let trained = training
        .label("shapes")
        .with_application_logger(None)
        .renderer(EpochLines::renderer(20, interrupter))
        .launch(Learner::new(bayesian, FusedAdamConfig::new().init(), 1e-2));

    // ANCHOR: stream
    let predictor = trained.model.predictor()?;
    let mean = predictor.mean_model()?;
    let mut at_mean = Totals::new()?;
    let mut of_draws = Totals::new()?;
    for start in (0..test_len).step_by(BATCH_SIZE) {
        let images = set(2, true).images(start..test_len.min(start + BATCH_SIZE as u64));
        let labels: Vec<usize> = images.iter().flat_map(|i| i.labels.clone()).collect();
        let batch = SegmentationBatcher.batch(images, &device).images;
        let at = |model: &SegmentationNet| softmax(model.forward(batch.clone()), 1);
        at_mean.add(vec![at(&mean)], &labels)?;
        of_draws.add(predictor.map_draws(DRAWS, at)?, &labels)?;
    }
    // ANCHOR_END: stream
    println!("\n{test_len} other images, pixels of crosses without a class:");
    println!("                    mean IoU    NLL    ECE  PAvPU at {THRESHOLDS:?} nats");
    at_mean.print("mean weights")?;
    of_draws.print(&format!("{DRAWS} draws"))?;
    println!("\nAUROC of the pixels of crosses, among the pixels of all shapes, by");
    let auroc = |name: &str, totals: &RankingTotals| -> Result<(), EvalError> {
        let found = totals.auroc()?;
        let half_range = (found.range.upper - found.range.lower) / 2.0;
        println!("  {name:<36} {:.4} ± {half_range:.4}", found.estimate);
        Ok(())
    };
    auroc("predictive entropy, mean weights", &at_mean.by_entropy)?;
    auroc("predictive entropy", &of_draws.by_entropy)?;
    auroc("mutual information", &of_draws.by_information)?;
    println!("  (± is the resolution of the histograms)");
    Ok(())
}

// ANCHOR: totals
/// The sums from which all scores are computed. Their size does not depend on the number of images.
struct Totals {
    pixels: ClassificationTotals,
    patches: Vec<PatchTotals>,
    by_entropy: RankingTotals,
    by_information: RankingTotals,
}

impl Totals {
    fn new() -> Result<Self, EvalError> {
        // Common logarithms of nats. Most pixels have an uncertainty near 0; logarithms tell them apart.
        let ranking = || RankingTotals::new(-12.0, 0.1, 10_000);
        let patches = THRESHOLDS.map(|threshold| PatchTotals::new(4, 0.5, threshold));
        Ok(Self {
            pixels: ClassificationTotals::new(Shapes::CLASSES, 15)?.ignoring(Shapes::UNSEEN),
            patches: patches.into_iter().collect::<Result<_, _>>()?,
            by_entropy: ranking()?,
            by_information: ranking()?,
        })
    }

    /// Adds a batch: the probabilities of its pixels under each draw, and the labels.
    fn add(&mut self, draws: Vec<Tensor<2>>, labels: &[usize]) -> Result<(), EvalError> {
        let count = draws.len();
        let values = probabilities_of(Tensor::cat(draws, 0));
        let draws = DrawProbabilities::new(values, count, labels.len(), Shapes::CLASSES)?;
        self.pixels.add(&draws, labels)?;

        let average = draws.average();
        let entropy = predictive_entropy(&average);
        let predicted = average.predicted_classes().into_iter();
        let right: Vec<Option<bool>> = predicted
            .zip(labels)
            .map(|(class, &label)| (label != Shapes::UNSEEN).then_some(class == label))
            .collect();
        for patches in &mut self.patches {
            // Patches must not extend over two images.
            let images = right.chunks(Shapes::PIXELS);
            for (right, entropy) in images.zip(entropy.chunks(Shapes::PIXELS)) {
                patches.add(right, entropy, Shapes::SIDE)?;
            }
        }

        // Crosses against the other shapes: the background is too easy to tell apart.
        let shapes: Vec<usize> = (0..labels.len()).filter(|&row| labels[row] != 0).collect();
        let is_unseen = |&row: &usize| labels[row] == Shapes::UNSEEN;
        let is_unseen: Vec<bool> = shapes.iter().map(is_unseen).collect();
        let of_shapes = |values: &[f64]| -> Vec<f64> {
            shapes.iter().map(|&row| values[row].log10()).collect()
        };
        self.by_entropy.add(&of_shapes(&entropy), &is_unseen)?;
        let information = of_shapes(&mutual_information(&draws));
        self.by_information.add(&information, &is_unseen)
    }
}
// ANCHOR_END: totals

impl Totals {
    fn print(&self, name: &str) -> Result<(), EvalError> {
        let scores = self.pixels.scores()?;
        print!(
            "{name:<18} {:>9.3} {:>6.3} {:>6.3} ",
            scores.confusion.mean_intersection_over_union(),
            scores.nll,
            scores.reliability.expected_calibration_error(),
        );
        for patches in &self.patches {
            print!(" {:.3}", patches.pavpu()?);
        }
        println!();
        Ok(())
    }
}

fn loader(
    images: Vec<ShapeImage>,
    seed: u64,
    device: Device,
) -> Arc<dyn DataLoader<SegmentationBatch>> {
    DataLoaderBuilder::new(SegmentationBatcher)
        .batch_size(BATCH_SIZE)
        .shuffle(seed)
        .set_device(device)
        .build(InMemDataset::new(images))
}
