//! The ways in which a loss can use a parameter: twice, transposed, sliced, concatenated, broadcast.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

use super::{exact, integers, some_loss, tensor};

#[derive(Module, Debug)]
struct Weights {
    first: Param<Tensor<2>>,
    second: Param<Tensor<2>>,
    vector: Param<Tensor<1>>,
}

/// first: [3, 4], second: [4, 3], vector: [4]
fn weights() -> Weights {
    Weights {
        first: Param::from_tensor(tensor(1, [3, 4])),
        second: Param::from_tensor(tensor(2, [4, 3])),
        vector: Param::from_tensor(tensor(3, [4])),
    }
}

/// Uses every parameter, so that a test of one use has gradients for all.
fn touched(m: &Weights, x: Tensor<2>) -> Tensor<2> {
    let hidden = x.matmul(m.first.val()) + m.vector.val().unsqueeze();
    hidden.tanh().matmul(m.second.val())
}

#[test]
fn used_once() {
    exact(
        &weights(),
        &tensor(4, [5, 3]),
        |m: &Weights, x: Tensor<2>| some_loss(touched(m, x)),
    );
}

#[test]
fn after_a_layer_whose_weights_are_fixed() {
    exact(
        &weights(),
        &tensor(4, [5, 3]),
        |m: &Weights, x: Tensor<2>| {
            let hidden = x.matmul(m.first.val()) + m.vector.val().unsqueeze();
            let fixed = Tensor::full([4, 4], 0.5, &hidden.device());
            let hidden = burn::tensor::module::linear(hidden.tanh(), fixed, None);
            some_loss(hidden.matmul(m.second.val()))
        },
    );
}

#[test]
fn used_twice_by_the_same_operation_and_by_others() {
    exact(
        &weights(),
        &tensor(4, [5, 3]),
        |m: &Weights, x: Tensor<2>| {
            let once = touched(m, x);
            some_loss(touched(m, once.clone().sin()) + once)
        },
    );
    exact(
        &weights(),
        &tensor(5, [5, 3]),
        |m: &Weights, x: Tensor<2>| {
            let output = touched(m, x);
            // The first weight again, as a summand and transposed.
            let summed: Tensor<3> =
                output.clone().unsqueeze_dim::<3>(2) * m.first.val().unsqueeze();
            let turned = output.matmul(m.second.val().transpose());
            some_loss(summed) + some_loss(turned)
        },
    );
}

#[test]
fn turned_cut_and_joined() {
    exact(
        &weights(),
        &tensor(4, [5, 4]),
        |m: &Weights, x: Tensor<2>| {
            // [4, 3] from both weights: transposed, and sliced and concatenated.
            let turned = m.first.val().transpose();
            let joined = Tensor::cat(
                vec![
                    m.second.val().narrow(0, 0, 2),
                    turned.clone().narrow(0, 1, 2),
                ],
                0,
            );
            some_loss(touched(m, x.clone().matmul(turned)) + x.matmul(joined))
        },
    );
    exact(
        &weights(),
        &tensor(4, [5, 3]),
        |m: &Weights, x: Tensor<2>| {
            let flipped = m.first.val().flip([0]).swap_dims(0, 1).reshape([6, 2]);
            let repeated = m
                .vector
                .val()
                .reshape([1, 4])
                .repeat(&[1, 3])
                .reshape([2, 6]);
            let product = touched(m, x).narrow(1, 0, 2).matmul(repeated);
            some_loss(product.matmul(flipped))
        },
    );
}

#[test]
fn expanded_over_the_examples() {
    exact(
        &weights(),
        &tensor(4, [5, 3]),
        |m: &Weights, x: Tensor<2>| {
            let own = m.vector.val().reshape([1, 4]).expand([x.dims()[0], 4]);
            some_loss(Tensor::cat(vec![touched(m, x), own], 1))
        },
    );
}

#[test]
fn picked_by_constant_indices() {
    exact(
        &weights(),
        &tensor(4, [5, 3]),
        |m: &Weights, x: Tensor<2>| {
            let places = Tensor::<1, Int>::from_data([2, 0, 0, 1], &x.device());
            let picked = m.first.val().select(0, places);
            some_loss(touched(m, x).matmul(picked.transpose().narrow(0, 0, 3)))
        },
    );
}

#[test]
fn on_the_left_of_a_product() {
    exact(
        &weights(),
        &tensor(4, [5, 4, 2]),
        |m: &Weights, x: Tensor<3>| {
            let left = m.first.val().unsqueeze::<3>().matmul(x);
            let output: Tensor<2> = left.reshape([-1, 6]).narrow(1, 0, 3);
            some_loss(touched(m, output))
        },
    );
    // One weight per group of the batch's second axis.
    exact(
        &weights(),
        &tensor(5, [5, 3, 2, 2]),
        |m: &Weights, x: Tensor<4>| {
            let grouped: Tensor<4> = m.first.val().reshape([1, 3, 2, 2]);
            let product = x.clone().matmul(grouped.clone()) + grouped.matmul(x);
            let output: Tensor<2> = product.reshape([-1, 12]).narrow(1, 0, 3);
            some_loss(touched(m, output))
        },
    );
}

#[test]
fn a_parameter_that_the_loss_does_not_use_has_no_gradient() {
    exact(
        &weights(),
        &tensor(4, [5, 3]),
        |m: &Weights, x: Tensor<2>| some_loss(x.matmul(m.first.val())),
    );
}

#[test]
fn targets_of_every_kind() {
    let batch = (tensor::<2>(4, [5, 3]), integers::<1>(5, [5], 3));
    exact(
        &weights(),
        &batch,
        |m: &Weights, (x, y): (Tensor<2>, Tensor<1, Int>)| {
            let logs = burn::tensor::activation::log_softmax(touched(m, x), 1);
            logs.gather(1, y.unsqueeze_dim(1)).squeeze_dim::<1>(1).neg()
        },
    );
    let masked = (
        tensor::<2>(4, [5, 3]),
        tensor::<2>(6, [5, 3]).greater_elem(0.0),
    );
    exact(
        &weights(),
        &masked,
        |m: &Weights, (x, keep): (Tensor<2>, Tensor<2, burn::tensor::Bool>)| {
            some_loss(touched(m, x).mask_fill(keep, 0.0))
        },
    );
}
