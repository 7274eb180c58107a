//! Operations on per-example gradients in factored form, compared with a plain training step.
//!
//! `slang` is the set of operations of a SLANG step: the Gram matrix, eight weighted sums, the mean
//! and the sum of squares.

use std::hint::black_box;

use burn::tensor::{Device, Distribution, Tensor};
use burn::train::TrainStep;
use burn_bayes::graph::ExampleGradients;
use burn_bayes_benches::{
    MlpClassifier, classification_batch, convolution_gradients, embedding_gradients,
    perceptron_gradients,
};
use criterion::{Criterion, criterion_group, criterion_main};

const WIDTHS: [usize; 4] = [784, 400, 400, 10];
const RANK: usize = 8;

fn plain_step(criterion: &mut Criterion) {
    let device = Device::default().autodiff();
    device.seed(0);
    let model = MlpClassifier::new(&WIDTHS, &device);
    let batch = classification_batch(64, WIDTHS[0], WIDTHS[3], &device);
    let id = "example_gradients/784-400-400-10/m=64/plain_step";
    criterion.bench_function(id, |bencher| {
        bencher.iter(|| black_box(TrainStep::step(&model, batch.clone())));
    });
}

fn operations(criterion: &mut Criterion) {
    let device = Device::default();
    device.seed(0);
    let perceptron = perceptron_gradients(64, &WIDTHS, &device);
    measure(criterion, "784-400-400-10", &perceptron, &device);
    let convolutions = convolution_gradients(16, &device);
    measure(criterion, "resnet-18_convolutions", &convolutions, &device);
    let embedding = embedding_gradients([16, 64], [10_000, 256], &device);
    measure(criterion, "embedding_10000x256/t=64", &embedding, &device);
}

fn measure(criterion: &mut Criterion, name: &str, gradients: &ExampleGradients, device: &Device) {
    let (count, len) = (gradients.count(), gradients.len());
    let normal = Distribution::Normal(0.0, 1.0);
    let weights = Tensor::random([RANK, count], normal, device);
    let vectors = Tensor::random([RANK, len], normal, device);
    let mut group =
        criterion.benchmark_group(format!("example_gradients/{name}/m={count}/d={len}"));
    group.sample_size(20);
    group.bench_function("gram", |bencher| {
        bencher.iter(|| black_box(gradients.gram()));
    });
    group.bench_function(format!("weighted_sums/r={RANK}"), |bencher| {
        bencher.iter(|| black_box(gradients.weighted_sums(weights.clone())));
    });
    group.bench_function("mean", |bencher| {
        bencher.iter(|| black_box(gradients.mean()));
    });
    group.bench_function("sum_of_squares", |bencher| {
        bencher.iter(|| black_box(gradients.sum_of_squares()));
    });
    group.bench_function(format!("dot/l={RANK}"), |bencher| {
        bencher.iter(|| black_box(gradients.dot(vectors.clone())));
    });
    group.bench_function(format!("slang/l={RANK}"), |bencher| {
        bencher.iter(|| {
            black_box(gradients.gram());
            black_box(gradients.weighted_sums(weights.clone()));
            black_box(gradients.mean());
            black_box(gradients.sum_of_squares());
        });
    });
    group.finish();
}

criterion_group!(benches, plain_step, operations);
criterion_main!(benches);
