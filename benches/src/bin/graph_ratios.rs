//! The cost of per-example gradients and of a compiled mean gradient relative to a mean gradient by Burn; of draws in one pass relative to
//! draws one by one, in prediction, in VIFA steps and in SLANG's gradients; and of the checks of
//! recordings in a training. All are timed in turns.
//!
//! ```text
//! cargo run --profile bench --bin graph_ratios -- small mlp lora lenet resnet32 batch-norm prediction small-prediction training draws self-check
//! ```
#![allow(clippy::print_stdout, reason = "a program's report")]

use std::hint::black_box;
use std::sync::Arc;

use burn::module::{Lora, Module, ModuleDisplay, ParamGroup};
use burn::tensor::{Device, Distribution, Tensor};
use burn::train::TrainStep;
use burn_bayes::graph::{
    CapturedForward, CapturedLoss, CapturedModel, ExampleBatch, ExampleGradients, Layout,
};
use burn_bayes::likelihood::MixDraws;
use burn_bayes::methods::{Averaging, MeanStage, Slang};
use burn_bayes::{
    Bayesian, BayesianConfig, ExampleLoss, FusedAdamConfig, Noise, SlangConfig, VifaConfig,
};
use burn_bayes_benches::{
    Holder, LeNet, MlpClassifier, MlpRegressor, Network, ResNet18, Training, classification_batch,
    image_batch, ratios, regression_batch,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The rank of SLANG.
const RANK: usize = 8;

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let known = [
        "small",
        "mlp",
        "lora",
        "lenet",
        "resnet32",
        "batch-norm",
        "prediction",
        "small-prediction",
        "training",
        "draws",
        "self-check",
    ];
    if let Some(word) = words.iter().find(|word| !known.contains(&word.as_str())) {
        return Err(format!("`{word}`: use {}", known.join(", ")));
    }
    let device = Device::default();
    device.seed(0);
    let wants = |word: &str| words.is_empty() || words.iter().any(|given| given == word);
    if wants("small") {
        let model = MlpClassifier::new(&[13, 50, 2], &device);
        let batch = classification_batch(10, 13, 2, &device);
        gradients("13-50-2, M = 10", model, batch, 200);
        let model = MlpClassifier::new(&[64, 50, 10], &device);
        let batch = classification_batch(1437, 64, 10, &device);
        gradients("64-50-10, M = 1437", model, batch, 25);
    }
    if wants("mlp") {
        let model = MlpClassifier::new(&[784, 400, 400, 10], &device);
        let batch = classification_batch(64, 784, 10, &device);
        gradients("784-400-400-10, M = 64", model, batch, 25);
    }
    if wants("lora") {
        let model = MlpClassifier::new(&[784, 400, 400, 10], &device);
        let batch = classification_batch(64, 784, 10, &device);
        let title = "784-400-400-10 with LoRA of rank 8, M = 64";
        gradients(title, model.apply_lora(Lora::new(8, 16.0)), batch, 25);
    }
    if wants("lenet") {
        let model = LeNet::new(&device);
        let batch = image_batch(64, [1, 28], 10, &device);
        gradients("LeNet 1×28×28, M = 64", model, batch, 9);
    }
    if wants("resnet32") {
        let model = ResNet18::new(3, 10, &device);
        let batch = image_batch(16, [3, 32], 10, &device);
        gradients("ResNet-18 3×32×32, M = 16", model, batch, 7);
    }
    if wants("batch-norm") {
        let trained = device.clone().autodiff();
        let model = ResNet18::new(3, 10, &trained);
        let batch = image_batch(16, [3, 32], 10, &trained);
        batch_norm_step("ResNet-18 3×32×32, M = 16", model, batch, 7);
    }
    if wants("prediction") {
        prediction(&[784, 400, 400, 10], [1000, 100], 5);
        prediction(&[784, 400, 400, 10], [32, 100], 15);
    }
    if wants("small-prediction") {
        prediction(&[64, 64, 64, 10], [32, 100], 25);
        prediction(&[13, 50, 2], [1000, 100], 25);
        prediction(&[13, 50, 2], [32, 100], 50);
        prediction(&[13, 50, 2], [10, 100], 50);
        prediction(&[13, 50, 2], [10, 10], 200);
    }
    if wants("training") {
        let trained = device.clone().autodiff();
        for draws in [2, 4, 16] {
            let model = MlpRegressor::new(&[13, 50, 1], &trained);
            training(
                "13-50-1, M = 10",
                model,
                regression_batch(10, 13, &device),
                draws,
                100,
            );
        }
        let model = MlpClassifier::new(&[64, 64, 64, 10], &trained);
        let batch = classification_batch(32, 64, 10, &device);
        training("64-64-64-10, M = 32", model, batch, 4, 20);
        let model = MlpClassifier::new(&[784, 400, 400, 10], &trained);
        let batch = classification_batch(64, 784, 10, &device);
        training("784-400-400-10, M = 64", model, batch, 4, 1);
    }
    if wants("draws") {
        for draws in [2, 4, 16] {
            let model = MlpClassifier::new(&[13, 50, 2], &device);
            let batch = classification_batch(10, 13, 2, &device);
            gradients_at("13-50-2, M = 10", model, batch, draws);
        }
        let model = MlpClassifier::new(&[64, 64, 64, 10], &device);
        let batch = classification_batch(32, 64, 10, &device);
        gradients_at("64-64-64-10, M = 32", model, batch, 4);
    }
    if wants("self-check") {
        let trained = device.clone().autodiff();
        let model = MlpClassifier::new(&[13, 50, 2], &trained);
        let batch = |rows| classification_batch(rows, 13, 2, &device);
        self_check("13-50-2, M = 10", model, [batch(10), batch(5)]);
        let model = MlpClassifier::new(&[64, 64, 64, 10], &trained);
        let batch = |rows| classification_batch(rows, 64, 10, &device);
        self_check("64-64-64-10, M = 32", model, [batch(32), batch(7)]);
    }
    Ok(())
}

/// A training of a thousand SLANG steps, including the first recording: mini-batches of one shape,
/// and every 46th of another shape, like the last one of an epoch.
fn self_check<M>(title: &str, model: M, [full, short]: [<M as TrainStep>::Input; 2])
where
    M: Module + ModuleDisplay + ExampleLoss<Input: ExampleBatch, Output: MixDraws> + 'static,
{
    let config = BayesianConfig::new(455, SlangConfig::new().with_rank(1));
    let train = |bayesian: Bayesian<M, Slang>| {
        let optimizer = FusedAdamConfig::new().init();
        let mut training = Training::new(bayesian, optimizer, Holder::Owner);
        for step in 1..=1000 {
            let batch = if step % 46 == 0 { &short } else { &full };
            training.step(batch.clone());
        }
    };
    ratios::in_turns(
        &format!("{title}, 1000 steps of SLANG"),
        101,
        &mut [
            ("unchecked", &mut || {
                train(config.init(model.clone()).without_self_check());
            }),
            ("checked", &mut || train(config.init(model.clone()))),
        ],
    );
}

/// Per-example gradients at several draws.
fn gradients_at<N, B>(title: &str, model: N, batch: B, draws: usize)
where
    N: Network<B>,
    B: ExampleBatch + Send + Sync + 'static,
{
    let layout = Arc::new(Layout::new(&model, &ParamGroup::all()).expect("the model has weights"));
    let captured = CapturedModel::new(layout.clone(), |model: &N, batch: B| model.losses(batch));
    let weights = layout.flatten(&model).expect("the layout is the model's");
    let draws: Vec<Tensor<1>> = (0..draws)
        .map(|draw| weights.clone() * (1.0 + 0.01 * draw as f64))
        .collect();
    ratios::in_turns(
        &format!("{title}, gradients of examples at {} draws", draws.len()),
        200,
        &mut [
            ("one by one", &mut || {
                let sets = draws.iter().map(|draw| {
                    let model = layout.write_leaves(model.clone(), draw.clone());
                    let model = model.expect("the draw is as long as the layout");
                    let evaluated = captured.example_gradients(&model, &batch);
                    evaluated.expect("the loss can be recorded").gradients
                });
                black_box(ExampleGradients::joined(sets.collect()));
            }),
            ("all in one pass", &mut || {
                let evaluated = captured.example_gradients_at(&model, &draws, &batch);
                black_box(evaluated.expect("the loss can be recorded"));
            }),
        ],
    );
}

fn gradients<N, B>(title: &str, model: N, batch: B, rounds: usize)
where
    N: Network<B>,
    B: ExampleBatch + Send + Sync + 'static,
{
    let layout = Arc::new(Layout::new(&model, &ParamGroup::all()).expect("the model has weights"));
    let captured = CapturedModel::new(layout.clone(), |model: &N, batch: B| model.losses(batch));
    let captured = captured.without_self_check();
    let mean = CapturedLoss::new(layout.clone(), |model: &N, batch: B| model.losses(batch));
    let mean = mean.without_self_check();
    let at_weights: Tensor<2> = layout
        .flatten(&model)
        .expect("the layout is the model's")
        .unsqueeze();
    let trained = model.clone().train();
    let examples = captured
        .example_gradients(&model, &batch)
        .expect("the loss can be recorded")
        .gradients
        .count();
    let normal = Distribution::Normal(0.0, 1.0);
    let weights = Tensor::random([RANK, examples], normal, &Device::default());
    let evaluate = || {
        let evaluated = captured.example_gradients(&model, &batch);
        evaluated.expect("the loss can be recorded").gradients
    };
    ratios::in_turns(
        title,
        rounds,
        &mut [
            ("one mean gradient", &mut || {
                let gradients = trained.losses(batch.clone()).mean().backward();
                black_box(gradients);
            }),
            ("the same, compiled", &mut || {
                let gradients = mean.gradients(&model, at_weights.clone(), &batch);
                match gradients.expect("the batch fits the model") {
                    Some(gradients) => drop(black_box(gradients)),
                    // It is left to Burn.
                    None => drop(black_box(trained.losses(batch.clone()).mean().backward())),
                }
            }),
            ("gradients, factored", &mut || {
                black_box(evaluate());
            }),
            ("… and Gram, 8 sums", &mut || {
                let gradients = evaluate();
                black_box(gradients.gram().into_data());
                black_box(gradients.weighted_sums(weights.clone()));
            }),
            ("… and mean, squares", &mut || {
                let gradients = evaluate();
                black_box(gradients.gram().into_data());
                black_box(gradients.weighted_sums(weights.clone()));
                black_box(gradients.mean());
                black_box(gradients.sum_of_squares());
            }),
            ("the loop, Gram, 8 sums", &mut || {
                let looped = captured.looped(&model, &batch);
                let gradients = looped.expect("the loss can be evaluated").gradients;
                black_box(gradients.gram().into_data());
                black_box(gradients.weighted_sums(weights.clone()));
            }),
        ],
    );
}

/// A mean gradient with batch norm in training mode.
fn batch_norm_step<N, B>(title: &str, model: N, batch: B, rounds: usize)
where
    N: Network<B>,
    B: ExampleBatch + Send + Sync + 'static,
{
    let layout = Arc::new(Layout::new(&model, &ParamGroup::all()).expect("the model has weights"));
    let mean = CapturedLoss::new(layout.clone(), |model: &N, batch: B| model.losses(batch));
    let mean = mean.without_self_check().with_batch_statistics();
    let draws = layout.flatten(&model).expect("the layout is the model's");
    let draws: Tensor<2> = draws.unsqueeze();
    ratios::in_turns(
        &format!("{title}, batch norm in training"),
        rounds,
        &mut [
            ("one mean gradient", &mut || {
                let gradients = model.losses(batch.clone()).mean().backward();
                black_box(gradients);
            }),
            ("the same, compiled", &mut || {
                let gradients = mean.gradients(&model, draws.clone(), &batch);
                let gradients = gradients.expect("the batch fits the model");
                black_box(gradients.expect("the loss can be compiled"));
            }),
        ],
    );
}

/// VIFA steps with rank 1, as in Burn's Learner.
fn training<M>(title: &str, model: M, batch: <M as TrainStep>::Input, draws: usize, steps: usize)
where
    M: Module + ModuleDisplay + ExampleLoss<Input: ExampleBatch, Output: MixDraws> + 'static,
{
    let config = BayesianConfig::new(455, VifaConfig::new())
        .with_draws(draws)
        .with_mean_stage(MeanStage::None)
        .with_averaging(Averaging::None);
    let start = |bayesian| Training::new(bayesian, FusedAdamConfig::new().init(), Holder::Learner);
    let mut one_by_one = start(config.init(model.clone()));
    let mut one_pass = start(config.init(model).with_batched_draws());
    ratios::in_turns(
        &format!("{title}, {steps} steps with {draws} draws"),
        40,
        &mut [
            ("one by one", &mut || {
                (0..steps).for_each(|_| one_by_one.step(batch.clone()));
            }),
            ("all in one pass", &mut || {
                (0..steps).for_each(|_| one_pass.step(batch.clone()));
            }),
        ],
    );
}

fn prediction(widths: &[usize], [rows, draws]: [usize; 2], rounds: usize) {
    let device = Device::default();
    let model = MlpClassifier::new(widths, &device);
    let batch = classification_batch(rows, widths[0], widths[widths.len() - 1], &device);
    let bayesian = BayesianConfig::new(60_000, VifaConfig::new().with_rank(8))
        .init(model.clone())
        .valid();
    let stacked = bayesian.clone().with_batched_prediction();
    let posterior = bayesian.posterior();
    let layout = bayesian.layout().clone();
    let forward = CapturedForward::new(layout, |model: &MlpClassifier, inputs: Tensor<2>| {
        model.logits(inputs)
    });
    let drawn = || {
        let drawn = posterior.draws(Noise::new(1), draws);
        drawn.expect("the posterior is finite")
    };
    ratios::in_turns(
        &format!("{widths:?}, {draws} draws for {rows} rows"),
        rounds,
        &mut [
            ("one by one", &mut || {
                let draws = bayesian.predict(batch.clone(), draws);
                black_box(draws.expect("the posterior exists"));
            }),
            ("the same in one pass", &mut || {
                let draws = stacked.predict(batch.clone(), draws);
                black_box(draws.expect("the posterior exists"));
            }),
            ("outputs, all in one pass", &mut || {
                let outputs = forward.in_one_pass(&model, drawn(), &batch.inputs);
                black_box(outputs.expect("the draws fit the model"));
            }),
            ("outputs, as many as fit", &mut || {
                let outputs = forward.outputs(&model, drawn(), &batch.inputs);
                black_box(outputs.expect("the draws fit the model"));
            }),
        ],
    );
}
