//! Compiled losses with batch norm in training mode, against Burn's own layers.

use burn::module::{Module, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};

use super::{numbers, tensor};
use crate::{BatchStatistic, CapturedLoss, DrawGradients, Layout};

const MOMENTUM: f64 = 0.25;

/// A convolution, a layer that is used twice, and one on features.
#[derive(Module, Debug)]
struct Net {
    image: Conv2d,
    norm: BatchNorm,
    line: Linear,
    last: BatchNorm,
}

fn net() -> Net {
    let device = Device::default().autodiff();
    let norm = |len: usize| {
        let norm = BatchNormConfig::new(len).with_momentum(MOMENTUM);
        norm.init(&device)
    };
    let net = Net {
        image: Conv2dConfig::new([2, 3], [3, 3]).init(&device),
        norm: norm(3),
        line: LinearConfig::new(27, 4).init(&device),
        last: norm(4),
    };
    let layout = Layout::new(&net, &ParamGroup::from_predicate("weight")).unwrap();
    let len = layout.len();
    let weights: Tensor<1> = tensor(numbers(1, len), [len]);
    layout.write(net, weights.without_autodiff()).unwrap()
}

fn losses(net: &Net, x: Tensor<4>) -> Tensor<1> {
    let hidden = relu(net.norm.forward(net.image.forward(x)));
    let hidden = net.norm.forward(hidden.clone() * hidden);
    let features = net.line.forward(hidden.flatten(1, 3));
    let outputs: Tensor<2> = net.last.forward(features).tanh() + 0.1;
    outputs.powi_scalar(3).sum_dim(1).squeeze_dim(1)
}

fn batch(rows: usize) -> Tensor<4> {
    let pixels = numbers(rows as u64, 50 * rows).into_iter();
    tensor(
        pixels.map(|pixel| 3.0 * pixel + 0.5).collect(),
        [rows, 2, 5, 5],
    )
}

fn captured(layout: &Layout) -> CapturedLoss<Net, Tensor<4>> {
    CapturedLoss::new(layout.clone().into(), losses).with_batch_statistics()
}

fn values<const R: usize>(tensor: Tensor<R>) -> Vec<f32> {
    let data = tensor.without_autodiff().into_data();
    data.try_into_vec::<f32>().unwrap()
}

#[track_caller]
fn assert_close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected
        .iter()
        .fold(1e-3, |most: f32, of| most.max(of.abs()));
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() < 1e-5 * largest,
            "{what}: {found} instead of {expected}"
        );
    }
}

/// The running statistics, without pending updates.
fn running(net: &Net) -> Vec<(ParamId, Vec<f32>)> {
    struct Collect(Vec<(ParamId, Vec<f32>)>);
    impl ModuleVisitor for Collect {
        fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
            self.0.push((param.id, values(param.val())));
        }
    }
    let net = net.valid();
    let mut found = Collect(Vec::new());
    for layer in [&net.norm, &net.last] {
        for state in [&layer.running_mean, &layer.running_var] {
            state.visit(&mut found);
        }
    }
    found.0
}

/// The running statistics after these of the batch.
fn updated(net: &Net, statistics: &[BatchStatistic]) -> Vec<(ParamId, Vec<f32>)> {
    let mut running = running(net);
    for BatchStatistic { id, values: of } in statistics {
        let (_, running) = running.iter_mut().find(|(known, _)| known == id).unwrap();
        for (running, value) in running.iter_mut().zip(values(of.clone())) {
            *running += MOMENTUM as f32 * (value - *running);
        }
    }
    running
}

/// Compares losses, gradients and statistics at a draw with Burn's layers, which change the model.
#[track_caller]
fn compared(
    net: &Net,
    layout: &Layout,
    x: &Tensor<4>,
    draw: Tensor<1>,
    found: (&DrawGradients, usize),
) {
    let (found, number) = found;
    let expected_running = updated(net, found.statistics.get(number).map_or(&[], |of| of));
    let direct = layout.write_leaves(net.clone(), draw).unwrap();
    let expected = losses(&direct, x.clone());
    let of_draw = found.losses.clone().narrow(0, number, 1);
    assert_close("losses", &values(of_draw), &values(expected.clone()));
    let mut gradients = GradientsParams::from_grads(expected.mean().backward(), &direct);
    let expected = values(layout.flatten_gradients(&direct, &mut gradients).unwrap());
    let gradient = values(Tensor::cat(found.pieces[number].clone(), 0));
    assert_close("a gradient", &gradient, &expected);
    for ((_, found), (_, expected)) in expected_running.iter().zip(running(&direct)) {
        assert_close("running statistics", found, &expected);
    }
}

#[test]
fn losses_gradients_and_statistics_are_those_of_layers_in_training() {
    let net = net();
    let layout = Layout::new(&net, &ParamGroup::all()).unwrap();
    let captured = captured(&layout);
    let weights = layout.flatten(&net).unwrap();
    let draws = Tensor::stack::<2>(vec![weights.clone(), weights * 0.5 + 0.01], 0);
    // Both shapes several times, so that losses alone are compared too.
    for rows in [6, 40, 6, 6, 40, 6] {
        let x = batch(rows);
        let before = running(&net);
        let found = captured.gradients(&net, draws.clone(), &x).unwrap();
        let found = found.expect("it can be compiled");
        assert_eq!(running(&net), before);
        assert_eq!(found.statistics.len(), 2);
        assert!(found.statistics.iter().all(|of| of.len() == 6));
        for number in 0..2 {
            let draw = draws.clone().narrow(0, number, 1).squeeze_dim(0);
            compared(&net, &layout, &x, draw, (&found, number));
        }
    }
}

#[test]
fn frozen_layers_keep_their_statistics_and_have_another_recording() {
    let net = net();
    let x = batch(8);
    // Statistics other than the initial ones.
    let _ = losses(&net, x.clone());
    drop(net.valid());
    let layout = Layout::new(&net, &ParamGroup::all()).unwrap();
    let captured = captured(&layout);
    let weights = layout.flatten(&net).unwrap();
    let evaluated = |net: &Net| {
        let found = captured.gradients(net, weights.clone().unsqueeze(), &x);
        found.unwrap().expect("it can be compiled")
    };
    compared(&net, &layout, &x, weights.clone(), (&evaluated(&net), 0));
    let partly = Net {
        last: net.last.clone().freeze(),
        ..net.clone()
    };
    let found = evaluated(&partly);
    assert_eq!(found.statistics[0].len(), 4);
    compared(&partly, &layout, &x, weights.clone(), (&found, 0));
    let frozen = Net {
        norm: net.norm.clone().freeze(),
        ..partly
    };
    let found = evaluated(&frozen);
    assert!(found.statistics.is_empty());
    compared(&frozen, &layout, &x, weights.clone(), (&found, 0));
    compared(&net, &layout, &x, weights.clone(), (&evaluated(&net), 0));
}

#[test]
fn only_batches_with_autodiff_of_several_rows_have_statistics() {
    let net = net();
    let layout = Layout::new(&net, &ParamGroup::all()).unwrap();
    let captured = captured(&layout);
    let draws = layout.flatten(&net).unwrap().unsqueeze::<2>();
    let is_evaluated = |x: &Tensor<4>| {
        let found = captured.gradients(&net, draws.clone(), x).unwrap();
        found.is_some()
    };
    assert!(is_evaluated(&batch(2)));
    assert!(!is_evaluated(&batch(1)));
    assert!(!is_evaluated(&batch(2).inner()));
}

/// A loss that reads a running statistic itself.
#[test]
fn a_loss_that_reads_running_statistics_is_not_compiled() {
    let net = net();
    let layout = Layout::new(&net, &ParamGroup::all()).unwrap();
    let captured = CapturedLoss::new(layout.clone().into(), |net: &Net, x: Tensor<4>| {
        let [rows, ..] = x.dims();
        let mean = net.last.running_mean.value().sum();
        losses(net, x) * mean.expand([rows])
    });
    let draws = layout.flatten(&net).unwrap().unsqueeze::<2>();
    let captured = captured.with_batch_statistics();
    assert!(
        captured
            .gradients(&net, draws, &batch(4))
            .unwrap()
            .is_none()
    );
}

#[test]
fn models_of_one_architecture_share_a_recording_and_not_their_ids() {
    let nets = [net(), net()];
    let layout = Layout::new(&nets[0], &ParamGroup::from_predicate("line.weight")).unwrap();
    let captured = captured(&layout);
    let weights = layout.flatten(&nets[0]).unwrap();
    for net in &nets {
        let found = captured.gradients(net, weights.clone().unsqueeze(), &batch(8));
        let found = found.unwrap().expect("it can be compiled");
        compared(net, &layout, &batch(8), weights.clone(), (&found, 0));
        let bias = net.line.bias.as_ref().unwrap();
        assert!(found.outside.get::<1>(bias.id).is_some());
    }
    // What is frozen later has no gradient, and what is trained again has one.
    let net = nets[0].clone();
    let frozen = Net {
        image: net.image.clone().no_grad(),
        ..net.clone()
    };
    for (net, is_trained) in [(&frozen, false), (&net, true)] {
        let found = captured.gradients(net, weights.clone().unsqueeze(), &batch(8));
        let outside = found.unwrap().expect("it can be compiled").outside;
        let gradient = outside.get::<4>(net.image.weight.id);
        assert_eq!(gradient.is_some(), is_trained);
    }
}

#[test]
fn draws_of_another_element_type_are_an_error() {
    let net = net();
    let layout = Layout::new(&net, &ParamGroup::all()).unwrap();
    let captured = captured(&layout);
    let draws = layout.flatten(&net).unwrap().unsqueeze::<2>();
    let draws = draws.cast(burn::tensor::FloatDType::F64);
    let error = captured.gradients(&net, draws, &batch(8)).unwrap_err();
    assert!(
        error.is_batch() && error.to_string().contains("F64"),
        "{error}"
    );
}
