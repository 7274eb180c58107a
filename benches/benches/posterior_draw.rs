//! One draw of all weights from a posterior, mean-field or with low-rank factors.

use std::hint::black_box;
use std::sync::Arc;

use burn::module::ParamGroup;
use burn::tensor::{Device, Tensor};
use burn_bayes::graph::Layout;
use burn_bayes::{FactorPosterior, Noise};
use burn_bayes_benches::MlpClassifier;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const WIDTHS: [&[usize]; 2] = [&[13, 50, 1], &[784, 400, 400, 10]];

fn posterior(widths: &[usize], rank: usize) -> FactorPosterior {
    let device = Device::default();
    let model = MlpClassifier::new(widths, &device.clone().autodiff());
    let layout = Layout::new(&model, &ParamGroup::all()).expect("a perceptron has weights");
    let mean = layout.flatten(&model).expect("the layout is the model's");
    let noise = Noise::new(1);
    let rows = (0..rank as u64).map(|row| noise.row(row).normal(layout.len(), &device));
    let rows: Vec<_> = rows
        .map(|row| row.mul_scalar(0.01).unsqueeze::<2>())
        .collect();
    let factors = (rank > 0).then(|| Tensor::cat(rows, 0));
    let variance = Tensor::full([layout.len()], 1e-4, &device);
    FactorPosterior::covariance(Arc::new(layout), mean, factors, variance)
        .expect("the numbers are finite")
}

fn posterior_draw(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("posterior_draw");
    for widths in WIDTHS {
        for rank in [0, 1, 8, 32] {
            let posterior = posterior(widths, rank);
            let id = BenchmarkId::new(format!("d={}", posterior.len()), format!("k={rank}"));
            group.throughput(Throughput::Elements(posterior.len() as u64));
            let mut stream = 0;
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    stream += 1;
                    black_box(posterior.draw(Noise::new(2).fold(stream)))
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, posterior_draw);
criterion_main!(benches);
