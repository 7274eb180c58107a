//! What a recording does not contain: every loss is correct or refused, never silently wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use burn::module::{Module, Param, ParamGroup};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::activation::{sigmoid, softmax, softplus};
use burn::tensor::{DType, Int, Tensor};
use burn_bayes::graph::{
    CapturedForward, CapturedLoss, CapturedModel, Error, ExampleBatch, Layout, TensorMapper, losses,
};

use super::{close, compared, exact, integers, some_loss, tensor};
use crate::support::{device, values};

#[derive(Module, Debug)]
struct Model {
    first: Linear,
    second: Linear,
    scale: Param<Tensor<1>>,
    factor: f64,
    shift: Tensor<1>,
}

fn model() -> Model {
    let linear = |seed, dims: [usize; 2]| {
        let mut layer = LinearConfig::new(dims[0], dims[1]).init(&device());
        layer.weight = Param::from_tensor(tensor(seed, dims));
        layer
    };
    Model {
        first: linear(1, [3, 4]),
        second: linear(2, [4, 3]),
        scale: Param::from_tensor(tensor(3, [1])),
        factor: 0.5,
        shift: tensor(4, [3]),
    }
}

fn output(m: &Model, x: Tensor<2>) -> Tensor<2> {
    let hidden = m.first.forward(x).tanh();
    m.second.forward(hidden) * m.scale.val().unsqueeze() * m.factor + m.shift.clone().unsqueeze()
}

const ALL: [&str; 5] = [
    "first.weight",
    "first.bias",
    "second.weight",
    "second.bias",
    "scale",
];

type Loss = fn(&Model, Tensor<2>) -> Tensor<1>;

#[test]
fn stopped_gradients_are_left_to_the_loop() {
    let straight_through: Loss = |m, x| {
        let y = output(m, x);
        some_loss(y.clone() + (y.clone().round() - y).detach())
    };
    let detached: Loss = |m, x| {
        let y = output(m, x.clone());
        some_loss(y.clone() * output(m, x * 2.0).detach())
    };
    let without: Loss = |m, x| {
        let y = output(m, x.clone());
        some_loss(y - output(m, x.sin()).without_autodiff())
    };
    let teacher: Loss = |m, x| {
        let teacher = m.clone().no_grad();
        some_loss(output(m, x.clone()) - output(&teacher, x + 0.1))
    };
    for loss in [straight_through, detached, without, teacher] {
        assert_eq!(compared(&model(), &tensor(5, [4, 3]), loss), ALL);
        let layout = Arc::new(Layout::new(&model(), &ParamGroup::all()).unwrap());
        let captured = CapturedLoss::new(layout.clone(), loss);
        let draws = tensor(6, [2, layout.len()]);
        let batch = tensor(5, [4, 3]);
        assert!(
            captured
                .gradients(&model(), draws, &batch)
                .unwrap()
                .is_none()
        );
    }
}

#[test]
fn a_gradient_that_zero_weights_hide_is_seen() {
    let mut zero = model();
    zero.scale = Param::from_tensor(Tensor::zeros([1], &device()));
    let looped = compared(&zero, &tensor(5, [4, 3]), |m: &Model, x: Tensor<2>| {
        let y = m.first.forward(x.clone()).detach() * m.scale.val().unsqueeze();
        some_loss(output(m, x)) + some_loss(y)
    });
    assert_eq!(looped, ALL);
}

#[derive(Module, Debug)]
struct Products {
    weight: Param<Tensor<2>>,
    query: Param<Tensor<2>>,
    heads: Param<Tensor<3>>,
}

fn products() -> Products {
    Products {
        weight: Param::from_tensor(tensor(1, [3, 2])),
        query: Param::from_tensor(tensor(2, [2, 3])),
        heads: Param::from_tensor(tensor(3, [2, 3, 2])),
    }
}

#[test]
fn a_weight_expanded_over_the_examples_is_one_weight() {
    // The number of examples may or may not divide that of positions.
    for [m, t] in [[4, 8], [5, 7], [2, 2], [3, 1]] {
        let batch = tensor::<3>(7, [m, t, 3]);
        exact(&products(), &batch, |w: &Products, x: Tensor<3>| {
            let [m, t, _] = x.dims();
            let expanded = w.weight.val().unsqueeze::<3>().expand([m, 3, 2]);
            let repeated = w.weight.val().unsqueeze::<3>().repeat_dim(0, m);
            let right = x.clone().matmul(expanded) + x.clone().sin().matmul(repeated);
            // Attention pooling: a learned query per example.
            let query = w.query.val().unsqueeze::<3>().expand([m, 2, 3]);
            let pooled = softmax(query.matmul(x.clone().swap_dims(1, 2)), 2).matmul(x.clone());
            // A weight for each of two heads, per example.
            let heads = w.heads.val().unsqueeze::<4>().expand([m, 2, 3, 2]);
            let heads: Tensor<3> = heads.reshape([m * 2, 3, 2]);
            let inputs = x.unsqueeze_dim::<4>(1).expand([m, 2, t, 3]);
            let inputs: Tensor<3> = inputs.reshape([m * 2, t, 3]);
            let per_head: Tensor<3> = inputs.matmul(heads).reshape([m, 2 * t, 2]);
            some_loss(right) + some_loss(pooled) + some_loss(per_head)
        });
    }
}

#[test]
fn a_parameter_that_the_host_reads_is_left_to_the_loop() {
    let loss: Loss = |m, x| {
        let scale: f32 = m.scale.val().into_scalar();
        some_loss(output(m, x) * scale)
    };
    assert_eq!(compared(&model(), &tensor(5, [4, 3]), loss), ALL);
    // With draws and in a forward pass as well.
    let layout = Arc::new(Layout::new(&model(), &ParamGroup::all()).unwrap());
    let forward = CapturedForward::new(layout.clone(), |m: &Model, x: Tensor<2>| {
        let scale: f32 = m.scale.val().into_scalar();
        output(m, x) * scale
    });
    let draws = tensor(6, [2, layout.len()]);
    let batch = tensor(5, [4, 3]);
    let found = forward.outputs(&model(), draws.clone(), &batch).unwrap();
    let looped = forward.looped(&model(), draws, &batch).unwrap();
    close(&values(&found), &values(&looped), "outputs");
}

fn refusal<B: ExampleBatch>(
    batch: &B,
    loss: impl Fn(&Model, B) -> Tensor<1> + Send + Sync + 'static,
) -> Error {
    let layout = Arc::new(Layout::new(&model(), &ParamGroup::all()).unwrap());
    let captured = CapturedModel::new(layout, loss);
    captured.example_gradients(&model(), batch).unwrap_err()
}

#[test]
fn what_the_host_reads_of_a_whole_batch_is_refused() {
    let error = refusal(&tensor::<2>(5, [4, 3]), |m: &Model, x: Tensor<2>| {
        let largest: f32 = x.clone().abs().max().into_scalar();
        some_loss(output(m, x / largest))
    });
    assert!(error.is_coupled(), "{error}");
    let error = refusal(&tensor::<2>(5, [4, 3]), |m: &Model, x: Tensor<2>| {
        let first = x.to_data().try_into_vec::<f32>().unwrap()[0];
        some_loss(output(m, x) * first)
    });
    assert!(error.is_coupled(), "{error}");
}

/// A batch with lengths that are not a tensor, and a tensor that its mapper omits.
#[derive(Clone, Debug, ExampleBatch)]
struct Hiding {
    x: Tensor<2>,
    #[batch(shared)]
    lengths: Vec<usize>,
    #[batch(shared)]
    weights: Tensor<1>,
}

fn hiding() -> Hiding {
    Hiding {
        x: tensor(5, [4, 3]),
        lengths: vec![1, 2, 3, 1],
        weights: tensor(6, [4]),
    }
}

#[test]
fn a_batch_that_hides_a_list_or_a_tensor_is_refused_by_name() {
    let list = refusal(&hiding(), |m: &Model, batch: Hiding| {
        let lengths = batch.lengths[..batch.x.dims()[0]].iter();
        let factors: Vec<f32> = lengths.map(|&len| len as f32).collect();
        let factors = Tensor::<1>::from_data(&*factors, &batch.x.device());
        some_loss(output(m, batch.x)) * factors
    });
    let panicking = refusal(&hiding(), |m: &Model, batch: Hiding| {
        let factors: Vec<f32> = batch.lengths.iter().map(|&len| len as f32).collect();
        let factors = Tensor::<1>::from_data(&*factors, &batch.x.device());
        some_loss(output(m, batch.x)) * factors
    });
    let tensor = refusal(&hiding(), |m: &Model, batch: Hiding| {
        let [examples, _] = batch.x.dims();
        let weights = batch.weights.to_device(&batch.x.device());
        some_loss(output(m, batch.x)) * weights.narrow(0, 0, examples)
    });
    for error in [list, panicking, tensor] {
        assert!(error.is_coupled(), "{error}");
        assert!(error.to_string().contains("Hiding"), "{error}");
    }
}

#[test]
fn fields_that_change_are_not_taken_from_the_recording() {
    let layout = Arc::new(Layout::new(&model(), &ParamGroup::all()).unwrap());
    let captured = CapturedModel::new(layout.clone(), |m: &Model, x| some_loss(output(m, x)));
    let forward = CapturedForward::new(layout.clone(), output);
    let mut model = model();
    let batch = tensor(5, [4, 3]);
    let draws: Tensor<2> = tensor(6, [2, layout.len()]);
    for step in 0..3 {
        match step {
            1 => model.factor = 0.25,
            2 => model.shift = tensor(8, [3]),
            _ => {}
        }
        let found = captured.example_gradients(&model, &batch).unwrap();
        let looped = captured.looped(&model, &batch).unwrap();
        close(&values(&found.losses), &values(&looped.losses), "losses");
        let rows = found.gradients.materialise();
        close(
            &values(&rows),
            &values(&looped.gradients.materialise()),
            "gradients",
        );
        assert!(captured.looped_paths(&model, &batch).unwrap().is_empty());
        let found = forward.outputs(&model, draws.clone(), &batch).unwrap();
        let looped = forward.looped(&model, draws.clone(), &batch).unwrap();
        close(&values(&found), &values(&looped), "outputs");
    }
}

/// The uses, from 1, at which a recording is refused, if a hidden number changes after `changed`.
fn refused_uses(changed: u32) -> Vec<u32> {
    let layout = Arc::new(Layout::new(&model(), &ParamGroup::all()).unwrap());
    let hidden = Arc::new(AtomicU32::new(1));
    let loss = |hidden: Arc<AtomicU32>| {
        move |m: &Model, x: Tensor<2>| some_loss(output(m, x) * hidden.load(Relaxed) as f64)
    };
    let checked = CapturedModel::new(layout.clone(), loss(hidden.clone()));
    let unchecked = CapturedModel::new(layout, loss(hidden.clone())).without_self_check();
    let (model, batch) = (model(), tensor(5, [4, 3]));
    let refused = (1..=48).filter(|&use_of| {
        hidden.store(if use_of <= changed { 1 } else { 2 }, Relaxed);
        let found = checked.example_gradients(&model, &batch);
        assert!(unchecked.example_gradients(&model, &batch).is_ok());
        found.is_err_and(|error| {
            assert!(error.is_mismatch(), "{error}");
            true
        })
    });
    refused.collect()
}

#[test]
fn a_change_that_nothing_shows_is_an_error_after_at_most_fifteen_uses() {
    // A refused use is compared again.
    assert_eq!(refused_uses(1)[0], 2);
    assert_eq!(refused_uses(4)[0], 8);
    assert_eq!(refused_uses(20), (32..=48).collect::<Vec<_>>());
    assert_eq!(refused_uses(32)[0], 48);
    assert!(refused_uses(48).is_empty());
}

/// A batch by hand with a number, which no signature shows.
#[derive(Clone)]
struct Scaled(Tensor<2>, f64);

impl ExampleBatch for Scaled {
    fn map_tensors<T: TensorMapper>(self, mapper: &mut T) -> Self {
        Self(self.0.map_tensors(mapper), self.1)
    }
}

#[derive(Clone, ExampleBatch)]
struct DerivedScaled {
    x: Tensor<2>,
    #[batch(shared)]
    scale: f64,
}

#[test]
fn a_number_in_a_batch_that_changes_later_is_refused_at_once_or_recorded_anew() {
    let layout = Arc::new(Layout::new(&model(), &ParamGroup::all()).unwrap());
    let by_hand = CapturedModel::new(layout.clone(), |m: &Model, batch: Scaled| {
        some_loss(output(m, batch.0) * batch.1)
    });
    let derived = CapturedModel::new(layout.clone(), |m: &Model, batch: DerivedScaled| {
        some_loss(output(m, batch.x) * batch.scale)
    });
    let (model, x) = (model(), tensor(5, [4, 3]));
    for use_of in 1..=22 {
        let scale = if use_of <= 20 { 1.0 } else { 1.5 };
        let batch = Scaled(x.clone(), scale);
        let found = by_hand.example_gradients(&model, &batch);
        match use_of {
            ..=20 => assert!(found.is_ok()),
            _ => assert!(found.unwrap_err().is_mismatch()),
        }
        let batch = DerivedScaled {
            x: x.clone(),
            scale,
        };
        let found = derived.example_gradients(&model, &batch).unwrap();
        let looped = derived.looped(&model, &batch).unwrap();
        close(&values(&found.losses), &values(&looped.losses), "losses");
        assert!(derived.looped_paths(&model, &batch).unwrap().is_empty());
    }
}

#[test]
fn batches_of_another_element_type_have_their_own_recording() {
    let layout = Arc::new(Layout::new(&model(), &ParamGroup::all()).unwrap());
    let captured = CapturedModel::new(layout.clone(), |m: &Model, x: Tensor<2>| {
        some_loss(output(m, x.clamp(-1.0, 1.0).cast(DType::F32)))
    });
    let model = model();
    let draws: Tensor<2> = tensor(6, [2, layout.len()]);
    let forward = CapturedForward::new(layout, |m: &Model, x: Tensor<2>| {
        output(m, x.clamp(-1.0, 1.0).cast(DType::F32))
    });
    let batch: Tensor<2> = tensor(5, [4, 3]);
    for dtype in [DType::F32, DType::F64, DType::F32] {
        let batch = batch.clone().cast(dtype);
        let found = captured.example_gradients(&model, &batch).unwrap();
        let looped = captured.looped(&model, &batch).unwrap();
        close(&values(&found.losses), &values(&looped.losses), "losses");
        let found = forward.outputs(&model, draws.clone(), &batch).unwrap();
        let looped = forward.looped(&model, draws.clone(), &batch).unwrap();
        close(&values(&found), &values(&looped), "outputs");
    }
}

#[test]
fn a_loss_without_weights_has_gradients_of_zero() {
    let layout = Arc::new(Layout::new(&model(), &ParamGroup::all()).unwrap());
    let loss: Loss = |_, x| some_loss(x);
    let detached: Loss = |m, x| some_loss(output(m, x).detach());
    let batch = tensor(5, [4, 3]);
    for loss in [loss, detached] {
        let captured = CapturedModel::new(layout.clone(), loss);
        let draws = [tensor(6, [layout.len()]), tensor(7, [layout.len()])];
        let looped = captured.looped(&model(), &batch).unwrap();
        assert!(
            values(&looped.gradients.materialise())
                .iter()
                .all(|&g| g == 0.0)
        );
        let found = captured
            .example_gradients_at(&model(), &draws, &batch)
            .unwrap();
        assert_eq!(found.losses.dims(), [8]);
        assert!(
            values(&found.gradients.materialise())
                .iter()
                .all(|&g| g == 0.0)
        );
    }
}

#[test]
fn a_refusal_is_not_forgotten() {
    let layout = Arc::new(Layout::new(&model(), &ParamGroup::all()).unwrap());
    let captured = CapturedModel::new(layout, |m: &Model, batch: Hiding| {
        let lengths = batch.lengths[..batch.x.dims()[0]].iter();
        let factors: Vec<f32> = lengths.map(|&len| len as f32).collect();
        let factors = Tensor::<1>::from_data(&*factors, &batch.x.device());
        some_loss(output(m, batch.x)) * factors
    });
    for _ in 0..10 {
        assert!(captured.example_gradients(&model(), &hiding()).is_err());
    }
}

#[test]
fn functions_of_a_scalar_parameter_are_recorded() {
    exact(&model(), &tensor(5, [4, 3]), |m: &Model, x: Tensor<2>| {
        let scale = m.scale.val();
        let by_row = output(m, x.clone()) * scale.clone().exp().unsqueeze();
        let repeated = sigmoid(scale.clone()).repeat_dim(0, x.dims()[0]);
        let flat = some_loss(by_row) * sigmoid(scale.clone()) + some_loss(x.clone()) * repeated;
        flat + softplus(scale, 1.0) * some_loss(x)
    });
    // With positions between the examples.
    exact(
        &model(),
        &tensor(5, [4, 2, 3]),
        |m: &Model, x: Tensor<3>| {
            let [examples, positions, _] = x.dims();
            let y =
                output(m, x.reshape([examples * positions, 3])) * m.scale.val().exp().unsqueeze();
            some_loss(y.reshape([examples, positions * 3]))
        },
    );
}

#[test]
fn constants_with_an_entry_for_every_position_are_no_obstacle() {
    exact(
        &model(),
        &tensor(5, [4, 2, 3]),
        |m: &Model, x: Tensor<3>| {
            let [examples, positions, _] = x.dims();
            let y = output(m, x.reshape([examples * positions, 3]));
            let ones = Tensor::ones([examples * positions, 3], &y.device());
            let mask = Tensor::<2>::zeros([examples * positions, 3], &y.device()).equal_elem(1.0);
            let y = (y + ones).mask_fill(mask, 0.0);
            some_loss(y.reshape([examples, positions * 3]))
        },
    );
}

#[test]
fn labels_as_rows_are_recorded() {
    let batch = (tensor::<2>(5, [4, 3]), integers::<1>(6, [4], 3));
    exact(
        &model(),
        &batch,
        |m: &Model, (x, y): (Tensor<2>, Tensor<1, Int>)| {
            some_loss(output(m, x) - losses::one_hot(y, 3))
        },
    );
    let labels = Tensor::<1, Int>::from_data([2, 0, 5], &device());
    let rows = values(&losses::one_hot(labels, 3));
    assert_eq!(rows[..6], [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    assert!(rows[6..].iter().all(|value| value.is_nan()));
}
