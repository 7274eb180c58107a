//! From a module to a flat vector and back: nothing is lost, and nothing else changes.

use burn::module::{Initializer, Lora, Module, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::{Bool, DType, Int, Tensor};
use burn_bayes::graph::Layout;
use burn_bayes::{BayesianConfig, Prior, VifaConfig};

use crate::support::{autodiff, bits, device, filled, normals, values, vector};

#[derive(Module, Debug)]
struct Mlp {
    layer1: Linear,
    layer2: Linear,
}

impl Mlp {
    fn new(hidden: usize, device: &burn::tensor::Device) -> Self {
        Self {
            layer1: LinearConfig::new(3, hidden).init(device),
            layer2: LinearConfig::new(hidden, 1).init(device),
        }
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        self.layer2.forward(self.layer1.forward(input).tanh())
    }
}

fn all<M: Module>(model: &M) -> Layout {
    Layout::new(model, &ParamGroup::all()).unwrap()
}

fn paths(layout: &Layout) -> Vec<&str> {
    layout.entries().iter().map(|e| e.path.as_str()).collect()
}

/// The ids, `require_grad` flags and bits of every float parameter.
#[derive(Default)]
struct Snapshot(Vec<(ParamId, bool, Vec<u32>)>);

impl ModuleVisitor for Snapshot {
    fn visit_float<const R: usize>(&mut self, param: &Param<Tensor<R>>) {
        let tensor = param.base();
        self.0
            .push((param.id, tensor.is_require_grad(), bits(&tensor)));
    }
}

fn snapshot<M: Module>(model: &M) -> Vec<(ParamId, bool, Vec<u32>)> {
    let mut snapshot = Snapshot::default();
    model.visit(&mut snapshot);
    snapshot.0
}

#[test]
fn parameters_that_no_posterior_is_over_are_refused_by_their_path() {
    let device = autodiff();
    let refused = |model: &Mlp, group: &ParamGroup, expected: &str| {
        let error = Layout::new(model, group).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let mut model = Mlp::new(5, &device);
    let bias = Tensor::<1>::from_data([0.5_f64], (&device, DType::F64));
    model.layer2.bias = Some(Param::from_tensor(bias));
    let first = ParamGroup::from_predicate("layer1");
    refused(
        &model,
        &ParamGroup::all(),
        "layer2.bias has numbers of the type F64",
    );
    assert_eq!(Layout::new(&model, &first).unwrap().len(), 20);
    let mut model = Mlp::new(5, &device);
    model.layer2.bias = Some(Param::from_tensor(Tensor::zeros([0], &device)));
    refused(&model, &ParamGroup::all(), "layer2.bias has no elements");
    assert!(Layout::new(&model, &first).is_ok());
}

#[test]
fn entries_lie_one_after_the_other_in_the_order_of_the_module() {
    let layout = all(&Mlp::new(5, &autodiff()));
    assert_eq!(
        paths(&layout),
        [
            "layer1.weight",
            "layer1.bias",
            "layer2.weight",
            "layer2.bias"
        ]
    );
    let offsets: Vec<usize> = layout.entries().iter().map(|e| e.offset).collect();
    assert_eq!((offsets, layout.len()), (vec![0, 15, 20, 25], 26));
    let found = [0, 14, 15, 19, 20, 25, 26].map(|index| layout.path_at(index));
    assert_eq!(
        found,
        [
            Some("layer1.weight"),
            Some("layer1.weight"),
            Some("layer1.bias"),
            Some("layer1.bias"),
            Some("layer2.weight"),
            Some("layer2.bias"),
            None
        ]
    );
}

#[test]
fn fans_of_linear_layers_convolutions_and_biases() {
    let json = r#"[{"path":"linear","shape":[13,50],"offset":0},
        {"path":"convolution","shape":[8,3,5,5],"offset":650},
        {"path":"bias","shape":[50],"offset":1250}]"#;
    let layout = Layout::from_json(json).unwrap();
    let fans: Vec<_> = layout
        .entries()
        .iter()
        .map(|entry| entry.fan_in())
        .collect();
    assert_eq!(fans, [13, 75, 50]);
    // Deviations 2/√fan-in, but 1 for a vector, and 10 for a group.
    let prior = Prior::by_fan_in(2.0).with_group(ParamGroup::from_path("convolution"), 0.01);
    let precisions = prior.resolve(&layout).unwrap();
    assert_eq!(
        precisions.segments(),
        [(650, 13.0 / 4.0), (600, 0.01), (50, 1.0)]
    );
    let error = Prior::by_fan_in(0.0).resolve(&layout).unwrap_err();
    assert!(error.is_config(), "{error}");
}

#[test]
fn what_is_written_is_what_is_read_and_ids_stay() {
    let model = Mlp::new(5, &autodiff());
    let layout = all(&model);
    let before = snapshot(&model);
    let flat = vector(&normals(1, layout.len()));
    for written in [
        layout.write(model.clone(), flat.clone()).unwrap(),
        layout.write_leaves(model.clone(), flat.clone()).unwrap(),
    ] {
        assert_eq!(bits(&layout.flatten(&written).unwrap()), bits(&flat));
        let after = snapshot(&written);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!((before.0, before.1), (after.0, after.1));
        }
    }
    // The row-major order of the module's own tensors.
    let written = layout.write(model, flat.clone()).unwrap();
    let bias = written.layer1.bias.as_ref().unwrap().val();
    assert_eq!(bits(&bias), bits(&flat.narrow(0, 15, 5)));
}

#[test]
fn a_flat_vector_carries_no_autodiff() {
    let model = filled(Mlp::new(2, &autodiff()), 1, 1.0);
    let layout = all(&model);
    let flat = layout.flatten(&model).unwrap();
    assert!(!flat.is_autodiff());
    // For a constant with gradients, only the values are used.
    let tracked = Tensor::from_inner(flat.clone()).require_grad() * 2.0;
    let model = layout.write_leaves(model, tracked).unwrap();
    assert!(model.layer1.weight.val().is_require_grad());
    let doubled = layout.flatten(&model).unwrap();
    assert_eq!(bits(&doubled), bits(&(flat * 2.0)));
}

#[derive(Module, Debug)]
struct Mixed {
    trained: Linear,
    frozen: Linear,
    norm: BatchNorm,
    counts: Param<Tensor<1, Int>>,
    mask: Param<Tensor<1, Bool>>,
}

#[test]
fn what_is_not_trained_is_neither_listed_nor_touched() {
    let device = autodiff();
    let model = Mixed {
        trained: LinearConfig::new(2, 2).init(&device),
        frozen: LinearConfig::new(2, 2).init(&device).no_grad(),
        norm: BatchNormConfig::new(2).init(&device),
        counts: Param::initialized(ParamId::new(), Tensor::from_data([3, 4], &device)),
        mask: Param::initialized(ParamId::new(), Tensor::from_data([true, false], &device)),
    };
    let layout = all(&model);
    assert_eq!(
        paths(&layout),
        ["trained.weight", "trained.bias", "norm.gamma", "norm.beta"]
    );
    // Statistics that differ from the initial ones.
    let rows = Tensor::<2>::from_data([[1.0, 2.0], [3.0, 8.0]], &device);
    model.norm.forward(rows);
    let statistics = |model: &Mixed| {
        (
            values(&model.norm.running_mean.value_sync()),
            values(&model.norm.running_var.value_sync()),
        )
    };
    let before = (statistics(&model), snapshot(&model.frozen));
    let counts = model.counts.val().into_data();
    let mask = model.mask.val().into_data();

    let written = layout
        .write_leaves(model, vector(&normals(2, layout.len())))
        .unwrap();
    assert_eq!((statistics(&written), snapshot(&written.frozen)), before);
    assert_eq!(written.counts.val().into_data(), counts);
    assert_eq!(written.mask.val().into_data(), mask);
    assert!(before.0.0.iter().any(|mean| *mean != 0.0));
}

#[test]
fn a_group_leaves_the_other_parameters_alone() {
    let model = Mlp::new(4, &autodiff());
    let layout = Layout::new(&model, &ParamGroup::from_predicate("layer2")).unwrap();
    assert_eq!(paths(&layout), ["layer2.weight", "layer2.bias"]);
    let before = snapshot(&model.layer1);
    let flat = vector(&normals(3, 5));
    let written = layout.write_leaves(model, flat.clone()).unwrap();
    assert_eq!(snapshot(&written.layer1), before);
    assert_eq!(bits(&layout.flatten(&written).unwrap()), bits(&flat));
}

#[test]
fn a_group_that_selects_nothing_is_an_error_that_names_it() {
    let model = Mlp::new(4, &autodiff());
    for group in [ParamGroup::from_predicate("layer3"), ParamGroup::all()] {
        let error = match Layout::new(&model.clone().no_grad(), &group) {
            Ok(layout) => panic!("{layout}"),
            Err(error) => error,
        };
        assert!(
            error.is_config() && error.to_string().starts_with("group"),
            "{error}"
        );
    }
}

#[derive(Module, Debug)]
enum Head {
    Wide(Linear),
    Deep(Vec<Linear>),
}

#[derive(Module, Debug)]
struct Containers {
    blocks: Vec<Linear>,
    head: Head,
    present: Option<Linear>,
    absent: Option<Linear>,
    pair: (Linear, Linear),
}

#[test]
fn vectors_options_enums_and_tuples_have_paths_of_their_own() {
    let device = autodiff();
    let linear = || LinearConfig::new(2, 1).init(&device);
    for (head, parameters) in [
        (Head::Wide(linear()), 2),
        (Head::Deep(vec![linear(), linear()]), 4),
    ] {
        let model = Containers {
            blocks: vec![linear(), linear()],
            head,
            present: Some(linear()),
            absent: None,
            pair: (linear(), linear()),
        };
        let layout = all(&model);
        let mut found = paths(&layout);
        assert_eq!(found.len(), 4 + parameters + 2 + 4, "{found:?}");
        assert!(found.contains(&"blocks.1.bias"), "{found:?}");
        assert!(found.contains(&"present.weight"), "{found:?}");
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), layout.entries().len());
        let flat = vector(&normals(4, layout.len()));
        let model = layout.write(model, flat.clone()).unwrap();
        assert_eq!(bits(&layout.flatten(&model).unwrap()), bits(&flat));
    }
}

#[derive(Module, Debug)]
struct Tied {
    encoder: Param<Tensor<2>>,
    decoder: Param<Tensor<2>>,
    scale: Param<Tensor<1>>,
}

#[test]
fn a_tied_parameter_has_one_place_and_the_sum_of_its_gradients() {
    let device = autodiff();
    let shared: Param<Tensor<2>> = Initializer::Zeros.init([2, 3], &device);
    let model = Tied {
        encoder: shared.clone(),
        decoder: shared,
        scale: Initializer::Ones.init([1], &device),
    };
    let layout = all(&model);
    assert_eq!(layout.len(), 7);
    assert_eq!(layout.entry("encoder").unwrap().tied, ["decoder"]);
    assert_eq!(layout.entry("decoder"), layout.entry("encoder"));

    let flat = vector(&normals(5, 7));
    let model = layout.write_leaves(model, flat.clone()).unwrap();
    assert_eq!(bits(&model.encoder.val()), bits(&model.decoder.val()));
    let (left, right) = (normals(6, 6), normals(7, 6));
    let weights = |values: &[f32]| Tensor::from_inner(crate::support::matrix(2, 3, values));
    let loss = (model.encoder.val() * weights(&left)).sum()
        + (model.decoder.val() * weights(&right)).sum();
    let mut gradients = GradientsParams::from_grads(loss.backward(), &model);
    let gradient = layout.flatten_gradients(&model, &mut gradients).unwrap();
    let expected: Vec<u32> = left
        .iter()
        .zip(&right)
        .map(|(left, right)| (left + right).to_bits())
        .chain([0])
        .collect();
    assert_eq!(bits(&gradient), expected);
}

#[test]
fn a_lazy_parameter_can_be_written_before_it_was_ever_read() {
    let model = Mlp::new(4, &autodiff());
    let layout = all(&model);
    let flat = vector(&normals(8, layout.len()));
    let fresh = Mlp::new(4, &autodiff());
    assert!(!fresh.layer1.weight.is_initialized());
    let written = layout.write(fresh.clone(), flat.clone()).unwrap();
    assert_eq!(bits(&layout.flatten(&written).unwrap()), bits(&flat));
    // Two clones of a lazy module get the same initial values.
    let seen = layout.flatten(&fresh.clone()).unwrap();
    assert_eq!(bits(&layout.flatten(&fresh).unwrap()), bits(&seen));
}

#[test]
fn an_adapter_is_random_and_its_base_is_not() {
    let model = filled(Mlp::new(4, &autodiff()), 9, 1.0).apply_lora(Lora::new(2, 4.0));
    let layout = all(&model);
    // Rank 2: [3, 2] and [2, 4] for the first layer, [4, 2] and [2, 1] for the second.
    assert_eq!(layout.len(), 6 + 8 + 8 + 2, "{layout}");
    for entry in layout.entries() {
        assert!(entry.path.starts_with("layer"), "{layout}");
        assert!(
            ![
                "layer1.weight",
                "layer1.bias",
                "layer2.weight",
                "layer2.bias"
            ]
            .contains(&entry.path.as_str())
        );
    }
    let base = bits(&model.layer1.weight.base());
    let effective = bits(&model.layer1.weight.val());
    assert_eq!(base, effective, "an adapter starts as no change");

    let flat = vector(&normals(10, layout.len()));
    let drawn = layout.write_leaves(model, flat.clone()).unwrap();
    assert_eq!(bits(&layout.flatten(&drawn).unwrap()), bits(&flat));
    assert_eq!(bits(&drawn.layer1.weight.base()), base);
    assert_ne!(bits(&drawn.layer1.weight.val()), effective);

    let input = Tensor::from_inner(crate::support::matrix(2, 3, &normals(11, 6)));
    let loss = drawn.forward(input).sum();
    let mut gradients = GradientsParams::from_grads(loss.backward(), &drawn);
    let gradient = values(&layout.flatten_gradients(&drawn, &mut gradients).unwrap());
    for entry in layout.entries() {
        let piece = &gradient[entry.offset..entry.offset + entry.len()];
        assert!(piece.iter().any(|value| *value != 0.0), "{}", entry.path);
    }
}

#[test]
fn training_with_adapters_draws_the_adapters() {
    let train_len = 100;
    let model = filled(Mlp::new(4, &autodiff()), 9, 1.0);
    let base = bits(&model.layer1.weight.base());
    // ANCHOR: lora
    let model = model.apply_lora(Lora::new(8, 16.0)); // rank 8, α = 16
    let bayesian = BayesianConfig::new(train_len, VifaConfig::new()).init(model); // only the adapters are random
    // ANCHOR_END: lora
    // Rank 8: [3, 8] and [8, 4] for the first layer, [4, 8] and [8, 1] for the second.
    assert_eq!(bayesian.layout().len(), 24 + 32 + 32 + 8);
    let drawn = bayesian.drawn_model(0).unwrap();
    assert_eq!(bits(&drawn.layer1.weight.base()), base);
    assert_ne!(bits(&drawn.layer1.weight.val()), base);
}

#[test]
fn gradients_are_joined_in_the_order_of_the_layout() {
    let model = filled(Mlp::new(4, &autodiff()), 12, 0.5);
    let layout = all(&model);
    let input = Tensor::from_inner(crate::support::matrix(5, 3, &normals(13, 15)));
    let taken = || {
        let loss = model.forward(input.clone()).square().mean();
        GradientsParams::from_grads(loss.backward(), &model)
    };
    let mut gradients = taken();
    let joined = layout.flatten_gradients(&model, &mut gradients).unwrap();
    assert!(gradients.is_empty(), "they are taken, not copied");

    let single = taken();
    let layers = [&model.layer1, &model.layer2];
    let expected: Vec<u32> = layers
        .into_iter()
        .flat_map(|layer| {
            let weight = single.get::<2>(layer.weight.id).unwrap();
            let bias = single.get::<1>(layer.bias.as_ref().unwrap().id).unwrap();
            [bits(&weight), bits(&bias)].concat()
        })
        .collect();
    assert_eq!(bits(&joined), expected);
}

#[test]
fn a_parameter_without_a_gradient_contributes_zeros() {
    let model = filled(Mlp::new(4, &autodiff()), 14, 0.5);
    let layout = all(&model);
    let loss = model.layer1.weight.val().square().sum();
    let mut gradients = GradientsParams::from_grads(loss.backward(), &model);
    let gradient = values(&layout.flatten_gradients(&model, &mut gradients).unwrap());
    let weight = values(&model.layer1.weight.val());
    let expected: Vec<f64> = weight
        .iter()
        .map(|value| 2.0 * value)
        .chain(std::iter::repeat_n(0.0, layout.len() - weight.len()))
        .collect();
    assert_eq!(gradient, expected);
}

#[test]
fn a_difference_is_readable() {
    let posterior = all(&Mlp::new(100, &autodiff()));
    let model = Mlp::new(50, &autodiff());
    let difference = all(&model).difference(&posterior).unwrap();
    let sentence = "layer2.weight is [50, 1] in the model, [100, 1] in the posterior";
    assert_eq!(
        difference,
        format!(
            "layer1.weight is [3, 50] in the model, [3, 100] in the posterior; \
             layer1.bias is [50] in the model, [100] in the posterior; {sentence}"
        )
    );
    for error in [
        posterior.check(&model).unwrap_err(),
        posterior.flatten(&model).unwrap_err(),
        posterior
            .write(model, vector(&normals(1, posterior.len())))
            .unwrap_err(),
    ] {
        assert!(error.is_layout(), "{error}");
        assert!(
            error
                .to_string()
                .contains("is [3, 50] in the model, [3, 100]"),
            "{error}"
        );
    }

    let last = Layout::new(
        &Mlp::new(100, &autodiff()),
        &ParamGroup::from_predicate("layer2"),
    )
    .unwrap();
    assert_eq!(
        last.difference(&posterior).unwrap(),
        "layer1.weight is missing in the model; layer1.bias is missing in the model"
    );
    assert_eq!(
        posterior.difference(&last).unwrap(),
        "layer1.weight is missing in the posterior; layer1.bias is missing in the posterior"
    );
    assert_eq!(posterior.difference(&posterior.clone()), None);
}

#[test]
fn json_round_trips_and_bad_json_is_refused() {
    let device = autodiff();
    let shared: Param<Tensor<2>> = Initializer::Zeros.init([2, 3], &device);
    let tied = Tied {
        encoder: shared.clone(),
        decoder: shared,
        scale: Initializer::Ones.init([1], &device),
    };
    for layout in [all(&tied), all(&Mlp::new(7, &device))] {
        let read = Layout::from_json(&layout.to_json()).unwrap();
        assert_eq!(read, layout);
        assert_eq!(read.len(), layout.len());
        assert_eq!(read.entry("decoder"), layout.entry("decoder"));
    }
    for (json, why) in [
        ("", "not readable"),
        ("{}", "not readable"),
        (r#"[{"path":"a","shape":[2]}]"#, "offset"),
        (r#"[{"path":"a","shape":[-2],"offset":0}]"#, "not readable"),
        (
            r#"[{"path":"a","shape":[2],"offset":1}]"#,
            "places a at 1, where 0",
        ),
        (
            r#"[{"path":"a","shape":[2],"offset":0},{"path":"b","shape":[2],"offset":3}]"#,
            "places b at 3, where 2",
        ),
        (
            r#"[{"path":"a","shape":[4294967296,4294967296],"offset":0}]"#,
            "a is too large",
        ),
        (
            r#"[{"path":"a","shape":[2],"offset":0},{"path":"a","shape":[2],"offset":2}]"#,
            "a twice",
        ),
        (
            r#"[{"path":"a","shape":[2],"offset":0,"tied":["a"]}]"#,
            "a twice",
        ),
    ] {
        let error = Layout::from_json(json)
            .map(|layout| layout.to_json())
            .unwrap_err();
        assert!(
            error.is_storage() && error.to_string().contains(why),
            "{json}: {error}"
        );
    }
}

#[test]
fn a_plain_model_is_laid_out_and_written_as_the_trained_one() {
    let trained = filled(Mlp::new(4, &autodiff()), 15, 0.5);
    let layout = all(&trained);
    let plain = trained.valid();
    assert_eq!(all(&plain), layout);
    assert_eq!(all(&Mlp::new(4, &device())), layout);

    let flat = vector(&normals(16, layout.len()));
    let written = layout.write(plain, flat.clone()).unwrap();
    assert!(!written.layer1.weight.val().is_autodiff());
    assert_eq!(bits(&layout.flatten(&written).unwrap()), bits(&flat));
    // Back in training mode, the same parameters are trained as before.
    assert!(written.train().layer1.weight.val().is_require_grad());
}

#[test]
fn a_vector_of_another_length_is_refused() {
    let model = Mlp::new(4, &autodiff());
    let layout = all(&model);
    let error = layout
        .write(model, vector(&normals(1, layout.len() - 1)))
        .unwrap_err();
    assert!(error.is_layout(), "{error}");
    assert_eq!(
        error.to_string(),
        "a vector of 20 weights was given, the layout holds 21"
    );
}

#[test]
fn a_layout_outlives_the_ids_of_a_record() {
    let saved = filled(Mlp::new(4, &autodiff()), 17, 0.5);
    let fresh = Mlp::new(4, &autodiff());
    let layout = all(&fresh);
    let id = fresh.layer1.weight.id;
    let loaded = fresh.load_record(saved.clone().into_record());
    assert_ne!(loaded.layer1.weight.id, id);
    assert_eq!(
        bits(&layout.flatten(&loaded).unwrap()),
        bits(&layout.flatten(&saved).unwrap())
    );
    let flat = vector(&normals(18, layout.len()));
    let loaded = layout.write(loaded, flat.clone()).unwrap();
    assert_eq!(bits(&layout.flatten(&loaded).unwrap()), bits(&flat));
}

#[test]
fn leaves_keep_the_checkpointing_strategy_of_the_model() {
    let device = autodiff().gradient_checkpointing();
    let model = Mlp::new(4, &device);
    let layout = all(&model);
    let expected = device.gradient_checkpointing_strategy();
    assert!(expected.is_some());
    let flat = vector(&normals(19, layout.len()));
    for written in [
        layout.write(model.clone(), flat.clone()).unwrap(),
        layout.write_leaves(model, flat).unwrap(),
    ] {
        let weight = written.layer1.weight.val();
        assert_eq!(weight.gradient_checkpointing_strategy(), expected);
    }
}
