//! Weights that are computed from parameters: sums, products and scalings, and LoRA.

use burn::module::{Lora, Module, Param, ParamGroup, Reparameterization, Reparameterizer};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::activation::softplus;
use burn::tensor::module::{embedding, linear};
use burn::tensor::{Int, Tensor};
use burn_bayes::graph::Layout;

use super::{compared, exact, integers, some_loss, tensor};
use crate::support::{device, filled, normals, vector};

/// The model with LoRA adapters of which no factor is zero. All weights are the same in every run.
pub(super) fn adapted<M: Module>(model: M, rank: usize) -> M {
    let model = filled(model, 8, 0.3).apply_lora(Lora::new(rank, 2.0 * rank as f64));
    let layout = Layout::new(&model, &ParamGroup::all()).unwrap();
    let weights = vector(&normals(9, layout.len())) * 0.5;
    layout.write(model, weights).unwrap()
}

#[test]
fn a_linear_layer_with_lora() {
    let layer = adapted(LinearConfig::new(6, 5).init(&device()), 2);
    assert!(layer.weight.adapter().is_some());
    exact(&layer, &tensor(1, [5, 6]), |m: &Linear, x: Tensor<2>| {
        some_loss(m.forward(x))
    });
    exact(&layer, &tensor(2, [5, 3, 6]), |m: &Linear, x: Tensor<3>| {
        some_loss(m.forward(x))
    });
    let bare = LinearConfig::new(6, 5).with_bias(false).init(&device());
    exact(
        &adapted(bare, 3),
        &tensor(3, [5, 2, 3, 6]),
        |m: &Linear, x: Tensor<4>| some_loss(m.forward(x)),
    );
}

#[test]
fn a_linear_layer_with_lora_whose_base_is_trained_too() {
    let layer = adapted(LinearConfig::new(6, 5).init(&device()), 2).unfreeze();
    let layout = Layout::new(&layer, &ParamGroup::all()).unwrap();
    assert_eq!(layout.entries().len(), 4, "{layout}");
    exact(&layer, &tensor(2, [5, 3, 6]), |m: &Linear, x: Tensor<3>| {
        some_loss(m.forward(x))
    });
}

#[test]
fn an_embedding_with_lora() {
    let table = adapted(EmbeddingConfig::new(7, 4).init(&device()), 2);
    exact(
        &table,
        &integers(1, [5, 3], 7),
        |m: &Embedding, x: Tensor<2, Int>| some_loss(m.forward(x)),
    );
}

/// Weight normalisation: column j of the weight is gⱼ vⱼ / ‖vⱼ‖.
#[derive(Module, Debug)]
struct WeightNorm {
    gain: Param<Tensor<1>>,
}

impl Reparameterization for WeightNorm {
    const NAME: &'static str = "weight_norm";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        let norm = base.clone().square().sum_dim(0).sqrt();
        base / norm * self.gain.val().unsqueeze()
    }
}

struct ToWeightNorm;

impl Reparameterizer for ToWeightNorm {
    type Reparam = WeightNorm;

    fn reparameterize<const D: usize>(
        &mut self,
        _path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<WeightNorm>) {
        let norm = (D == 2).then(|| WeightNorm {
            gain: Param::from_tensor(tensor(7, [param.dims()[D - 1]])),
        });
        (param, norm)
    }
}

#[test]
fn a_linear_layer_with_weight_normalisation() {
    let layer = LinearConfig::new(4, 3).init(&device());
    let layer = layer.apply_reparameterization(ToWeightNorm);
    let layout = Layout::new(&layer, &ParamGroup::all()).unwrap();
    assert_eq!(layout.len(), 12 + 3 + 3, "{layout}");
    exact(&layer, &tensor(2, [5, 3, 4]), |m: &Linear, x: Tensor<3>| {
        some_loss(m.forward(x))
    });
}

#[derive(Module, Debug)]
struct Parts {
    /// `[4, 3]`
    base: Param<Tensor<2>>,
    /// `[4, 2]`
    left: Param<Tensor<2>>,
    /// `[2, 3]`
    right: Param<Tensor<2>>,
    /// `[4, 4]`
    square: Param<Tensor<2>>,
    /// `[3]`
    columns: Param<Tensor<1>>,
    /// `[4]`
    rows: Param<Tensor<1>>,
}

fn parts() -> Parts {
    Parts {
        base: Param::from_tensor(tensor(1, [4, 3])),
        left: Param::from_tensor(tensor(2, [4, 2])),
        right: Param::from_tensor(tensor(3, [2, 3])),
        square: Param::from_tensor(tensor(4, [4, 4]) * 0.3),
        columns: Param::from_tensor(tensor(5, [3])),
        rows: Param::from_tensor(tensor(6, [4])),
    }
}

impl Parts {
    fn product(&self) -> Tensor<2> {
        self.left.val().matmul(self.right.val())
    }

    /// One positive factor for each column, `[1, 3]`.
    fn column_factors(&self) -> Tensor<2> {
        self.columns.val().exp().unsqueeze()
    }

    /// One positive factor for each row, `[4, 1]`.
    fn row_factors(&self) -> Tensor<2> {
        self.rows.val().exp().unsqueeze_dim(1)
    }
}

/// A weight `[4, 3]` as a function of the parts.
type Weight = fn(&Parts) -> Tensor<2>;

/// Products x W and W x in all forms.
#[track_caller]
fn exact_in_products(weight: Weight) {
    let model = parts();
    exact(
        &model,
        &tensor(1, [5, 4]),
        move |m: &Parts, x: Tensor<2>| some_loss(x.matmul(weight(m))),
    );
    let bias = move |m: &Parts| Some(m.columns.val());
    exact(
        &model,
        &tensor(2, [5, 2, 4]),
        move |m: &Parts, x: Tensor<3>| some_loss(linear(x, weight(m), bias(m))),
    );
    exact(
        &model,
        &tensor(3, [5, 2, 4]),
        move |m: &Parts, x: Tensor<3>| {
            let examples = x.dims()[0];
            let once: Tensor<3> = weight(m).unsqueeze();
            let shared = x.clone().matmul(once.clone());
            let expanded = x.clone().matmul(once.clone().expand([examples, 4, 3]));
            let repeated = x.matmul(once.repeat_dim(0, examples));
            some_loss(shared.tanh() + expanded.sin() + repeated)
        },
    );
    exact(
        &model,
        &tensor(4, [5, 3, 2]),
        move |m: &Parts, x: Tensor<3>| some_loss(weight(m).unsqueeze::<3>().matmul(x)),
    );
    exact(
        &model,
        &tensor(5, [5, 2, 3]),
        move |m: &Parts, x: Tensor<3>| some_loss(x.matmul(weight(m).transpose().unsqueeze::<3>())),
    );
}

/// Lookups of rows of W.
#[track_caller]
fn exact_in_lookups(weight: Weight) {
    let model = parts();
    exact(
        &model,
        &integers(1, [5, 3], 4),
        move |m: &Parts, x: Tensor<2, Int>| some_loss(embedding(weight(m), x)),
    );
    exact(
        &model,
        &integers(2, [5], 4),
        move |m: &Parts, x: Tensor<1, Int>| some_loss(weight(m).select(0, x)),
    );
}

#[test]
fn products_of_parameters() {
    let weights: [Weight; 3] = [
        Parts::product,
        |m| m.square.val().matmul(m.square.val()).matmul(m.base.val()),
        |m| {
            let turned = m.right.val().transpose().matmul(m.left.val().transpose());
            turned.transpose()
        },
    ];
    for weight in weights {
        exact_in_products(weight);
        exact_in_lookups(weight);
    }
}

#[test]
fn sums_of_parameters() {
    let weights: [Weight; 4] = [
        |m| m.base.val() + m.product(),
        |m| m.base.val() - m.product() * 0.7,
        |m| m.product().neg() / 3.0 + m.base.val(),
        |m| {
            (m.base.val() + m.product())
                .matmul(m.right.val().transpose())
                .matmul(m.right.val())
        },
    ];
    for weight in weights {
        exact_in_products(weight);
        exact_in_lookups(weight);
    }
}

#[test]
fn columns_with_factors() {
    let weights: [Weight; 4] = [
        |m| m.product() * m.column_factors(),
        |m| m.column_factors() * m.base.val(),
        |m| (m.base.val() + m.product()) / m.column_factors(),
        |m| m.base.val() / m.base.val().square().sum_dim(0).sqrt() * m.columns.val().unsqueeze(),
    ];
    for weight in weights {
        exact_in_products(weight);
        exact_in_lookups(weight);
    }
}

#[test]
fn rows_with_factors() {
    let weights: [Weight; 3] = [
        |m| m.product() * m.row_factors(),
        |m| (m.base.val() + m.product()) / m.row_factors(),
        |m| m.base.val() / m.base.val().square().sum_dim(1).sqrt() * m.rows.val().unsqueeze_dim(1),
    ];
    weights.into_iter().for_each(exact_in_products);
}

#[test]
fn one_factor_for_all() {
    exact_in_products(|m| m.product() * m.columns.val().sum().unsqueeze());
}

#[test]
fn a_sum_of_too_many_products_is_left_to_the_loop() {
    /// (S + Sᵀ) to the power of 2ⁿ, as a product of a row.
    fn power(m: &Parts, doublings: usize) -> Tensor<2> {
        let sum = m.square.val() + m.square.val().transpose();
        (0..doublings).fold(sum, |power, _| power.clone().matmul(power))
    }
    exact(&parts(), &tensor(1, [5, 4]), |m: &Parts, x: Tensor<2>| {
        some_loss(x.matmul(power(m, 3)))
    });
    let looped = compared(&parts(), &tensor(1, [5, 4]), |m: &Parts, x: Tensor<2>| {
        some_loss(x.matmul(power(m, 4)))
    });
    assert_eq!(looped, ["square"]);
}

#[test]
fn other_functions_of_parameters_are_left_to_the_loop() {
    let looped = compared(&parts(), &tensor(1, [5, 4]), |m: &Parts, x: Tensor<2>| {
        let positive = softplus(m.base.val(), 1.0);
        some_loss(x.clone().matmul(positive + m.product()) + x.matmul(m.product()))
    });
    assert_eq!(looped, ["base", "left", "right"]);
}
