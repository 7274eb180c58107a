//! What is learned: digits that the program draws, by a network with two hidden layers.

use std::error::Error;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Int, Tensor};
use burn_bayes::predict::Predictor;
use burn_bayes::prelude::*;
use burn_bayes_examples::{ClassBatch, ClassRow, ClassScores, Classifier, Glyphs};

pub(crate) type Model = Supervised<Classifier, Tensor<2>, Tensor<1, Int>>;
pub(crate) type Batch = (Tensor<2>, Tensor<1, Int>);

/// The model before the training, the same on every device.
pub(crate) fn model(seed: u64, device: &Device) -> Model {
    let cpu = Device::flex();
    cpu.seed(seed);
    let network = Classifier::new(Glyphs::PIXELS, 32, Glyphs::CLASSES, &cpu);
    // Parameters are drawn when they are first read, on the device where that is.
    network.visit(&mut Read);
    Supervised::new(network, Classifier::forward, Likelihood::Categorical).fork(device)
}

/// Reads every parameter.
struct Read;

impl ModuleVisitor for Read {
    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        let _ = param.val();
    }
}

/// The rows for training, for validation and for the test.
pub(crate) fn rows() -> [Vec<ClassRow>; 3] {
    Glyphs::sets(0)
}

/// One batch of all rows.
pub(crate) fn batch(rows: &[ClassRow], device: &Device) -> Batch {
    let ClassBatch { inputs, targets } = ClassBatch::new(rows, device);
    (inputs, targets)
}

/// Mini-batches in the same order in every epoch, so that a training that is resumed has those of one without a pause.
pub(crate) fn loader(
    rows: Vec<ClassRow>,
    batch_size: usize,
    device: &Device,
) -> Arc<dyn DataLoader<Batch>> {
    DataLoaderBuilder::new(ToBatch)
        .batch_size(batch_size)
        .set_device(device.clone())
        .build(InMemDataset::new(rows))
}

struct ToBatch;

impl Batcher<ClassRow, Batch> for ToBatch {
    fn batch(&self, rows: Vec<ClassRow>, device: &Device) -> Batch {
        batch(&rows, device)
    }
}

/// Accuracy and negative log-likelihood of the test rows, on this machine.
pub(crate) fn test_scores<P: Posterior>(posterior: P) -> Result<(f64, f64), Box<dyn Error>> {
    let cpu = Device::flex();
    let [_, _, test] = rows();
    let predictor = Predictor::restore(model(0, &cpu), posterior)?;
    let prediction = predictor.predict(batch(&test, &cpu), 100)?.prediction;
    let scores = ClassScores::new(prediction.draw_means(), &test)?;
    Ok((scores.accuracy, scores.nll))
}
