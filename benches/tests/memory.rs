//! The bytes that are really held, counted by an allocator of our own: by training, against
//! [`MemoryPlan`](burn_bayes::memory::MemoryPlan)'s promise; by answers about per-example gradients, against
//! the matrix that they never make.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Debug;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use burn::module::ParamGroup;
use burn::tensor::{Device, Tensor};
use burn::train::TrainStep;
use burn_bayes::graph::{CapturedModel, ExampleGradients};
use burn_bayes::kernels::Scratch;
use burn_bayes::memory::{MemoryPlan, OptimizerMemory};
use burn_bayes::methods::{Algorithm, Curvature, IvonConfig, MeanStage, VadamConfig, VonConfig};
use burn_bayes::{Bayesian, BayesianConfig, FusedAdamConfig, SlangConfig, SwagConfig, VifaConfig};
use burn_bayes_benches::{
    Holder, Labelled, MlpClassifier, Network, Training, classification_batch,
    convolution_gradients, embedding_gradients, perceptron_gradients,
};
use burn_bayes_contrib::methods::NagvacConfig;

/// Counts bytes held, and the most that were.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// What one test allocates is not for another to count.
static ALONE: Mutex<()> = Mutex::new(());

fn grown(bytes: usize) {
    let held = HELD.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(held, Relaxed);
}

// SAFETY: every call is the system allocator's, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract is the same.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes held while `steps` steps are made, above what was held before the model.
fn most_held<A>(
    init: impl Fn(MlpClassifier) -> Bayesian<MlpClassifier, A>,
    holder: Holder,
    steps: usize,
) -> usize
where
    A: Algorithm,
    Bayesian<MlpClassifier, A>: TrainStep<Input = Labelled>,
{
    let device = Device::default().autodiff();
    device.seed(0);
    let batch = classification_batch(2, 784, 10, &device);
    let before = HELD.load(Relaxed);
    let model = MlpClassifier::new(&[784, 400, 400, 10], &device);
    let bayesian = init(model);
    let mut training = Training::new(bayesian, FusedAdamConfig::new().init(), holder);
    // The first uses of a recording are compared with the loss itself.
    for _ in 0..8 {
        training.step(batch.clone());
    }
    MOST.store(HELD.load(Relaxed), Relaxed);
    for _ in 0..steps {
        training.step(batch.clone());
    }
    MOST.load(Relaxed) - before
}

const WEIGHTS: usize = 784 * 400 + 400 + 400 * 400 + 400 + 400 * 10 + 10;

/// Whoever holds the model, a training holds what was planned.
fn check_plan<A>(
    config: &impl Debug,
    init: impl Fn(MlpClassifier) -> Bayesian<MlpClassifier, A>,
    plan: MemoryPlan,
) where
    A: Algorithm,
    Bayesian<MlpClassifier, A>: TrainStep<Input = Labelled>,
{
    // The first use of a backend fills caches that belong to no training.
    most_held(&init, Holder::Owner, 1);
    for holder in [Holder::Owner, Holder::Learner] {
        let held = most_held(&init, holder, 4);
        let planned = plan.peak();
        // What is left over: activations of two rows, and blocks of the matrix products.
        let ratio = held as f64 / planned as f64;
        // An owner may hold less, because its buffers can be changed in place.
        let least = match holder {
            Holder::Owner => 0.7,
            Holder::Learner => 0.85,
        };
        assert!(
            (least..=1.2).contains(&ratio),
            "{config:?}, {holder:?}: {held} bytes held, {planned} planned"
        );
    }
}

#[test]
fn training_holds_what_the_plan_says() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (rank, draws) in [(0, 1), (1, 1), (4, 1), (8, 1), (4, 2)] {
        let config = BayesianConfig::new(60_000, VifaConfig::new().with_rank(rank))
            .with_draws(draws)
            .with_mean_stage(MeanStage::None);
        let plan = config.memory(WEIGHTS, OptimizerMemory::Adam);
        check_plan(&config, |model| config.init(model), plan);
    }
    for max_rank in [0, 2, 5] {
        let config = BayesianConfig::new(
            60_000,
            SwagConfig::new().with_start(Some(1)).with_rank(max_rank),
        );
        let plan = config.memory(WEIGHTS, OptimizerMemory::Adam);
        check_plan(&config, |model| config.init(model), plan);
    }
}

#[test]
fn steps_in_closed_form_hold_what_the_plan_says() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (rank, draws, momentum) in [
        (0, 1, 0.0),
        (0, 4, 0.9),
        (1, 1, 0.0),
        (8, 1, 0.9),
        (4, 4, 0.0),
    ] {
        let config = BayesianConfig::paper(
            60_000,
            SlangConfig::paper().with_rank(rank).with_momentum(momentum),
        )
        .with_draws(draws);
        let plan = config.memory(WEIGHTS, OptimizerMemory::Plain);
        check_plan(&config, |model| config.init(model), plan);
    }
    for (curvature, draws, momentum) in [
        (Curvature::SquaredMean, 4, 0.0),
        (Curvature::Price, 2, 0.0),
        (Curvature::Price, 8, 0.9),
        (Curvature::Hutchinson { probe: 0.1 }, 2, 0.9),
    ] {
        let config = BayesianConfig::paper(
            60_000,
            VonConfig::paper()
                .with_curvature(curvature)
                .with_momentum(momentum),
        )
        .with_antithetic(true)
        .with_draws(draws);
        let plan = config.memory(WEIGHTS, OptimizerMemory::Plain);
        check_plan(&config, |model| config.init(model), plan);
    }
    // The first stage.
    let config = BayesianConfig::new(60_000, SlangConfig::vogn());
    check_plan(
        &config,
        |model| config.init(model),
        config.memory(WEIGHTS, OptimizerMemory::Plain),
    );
    let config = BayesianConfig::new(60_000, VadamConfig::new());
    check_plan(
        &config,
        |model| config.init(model),
        config.memory(WEIGHTS, OptimizerMemory::Plain),
    );
    for draws in [2, 8] {
        let stage = MeanStage::None;
        let config = BayesianConfig::new(60_000, IvonConfig::new())
            .with_mean_stage(stage)
            .with_draws(draws);
        check_plan(
            &config,
            |model| config.init(model),
            config.memory(WEIGHTS, OptimizerMemory::Plain),
        );
        let config = BayesianConfig::new(60_000, NagvacConfig::new())
            .with_mean_stage(stage)
            .with_draws(draws);
        check_plan(
            &config,
            |model| config.init(model),
            config.memory(WEIGHTS, OptimizerMemory::Plain),
        );
    }
    for draws in [1, 4] {
        let config = BayesianConfig::paper(60_000, VadamConfig::paper()).with_draws(draws);
        let plan = config.memory(WEIGHTS, OptimizerMemory::Plain);
        check_plan(&config, |model| config.init(model), plan);
    }
}

/// The most bytes held during a question about gradients, above what was held before.
fn most_held_by(question: impl Fn(ExampleGradients), gradients: &ExampleGradients) -> usize {
    // Results are allocated anew instead of taken from those dropped before.
    let asked = || question(gradients.clone().with_scratch(&Scratch::default()));
    asked();
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    asked();
    MOST.load(Relaxed) - before
}

fn check_gradients(name: &str, gradients: &ExampleGradients) {
    const RANK: usize = 8;
    let device = Device::default();
    let (count, len) = (gradients.count(), gradients.len());
    let weights = Tensor::ones([RANK, count], &device);
    let vectors = Tensor::ones([RANK, len], &device);
    type Question<'a> = &'a dyn Fn(ExampleGradients);
    let questions: [(&str, usize, Question<'_>); 5] = [
        ("gram", 0, &|asked| drop(black_box(asked.gram()))),
        ("mean", 1, &|asked| drop(black_box(asked.mean()))),
        ("sum of squares", 1, &|asked| {
            drop(black_box(asked.sum_of_squares()))
        }),
        ("weighted sums", RANK, &|asked| {
            drop(black_box(asked.weighted_sums(weights.clone())))
        }),
        ("dot", RANK, &|asked| {
            drop(black_box(asked.dot(vectors.clone())))
        }),
    ];
    for (question, rows, ask) in questions {
        let held = most_held_by(ask, gradients);
        // As many rows as are asked for, and four for all else.
        let allowed = (rows + 4) * len * size_of::<f32>();
        assert!(
            held <= allowed,
            "{name}, {question}: {held} bytes held, {allowed} allowed; the gradients themselves are \
             {count}·{len} numbers"
        );
    }
}

#[test]
fn answers_about_gradients_do_not_make_them() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = Device::default();
    let perceptron = perceptron_gradients(64, &[784, 400, 400, 10], &device);
    check_gradients("perceptron", &perceptron);
    check_gradients("micro-batches", &perceptron.grouped(2));
    let draws = ExampleGradients::joined(vec![perceptron; 4]);
    check_gradients("draws", &draws);
    check_gradients("micro-batches of draws", &draws.grouped(4));
    check_gradients("convolutions", &convolution_gradients(16, &device));
    check_gradients(
        "embedding",
        &embedding_gradients([32, 8], [10_000, 64], &device),
    );
}

/// A step of SLANG with several draws, against the rows of gradients that it would take one by one.
#[test]
fn a_step_with_several_draws_does_not_make_their_gradients() {
    const RANK: usize = 4;
    const DRAWS: usize = 4;
    const ROWS: usize = 64;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = Device::default().autodiff();
    let model = MlpClassifier::new(&[784, 400, 400, 10], &device);
    let batch = classification_batch(ROWS, 784, 10, &device);
    let config = BayesianConfig::new(60_000, SlangConfig::new().with_rank(RANK)).with_draws(DRAWS);
    let bayesian = config.init(model);
    let len = bayesian.layout().len();
    let mut training = Training::new(bayesian, FusedAdamConfig::new().init(), Holder::Owner);
    training.step(batch.clone());
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    training.step(batch.clone());
    let held = MOST.load(Relaxed) - before;
    // The draws, the old and the new factors in and out of the step, and vectors as long as the
    // weights.
    let allowed = (DRAWS + 4 * RANK + 16) * len * size_of::<f32>();
    assert!(allowed < DRAWS * ROWS * len * size_of::<f32>() / 5);
    assert!(held <= allowed, "{held} bytes held, {allowed} allowed");
}

#[test]
fn evaluating_examples_does_not_make_their_gradients() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = Device::default();
    let model = MlpClassifier::new(&[784, 400, 400, 10], &device);
    let batch = classification_batch(64, 784, 10, &device);
    let layout =
        Arc::new(burn_bayes::graph::Layout::new(&model, &ParamGroup::all()).expect("weights"));
    let len = layout.len();
    let captured = CapturedModel::new(layout, |model: &MlpClassifier, batch: Labelled| {
        model.losses(batch)
    });
    let evaluate = || {
        let evaluated = captured.example_gradients(&model, &batch);
        black_box(
            evaluated
                .expect("the loss can be recorded")
                .gradients
                .gram(),
        );
    };
    // The first uses of a recording are compared with the loss itself.
    for _ in 0..8 {
        evaluate();
    }
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    evaluate();
    let held = MOST.load(Relaxed) - before;
    // Activations and what products are packed into; not the 64 rows of gradients.
    let allowed = 4 * len * size_of::<f32>();
    assert!(
        held <= allowed,
        "{held} bytes held, {allowed} allowed; a row is {len} numbers"
    );
}
