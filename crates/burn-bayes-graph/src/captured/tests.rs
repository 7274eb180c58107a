//! Recordings of batches of other types and shapes, and the memory that they hold.

use burn::module::ParamGroup;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use burn_bayes_testing::held_after;

use super::*;
use crate::captured_loss::CapturedLoss;
use crate::draws::CapturedForward;

/// The limit of the caches here.
const LIMIT: usize = 1 << 18;

/// The number of batch shapes; the recordings of all need several times the limit.
const SHAPES: usize = 60;

/// What else may be held: counters, reused memory, and the text of a model's fields.
const OTHERS: usize = 1 << 15;

fn outputs(model: &Linear, x: Tensor<3>) -> Tensor<3> {
    let [examples, len, _] = x.dims();
    // A constant per shape, a view of a parameter that picks its elements, and a product.
    let shift = Tensor::<1>::ones([len], &x.device()) * 0.5;
    let weight = model.weight.val();
    let both = Tensor::cat(vec![weight.clone(), weight], 1).narrow(1, 1, 3);
    let product = x
        .clone()
        .matmul(both.unsqueeze_dim::<3>(0).expand([examples, 3, 3]));
    (model.forward(x) + product).tanh() + shift.reshape([1, len, 1])
}

fn losses(model: &Linear, x: Tensor<3>) -> Tensor<1> {
    let outputs = outputs(model, x).square();
    outputs.sum_dim(2).sum_dim(1).squeeze_dims(&[1, 2])
}

/// Fails unless `evaluate` holds less than the limit, and a good part of it, after batches of many shapes.
#[track_caller]
fn stays_below_the_limit<C>(captured: C, evaluate: impl Fn(&C, &Linear, Tensor<3>)) {
    let device = Device::default();
    let model = LinearConfig::new(3, 3).init(&device);
    let batch = |len: usize| Tensor::<3>::ones([2, len, 3], &device) * 0.1;
    // What is made once does not count.
    evaluate(&captured, &model, batch(SHAPES + 1));
    let ((), held) = held_after(|| {
        for len in 1..=SHAPES {
            evaluate(&captured, &model, batch(len));
        }
    });
    assert!(
        held <= (LIMIT + OTHERS) as isize,
        "{held} bytes for {LIMIT}"
    );
    assert!(held >= LIMIT as isize / 4, "{held} bytes for {LIMIT}");
}

fn layout() -> Arc<Layout> {
    let model: Linear = LinearConfig::new(3, 3).init(&Device::default());
    Arc::new(Layout::new(&model, &ParamGroup::all()).unwrap())
}

#[test]
fn gradients_of_ever_new_shapes_use_bounded_memory() {
    let layout = layout();
    let draws = [0.1, 0.2].map(|value| Tensor::full([layout.len()], value, &Device::default()));
    let mut captured = CapturedModel::new(layout, losses);
    captured.players = Memo::new(LIMIT);
    stays_below_the_limit(captured, |captured, model, batch| {
        captured.example_gradients(model, &batch).unwrap();
        assert!(captured.is_in_one_pass(model, &batch, 2).unwrap());
        captured
            .example_gradients_at(model, &draws, &batch)
            .unwrap();
    });
}

#[test]
fn mean_gradients_of_ever_new_shapes_use_bounded_memory() {
    let layout = layout();
    let draws = Tensor::<2>::ones([2, layout.len()], &Device::default()) * 0.1;
    let captured = CapturedLoss::new(layout, losses).with_capacity(LIMIT);
    stays_below_the_limit(captured, |captured, model, batch| {
        let gradients = captured.gradients(model, draws.clone(), &batch);
        assert!(gradients.unwrap().is_some());
    });
}

#[test]
fn outputs_of_ever_new_shapes_use_bounded_memory() {
    let layout = layout();
    let draws = Tensor::<2>::ones([2, layout.len()], &Device::default()) * 0.1;
    let forward = |model: &Linear, x: Tensor<3>| outputs(model, x).flatten::<2>(1, 2);
    let captured = CapturedForward::new(layout, forward).with_capacity(LIMIT);
    stays_below_the_limit(captured, |captured, model, batch| {
        assert!(!captured.is_looped(model, &batch).unwrap());
        captured.outputs(model, draws.clone(), &batch).unwrap();
    });
}
