//! The nodes of every kind of operation, and what is refused.

use std::collections::BTreeSet;

use burn::module::{Param, ParamGroup};
use burn::nn::pool::{AdaptiveAvgPool2dConfig, AvgPool1dConfig, AvgPool2dConfig, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, LayerNormConfig, LinearConfig};
use burn::tensor::activation::{gelu, log_softmax, softmax, softmin};
use burn::tensor::module::{conv_transpose2d, conv2d};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{Device, Distribution, Int};

use super::message::{Attribute, Graph, Length, Node, TensorMessage};
use super::*;

/// A parameter of any shape.
#[derive(Module, Debug)]
struct Weights<const R: usize> {
    weight: Param<Tensor<R>>,
}

impl<const R: usize> Weights<R> {
    fn new(shape: [usize; R]) -> Self {
        let weight = Tensor::random(shape, Distribution::Default, &Device::default());
        Self {
            weight: Param::from_tensor(weight),
        }
    }
}

/// The file of a model at draws that differ in all weights, or in none.
fn file<M: Module, B: ExampleBatch>(
    model: &M,
    draws: usize,
    example: &B,
    forward: impl Fn(&M, B) -> Tensor<2>,
) -> Result<Model> {
    let layout = Arc::new(Layout::new(model, &ParamGroup::all()).unwrap());
    let draw = |number: usize| {
        let weights = layout.flatten(model)?;
        layout.write(model.clone(), weights + number as f32)
    };
    let exported = OnnxModel::of_draws(draws, draw, layout.clone(), example, forward)?;
    let exported = exported.with_output("outputs", |outputs| outputs)?;
    let bytes = exported.into_bytes(&[("seed", "7".into())])?;
    Ok(Model::decode(&bytes[..]).unwrap())
}

/// The graph of one draw, after checks that hold for every graph.
#[track_caller]
fn graph<M: Module, B: ExampleBatch>(
    model: &M,
    example: &B,
    forward: impl Fn(&M, B) -> Tensor<2>,
) -> Graph {
    checked(file(model, 1, example, forward).unwrap())
}

/// The graph of a file whose operands are all made before they are read.
#[track_caller]
fn checked(file: Model) -> Graph {
    let graph = file.graph.unwrap();
    let given = graph.input.iter().map(|input| input.name.clone());
    let values = graph.initializer.iter().map(|tensor| tensor.name.clone());
    let mut known: BTreeSet<String> = given.chain(values).collect();
    for tensor in &graph.initializer {
        let mut operands = graph.node.iter().flat_map(|node| &node.input);
        assert!(operands.any(|name| *name == tensor.name), "{}", tensor.name);
    }
    for node in &graph.node {
        assert!(
            node.input.iter().all(|name| known.contains(name)),
            "{node:?}"
        );
        assert!(
            node.output.iter().all(|name| known.insert(name.clone())),
            "{node:?}"
        );
    }
    assert!(
        graph
            .output
            .iter()
            .all(|output| known.contains(&output.name))
    );
    graph
}

/// The operators of a graph in its order, without those that every graph has.
fn operators(graph: &Graph) -> Vec<&str> {
    let operators = graph.node.iter().map(|node| node.op_type.as_str());
    let inner = operators.skip(1).take(graph.node.len() - 3);
    inner.filter(|operator| *operator != "Identity").collect()
}

fn the<'a>(graph: &'a Graph, operator: &str) -> &'a Node {
    let found: Vec<_> = graph
        .node
        .iter()
        .filter(|node| node.op_type == operator)
        .collect();
    assert_eq!(found.len(), 1, "{operator} in {:?}", operators(graph));
    found[0]
}

fn setting<'a>(node: &'a Node, name: &str) -> &'a Attribute {
    node.attribute
        .iter()
        .find(|setting| setting.name == name)
        .unwrap()
}

fn value<'a>(graph: &'a Graph, name: &str) -> &'a TensorMessage {
    graph
        .initializer
        .iter()
        .find(|tensor| tensor.name == name)
        .unwrap()
}

fn integers_of(graph: &Graph, name: &str) -> Vec<i64> {
    let chunks = value(graph, name).raw_data.chunks_exact(8);
    chunks
        .map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()))
        .collect()
}

fn ones<const R: usize>(shape: [usize; R]) -> Tensor<R> {
    Tensor::ones(shape, &Device::default())
}

fn plain() -> Weights<1> {
    Weights::new([1])
}

/// The operators of an element-wise function of `[rows, 3]`.
fn of(function: impl Fn(Tensor<2>) -> Tensor<2>) -> Vec<String> {
    let graph = graph(&plain(), &ones([2, 3]), |_, x: Tensor<2>| function(x));
    operators(&graph).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_file_says_what_it_is() {
    let model = LinearConfig::new(3, 2).init(&Device::default());
    let file = file(&model, 2, &ones([4, 3]), |model: &burn::nn::Linear, x| {
        model.forward(x)
    })
    .unwrap();
    assert_eq!((file.ir_version, file.opset_import[0].version), (8, 17));
    assert_eq!(file.producer_name, "burn-bayes");
    assert_eq!(file.metadata_props[0].value, "7");
    let graph = checked(file);
    let shape = |info: &message::ValueInfo| {
        let tensor = info.r#type.clone().unwrap().tensor_type.unwrap();
        let dims = tensor.shape.unwrap().dim.into_iter();
        dims.map(|dim| dim.length.unwrap()).collect::<Vec<_>>()
    };
    let rows = Length::Name("rows".into());
    assert_eq!(graph.input[0].name, "input");
    assert_eq!(shape(&graph.input[0]), [rows.clone(), Length::Value(3)]);
    assert_eq!(
        shape(&graph.output[0]),
        [Length::Value(2), rows, Length::Value(2)]
    );
    // The weights of both draws are one tensor with the name of the parameter.
    assert_eq!(value(&graph, "weight").dims, [2, 3, 2]);
    assert_eq!(value(&graph, "bias").dims, [2, 2]);
    the(&graph, "MatMul");
}

#[test]
fn formulas() {
    assert_eq!(of(|x| x.exp()), ["Exp"]);
    assert_eq!(of(|x| x.sqrt().sin()), ["Sqrt", "Sin"]);
    assert_eq!(of(|x| x * 2.0 + 1.0), ["Mul", "Add"]);
    assert_eq!(of(|x| x.clamp(-1.0, 1.0)), ["Max", "Min"]);
    assert_eq!(of(gelu), ["Mul", "Erf", "Add", "Mul", "Mul"]);
    let masked = of(|x| x.clone().mask_fill(x.greater_elem(0.5), 0.0));
    assert_eq!(masked, ["Greater", "Where"]);
    let converted = of(|x| x.clone().not_equal_elem(1.0).float() + x);
    assert_eq!(converted, ["Equal", "Not", "Cast", "Add"]);
    assert_eq!(of(|x| x.log1p()).len(), 9);
}

/// Equal nodes and equal constants are there once.
#[test]
fn equal_parts_are_shared() {
    let graph = graph(&plain(), &ones([2, 3]), |_, x: Tensor<2>| {
        (x.clone() * 2.0).exp() + (x * 2.0).exp()
    });
    assert_eq!(operators(&graph), ["Mul", "Exp", "Add"]);
    let twos = graph.initializer.iter();
    let two = 2.0_f32.to_le_bytes();
    assert_eq!(twos.filter(|tensor| tensor.raw_data == two).count(), 1);
}

#[test]
fn sums_and_choices() {
    let reduced = graph(&plain(), &ones([2, 3, 4]), |_, x: Tensor<3>| {
        x.clone().mean_dim(1).squeeze_dim::<2>(1) + x.sum_dim(1).squeeze_dim::<2>(1)
    });
    assert_eq!(setting(the(&reduced, "ReduceMean"), "axes").ints, [1]);
    assert_eq!(
        integers_of(&reduced, &the(&reduced, "ReduceSum").input[1]),
        [1]
    );
    let largest = graph(&plain(), &ones([2, 3]), |_, x: Tensor<2>| {
        x.clone().max_dim(1) + x.argmin(1).float()
    });
    assert_eq!(setting(the(&largest, "ReduceMax"), "axes").ints, [1]);
    assert_eq!(setting(the(&largest, "ArgMin"), "axis").i, Some(1));
    assert_eq!(of(|x| softmax(x, 1)), ["Softmax"]);
    assert_eq!(of(|x| log_softmax(x, 1)), ["LogSoftmax"]);
    assert_eq!(of(|x| softmin(x, 1)), ["Neg", "Softmax"]);
}

#[test]
fn shapes() {
    let reshaped = graph(&plain(), &ones([2, 3, 4]), |_, x: Tensor<3>| {
        let [rows, ..] = x.dims();
        x.permute([0, 2, 1]).reshape([rows, 12])
    });
    assert_eq!(setting(the(&reshaped, "Transpose"), "perm").ints, [0, 2, 1]);
    let shape = &the(&reshaped, "Reshape").input[1];
    assert_eq!(integers_of(&reshaped, shape), [-1, 12]);

    let sliced = graph(&plain(), &ones([2, 5]), |_, x: Tensor<2>| {
        let [rows, _] = x.dims();
        Tensor::cat(vec![x.clone().slice([0..rows, 1..3]), x], 1)
    });
    let slice = the(&sliced, "Slice");
    let parts: Vec<_> = slice.input[1..]
        .iter()
        .map(|part| integers_of(&sliced, part))
        .collect();
    assert_eq!(parts, [[1], [3], [1], [1]]);
    assert_eq!(setting(the(&sliced, "Concat"), "axis").i, Some(1));

    let flipped = graph(&plain(), &ones([2, 5]), |_, x: Tensor<2>| x.flip([1]));
    let parts: Vec<_> = the(&flipped, "Slice").input[1..]
        .iter()
        .map(|part| integers_of(&flipped, part))
        .collect();
    assert_eq!(parts, [[-1], [-6], [1], [-1]]);

    let padded = graph(&plain(), &ones([2, 5]), |_, x: Tensor<2>| {
        x.pad((1, 2, 0, 0), 3.0)
    });
    assert_eq!(
        integers_of(&padded, &the(&padded, "Pad").input[1]),
        [0, 1, 0, 2]
    );

    let assigned = graph(&plain(), &ones([2, 5]), |_, x: Tensor<2>| {
        let [rows, _] = x.dims();
        let part = x.clone().narrow(1, 0, 2);
        x.slice_assign([0..rows, 1..3], part)
    });
    let mask = value(&assigned, &the(&assigned, "Where").input[0]);
    assert_eq!(
        (&mask.dims[..], &mask.raw_data[..]),
        (&[1, 5][..], &[0, 1, 1, 0, 0][..])
    );
}

/// A tensor whose length is the number of rows is made from that number.
#[test]
fn constants_of_all_rows_have_any_number_of_rows() {
    let expanded = graph(
        &Weights::new([1, 3]),
        &ones([2, 3]),
        |model, x: Tensor<2>| {
            let [rows, _] = x.dims();
            let ones = Tensor::<2>::ones([rows, 1], &x.device());
            Tensor::cat(vec![x, ones, model.weight.val().expand([rows, 3])], 1)
        },
    );
    assert_eq!(
        expanded
            .node
            .iter()
            .filter(|node| node.op_type == "Expand")
            .count(),
        2
    );
    let repeated = graph(
        &Weights::new([1, 3]),
        &ones([2, 3]),
        |model, x: Tensor<2>| {
            let [rows, _] = x.dims();
            x + model.weight.val().repeat_dim(0, rows)
        },
    );
    the(&repeated, "Tile");
}

#[test]
fn indices() {
    let example = Tensor::<2, Int>::zeros([2, 3], &Device::default());
    let embedded = graph(
        &Weights::new([7, 4]),
        &example,
        |model, tokens: Tensor<2, Int>| {
            let [rows, len] = tokens.dims();
            burn::tensor::module::embedding(model.weight.val(), tokens).reshape([rows, len * 4])
        },
    );
    assert_eq!(setting(the(&embedded, "Gather"), "axis").i, Some(0));
    let gathered = graph(
        &plain(),
        &(ones([2, 3]), example),
        |_, (x, index): (Tensor<2>, Tensor<2, Int>)| x.gather(1, index),
    );
    assert_eq!(
        gathered
            .input
            .iter()
            .map(|input| &*input.name)
            .collect::<Vec<_>>(),
        ["input_0", "input_1"]
    );
    assert_eq!(setting(the(&gathered, "GatherElements"), "axis").i, Some(1));
    let selected = graph(&plain(), &ones([2, 3]), |_, x: Tensor<2>| {
        let columns = Tensor::from_ints([2, 0], &x.device());
        x.select(1, columns)
    });
    let columns = &the(&selected, "Gather").input[1];
    assert_eq!(integers_of(&selected, columns), [2, 0]);
}

#[test]
fn normalisations() {
    let norm = BatchNormConfig::new(3)
        .with_epsilon(0.5)
        .init(&Device::default());
    let of_batches = graph(
        &norm,
        &ones([2, 3]),
        |norm: &burn::nn::BatchNorm, x: Tensor<2>| norm.forward(x),
    );
    let node = the(&of_batches, "BatchNormalization");
    assert_eq!(
        (node.input.len(), setting(node, "epsilon").f),
        (5, Some(0.5))
    );
    let norm = LayerNormConfig::new(3).init(&Device::default());
    let of_rows = graph(
        &norm,
        &ones([2, 3]),
        |norm: &burn::nn::LayerNorm, x: Tensor<2>| norm.forward(x),
    );
    assert_eq!(the(&of_rows, "LayerNormalization").input.len(), 3);
}

#[test]
fn convolutions() {
    let options = ConvOptions::new([2, 1], [1, 0], [1, 2], 2);
    let plain = graph(
        &Weights::new([6, 2, 3, 2]),
        &ones([2, 4, 8, 6]),
        |model, x: Tensor<4>| conv2d(x, model.weight.val(), None, options.clone()).flatten(1, 3),
    );
    let node = the(&plain, "Conv");
    assert_eq!(setting(node, "strides").ints, [2, 1]);
    assert_eq!(setting(node, "pads").ints, [1, 0, 1, 0]);
    assert_eq!(setting(node, "dilations").ints, [1, 2]);
    assert_eq!(setting(node, "group").i, Some(2));
    let options = ConvTransposeOptions::new([2, 2], [1, 1], [1, 0], [1, 1], 1);
    let transposed = graph(
        &Weights::new([4, 2, 3, 3]),
        &ones([2, 4, 5, 5]),
        |model, x: Tensor<4>| {
            conv_transpose2d(x, model.weight.val(), None, options.clone()).flatten(1, 3)
        },
    );
    let node = the(&transposed, "ConvTranspose");
    assert_eq!(setting(node, "output_padding").ints, [1, 0]);
}

#[test]
fn pooling() {
    let largest = MaxPool2dConfig::new([3, 2]).with_strides([2, 2]).init();
    let largest = graph(&plain(), &ones([2, 1, 7, 6]), |_, x: Tensor<4>| {
        largest.forward(x).flatten(1, 3)
    });
    let node = the(&largest, "MaxPool");
    assert_eq!(setting(node, "kernel_shape").ints, [3, 2]);
    assert_eq!(setting(node, "strides").ints, [2, 2]);

    let mean = AvgPool1dConfig::new(2).with_stride(2).init();
    let mean = graph(&plain(), &ones([2, 1, 6]), |_, x: Tensor<3>| {
        mean.forward(x).flatten(1, 2)
    });
    the(&mean, "AveragePool");
    assert!(!operators(&mean).contains(&"Mul"));

    // Windows that count less than their size are corrected.
    let mean = AvgPool2dConfig::new([2, 2])
        .with_strides([1, 1])
        .with_padding(burn::nn::PaddingConfig2d::Explicit(1, 1, 1, 1))
        .with_count_include_pad(false)
        .init();
    let mean = graph(&plain(), &ones([2, 1, 2, 2]), |_, x: Tensor<4>| {
        mean.forward(x).flatten(1, 3)
    });
    let factors = value(&mean, &the(&mean, "Mul").input[1]);
    assert_eq!(factors.dims, [1, 1, 3, 3]);
    assert_eq!(factors.raw_data[..4], 4.0_f32.to_le_bytes());

    let adaptive = AdaptiveAvgPool2dConfig::new([2, 1]).init();
    let even = graph(&plain(), &ones([2, 1, 4, 3]), |_, x: Tensor<4>| {
        adaptive.forward(x).flatten(1, 3)
    });
    assert_eq!(
        setting(the(&even, "AveragePool"), "kernel_shape").ints,
        [2, 3]
    );
    let uneven = |_: &Weights<1>, x: Tensor<4>| adaptive.forward(x).flatten(1, 3);
    let error = file(&plain(), 1, &ones([2, 1, 5, 3]), uneven).unwrap_err();
    assert!(
        error.to_string().starts_with("AdaptiveAvgPool2d"),
        "{error}"
    );
}

#[test]
fn what_a_file_cannot_have_is_refused_by_name() {
    let refused = |forward: fn(&Weights<1>, Tensor<2>) -> Tensor<2>, part: &str| {
        let error = file(&plain(), 1, &ones([2, 3]), forward).unwrap_err();
        assert!(
            error.is_onnx() && error.to_string().contains(part),
            "{error}"
        );
    };
    refused(|_, x| x.cumsum(1), "CumSum");
    refused(|_, x| x.random_like(Distribution::Default), "random");
    refused(
        |_, x| {
            let rows = x.dims()[0];
            x * rows as f32
        },
        "settings depend on the number of rows",
    );
    refused(|_, x| x.narrow(0, 0, 1), "expected one row for each row");
    refused(
        |_, x| {
            let [rows, _] = x.dims();
            let numbers = Tensor::arange(0..rows as i64, &x.device()).float();
            x + numbers.reshape([rows, 1])
        },
        "for every row",
    );
    let none = |_: &Weights<1>, x: Tensor<2>| x;
    assert!(
        file(&plain(), 0, &ones([2, 3]), none)
            .unwrap_err()
            .is_onnx()
    );
}

/// A module beside the model: its running statistics are shared by all clones.
#[test]
fn a_clone_of_a_module_with_statistics_must_not_be_moved() {
    let norm: BatchNorm = BatchNormConfig::new(3).init(&Device::default());
    let moved = |norm: BatchNorm, x: Tensor<2>| {
        let norm = norm.to_device(&x.device());
        norm.forward::<3>(x.unsqueeze_dim(2)).squeeze_dim::<2>(2)
    };
    let copied = |_: &Weights<1>, x| moved(norm.valid(), x);
    file(&plain(), 1, &ones([2, 3]), copied).unwrap();
    let cloned = |_: &Weights<1>, x| moved(norm.clone(), x);
    // In a process of its own, as nextest runs it, all recordings have one device and this fails. Beside other tests the device may
    // change between recordings; the statistics are then moved with their values.
    if let Err(error) = file(&plain(), 1, &ones([2, 3]), cloned) {
        assert!(error.to_string().contains("module.valid()"), "{error}");
    }
}

/// Burn has another product for few rows of a sequence than for many, which are those of the file.
#[test]
fn layers_of_sequences_have_the_operations_of_many_rows() {
    let model = LinearConfig::new(8, 16).init(&Device::default());
    let example = ones([1, 5, 8]);
    let graph = graph(
        &model,
        &example,
        |model: &burn::nn::Linear, x: Tensor<3>| model.forward(x).sum_dim(1).squeeze_dim::<2>(1),
    );
    the(&graph, "MatMul");
    let loops = |model: &burn::nn::Linear, x: Tensor<2>| {
        let rows = 0..x.dims()[0];
        let rows = rows.map(|row| model.forward(x.clone().narrow(0, row, 1)));
        Tensor::cat(rows.collect(), 0)
    };
    let error = file(&model, 1, &ones([1, 8]), loops).unwrap_err();
    assert!(
        error.to_string().contains("other operations for more rows"),
        "{error}"
    );
}

/// What does not depend on the weights that draws change is there once.
#[test]
fn draws_share_what_they_have_in_common() {
    let device = Device::default();
    let layers: [burn::nn::Linear; 2] =
        [(3, 4), (4, 2)].map(|(from, to)| LinearConfig::new(from, to).init(&device));
    let layout = Arc::new(Layout::new(&layers, &ParamGroup::from_predicate("1.")).unwrap());
    let draw = |number: usize| {
        let weights = layout.flatten(&layers)?;
        layout.write(layers.clone(), weights * (1 + number) as f32)
    };
    let forward = |layers: &[burn::nn::Linear; 2], x: Tensor<2>| {
        layers[1].forward(layers[0].forward(x).tanh())
    };
    let model = OnnxModel::of_draws(3, draw, layout.clone(), &ones([2, 3]), forward).unwrap();
    let model = model.with_output("outputs", |outputs| outputs).unwrap();
    let graph = checked(Model::decode(&model.into_bytes(&[]).unwrap()[..]).unwrap());
    the(&graph, "Tanh");
    assert_eq!(value(&graph, "0.weight").dims, [3, 4]);
    assert_eq!(value(&graph, "1.weight").dims, [3, 4, 2]);
}
