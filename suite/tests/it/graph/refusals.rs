//! Losses without per-example gradients, and losses that cannot be recorded.

use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::tensor::{Distribution, Tensor};
use burn_bayes::graph::{CapturedModel, Error, Layout};

use super::{compared, exact, some_loss, tensor};
use crate::support::device;

fn linear() -> Linear {
    LinearConfig::new(3, 2).init(&device())
}

fn refused(loss: impl Fn(&Linear, Tensor<2>) -> Tensor<1> + Send + Sync + 'static) -> Error {
    let layout = Arc::new(Layout::new(&linear(), &ParamGroup::all()).unwrap());
    let captured = CapturedModel::new(layout, loss);
    captured
        .example_gradients(&linear(), &tensor(1, [4, 3]))
        .unwrap_err()
}

#[test]
fn a_loss_that_mixes_examples_is_refused_with_the_operation() {
    let centred = refused(|m, x| {
        let y = m.forward(x);
        some_loss(y.clone() - y.mean_dim(0))
    });
    assert!(centred.is_coupled(), "{centred}");
    assert!(centred.to_string().contains("MeanDim"), "{centred}");
    let averaged = refused(|m, x| m.forward(x).square().mean());
    assert!(averaged.is_coupled(), "{averaged}");
    let pairs = refused(|m, x| {
        let y = m.forward(x);
        some_loss(y.clone().matmul(y.transpose()))
    });
    assert!(pairs.is_coupled(), "{pairs}");
}

#[test]
fn random_numbers_are_refused() {
    let error = refused(|m, x| {
        let noise = Tensor::random(x.dims(), Distribution::Default, &x.device());
        some_loss(m.forward(x + noise))
    });
    assert!(error.is_random(), "{error}");
}

#[test]
fn batches_that_disagree_or_are_empty_are_refused() {
    let layout = Arc::new(Layout::new(&linear(), &ParamGroup::all()).unwrap());
    let captured = CapturedModel::new(layout, |m: &Linear, (x, _): (Tensor<2>, Tensor<1>)| {
        some_loss(m.forward(x))
    });
    let odd = (tensor::<2>(1, [4, 3]), tensor::<1>(2, [5]));
    let error = captured.example_gradients(&linear(), &odd).unwrap_err();
    assert!(
        error.is_batch() && error.to_string().contains("5 entries"),
        "{error}"
    );
}

#[test]
fn a_course_that_depends_on_values_is_left_to_the_loop() {
    let looped = compared(&linear(), &tensor(1, [4, 3]), |m: &Linear, x: Tensor<2>| {
        let size: f32 = m.weight.val().square().sum().into_scalar();
        let y = m.forward(x);
        some_loss(if size > 0.0 { y } else { y * 2.0 })
    });
    assert_eq!(looped, ["weight", "bias"]);
}

#[derive(Module, Debug)]
struct Dropping {
    linear: Linear,
    dropout: Dropout,
    norm: BatchNorm,
}

#[test]
fn dropout_and_batch_statistics_are_off() {
    let model = Dropping {
        linear: linear(),
        dropout: DropoutConfig::new(0.5).init(),
        norm: BatchNormConfig::new(2).init(&device()),
    };
    exact(&model, &tensor(1, [4, 3]), |m: &Dropping, x: Tensor<2>| {
        some_loss(m.norm.forward(m.dropout.forward(m.linear.forward(x))))
    });
}
