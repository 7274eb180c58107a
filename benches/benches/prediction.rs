//! The average of 100 draws for 1000 rows, compared with one plain prediction.

use std::hint::black_box;
use std::time::Duration;

use burn::module::Module;
use burn::tensor::Device;
use burn::train::InferenceStep;
use burn_bayes::BayesianConfig;
use burn_bayes::VifaConfig;
use burn_bayes_benches::{MlpClassifier, classification_batch};
use criterion::{Criterion, criterion_group, criterion_main};

const ROWS: usize = 1000;
const DRAWS: usize = 100;

fn prediction(criterion: &mut Criterion) {
    let device = Device::default();
    device.seed(0);
    let model = MlpClassifier::new(&[784, 400, 400, 10], &device.clone().autodiff());
    let batch = classification_batch(ROWS, 784, 10, &device);
    let plain = model.clone().valid();

    let mut group = criterion.benchmark_group("prediction/784-400-400-10/rows=1000");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(20));
    group.bench_function("plain", |bencher| {
        bencher.iter(|| black_box(InferenceStep::step(&plain, batch.clone())));
    });
    for rank in [1, 8] {
        let config = BayesianConfig::new(60_000, VifaConfig::new().with_rank(rank));
        let bayesian = config.init(model.clone()).valid();
        group.bench_function(format!("draws={DRAWS}/k={rank}"), |bencher| {
            bencher.iter(|| black_box(bayesian.predict(batch.clone(), DRAWS)));
        });
    }
    group.finish();
}

criterion_group!(benches, prediction);
criterion_main!(benches);
