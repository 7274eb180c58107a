//! One training step: plain training with Burn's Adam and with ours, and VIFA.
//!
//! The model is kept during the update, as in Burn's Learner. For ratios use the program `ratios`,
//! which times its variants in turns.

use std::time::Duration;

use burn_bayes_benches::{Case, Holder};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

fn vifa_step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("vifa_step");
    for case in Case::ALL {
        if matches!(case, Case::ResNet32 | Case::ResNet64) {
            group
                .sample_size(10)
                .measurement_time(Duration::from_secs(30));
        }
        for variant in case.variants() {
            let mut stepper = case.stepper(variant, Holder::Learner);
            group.bench_function(BenchmarkId::new(case.name(), variant), |bencher| {
                bencher.iter(|| stepper.step());
            });
        }
    }
    group.finish();
}

criterion_group!(benches, vifa_step);
criterion_main!(benches);
