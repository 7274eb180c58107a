//! Each layer, with the shapes that matter.

use burn::module::{Module, Param};
use burn::nn::conv::{
    Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Conv3d, Conv3dConfig, ConvTranspose1d,
    ConvTranspose1dConfig, ConvTranspose2d, ConvTranspose2dConfig, ConvTranspose3d,
    ConvTranspose3dConfig,
};
use burn::nn::{
    BatchNorm, BatchNormConfig, Embedding, EmbeddingConfig, GroupNorm, GroupNormConfig,
    InstanceNorm, InstanceNormConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig, PRelu,
    PReluConfig, PaddingConfig1d, PaddingConfig2d, PaddingConfig3d, RmsNorm, RmsNormConfig,
};
use burn::tensor::{Int, Tensor};
use proptest::prelude::*;

use super::{exact, integers, some_loss, tensor};
use crate::support::device;

#[test]
fn linear_with_any_leading_dimensions() {
    let linear = LinearConfig::new(4, 3).init(&device());
    exact(&linear, &tensor(1, [5, 4]), |m: &Linear, x: Tensor<2>| {
        some_loss(m.forward(x))
    });
    exact(
        &linear,
        &tensor(2, [5, 6, 4]),
        |m: &Linear, x: Tensor<3>| some_loss(m.forward(x)),
    );
    exact(
        &linear,
        &tensor(3, [5, 2, 3, 4]),
        |m: &Linear, x: Tensor<4>| some_loss(m.forward(x)),
    );
    let bare = LinearConfig::new(4, 3).with_bias(false).init(&device());
    exact(&bare, &tensor(4, [5, 6, 4]), |m: &Linear, x: Tensor<3>| {
        some_loss(m.forward(x))
    });
    // Examples and positions merged into one axis, with the examples second.
    exact(
        &linear,
        &tensor(5, [5, 6, 4]),
        |m: &Linear, x: Tensor<3>| {
            let merged: Tensor<2> = x.swap_dims(0, 1).reshape([-1, 4]);
            let output: Tensor<3> = m.forward(merged).reshape([6, -1, 3]);
            some_loss(output.swap_dims(0, 1))
        },
    );
}

#[test]
fn convolutions_direct() {
    let conv = Conv1dConfig::new(4, 6, 3)
        .with_groups(2)
        .with_stride(2)
        .with_dilation(2)
        .with_padding(PaddingConfig1d::Explicit(2, 1))
        .init(&device());
    exact(&conv, &tensor(1, [3, 4, 11]), |m: &Conv1d, x: Tensor<3>| {
        some_loss(m.forward(x))
    });
    let conv = Conv2dConfig::new([4, 6], [3, 2])
        .with_groups(2)
        .with_stride([2, 1])
        .with_dilation([1, 2])
        .with_padding(PaddingConfig2d::Explicit(1, 2, 1, 2))
        .init(&device());
    exact(
        &conv,
        &tensor(2, [3, 4, 7, 6]),
        |m: &Conv2d, x: Tensor<4>| some_loss(m.forward(x)),
    );
    let depthwise = Conv2dConfig::new([4, 4], [3, 3])
        .with_groups(4)
        .init(&device());
    exact(
        &depthwise,
        &tensor(3, [3, 4, 5, 5]),
        |m: &Conv2d, x: Tensor<4>| some_loss(m.forward(x)),
    );
    let conv = Conv3dConfig::new([2, 4], [2, 3, 1])
        .with_stride([1, 2, 1])
        .with_padding(PaddingConfig3d::Explicit(1, 0, 0))
        .init(&device());
    exact(
        &conv,
        &tensor(4, [3, 2, 4, 5, 3]),
        |m: &Conv3d, x: Tensor<5>| some_loss(m.forward(x)),
    );
}

#[test]
fn convolutions_transposed() {
    let conv = ConvTranspose1dConfig::new([4, 6], 3)
        .with_groups(2)
        .with_stride(2)
        .with_padding(1)
        .with_padding_out(1)
        .init(&device());
    exact(
        &conv,
        &tensor(1, [3, 4, 5]),
        |m: &ConvTranspose1d, x: Tensor<3>| some_loss(m.forward(x)),
    );
    let conv = ConvTranspose2dConfig::new([4, 6], [3, 2])
        .with_groups(2)
        .with_stride([2, 1])
        .with_dilation([1, 2])
        .with_padding([1, 1])
        .with_padding_out([1, 0])
        .init(&device());
    exact(
        &conv,
        &tensor(2, [3, 4, 4, 5]),
        |m: &ConvTranspose2d, x: Tensor<4>| some_loss(m.forward(x)),
    );
    let conv = ConvTranspose3dConfig::new([2, 3], [2, 2, 3]).init(&device());
    exact(
        &conv,
        &tensor(3, [3, 2, 2, 3, 2]),
        |m: &ConvTranspose3d, x: Tensor<5>| some_loss(m.forward(x)),
    );
}

#[test]
fn normalisations() {
    let norm = LayerNormConfig::new(6).init(&device());
    exact(
        &norm,
        &tensor(1, [4, 3, 6]),
        |m: &LayerNorm, x: Tensor<3>| some_loss(m.forward(x)),
    );
    let norm = RmsNormConfig::new(6).init(&device());
    exact(&norm, &tensor(2, [4, 3, 6]), |m: &RmsNorm, x: Tensor<3>| {
        some_loss(m.forward(x))
    });
    let norm = GroupNormConfig::new(2, 6).init(&device());
    exact(
        &norm,
        &tensor(3, [4, 6, 5]),
        |m: &GroupNorm, x: Tensor<3>| some_loss(m.forward(x)),
    );
    let norm = InstanceNormConfig::new(6).init(&device());
    exact(
        &norm,
        &tensor(4, [4, 6, 5]),
        |m: &InstanceNorm, x: Tensor<3>| some_loss(m.forward(x)),
    );
    let norm = BatchNormConfig::new(6).init(&device());
    exact(
        &norm,
        &tensor(5, [4, 6, 5]),
        |m: &BatchNorm, x: Tensor<3>| some_loss(m.forward(x)),
    );
}

#[test]
fn embeddings() {
    let table = EmbeddingConfig::new(7, 3).init(&device());
    let tokens: Tensor<2, Int> = integers(1, [4, 5], 7);
    exact(&table, &tokens, |m: &Embedding, x: Tensor<2, Int>| {
        some_loss(m.forward(x))
    });
}

#[test]
fn parametric_activations() {
    let one = PReluConfig::new().init(&device());
    exact(&one, &tensor(1, [4, 3]), |m: &PRelu, x: Tensor<2>| {
        some_loss(m.forward(x))
    });
    let several = PReluConfig::new().with_num_parameters(3).init(&device());
    exact(
        &several,
        &tensor(2, [4, 3, 5]),
        |m: &PRelu, x: Tensor<3>| some_loss(m.forward(x)),
    );
}

/// A parameter of shape `[3, 4]`.
#[derive(Module, Debug)]
struct Table {
    weights: Param<Tensor<2>>,
}

fn table() -> Table {
    Table {
        weights: Param::from_tensor(tensor(9, [3, 4])),
    }
}

#[test]
fn select_and_gather_of_a_parameter() {
    let picks: Tensor<1, Int> = integers(1, [5], 3);
    exact(&table(), &picks, |m: &Table, x: Tensor<1, Int>| {
        some_loss(m.weights.val().select(0, x))
    });
    let picks: Tensor<2, Int> = integers(2, [5, 4], 3);
    exact(&table(), &picks, |m: &Table, x: Tensor<2, Int>| {
        some_loss(m.weights.val().gather(0, x))
    });
    // Of a part, of a transposed parameter, and along the other axis of a broadcast one.
    let picks: Tensor<2, Int> = integers(3, [5, 3], 3);
    exact(&table(), &picks, |m: &Table, x: Tensor<2, Int>| {
        let turned = m.weights.val().transpose().gather(0, x.clone());
        let column = m.weights.val().narrow(1, 1, 1).transpose();
        let broadcast = column.expand([x.dims()[0], 3]).gather(1, x.clone());
        some_loss(m.weights.val().narrow(1, 0, 3).gather(0, x) * turned + broadcast)
    });
    // By constant indices, before it is combined with the batch.
    exact(
        &table(),
        &tensor::<2>(4, [5, 3]),
        |m: &Table, x: Tensor<2>| {
            let places =
                Tensor::<2, Int>::from_data([[2, 0, 3], [1, 1, 0], [0, 3, 2]], &x.device());
            some_loss(x.matmul(m.weights.val().gather(1, places)))
        },
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn gather_along_any_axis_with_the_examples_anywhere(
        seed in 0..1000u64,
        examples in 2..=4usize,
        positions in 1..=3usize,
        columns in 1..=4usize,
        is_last in any::<bool>(),
    ) {
        // Every index is below both sizes of the table, so both axes can be gathered.
        let picks: Tensor<3, Int> = integers(seed, [examples, positions, columns], 3);
        exact(&table(), &picks, move |m: &Table, x: Tensor<3, Int>| {
            let [examples, positions, columns] = x.dims();
            let rows: Tensor<2, Int> = x.reshape([examples * positions, columns]);
            let table = m.weights.val().narrow(1, 0, columns);
            let picked = match is_last {
                true => table.transpose().gather(1, rows.transpose()).transpose(),
                false => table.gather(0, rows),
            };
            let picked: Tensor<3> = picked.reshape([examples, positions, columns]);
            some_loss(picked)
        });
    }
}

#[test]
fn elementwise_operations_that_broadcast_a_parameter() {
    let inputs = tensor::<3>(3, [5, 3, 4]);
    exact(&table(), &inputs, |m: &Table, x: Tensor<3>| {
        let w: Tensor<3> = m.weights.val().unsqueeze();
        some_loss((x.clone() + w.clone()) * w.clone() - (x.square() + 1.0) / w.clone() - w)
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn convolutions_of_any_shape(
        groups in 1..3_usize,
        channels in (1..3_usize, 1..3_usize),
        kernel in (1..4_usize, 1..3_usize),
        stride in (1..3_usize, 1..3_usize),
        dilation in (1..3_usize, 1..3_usize),
        padding in (0..2_usize, 0..2_usize),
        side in (5..8_usize, 4..7_usize),
        seed in 0..1000_u64,
    ) {
        let (from, to) = (groups * channels.0, groups * channels.1);
        let conv = Conv2dConfig::new([from, to], [kernel.0, kernel.1])
            .with_groups(groups)
            .with_stride([stride.0, stride.1])
            .with_dilation([dilation.0, dilation.1])
            .with_padding(PaddingConfig2d::Explicit(padding.0, padding.1, padding.0, padding.1))
            .init(&device());
        let images = tensor(seed, [3, from, side.0, side.1]);
        exact(&conv, &images, |m: &Conv2d, x: Tensor<4>| some_loss(m.forward(x)));

        let back = ConvTranspose2dConfig::new([from, to], [kernel.0, kernel.1])
            .with_groups(groups)
            .with_stride([stride.0, stride.1])
            .with_dilation([dilation.0, dilation.1])
            .with_padding([padding.0.min(kernel.0 - 1), padding.1.min(kernel.1 - 1)])
            .init(&device());
        exact(&back, &images, |m: &ConvTranspose2d, x: Tensor<4>| some_loss(m.forward(x)));
    }

    #[test]
    fn linear_layers_of_any_shape(
        examples in 2..6_usize,
        positions in 1..5_usize,
        widths in (1..6_usize, 1..6_usize),
        has_bias: bool,
        seed in 0..1000_u64,
    ) {
        let linear = LinearConfig::new(widths.0, widths.1).with_bias(has_bias).init(&device());
        let inputs = tensor(seed, [examples, positions, widths.0]);
        exact(&linear, &inputs, |m: &Linear, x: Tensor<3>| some_loss(m.forward(x)));
    }
}
