//! Inputs of the metrics' tests, and an epoch of them.

use burn::data::dataloader::Progress;
use burn::tensor::{Device, Tensor};
use burn::train::metric::{Metric, MetricMetadata, Numeric};

use crate::likelihood::{ClassificationDraws, RegressionDraws};

pub(crate) fn metadata() -> MetricMetadata {
    MetricMetadata {
        progress: Progress {
            items_processed: 1,
            items_total: 1,
            unit: None,
        },
        iteration: None,
        lr: None,
    }
}

/// Probabilities `[draws][rows][classes]`, and the true classes.
pub(crate) fn classification<const S: usize, const R: usize, const C: usize>(
    probabilities: [[[f32; C]; R]; S],
    targets: [i64; R],
) -> ClassificationDraws {
    let device = Device::default();
    ClassificationDraws::new(
        Tensor::from_data(probabilities, &device),
        Tensor::from_data(targets, &device),
    )
}

/// Predictions `[draws][rows]` of one target, and the true values.
pub(crate) fn regression<const S: usize, const R: usize>(
    outputs: [[f32; R]; S],
    targets: [f32; R],
) -> RegressionDraws {
    let device = Device::default();
    let column = |rows: [f32; R]| rows.map(|row| [row]);
    RegressionDraws::new(
        Tensor::from_data(outputs.map(column), &device),
        Tensor::from_data(column(targets), &device),
    )
}

/// The final value of a metric after an epoch of these batches.
pub(crate) fn epoch<M: Metric + Numeric>(mut metric: M, batches: &[M::Input]) -> f64 {
    for batch in batches {
        metric.update(batch, &metadata()).unwrap();
    }
    metric.compute().unwrap();
    metric.final_value().current()
}

/// Fails unless an epoch of these batches has this value, up to `count` roundings as in
/// [`assert_close`].
#[track_caller]
pub(crate) fn assert_epoch<M: Metric + Numeric>(
    metric: M,
    batches: &[M::Input],
    expected: f64,
    count: usize,
) {
    assert_close(epoch(metric, batches), expected, count);
}

/// Fails unless two values agree up to `count` roundings of a number of this size in the single
/// precision that the inputs have.
#[track_caller]
pub(crate) fn assert_close(value: f64, expected: f64, count: usize) {
    let tolerance = count as f64 * f64::from(f32::EPSILON) * expected.abs().max(1.0);
    assert!(
        (value - expected).abs() <= tolerance,
        "{value} is not {expected} within {tolerance:.1e}"
    );
}
