//! A small transformer that classifies sentences.

use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::transformer::{
    TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput,
};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_bayes::ExampleLoss;
use burn_bayes::graph::ExampleBatch;
use burn_bayes::graph::losses::cross_entropy;
use burn_bayes::laplace::ModelOutputs;
use burn_bayes::likelihood::Likelihood;

use crate::sentences::{Sentence, Sentences};

/// Sentences and their classes.
#[derive(Clone, Debug, ExampleBatch)]
pub struct SentenceBatch {
    /// `[rows, length]`.
    pub words: Tensor<2, Int>,
    /// `[rows]`.
    pub targets: Tensor<1, Int>,
}

impl SentenceBatch {
    /// One batch of all rows.
    pub fn new(rows: &[Sentence], device: &Device) -> Self {
        let words = rows.iter().flat_map(|row| &row.words);
        let words: Vec<i64> = words.map(|&word| word as i64).collect();
        let classes: Vec<i64> = rows.iter().map(|row| row.class as i64).collect();
        let shape = [rows.len(), Sentences::LENGTH];
        Self {
            words: Tensor::from_data(TensorData::new(words, shape), device),
            targets: Tensor::from_data(classes.as_slice(), device),
        }
    }
}

/// Makes [`SentenceBatch`]es for Burn's data loaders.
#[derive(Clone, Copy, Debug)]
struct SentenceBatcher;

impl Batcher<Sentence, SentenceBatch> for SentenceBatcher {
    fn batch(&self, rows: Vec<Sentence>, device: &Device) -> SentenceBatch {
        SentenceBatch::new(&rows, device)
    }
}

/// A loader of `rows` in mini-batches, shuffled in every epoch.
pub fn sentence_loader(
    rows: Vec<Sentence>,
    batch_size: usize,
    seed: u64,
    device: &Device,
) -> Arc<dyn DataLoader<SentenceBatch>> {
    DataLoaderBuilder::new(SentenceBatcher)
        .batch_size(batch_size)
        .shuffle(seed)
        .set_device(device.clone())
        .build(InMemDataset::new(rows))
}

/// A transformer encoder with two layers.
#[derive(Module, Debug)]
pub struct SentenceNet {
    words: Embedding,
    places: Embedding,
    encoder: TransformerEncoder,
    head: Linear,
}

impl SentenceNet {
    /// A network with random weights.
    pub fn new(device: &Device) -> Self {
        let width = 16;
        let encoder = TransformerEncoderConfig::new(width, 2 * width, 2, 2)
            .with_norm_first(true)
            .with_dropout(0.0);
        Self {
            words: EmbeddingConfig::new(Sentences::WORDS, width).init(device),
            places: EmbeddingConfig::new(Sentences::LENGTH, width).init(device),
            encoder: encoder.init(device),
            head: LinearConfig::new(width, Sentences::CLASSES).init(device),
        }
    }

    /// Logits, `[rows, classes]`.
    pub fn forward(&self, words: Tensor<2, Int>) -> Tensor<2> {
        let [rows, length] = words.dims();
        let places = Tensor::arange(0..length as i64, &words.device());
        let places = places.reshape([1, length]).repeat_dim(0, rows);
        let hidden = self.words.forward(words) + self.places.forward(places);
        let input = TransformerEncoderInput::new(hidden);
        let hidden = self.encoder.forward(input).mean_dim(1);
        self.head.forward(hidden.squeeze_dim::<2>(1))
    }

    fn classify(&self, batch: SentenceBatch) -> ClassificationOutput {
        let logits = self.forward(batch.words);
        let loss = cross_entropy(logits.clone(), batch.targets.clone()).mean();
        ClassificationOutput::new(loss, logits, batch.targets)
    }
}

impl TrainStep for SentenceNet {
    type Input = SentenceBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: SentenceBatch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for SentenceNet {
    type Input = SentenceBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: SentenceBatch) -> ClassificationOutput {
        self.classify(batch)
    }
}

impl ExampleLoss for SentenceNet {
    fn example_losses(&self, batch: SentenceBatch) -> Tensor<1> {
        cross_entropy(self.forward(batch.words), batch.targets)
    }

    fn example_outputs(&self, batch: SentenceBatch, losses: Tensor<1>) -> ClassificationOutput {
        let logits = self.clone().no_grad().forward(batch.words);
        ClassificationOutput::new(losses.mean(), logits, batch.targets)
    }
}

impl ModelOutputs for SentenceNet {
    type Features = Tensor<2, Int>;

    fn features(batch: SentenceBatch) -> Tensor<2, Int> {
        batch.words
    }

    fn outputs(&self, words: Tensor<2, Int>) -> Tensor<2> {
        self.forward(words)
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Categorical
    }
}
