//! Burn's own Learner, end to end: all its features must work with a wrapped model as with the model.
//!
//! The data loaders do not shuffle. Burn does not restore the state of a shuffle when a training resumes, so
//! only a fixed order is the same with and without an interruption.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::{Module, ParamGroup};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::optim::lr_scheduler::linear::LinearLrSchedulerConfig;
use burn::optim::lr_scheduler::module_lr_scheduler::{ModuleLrScheduler, ModuleLrSchedulerConfig};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::distributed::{DistributedConfig, ReduceOperation};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::metric::{AccuracyMetric, Adaptor, LossMetric, MetricDefinition};
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use burn::train::{
    ClassificationOutput, EvaluatorBuilder, ExecutionStrategy, InferenceStep, Interrupter, Learner,
    LearnerSummary, LearningResult, MetricEarlyStoppingStrategy, MetricSummary, MultiDeviceOptim,
    StoppingCondition, SupervisedTraining, TrainOutput, TrainStep,
};
use burn_bayes::graph::ExampleBatch;
use burn_bayes::likelihood::ClassificationDraws;
use burn_bayes::methods::{
    Algorithm, Averaging, FactorUnits, FromExamples, FromGradients, InitialDeviation, IvonConfig,
    MeanStage, Rate, Slang, StepId, Vifa,
};
use burn_bayes::metric::{
    ExpectedCalibrationErrorMetric, ModelDisagreementMetric, PredictiveEntropyMetric,
};
use burn_bayes::posterior::Posterior;
use burn_bayes::train::{
    DEFAULT_PREDICTION_DRAWS, Gather, MAX_REJECTIONS, StagedLearningRate, VifaPart,
};
use burn_bayes::{
    Bayesian, BayesianConfig, ExampleLoss, FactorPosterior, FusedAdamConfig, SlangConfig,
    SwagConfig, VifaConfig, eval,
};
use burn_bayes_contrib::methods::{NagvacConfig, SamplingSchedule, SghmcConfig};
use tempfile::TempDir;

use crate::support::{
    EPSILON, assert_close, autodiff, bits, device, filled, joined_gradients, normals, one_stage,
    state, values,
};

#[derive(Clone, Debug)]
struct Point {
    place: [f32; 2],
    class: i32,
}

/// Three noisy clusters with alternating classes.
fn points(len: usize, seed: u64) -> Vec<Point> {
    const CENTRES: [[f32; 2]; 3] = [[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]];
    normals(seed, 2 * len)
        .chunks(2)
        .zip((0..3).cycle())
        .map(|(noise, class)| {
            let [x, y] = CENTRES[class];
            Point {
                place: [x + 0.4 * noise[0], y + 0.4 * noise[1]],
                class: class as i32,
            }
        })
        .collect()
}

#[derive(Clone, Debug, ExampleBatch)]
struct Batch {
    places: Tensor<2>,
    classes: Tensor<1, Int>,
}

#[derive(Clone)]
struct ToBatch;

impl Batcher<Point, Batch> for ToBatch {
    fn batch(&self, points: Vec<Point>, device: &Device) -> Batch {
        let places: Vec<f32> = points.iter().flat_map(|point| point.place).collect();
        let classes: Vec<i32> = points.iter().map(|point| point.class).collect();
        let len = points.len();
        Batch {
            places: Tensor::from_data(TensorData::new(places, [len, 2]), device),
            classes: Tensor::from_data(TensorData::new(classes, [len]), device),
        }
    }
}

fn batch(points: &[Point], device: &Device) -> Batch {
    ToBatch.batch(points.to_vec(), device)
}

fn loader(points: Vec<Point>, batch_size: usize) -> Arc<dyn DataLoader<Batch>> {
    DataLoaderBuilder::new(ToBatch)
        .batch_size(batch_size)
        .build(InMemDataset::new(points))
}

/// A user's model, which does not use this library.
#[derive(Module, Debug)]
struct Classifier {
    hidden: Linear,
    dropout: Dropout,
    output: Linear,
}

impl Classifier {
    fn new(dropout: f64) -> Self {
        let device = autodiff();
        Self {
            hidden: LinearConfig::new(2, 8).init(&device),
            dropout: DropoutConfig::new(dropout).init(),
            output: LinearConfig::new(8, 3).init(&device),
        }
    }

    fn forward(&self, places: Tensor<2>) -> Tensor<2> {
        let hidden = self.hidden.forward(places).tanh();
        self.output.forward(self.dropout.forward(hidden))
    }

    fn predict(&self, batch: Batch) -> ClassificationOutput {
        let output = self.forward(batch.places);
        let loss = CrossEntropyLossConfig::new()
            .init(&output.device())
            .forward(output.clone(), batch.classes.clone());
        ClassificationOutput::new(loss, output, batch.classes)
    }
}

impl TrainStep for Classifier {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = self.predict(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl ExampleLoss for Classifier {
    fn example_losses(&self, batch: Batch) -> Tensor<1> {
        let log_probabilities = log_softmax(self.forward(batch.places), 1);
        let chosen = log_probabilities.gather(1, batch.classes.unsqueeze_dim(1));
        chosen.neg().squeeze_dim(1)
    }
}

impl InferenceStep for Classifier {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.predict(batch)
    }
}

type Bayes<A> = Bayesian<Classifier, A>;

const TRAIN_LEN: usize = 96;
const BATCH: usize = 16;
const STEPS_PER_EPOCH: u64 = (TRAIN_LEN / BATCH) as u64;

fn data() -> Vec<Point> {
    points(TRAIN_LEN, 1)
}

fn classifier(seed: u64) -> Classifier {
    filled(Classifier::new(0.0), seed, 0.5)
}

fn vifa() -> BayesianConfig<VifaConfig> {
    BayesianConfig::new(
        TRAIN_LEN,
        VifaConfig::new()
            .with_rank(2)
            .with_factor_units(FactorUnits::Weights),
    )
    .with_seed(3)
    .with_draws(1)
    .with_antithetic(false)
    .with_mean_stage(MeanStage::None)
    .with_averaging(Averaging::None)
}

fn slang() -> BayesianConfig<SlangConfig> {
    BayesianConfig::paper(
        TRAIN_LEN,
        SlangConfig::paper()
            .with_rank(2)
            .with_covariance_rate(Rate::Constant(0.05)),
    )
    .with_seed(3)
}

/// A renderer without output.
struct Quiet;

impl MetricsRendererTraining for Quiet {
    fn update_train(&mut self, _state: MetricState) {}
    fn update_valid(&mut self, _state: MetricState) {}
}

impl MetricsRendererEvaluation for Quiet {
    fn update_test(&mut self, _name: EvaluationName, _state: MetricState) {}
}

impl TrainingProgressLogger for Quiet {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}
    fn update_epoch(&mut self, _epoch: usize) {}
    fn start_split(&mut self, _split: &str, _total_items: usize) {}
    fn update_split(&mut self, _items_processed: usize) {}
    fn end_split(&mut self) {}
    fn end(&mut self) {}
    fn log_event_training(&mut self, _event: String) {}
}

impl EvaluationProgressLogger for Quiet {
    fn start_global_progress(&mut self, _total_tests: usize) {}
    fn start_test(&mut self, _name: &str, _total_items: usize) {}
    fn update_test_progress(&mut self, _items_processed: usize) {}
    fn end_test(&mut self) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _event: String) {}
}

impl MetricsRenderer for Quiet {
    fn manual_close(&mut self) {}
    fn register_metric(&mut self, _definition: MetricDefinition) {}
}

/// A training without output, with the metrics of a classification.
fn training<A>(
    directory: &Path,
    train: Arc<dyn DataLoader<Batch>>,
    epochs: usize,
) -> SupervisedTraining<Bayes<A>>
where
    A: Algorithm,
    A::Signal: Gather<Classifier, A>,
{
    SupervisedTraining::new(directory, train, loader(points(30, 2), 30))
        .renderer(Box::new(Quiet))
        .with_application_logger(None)
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .num_epochs(epochs)
}

fn adam() -> ModuleOptimizer {
    AdamConfig::new().init()
}

fn sgd() -> ModuleOptimizer {
    SgdConfig::new().init()
}

/// A whole training in its own directory.
fn run<A>(
    bayesian: Bayes<A>,
    optimizer: ModuleOptimizer,
    rate: f64,
    train: Arc<dyn DataLoader<Batch>>,
    adjust: impl FnOnce(SupervisedTraining<Bayes<A>>) -> SupervisedTraining<Bayes<A>>,
) -> LearningResult<Bayes<A>>
where
    A: Algorithm,
    A::Signal: Gather<Classifier, A>,
{
    let directory = TempDir::new().unwrap();
    adjust(training(directory.path(), train, 1)).launch(Learner::new(bayesian, optimizer, rate))
}

fn accuracy<A: Algorithm>(bayesian: &Bayes<A>) -> f64 {
    let test = points(90, 5);
    let mixture = bayesian.predict(batch(&test, &device()), 16).unwrap();
    let guesses: Vec<i64> = mixture.output.argmax(1).into_data().iter().collect();
    let hits = guesses
        .iter()
        .zip(&test)
        .filter(|(guess, point)| **guess == i64::from(point.class))
        .count();
    hits as f64 / test.len() as f64
}

#[test]
fn a_wrapped_model_learns() {
    let result = run(
        vifa().init(classifier(1)),
        adam(),
        0.05,
        loader(data(), BATCH),
        |training| training.num_epochs(10),
    );
    assert!(result.error.is_none() && result.interrupted.is_none());
    assert_eq!(result.model.steps(), 10 * STEPS_PER_EPOCH);
    let found = accuracy(&result.model);
    // Clusters with deviation 0.4 around points 1.75 apart overlap by a few per cent.
    assert!(found > 0.85, "{found}");
    let shown = result.model.to_string();
    assert!(
        shown.contains("Vifa") && shown.contains("step: 60"),
        "{shown}"
    );
    assert!(result.model.template().hidden.weight.val().device() == device());
}

/// The learning rate is that of the Newton step; the optimiser is not used.
#[test]
fn a_closed_form_step_learns_with_the_learners_rate() {
    let run = |rate| {
        run(
            slang().init(classifier(1)),
            sgd(),
            rate,
            loader(data(), BATCH),
            |training| training.num_epochs(20),
        )
    };
    let result = run(0.1);
    assert!(result.error.is_none() && result.interrupted.is_none());
    assert_eq!(result.model.steps(), 20 * STEPS_PER_EPOCH);
    let found = accuracy(&result.model);
    assert!(found > 0.85, "{found}");
    let mean = |rate| bits(&run(rate).model.posterior().mean());
    let start = bits(&slang().init(classifier(1)).posterior().mean());
    assert_eq!(mean(0.0), start);
    assert_ne!(mean(0.1), start);
}

/// The step has one learning rate, that of the mean; stages do not apply.
#[test]
fn a_closed_form_step_takes_the_staged_rate_of_the_mean() {
    let run = |rates: ModuleLrScheduler| {
        let directory = TempDir::new().unwrap();
        let result = training(directory.path(), loader(data(), BATCH), 1).launch(Learner::new(
            slang().init(classifier(1)),
            sgd(),
            rates,
        ));
        state(&result.model)
    };
    let staged = |covariance| {
        let rates = StagedLearningRate::new(0.1, covariance, covariance);
        run(rates.with_mean_only_steps(4).init())
    };
    assert_eq!(staged(0.0), staged(1.0));
    let decay = |initial| {
        let rates = StagedLearningRate::new(initial, 0.0, 0.0);
        run(rates.init())
    };
    assert_eq!(decay(0.1), staged(0.0));
    assert_ne!(decay(0.05), staged(0.0));
}

/// Closed-form steps cannot be accumulated, and the error says so.
#[test]
fn a_closed_form_step_refuses_accumulation_and_several_devices() {
    let replicas = |optim| ExecutionStrategy::multi(vec![autodiff(), autodiff()], optim);
    let adjustments: [&dyn Fn(SupervisedTraining<_>) -> SupervisedTraining<_>; 3] = [
        &|training| training.grads_accumulation(2),
        &|training| {
            training.with_training_strategy(replicas(MultiDeviceOptim::OptimMainDevice).into())
        },
        &|training| {
            training.with_training_strategy(replicas(MultiDeviceOptim::OptimSharded).into())
        },
    ];
    for adjust in adjustments {
        let interrupter = Interrupter::new();
        let bayesian = slang()
            .init(classifier(1))
            .with_interrupter(interrupter.clone());
        let result = run(bayesian, sgd(), 0.1, loader(data(), BATCH), |training| {
            adjust(training.with_interrupter(interrupter))
        });
        assert!(result.interrupted.is_some());
        let fault = wrapped_fault(&result.model);
        assert!(
            fault.contains("accumulation") && fault.contains("one device"),
            "{fault}"
        );
    }
}

fn wrapped_fault<A: Algorithm>(bayesian: &Bayes<A>) -> String {
    let fault = bayesian.fault().expect("a fault");
    assert!(fault.is_config(), "{fault}");
    fault.to_string()
}

#[test]
fn a_closed_form_step_trains_the_rest_of_a_model_by_the_optimiser() {
    let config = slang()
        .with_group(ParamGroup::from_predicate("output"))
        .with_draws(3);
    let bayesian = config.init(classifier(1));
    let batch = batch(&data()[..BATCH], &autodiff());
    let proposal = bayesian.algorithm().propose(StepId::default()).unwrap();
    let mut expected = vec![0.0; 2 * 8 + 8];
    for draw in &proposal.draws {
        let template = bayesian.template().clone();
        let weights = draw.weights.clone();
        let model = bayesian.layout().write_leaves(template, weights).unwrap();
        let grads = TrainStep::step(&model, batch.clone()).grads;
        let hidden = joined_gradients(&model.hidden, &grads);
        expected
            .iter_mut()
            .zip(hidden)
            .for_each(|(sum, g)| *sum += g / 3.0);
    }
    let output = TrainStep::step(&bayesian, batch);
    let found = joined_gradients(&bayesian.template().hidden, &output.grads);
    let size = expected.iter().fold(0.0f64, |max, g| max.max(g.abs()));
    assert_close(
        "hidden",
        &found,
        &expected,
        &vec![size; expected.len()],
        16.0 * EPSILON,
    );

    let before = state(bayesian.template());
    let posterior = bits(&bayesian.posterior().mean());
    let after = bayesian.optimize(&mut sgd(), 0.1.into(), output.grads);
    assert_ne!(bits(&after.posterior().mean()), posterior);
    let moved = state(after.template());
    let changed: Vec<bool> = moved.iter().zip(&before).map(|(m, b)| m != b).collect();
    assert_eq!(changed, [true, true, false, false]);
}

fn resumes<A>(wrapped: impl Fn(u64) -> Bayes<A>, optimizer: fn() -> ModuleOptimizer)
where
    A: Algorithm<Posterior = FactorPosterior>,
    A::Signal: Gather<Classifier, A>,
{
    let rates = || LinearLrSchedulerConfig::new(0.05, 0.01, 30).init().unwrap();
    let whole = TempDir::new().unwrap();
    let expected = training(whole.path(), loader(data(), BATCH), 4)
        .with_default_checkpointers()
        .launch(Learner::new(wrapped(1), optimizer(), rates()));

    let parts = TempDir::new().unwrap();
    training(parts.path(), loader(data(), BATCH), 2)
        .with_default_checkpointers()
        .launch(Learner::new(wrapped(1), optimizer(), rates()));
    // As in another process: another object with other weights and other ids, which has made predictions.
    let fresh = wrapped(2);
    let _ = fresh.try_posterior();
    let resumed = training(parts.path(), loader(data(), BATCH), 4)
        .with_default_checkpointers()
        .checkpoint(2)
        .launch(Learner::new(fresh, optimizer(), rates()));

    assert!(resumed.error.is_none());
    assert_eq!(resumed.model.steps(), 4 * STEPS_PER_EPOCH);
    assert_eq!(state(&resumed.model), state(&expected.model));
    let noise = burn_bayes::Noise::new(0);
    assert_eq!(
        bits(&resumed.model.posterior().draw(noise).unwrap()),
        bits(&expected.model.posterior().draw(noise).unwrap())
    );
    // The values logged after the interruption are those of the whole training.
    for epoch in [3, 4] {
        let numbers = |directory: &TempDir| {
            let logs = logs(directory.path());
            let prefixes = [
                format!("train/epoch-{epoch}/"),
                format!("valid/epoch-{epoch}/"),
            ];
            logs.into_iter()
                .filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
                .collect::<BTreeMap<_, _>>()
        };
        let found = numbers(&parts);
        assert_eq!(found.len(), 4, "{:?}", found.keys());
        assert_eq!(found, numbers(&whole));
    }
}

#[test]
fn a_resumed_training_is_the_uninterrupted_one_with_burns_adam() {
    resumes(|seed| vifa().init(classifier(seed)), adam);
}

#[test]
fn a_resumed_training_is_the_uninterrupted_one_with_the_fused_adam() {
    let config = vifa().with_averaging(Averaging::From(8));
    resumes(
        |seed| config.init(classifier(seed)),
        || FusedAdamConfig::new().init(),
    );
}

#[test]
fn a_resumed_training_is_the_uninterrupted_one_with_steps_in_closed_form() {
    resumes(
        |seed| {
            slang()
                .map_method(|method| method.with_momentum(0.9))
                .init(classifier(seed))
        },
        adam,
    );
    resumes(
        |seed| BayesianConfig::new(TRAIN_LEN, SlangConfig::vogn()).init(classifier(seed)),
        sgd,
    );
}

#[test]
fn a_resumed_training_is_the_uninterrupted_one_with_momentum() {
    let momentum = || {
        let momentum = MomentumConfig::new().with_momentum(0.5).with_dampening(0.0);
        SgdConfig::new()
            .with_momentum(Some(momentum.with_nesterov(true)))
            .init()
    };
    let config = BayesianConfig::new(
        TRAIN_LEN,
        SwagConfig::new()
            .with_start(Some(3))
            .with_interval(Some(2))
            .with_rank(4),
    );
    resumes(|seed| config.init(classifier(seed)), momentum);
}

#[test]
fn a_resumed_training_is_the_uninterrupted_one_in_one_pass() {
    let config = vifa().with_draws(3);
    resumes(
        |seed| config.init(classifier(seed)).with_batched_draws(),
        adam,
    );
}

/// The log of each metric, by its path in the directory.
fn logs(directory: &Path) -> BTreeMap<String, String> {
    fn collect(root: &Path, directory: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(root, &path, found);
            } else if path.extension().is_some_and(|extension| extension == "log") {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(directory, directory, &mut found);
    found
}

#[test]
fn two_runs_with_one_seed_log_the_same_numbers() {
    let run = |seed| {
        let directory = TempDir::new().unwrap();
        training(directory.path(), loader(data(), BATCH), 2).launch(Learner::new(
            vifa().with_seed(seed).init(classifier(1)),
            adam(),
            0.02,
        ));
        logs(directory.path())
    };
    let first = run(7);
    assert_eq!(first.len(), 8, "{:?}", first.keys());
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
}

#[test]
fn accumulated_batches_are_one_big_batch_where_the_noise_is_negligible() {
    // If the draws equal the mean, the gradient of the mean is that of the joined batches.
    let config = vifa().map_method(|method| {
        method
            .with_rank(0)
            .with_initial_deviation(InitialDeviation::Constant(1e-6))
    });
    let big = run(
        config.init(classifier(1)),
        sgd(),
        1e-3,
        loader(data(), 2 * BATCH),
        |t| t,
    );
    let small = run(
        config
            .map_method(|method| method.with_accumulation(2))
            .init(classifier(1)),
        sgd(),
        1e-3,
        loader(data(), BATCH),
        |training| training.grads_accumulation(2),
    );
    assert_eq!([big.model.steps(), small.model.steps()], [3, 3]);
    near(&small.model, &big.model, 1e-4);
}

#[test]
fn accumulated_batches_of_an_ordinary_training_add_up() {
    // Burn sums accumulated gradients, so half the learning rate gives the same step.
    let config = BayesianConfig::new(
        TRAIN_LEN,
        SwagConfig::new().with_start(Some(1)).with_rank(2),
    );
    let big = run(
        config.init(classifier(1)),
        sgd(),
        0.2,
        loader(data(), 2 * BATCH),
        |t| t,
    );
    let small = run(
        config.init(classifier(1)),
        sgd(),
        0.1,
        loader(data(), BATCH),
        |training| training.grads_accumulation(2),
    );
    assert_eq!([big.model.steps(), small.model.steps()], [3, 3]);
    near(&small.model, &big.model, 256.0 * EPSILON);
}

/// The means of two posteriors agree, relative to the largest weight, and differ from the start.
#[track_caller]
fn near<A: Algorithm, B: Algorithm>(found: &Bayes<A>, expected: &Bayes<B>, tolerance: f64) {
    let (found, expected) = (
        values(&found.posterior().mean_weights().unwrap()),
        values(&expected.posterior().mean_weights().unwrap()),
    );
    let largest = expected
        .iter()
        .fold(0.0f64, |max, value| max.max(value.abs()));
    let scales = vec![largest; expected.len()];
    assert_close("mean", &found, &expected, &scales, tolerance);
    let start = vifa().init(classifier(1)).posterior().mean();
    let moved = values(&start)
        .iter()
        .zip(&expected)
        .map(|(start, end)| (start - end).abs())
        .fold(0.0, f64::max);
    assert!(moved > 30.0 * tolerance * largest, "nothing moved: {moved}");
}

/// The order in which batches of twice the size join two halves of the data.
fn interleaved(points: &[Point], batch: usize) -> Vec<Point> {
    let (first, second) = points.split_at(points.len() / 2);
    first
        .chunks(batch)
        .zip(second.chunks(batch))
        .flat_map(|(first, second)| [first, second].concat())
        .collect()
}

/// Replicas on two devices use the same noise. The sum of their gradients, each divided by the number of
/// replicas, is therefore the gradient of the joined batches.
#[test]
fn replicas_on_devices_are_one_big_batch() {
    let accumulated = vifa().map_method(|method| method.with_accumulation(2));
    check_replicas(vifa().init(classifier(1)), accumulated.init(classifier(1)));
    let together = |config: BayesianConfig<VifaConfig>| {
        config
            .with_draws(2)
            .init(classifier(1))
            .with_batched_draws()
    };
    check_replicas(together(vifa()), together(accumulated));
}

/// The updates of IVON, NAGVAC and SGHMC are made from sums over examples, so they need no setting for replicas.
#[test]
fn updates_from_sums_are_those_of_one_big_batch() {
    check_sums(|stage| {
        let config = BayesianConfig::new(TRAIN_LEN, IvonConfig::new()).with_mean_stage(stage);
        config.init(classifier(1))
    });
    check_sums(|stage| {
        let config = BayesianConfig::new(TRAIN_LEN, NagvacConfig::new()).with_mean_stage(stage);
        config.init(classifier(1))
    });
    check_sums(|_| {
        let schedule = SamplingSchedule::Constant {
            start: 2,
            interval: 1,
        };
        BayesianConfig::new(TRAIN_LEN, SghmcConfig::new(schedule)).init(classifier(1))
    });
}

fn check_sums<A>(wrapped: impl Fn(MeanStage) -> Bayes<A>)
where
    A: FromGradients,
{
    let two_stages = MeanStage::Steps(2);
    check_replicas(wrapped(two_stages), wrapped(two_stages));
    // Batches that are accumulated have draws of their own, except where the draw is the mean.
    let accumulated = |batches: usize| {
        let bayesian = wrapped(MeanStage::Steps(3));
        let loader = loader(data(), 2 * BATCH / batches);
        let result = run(bayesian, sgd(), 1e-3, loader, |training| {
            training.grads_accumulation(batches)
        });
        assert!(result.error.is_none(), "{:?}", result.error);
        assert_eq!(result.model.steps(), 3);
        result.model
    };
    near(&accumulated(2), &accumulated(1), 1e-5);
}

fn check_replicas<A>(single: Bayes<A>, replica: Bayes<A>)
where
    A: FromGradients,
{
    for optim in [
        MultiDeviceOptim::OptimMainDevice,
        MultiDeviceOptim::OptimSharded,
    ] {
        let single = run(
            single.clone(),
            sgd(),
            1e-3,
            loader(interleaved(&data(), BATCH / 2), BATCH),
            |training| training.num_epochs(2),
        );
        let replicas = run(
            replica.clone(),
            sgd(),
            1e-3,
            loader(data(), BATCH / 2),
            |training| {
                let devices = vec![autodiff(), autodiff()];
                training
                    .num_epochs(2)
                    .with_training_strategy(ExecutionStrategy::multi(devices, optim).into())
            },
        );
        assert!(replicas.error.is_none(), "{optim:?}: {:?}", replicas.error);
        assert_eq!(replicas.model.steps(), single.model.steps());
        near(&replicas.model, &single.model, 1e-5);
    }
}

/// Replicas on one device rely on this. Without the flush, Burn's GPU backends read the old value: the memory
/// belongs to one thread, and the change in place is queued by another.
#[test]
fn a_change_in_place_by_another_thread_is_seen_after_a_flush() {
    let (lent, to_change) = channel::<Tensor<1>>();
    let (changed, to_read) = channel();
    let owner = std::thread::spawn(move || {
        lent.send(Tensor::ones([4], &device()) * 1.0).unwrap();
        values(&to_read.recv().unwrap())
    });
    let tensor = to_change.recv().unwrap() + 1.0;
    tensor.device().flush().unwrap();
    changed.send(tensor).unwrap();
    let found = owner.join().unwrap();
    assert_eq!(found, [2.0; 4]);
}

/// If the data of a replica ends earlier, the others make the step.
#[test]
fn replicas_with_unequal_data_lose_no_step() {
    for optim in [
        MultiDeviceOptim::OptimMainDevice,
        MultiDeviceOptim::OptimSharded,
    ] {
        // Eight rows for the first device and nine for the second: one batch and two.
        let result = run(
            vifa()
                .map_method(|method| method.with_accumulation(2))
                .init(classifier(1)),
            sgd(),
            1e-3,
            loader(points(17, 1), 8),
            |training| {
                let devices = vec![autodiff(), autodiff()];
                training.with_training_strategy(ExecutionStrategy::multi(devices, optim).into())
            },
        );
        assert!(result.error.is_none());
        assert_eq!(result.model.steps(), 2, "{optim:?}");
    }
}

/// Burn reduces gradients across processes only on GPU backends; elsewhere the training fails before it starts.
#[cfg(feature = "flex")]
#[test]
fn distributed_training_on_cpu_devices_is_refused_by_burn() {
    if device() != Device::flex() {
        return;
    }
    let config = DistributedConfig {
        all_reduce_op: ReduceOperation::Mean,
    };
    let refused = catch_unwind(|| ExecutionStrategy::ddp(vec![autodiff(), autodiff()], config));
    let message = message(refused.map(|_| ()));
    assert!(
        message.contains("Distributed operations are not supported"),
        "{message}"
    );
}

fn message(result: std::thread::Result<()>) -> String {
    let payload = result.expect_err("a panic");
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => payload.downcast_ref::<&str>().unwrap_or(&"").to_string(),
    }
}

#[test]
fn early_stopping_stops() {
    let stopping = MetricEarlyStoppingStrategy::new(
        &LossMetric::new(),
        Aggregate::Mean,
        Direction::Lowest,
        Split::Valid,
        StoppingCondition::NoImprovementSince { n_epochs: 2 },
    );
    // With a learning rate of zero, the loss at the same draws stays that of the first epoch.
    let result = run(
        vifa().init(classifier(1)),
        sgd(),
        0.0,
        loader(data(), BATCH),
        |training| training.num_epochs(9).early_stopping(stopping),
    );
    assert_eq!(result.model.steps(), 3 * STEPS_PER_EPOCH);
}

#[test]
fn rates_and_schedules_reach_each_part_of_the_posterior() {
    let parts = |model: &Bayes<Vifa>| {
        let posterior = model.posterior();
        [
            bits(&posterior.mean()),
            bits(&posterior.factors().unwrap()),
            bits(&posterior.diagonal()),
        ]
    };
    let rated = [VifaPart::Mean, VifaPart::Factors, VifaPart::LogVariance];
    for (held, rated) in rated.into_iter().enumerate() {
        let directory = TempDir::new().unwrap();
        let bayesian = vifa().init(classifier(1));
        let before = parts(&bayesian);
        let rates = ModuleLrScheduler::new(0.01).with_group(rated.group(), 0.0);
        let result = training(directory.path(), loader(data(), BATCH), 1).launch(Learner::new(
            bayesian,
            sgd(),
            rates,
        ));
        let after = parts(&result.model);
        for part in 0..3 {
            assert_eq!(
                before[part] == after[part],
                part == held,
                "{rated:?}: {part}"
            );
        }
    }
    // A schedule that ends at zero for one part only, which then no longer changes.
    let schedule = |steps| {
        ModuleLrSchedulerConfig::new(burn::optim::lr_scheduler::LrSchedulerConfig::Constant(0.01))
            .with_group(
                VifaPart::Factors.group(),
                LinearLrSchedulerConfig::new(0.02, 1e-12, steps),
            )
            .init()
            .unwrap()
    };
    let run = |epochs| {
        let directory = TempDir::new().unwrap();
        let result = training(directory.path(), loader(data(), BATCH), epochs)
            .launch(Learner::new(vifa().init(classifier(1)), sgd(), schedule(4)));
        let posterior = result.model.posterior();
        (
            values(&posterior.mean()),
            values(&posterior.factors().unwrap()),
        )
    };
    let (first, second) = (run(1), run(2));
    assert_ne!(first.0, second.0);
    let sizes: Vec<f64> = first.1.iter().map(|value| value.abs() + 1e-3).collect();
    assert_close("factors", &second.1, &first.1, &sizes, 1e-5);
}

#[test]
fn an_evaluator_takes_a_trained_model() {
    let trained = run(
        vifa().init(classifier(1)),
        adam(),
        0.05,
        loader(data(), BATCH),
        |training| training.num_epochs(4),
    );
    let model = trained.model.with_prediction_draws(16);
    let expected = accuracy(&model);
    let directory = TempDir::new().unwrap();
    let result = EvaluatorBuilder::new(directory.path())
        .renderer(Box::new(Quiet))
        .with_application_logger(None)
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .build(model)
        .eval("clusters", loader(points(90, 5), 90));
    assert!(result.error.is_none() && result.interrupted.is_none());
    drop(result);
    let logs = logs(directory.path());
    let (_, log) = logs
        .iter()
        .find(|(name, _)| name.contains("Accuracy"))
        .unwrap_or_else(|| panic!("{:?}", logs.keys()));
    let logged: f64 = log.trim().split(',').next().unwrap().parse().unwrap();
    assert_close(
        "accuracy",
        &[logged],
        &[100.0 * expected],
        &[100.0],
        4.0 * EPSILON,
    );
}

#[test]
fn a_last_layer_posterior_trains_the_rest_as_point_estimates() {
    let config = vifa().with_group(ParamGroup::from_predicate("output"));
    let bayesian = config.init(classifier(1));
    let before = state(&bayesian.template().hidden);
    let result = run(bayesian, adam(), 0.05, loader(data(), BATCH), |training| {
        training.num_epochs(10)
    });
    let model = result.model;
    assert_eq!(model.posterior().len(), 8 * 3 + 3);
    assert_ne!(state(&model.template().hidden), before);
    let (mean, drawn) = (model.mean_model().unwrap(), model.drawn_model(0).unwrap());
    assert_eq!(state(&mean.hidden), state(&model.template().hidden));
    assert_eq!(state(&drawn.hidden), state(&model.template().hidden));
    assert_ne!(state(&drawn.output), state(&mean.output));
    let found = accuracy(&model);
    assert!(found > 0.85, "{found}");
}

/// The gradient of a point estimate is the mean of the user's gradients over the draws.
#[test]
fn the_rest_of_a_model_has_the_gradient_of_the_average_loss() {
    let config = vifa()
        .with_group(ParamGroup::from_predicate("output"))
        .with_draws(3);
    let bayesian = config.init(classifier(1));
    let batch = batch(&data()[..BATCH], &autodiff());
    let proposal = bayesian
        .algorithm()
        .propose(StepId { step: 0, pass: 0 })
        .unwrap();
    let gradients: Vec<Vec<f64>> = proposal
        .draws
        .iter()
        .map(|draw| {
            let template = bayesian.template().clone();
            let model = bayesian
                .layout()
                .write_leaves(template, draw.weights.clone())
                .unwrap();
            let grads = TrainStep::step(&model, batch.clone()).grads;
            joined_gradients(&model.hidden, &grads)
        })
        .collect();
    let expected: Vec<f64> = (0..gradients[0].len())
        .map(|at| gradients.iter().map(|gradient| gradient[at]).sum::<f64>() / 3.0)
        .collect();
    let sizes: Vec<f64> = (0..expected.len())
        .map(|at| gradients.iter().map(|gradient| gradient[at].abs()).sum())
        .collect();
    let grads: GradientsParams = TrainStep::step(&bayesian, batch).grads;
    let found = joined_gradients(&bayesian.template().hidden, &grads);
    assert_close("hidden", &found, &expected, &sizes, 4.0 * EPSILON);
    assert_eq!(
        joined_gradients(&bayesian.template().output, &grads).len(),
        0
    );
}

#[test]
fn metrics_of_uncertainty_report_the_scores_of_the_epoch() {
    let directory = TempDir::new().unwrap();
    let trained = training(directory.path(), loader(data(), BATCH), 1)
        .metrics((
            PredictiveEntropyMetric::new(),
            ModelDisagreementMetric::new(),
            ExpectedCalibrationErrorMetric::new(),
        ))
        .launch(Learner::new(vifa().init(classifier(1)), adam(), 1e-2))
        .model;

    let valid = batch(&points(30, 2), &device());
    let mixture = trained.predict(valid, DEFAULT_PREDICTION_DRAWS).unwrap();
    let draws: ClassificationDraws = mixture.adapt();
    let read = draws.read().unwrap();
    let mean = |scores: Vec<f64>| scores.iter().sum::<f64>() / scores.len() as f64;
    let diagram = eval::ReliabilityDiagram::equal_width(&read.labelled(), 15).unwrap();
    let expected = [
        mean(eval::predictive_entropy(read.average())),
        mean(eval::model_disagreement(read.draws())),
        diagram.expected_calibration_error(),
    ];

    let names = [
        "Predictive Entropy",
        "Model Disagreement",
        "Expected Calibration Error @ 15 bins",
    ];
    let summary = LearnerSummary::new(directory.path(), &names).unwrap();
    let value = |split: &[MetricSummary], name: &str| {
        let metric = split.iter().find(|metric| metric.name == name);
        metric.expect("it was registered").entries[0].value
    };
    let [train, valid] = [&summary.metrics.train, &summary.metrics.valid]
        .map(|split| names.map(|name| value(split, name)));
    assert_close("validation", &valid, &expected, &[1.0; 3], EPSILON);
    // A training step has one draw, so there is no disagreement.
    assert!(train[0] > 0.0 && train[1] == 0.0 && train[2] > 0.0);
}

#[test]
fn large_steps_leave_the_last_iterate_far_from_the_average() {
    let fluctuation = |config: BayesianConfig<VifaConfig>, rate: f64| {
        let result = run(
            config.init(classifier(1)),
            adam(),
            rate,
            loader(data(), BATCH),
            |training| training.num_epochs(10),
        );
        result.model.fluctuation().unwrap()
    };
    let averaged = |rate| {
        let config = one_stage(TRAIN_LEN).with_averaging(Averaging::From(30));
        fluctuation(config, rate).expect("it has an average")
    };
    let (small, large) = (averaged(1e-4), averaged(0.1));
    assert!(
        small > 0.0 && small < 0.2 && large > 2.0 * small,
        "{small} {large}"
    );
    assert_eq!(
        fluctuation(
            BayesianConfig::paper(TRAIN_LEN, VifaConfig::paper()).with_zero_mean(),
            1e-3
        ),
        None
    );
}

#[test]
fn predictions_average_the_drawn_models() {
    check_average(vifa().init(classifier(1)));
    check_average(vifa().init(classifier(1)).with_batched_prediction());
}

fn check_average(bayesian: Bayes<Vifa>) {
    let batch = batch(&points(7, 9), &device());
    let mixture = bayesian.predict(batch.clone(), 5).unwrap();
    assert_eq!(mixture.draw_probabilities.dims(), [5, 7, 3]);
    let mut expected = vec![0.0; 21];
    for draw in 0..5 {
        let model = bayesian.drawn_model(draw).unwrap();
        let probabilities = softmax(InferenceStep::step(&model, batch.clone()).output, 1);
        let probabilities = values(&probabilities);
        expected
            .iter_mut()
            .zip(&probabilities)
            .for_each(|(sum, p)| *sum += p / 5.0);
    }
    let found: Vec<f64> = values(&mixture.output)
        .iter()
        .map(|log| log.exp())
        .collect();
    assert_close("average", &found, &expected, &[1.0; 21], 8.0 * EPSILON);
    let classes: Vec<usize> = batch
        .classes
        .into_data()
        .iter::<i64>()
        .map(|c| c as usize)
        .collect();
    let loss = -classes
        .iter()
        .enumerate()
        .map(|(row, class)| expected[row * 3 + class].ln())
        .sum::<f64>()
        / 7.0;
    let found = values(&mixture.loss);
    assert_close("loss", &found, &[loss], &[1.0 + loss], 16.0 * EPSILON);
    // Without a posterior, predictions use the model's own weights.
    let swag =
        BayesianConfig::new(TRAIN_LEN, SwagConfig::new().with_start(Some(1))).init(classifier(1));
    assert_eq!(
        swag.predict(batch_of_one(), 5)
            .unwrap()
            .draw_probabilities
            .dims(),
        [1, 1, 3]
    );
}

fn batch_of_one() -> Batch {
    batch(&points(1, 9), &device())
}

/// Data whose row `bad` is not a number.
fn poisoned(len: usize, bad: usize) -> Vec<Point> {
    let mut points = points(len, 1);
    points[bad].place[0] = f32::NAN;
    points
}

#[test]
fn rejected_steps_are_left_out_and_counted_across_a_restart() {
    let device = autodiff();
    let good = batch(&data()[..BATCH], &device);
    let bad = batch(&poisoned(BATCH, 2), &device);
    let trained = |bayesian: Bayes<_>, batch: &Batch| {
        let gradients = TrainStep::step(&bayesian, batch.clone()).grads;
        bayesian.optimize(&mut sgd(), 0.1.into(), gradients)
    };
    let mut bayesian = trained(slang().init(classifier(1)), &good);
    let posterior = |bayesian: &Bayes<Slang>| bits(&bayesian.posterior().mean());
    let before = posterior(&bayesian);
    for _ in 0..MAX_REJECTIONS {
        bayesian = trained(bayesian, &bad);
    }
    assert_eq!(posterior(&bayesian), before);
    assert_eq!(bayesian.steps(), 1 + u64::from(MAX_REJECTIONS));

    // A successful step resets the count.
    let recovered = trained(trained(bayesian.clone(), &good), &bad);
    assert_ne!(posterior(&recovered), before);

    let record = bayesian.into_record();
    let interrupter = Interrupter::new();
    let resumed = slang()
        .init(classifier(2))
        .with_interrupter(interrupter.clone());
    let resumed = trained(resumed.load_record(record), &bad);
    let fault = resumed.fault().expect("one rejection too many");
    assert!(fault.is_numerical() && interrupter.should_stop(), "{fault}");
}

#[test]
fn a_gradient_that_is_not_finite_stops_the_training_at_the_last_good_state() {
    let directory = TempDir::new().unwrap();
    let rescue = directory.path().join("rescue.bpk");
    let interrupter = Interrupter::new();
    let bayesian = vifa()
        .init(classifier(1))
        .with_interrupter(interrupter.clone())
        .with_rescue_file(&rescue);
    // Row 98 is in batch 7 of 16 rows.
    let train = || loader(poisoned(192, 6 * BATCH + 2), BATCH);
    let result = run(bayesian, adam(), 0.02, train(), |training| {
        training.num_epochs(3).with_interrupter(interrupter.clone())
    });
    let fault = result.model.fault().expect("a fault");
    assert!(fault.is_numerical(), "{fault}");
    let sentence = "step 7: the gradient is not finite at hidden.weight";
    assert!(fault.to_string().starts_with(sentence), "{fault}");
    let reason = result.interrupted.expect("an interruption").reason.unwrap();
    assert!(
        reason.starts_with(sentence) && reason.contains("rescue.bpk"),
        "{reason}"
    );

    // The same six batches alone.
    let six = run(
        vifa().init(classifier(1)),
        adam(),
        0.02,
        loader(data(), BATCH),
        |t| t,
    );
    assert_eq!(result.model.steps(), 6);
    assert_eq!(state(&result.model), state(&six.model));
    let rescued = vifa().init(classifier(2)).load_file(&rescue);
    assert_eq!(rescued.steps(), 6);
    assert_eq!(state(&rescued), state(&six.model));
}

#[test]
fn what_was_accumulated_before_a_fault_is_not_half_applied() {
    let interrupter = Interrupter::new();
    let bayesian = vifa()
        .map_method(|method| method.with_accumulation(2))
        .init(classifier(1))
        .with_interrupter(interrupter.clone());
    // Batch 8 of 16 rows is the second half of step 4.
    let result = run(
        bayesian,
        adam(),
        0.02,
        loader(poisoned(192, 7 * BATCH), BATCH),
        |training| {
            training
                .grads_accumulation(2)
                .with_interrupter(interrupter.clone())
        },
    );
    let fault = result.model.fault().expect("a fault").to_string();
    assert!(fault.starts_with("step 4:"), "{fault}");
    let three = run(
        vifa()
            .map_method(|method| method.with_accumulation(2))
            .init(classifier(1)),
        adam(),
        0.02,
        loader(data(), BATCH),
        |training| training.grads_accumulation(2),
    );
    assert_eq!(result.model.steps(), 3);
    assert_eq!(state(&result.model), state(&three.model));
}

#[test]
fn a_stopped_model_can_be_trained_again() {
    let interrupter = Interrupter::new();
    let bayesian = vifa()
        .init(classifier(1))
        .with_interrupter(interrupter.clone());
    let stopped = run(
        bayesian,
        sgd(),
        1e-3,
        loader(poisoned(32, 0), BATCH),
        |training| training.with_interrupter(interrupter.clone()),
    );
    assert_eq!(stopped.model.steps(), 0);
    assert!(stopped.model.fault().is_some());

    let interrupter = Interrupter::new();
    let again = stopped.model.train().with_interrupter(interrupter.clone());
    assert!(again.fault().is_none());
    let result = run(again, sgd(), 1e-3, loader(data(), BATCH), |training| {
        training.with_interrupter(interrupter.clone())
    });
    assert_eq!(result.model.steps(), STEPS_PER_EPOCH);
    assert!(result.model.fault().is_none());
}

#[test]
fn without_an_interrupter_a_bad_gradient_panics_with_the_message() {
    let bayesian = vifa().init(classifier(1));
    let bad = batch(&poisoned(4, 0), &autodiff());
    let panic = catch_unwind(AssertUnwindSafe(|| {
        TrainStep::step(&bayesian, bad);
    }));
    let message = message(panic);
    assert!(
        message.starts_with("step 1: the gradient is not finite at hidden.weight"),
        "{message}"
    );
}

#[test]
fn an_ordinary_training_is_watched_too() {
    let config = BayesianConfig::new(
        TRAIN_LEN,
        SwagConfig::new().with_start(Some(1)).with_rank(2),
    );
    let interrupter = Interrupter::new();
    let bayesian = config
        .init(classifier(1))
        .with_interrupter(interrupter.clone());
    let result = run(
        bayesian,
        sgd(),
        0.1,
        loader(poisoned(192, 6 * BATCH + 2), BATCH),
        |training| training.with_interrupter(interrupter.clone()),
    );
    let fault = result.model.fault().expect("a fault").to_string();
    assert!(
        fault.starts_with("step 7: the gradient is not finite at hidden.weight"),
        "{fault}"
    );
    let six = run(
        config.init(classifier(1)),
        sgd(),
        0.1,
        loader(data(), BATCH),
        |t| t,
    );
    assert_eq!(state(&result.model), state(&six.model));
}

#[test]
fn a_batch_larger_than_the_training_set_is_a_config_error() {
    let config = BayesianConfig::new(BATCH - 1, VifaConfig::new());
    let direct = config.init(classifier(1));
    let rows = batch(&data()[..BATCH], &autodiff());
    let panic = catch_unwind(AssertUnwindSafe(|| {
        TrainStep::step(&direct, rows);
    }));
    let sentence = "train_len: is 15, but a mini-batch has 16 rows";
    let message = message(panic);
    assert!(message.starts_with(sentence), "{message}");

    let interrupter = Interrupter::new();
    let directory = TempDir::new().unwrap();
    let rescue = directory.path().join("rescue.bpk");
    let bayesian = config
        .init(classifier(1))
        .with_interrupter(interrupter.clone())
        .with_rescue_file(&rescue);
    let before = state(&bayesian);
    let result = run(bayesian, sgd(), 0.1, loader(data(), BATCH), |training| {
        training.with_interrupter(interrupter.clone())
    });
    let fault = result.model.fault().expect("a fault");
    assert!(
        fault.is_config() && fault.to_string().starts_with(sentence),
        "{fault}"
    );
    let reason = result.interrupted.expect("an interruption").reason.unwrap();
    let saved = format!("; the last good state is saved in {}", rescue.display());
    assert_eq!(reason, format!("{fault}{saved}"));
    let rescued = config.init(classifier(2)).load_file(&rescue);
    assert_eq!(state(&rescued), before);
    assert_eq!((result.model.steps(), state(&result.model)), (0, before));
    // A batch with as many rows as there are examples is one full batch.
    let full = BayesianConfig::new(BATCH, VifaConfig::new()).init(classifier(1));
    TrainStep::step(&full, batch(&data()[..BATCH], &autodiff()));
}

#[test]
fn dropout_is_off_unless_it_is_asked_for() {
    let model = || filled(Classifier::new(0.5), 1, 0.5);
    let batch = batch(&data()[..BATCH], &autodiff());
    // A fork has its own clock, so both use the same draw.
    let losses = |bayesian: &Bayes<Vifa>| -> Vec<u32> {
        (0..8)
            .flat_map(|_| {
                let fork = bayesian.clone().fork(&autodiff());
                bits(&TrainStep::step(&fork, batch.clone()).item.loss)
            })
            .collect()
    };
    let distinct = |mut losses: Vec<u32>| {
        losses.sort_unstable();
        losses.dedup();
        losses.len()
    };
    let off = vifa().init(model());
    assert_eq!(distinct(losses(&off)), 1);
    // Neither switching to validation and back nor a record brings it back.
    let back = off.valid().train();
    assert_eq!(distinct(losses(&back)), 1);
    let loaded = off.clone().load_record(off.clone().into_record());
    assert_eq!(distinct(losses(&loaded)), 1);
    assert!(distinct(losses(&off.with_dropout())) > 1);
}

#[derive(Module, Debug)]
struct Normalised {
    norm: BatchNorm,
    inner: Classifier,
}

impl TrainStep for Normalised {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = InferenceStep::step(self, batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Normalised {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.inner.predict(Batch {
            places: self.norm.forward(batch.places),
            ..batch
        })
    }
}

#[test]
fn running_statistics_follow_the_training_and_reach_predictions() {
    let model = Normalised {
        norm: BatchNormConfig::new(2).init(&autodiff()),
        inner: Classifier::new(0.0),
    };
    let bayesian = vifa().init(filled(model, 1, 0.5));
    let rows: Vec<Point> = data()
        .into_iter()
        .map(|point| Point {
            place: [point.place[0] + 5.0, point.place[1]],
            ..point
        })
        .collect();
    let mut bayesian = bayesian;
    let mut optimizer = sgd();
    for _ in 0..3 {
        let output = TrainStep::step(&bayesian, batch(&rows, &autodiff()));
        bayesian = bayesian.optimize(&mut optimizer, 1e-4.into(), output.grads);
    }
    // Three steps of the moving average with a momentum of 0.1 towards a mean of about 5.
    let mean = rows
        .iter()
        .map(|point| f64::from(point.place[0]))
        .sum::<f64>()
        / rows.len() as f64;
    let expected = mean * (1.0 - 0.9f64.powi(3));
    for model in [
        bayesian.mean_model().unwrap(),
        bayesian.drawn_model(1).unwrap(),
    ] {
        let found = values(&model.norm.running_mean.value_sync())[0];
        assert_close(
            "running mean",
            &[found],
            &[expected],
            &[mean],
            32.0 * EPSILON,
        );
    }
}

/// Burn's sharded optimiser places the parts of a posterior on different devices.
#[cfg(all(feature = "flex", feature = "ndarray"))]
#[test]
fn a_sharded_optimiser_may_spread_parameters_over_devices() {
    let sharded = || {
        let devices = vec![
            Device::flex().autodiff(),
            crate::support::ndarray().autodiff(),
        ];
        ExecutionStrategy::multi(devices, MultiDeviceOptim::OptimSharded)
    };
    let config = vifa()
        .with_accumulation(2)
        .with_averaging(Averaging::From(2));
    let train = loader(data(), 8);
    let result = run(
        config.init(classifier(1)),
        sgd(),
        1e-3,
        train.clone(),
        |training| training.with_training_strategy(sharded().into()),
    );
    assert!(result.error.is_none(), "{:?}", result.error);
    assert_eq!(result.model.steps(), 6);

    let config = BayesianConfig::new(
        TRAIN_LEN,
        SwagConfig::new().with_start(Some(1)).with_rank(2),
    );
    let result = run(config.init(classifier(1)), sgd(), 0.1, train, |training| {
        training.with_training_strategy(sharded().into())
    });
    assert!(result.error.is_none(), "{:?}", result.error);
    assert_eq!(result.model.posterior().rank(), 2);
}
