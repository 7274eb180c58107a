//! Recorded losses: per-example gradients against one backward pass per example.

mod computed_weights;
mod layers;
mod models;
mod refusals;
mod unseen;
mod uses;

use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::tensor::{Int, Tensor, TensorData};
use burn_bayes::graph::{CapturedModel, ExampleBatch, Layout};

use crate::support::{device, normals, values};

pub(crate) fn tensor<const R: usize>(seed: u64, dims: [usize; R]) -> Tensor<R> {
    let numbers = normals(seed, dims.iter().product());
    Tensor::from_data(TensorData::new(numbers, dims), &device())
}

/// Integers below `bound`, with repetitions.
pub(crate) fn integers<const R: usize>(seed: u64, dims: [usize; R], bound: i64) -> Tensor<R, Int> {
    let numbers = normals(seed, dims.iter().product());
    let numbers: Vec<i64> = numbers
        .iter()
        .map(|x| (x.abs() * 5.0) as i64 % bound)
        .collect();
    Tensor::from_data(TensorData::new(numbers, dims), &device())
}

/// Captures `loss` and compares the loss and gradient of each example with the loop. Returns the paths
/// whose gradients come from the loop.
#[track_caller]
pub(crate) fn compared<M: Module, B: ExampleBatch>(
    model: &M,
    batch: &B,
    loss: impl Fn(&M, B) -> Tensor<1> + Send + Sync + 'static,
) -> Vec<String> {
    let layout = Arc::new(Layout::new(model, &ParamGroup::all()).unwrap());
    let captured = CapturedModel::new(layout.clone(), loss);
    let looped = captured.looped(model, batch).unwrap();
    // Twice, because the second time nothing is recorded.
    for _ in 0..2 {
        let found = captured.example_gradients(model, batch).unwrap();
        close(&values(&found.losses), &values(&looped.losses), "losses");
        let (found, expected) = (
            found.gradients.materialise(),
            looped.gradients.materialise(),
        );
        assert_eq!(found.dims(), expected.dims());
        let scale = values(&expected.clone().abs().max())[0];
        assert!(scale > 0.0, "no gradient anywhere: the test shows nothing");
        for entry in layout.entries() {
            let columns =
                |rows: &Tensor<2>| values(&rows.clone().narrow(1, entry.offset, entry.len()));
            // The gradient of a parameter without effect, such as the bias of a key, is rounding of the others.
            let floor = 1e-2 * scale;
            close_above(floor, &columns(&found), &columns(&expected), &entry.path);
        }
    }
    at_draws(&captured, model, batch);
    let looped = captured.looped_paths(model, batch).unwrap();
    if looped.is_empty() && layout.len() < SMALL {
        assert!(captured.is_in_one_pass(model, batch, 3).unwrap());
    }
    looped
}

/// The maximum number of weights for which several draws fit into one pass.
const SMALL: usize = 10_000;

/// Compares the gradients at several draws with those of the loop at each draw.
#[track_caller]
fn at_draws<M: Module, B: ExampleBatch>(captured: &CapturedModel<M, B>, model: &M, batch: &B) {
    let layout = captured.layout();
    let weights: Tensor<1> = layout.flatten(model).unwrap();
    let draws = [0.0, 0.01, 0.02].map(|scale| {
        let noise: Tensor<1> = tensor(41, weights.dims());
        weights.clone() + noise * scale
    });
    let all = captured.example_gradients_at(model, &draws, batch).unwrap();
    let looped = draws.map(|draw| {
        let model = layout.write(model.clone(), draw).unwrap();
        captured.looped(&model, batch).unwrap()
    });
    let losses = looped.each_ref().map(|draw| draw.losses.clone());
    let losses = Tensor::cat(losses.to_vec(), 0);
    close(&values(&all.losses), &values(&losses), "losses at draws");
    let rows = looped.map(|draw| draw.gradients.materialise());
    let rows = Tensor::cat(rows.to_vec(), 0);
    close(
        &values(&all.gradients.materialise()),
        &values(&rows),
        "gradients at draws",
    );
}

/// As [`compared`], and the gradients of all parameters must come from the graph.
#[track_caller]
pub(crate) fn exact<M: Module, B: ExampleBatch>(
    model: &M,
    batch: &B,
    loss: impl Fn(&M, B) -> Tensor<1> + Send + Sync + 'static,
) {
    let looped = compared(model, batch, loss);
    assert!(looped.is_empty(), "left to the loop: {looped:?}");
}

/// Equal within 1e-5 of the largest number.
#[track_caller]
pub(crate) fn close(found: &[f64], expected: &[f64], what: &str) {
    close_above(1e-6, found, expected, what);
}

/// Equal within 1e-5 of the largest number, or of `floor` if that is larger.
#[track_caller]
fn close_above(floor: f64, found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(floor, |max, x| max.max(x.abs()));
    let error = |(a, b): (&f64, &f64)| (a - b).abs() / scale;
    let worst = found.iter().zip(expected).map(error).fold(0.0, f64::max);
    assert!(worst <= 1e-5, "{what}: relative error {worst:e}");
}

/// Sums a fixed nonlinear function over all axes except the examples: a loss for any output.
pub(crate) fn some_loss<const R: usize>(output: Tensor<R>) -> Tensor<1> {
    let examples = output.dims()[0];
    let flat: Tensor<2> = output.reshape([examples as i32, -1]);
    (flat.clone().tanh() + flat.square() * 0.1)
        .sum_dim(1)
        .squeeze_dim(1)
}
