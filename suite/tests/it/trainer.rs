//! The trainer: exact resume from any step, and the calls of observers.

use std::ops::ControlFlow;

use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, SgdConfig};
use burn::tensor::Tensor;
use burn::train::{RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::methods::{Algorithm, Ivon, IvonConfig, Rate, VadamConfig, VonConfig};
use burn_bayes::train::{
    Batches, Checkpoint, CheckpointTime, CompiledStep, EpochSummary, Gather, RateSchedule,
    Recordings, Trainer, TrainerModel, TrainingEnd, TrainingObserver,
};
use burn_bayes::{
    Bayesian, BayesianConfig, Error, ExampleLoss, GaussianNll, Result, SlangConfig, SwagConfig,
    VifaConfig,
};
use burn_bayes_contrib::methods::{
    BatchEnsembleConfig, FactorAnalysisConfig, IterateAveragingConfig, NagvacConfig,
    SamplingSchedule, SghmcConfig,
};

use crate::support::{
    assert_close, autodiff, filled, is_compiled, normals, one_stage, state, values,
};

#[derive(Module, Debug)]
struct Line {
    layer: Linear,
    dropout: Option<Dropout>,
}

type Batch = (Tensor<2>, Tensor<2>);

thread_local! {
    /// The calls of the model's own step on this thread.
    static OWN_STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl TrainStep for Line {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Batch) -> TrainOutput<RegressionOutput> {
        OWN_STEPS.set(OWN_STEPS.get() + 1);
        let inputs = match &self.dropout {
            Some(dropout) => dropout.forward(inputs),
            None => inputs,
        };
        let output = self.layer.forward(inputs);
        let loss = GaussianNll::new(1.0).forward(output.clone(), targets.clone());
        let gradients = loss.backward();
        TrainOutput::new(
            self,
            gradients,
            RegressionOutput::new(loss, output, targets),
        )
    }
}

// ANCHOR: compiled
impl TrainerModel for Line {
    fn compiled(&self, recordings: &Recordings) -> Option<CompiledStep<Self>> {
        recordings.step_of_losses(self)
    }
}
// ANCHOR_END: compiled

impl ExampleLoss for Line {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        burn_bayes::graph::losses::gaussian(self.layer.forward(inputs), targets, 1.0)
    }

    fn example_outputs(&self, (inputs, targets): Batch, losses: Tensor<1>) -> RegressionOutput {
        let output = self.clone().no_grad().layer.forward(inputs);
        RegressionOutput::new(losses.mean(), output, targets)
    }
}

/// Five batches per epoch; the last one has other numbers if it is `bad`.
struct Rows {
    bad: bool,
}

/// Five batches per epoch of these numbers of rows.
struct Uneven([usize; PER_EPOCH]);

impl Batches for Uneven {
    type Batch = Batch;

    fn per_epoch(&self) -> usize {
        PER_EPOCH
    }

    fn epoch(&self, epoch: usize, first: usize) -> impl Iterator<Item = Batch> {
        let sizes = self.0.iter().enumerate().skip(first);
        sizes.map(move |(index, &rows)| {
            let seed = (epoch * PER_EPOCH + index) as u64;
            let tensor = |seed, width| {
                let values = normals(seed, rows * width);
                Tensor::<1>::from_data(&*values, &autodiff()).reshape([rows, width])
            };
            (tensor(seed, 2), tensor(1000 + seed, 1))
        })
    }
}

const PER_EPOCH: usize = 5;
const EPOCHS: usize = 3;

impl Batches for Rows {
    type Batch = Batch;

    fn per_epoch(&self) -> usize {
        PER_EPOCH
    }

    fn epoch(&self, epoch: usize, first: usize) -> impl Iterator<Item = Batch> {
        (first..PER_EPOCH).map(move |index| {
            let mut inputs = normals((epoch * PER_EPOCH + index) as u64, 8);
            if self.bad && index == PER_EPOCH - 1 {
                inputs[0] = f32::NAN;
            }
            let tensor = |values: &[f32], width| {
                let rows = values.len() / width;
                Tensor::<1>::from_data(values, &autodiff()).reshape([rows, width])
            };
            (tensor(&inputs, 2), tensor(&normals(99, 4), 1))
        })
    }
}

fn line(seed: u64) -> Line {
    let line = Line {
        layer: LinearConfig::new(2, 1).init(&autodiff()),
        dropout: None,
    };
    filled(line, seed, 0.5)
}

fn bayesian(seed: u64) -> Bayesian<Line, burn_bayes::methods::Vifa> {
    BayesianConfig::new(20, VifaConfig::new()).init(line(seed))
}

// ANCHOR: trainer
fn trainer<L: TrainerModel>(model: L) -> Trainer<L> {
    let decaying = Rate::Power {
        initial: 0.05,
        time_constant: 4.0,
        power: 0.75,
    };
    let rates = RateSchedule::new(decaying).unwrap();
    Trainer::new(model, AdamConfig::new().init(), rates).with_epochs(EPOCHS)
}
// ANCHOR_END: trainer

/// Freezes the weights for the second epoch, and stores them after every epoch.
#[derive(Default)]
struct Freezing(Vec<Vec<f64>>);

impl TrainingObserver<Line> for Freezing {
    type Error = Error;

    fn epoch(&mut self, _summary: &EpochSummary, model: &Line) -> Result<ControlFlow<()>> {
        self.0.push(values(&model.layer.weight.val()));
        Ok(ControlFlow::Continue(()))
    }

    fn adjusted(&mut self, summary: &EpochSummary, mut model: Line) -> Result<Line> {
        let is_trained = summary.epoch != 1;
        model.layer.weight = model.layer.weight.set_require_grad(is_trained);
        Ok(model)
    }
}

#[test]
fn weights_that_are_frozen_between_epochs_stay() {
    let mut seen = Freezing::default();
    let run = trainer(line(3)).run(&Rows { bad: false }, &mut seen);
    run.unwrap();
    let [first, second, third] = &seen.0[..] else {
        panic!("three epochs are expected")
    };
    assert_eq!(first, second);
    assert_ne!(second, third);
}

/// Interrupts after some steps, and stores the checkpoint and the summaries.
#[derive(Default)]
struct Interrupting {
    after: Option<u64>,
    asked: std::cell::Cell<u64>,
    checkpoint: Option<Checkpoint>,
    summaries: Vec<EpochSummary>,
}

impl<L> TrainingObserver<L> for Interrupting {
    type Error = Error;

    fn epoch(&mut self, summary: &EpochSummary, _model: &L) -> Result<ControlFlow<()>> {
        self.summaries.push(*summary);
        Ok(ControlFlow::Continue(()))
    }

    fn interrupts(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.after.is_some_and(|after| self.asked.get() > after)
    }

    fn checkpoint(
        &mut self,
        when: CheckpointTime,
        checkpoint: &dyn Fn() -> Result<Checkpoint>,
    ) -> Result<()> {
        if matches!(
            when,
            CheckpointTime::Interruption | CheckpointTime::Epoch(EPOCHS)
        ) {
            self.checkpoint = Some(checkpoint()?);
        }
        Ok(())
    }
}

/// Resumes after each possible number of steps, within an epoch and between two.
fn resumes_exactly<L, B>(batches: &B, accumulation: usize, model: impl Fn(u64) -> L)
where
    L: TrainerModel + TrainStep<Input = Batch>,
    B: Batches<Batch = Batch>,
{
    let trainer = |seed| trainer(model(seed)).with_accumulation(accumulation);
    let steps = (EPOCHS * PER_EPOCH.div_ceil(accumulation)) as u64;
    let mut whole = Interrupting::default();
    let expected = trainer(1).run(batches, &mut whole).unwrap();
    assert_eq!(expected.end, TrainingEnd::Finished);
    assert_eq!(expected.trainer.steps(), steps);
    for after in 0..steps {
        let mut observer = Interrupting {
            after: Some(after),
            ..Interrupting::default()
        };
        let run = trainer(1).run(batches, &mut observer).unwrap();
        assert_eq!(
            (run.end, run.trainer.steps()),
            (TrainingEnd::Interrupted, after)
        );
        // Another object with other weights, as in another process.
        let checkpoint = observer.checkpoint.take().unwrap();
        let resumed = trainer(2).resumed(&checkpoint).unwrap();
        let mut rest = Interrupting::default();
        let run = resumed.run(batches, &mut rest).unwrap();
        assert_eq!(state(run.trainer.model()), state(expected.trainer.model()));
        assert_eq!(run.verdict, expected.verdict);
        let summaries = [observer.summaries, rest.summaries].concat();
        assert_eq!(summaries, whole.summaries, "after {after} steps");
    }
    // Nothing is left to do but the verdict.
    let ended = trainer(2).resumed(&whole.checkpoint.unwrap()).unwrap();
    let run = ended.run(batches, &mut ()).unwrap();
    assert_eq!(run.verdict, expected.verdict);
}

#[test]
fn a_resumed_training_ends_in_the_same_bits() {
    let batches = Rows { bad: false };
    resumes_exactly(&batches, 1, bayesian);
    resumes_exactly(&batches, 1, |seed| bayesian(seed).template().clone());
}

#[test]
fn a_resumed_training_with_short_last_steps_ends_in_the_same_bits() {
    let batches = Uneven([4, 4, 4, 4, 1]);
    let vifa = one_stage(17).map_method(|method| method.with_accumulation(3));
    resumes_exactly(&batches, 3, |seed| vifa.init(line(seed)));
    resumes_exactly(&batches, 3, line);
    let ivon = BayesianConfig::new(17, IvonConfig::new());
    resumes_exactly(&batches, 3, |seed| ivon.init(line(seed)));
}

#[test]
fn accumulated_batches_make_one_step_and_so_do_those_left_over() {
    for (accumulation, steps) in [(1, 5), (2, 3), (3, 2), (7, 1)] {
        let run = trainer(bayesian(1))
            .with_accumulation(accumulation)
            .run(&Rows { bad: false }, &mut ())
            .unwrap();
        assert_eq!(run.trainer.steps(), (EPOCHS * steps) as u64);
    }
}

/// The parameters after a training by gradient descent.
fn descended<L: TrainerModel + TrainStep<Input = Batch>>(
    model: L,
    rate: f64,
    accumulation: usize,
) -> Vec<f64> {
    let trainer = Trainer::new(model, SgdConfig::new().init(), rate)
        .with_epochs(EPOCHS)
        .with_accumulation(accumulation);
    let run = trainer.run(&Rows { bad: false }, &mut ()).unwrap();
    let state = state(run.trainer.model()).concat();
    state
        .into_iter()
        .map(|bits| f32::from_bits(bits).into())
        .collect()
}

/// An accumulation of more batches than an epoch has is one of all of them.
#[test]
fn a_short_step_is_the_average_over_its_own_batches() {
    let check = |what: &str, found: Vec<f64>, expected: Vec<f64>| {
        let scales: Vec<f64> = expected.iter().map(|value| value.abs().max(0.1)).collect();
        assert_close(what, &found, &expected, &scales, 1e-5);
    };
    // The gradients of a plain model are added.
    let (short, full) = (descended(line(1), 0.01, 7), descended(line(1), 0.014, 5));
    check("plain", short, full);
    let vifa = |accumulation| {
        let config = one_stage(20).map_method(|method| method.with_accumulation(accumulation));
        descended(config.init(line(1)), 1e-4, accumulation)
    };
    check("VIFA", vifa(7), vifa(5));
    let ivon = |accumulation| {
        descended(
            BayesianConfig::new(20, IvonConfig::new()).init(line(1)),
            0.01,
            accumulation,
        )
    };
    check("IVON", ivon(7), ivon(5));
}

/// Trains with every accumulation. Methods that make a closed-form update per batch refuse more than one.
#[track_caller]
fn accumulates<A>(name: &str, model: impl Fn(usize) -> Bayesian<Line, A>, is_closed_form: bool)
where
    A: Algorithm<Signal: Gather<Line, A>>,
{
    for sizes in [[4, 4, 4, 4, 4], [4, 4, 4, 4, 1], [5, 4, 4, 4, 3]] {
        for accumulation in [1, 3, 7] {
            let mut observer = Interrupting::default();
            let run = trainer(model(accumulation))
                .with_accumulation(accumulation)
                .run(&Uneven(sizes), &mut observer);
            if is_closed_form && accumulation > 1 {
                let error = run.expect_err(name);
                assert!(error.is_config(), "{name}: {error}");
                continue;
            }
            let run = run.unwrap_or_else(|error| panic!("{name}: {error}"));
            let steps = EPOCHS * PER_EPOCH.div_ceil(accumulation);
            assert_eq!(run.trainer.steps(), steps as u64, "{name}");
            assert_eq!(observer.summaries.len(), EPOCHS, "{name}");
            for summary in observer.summaries {
                assert!(summary.loss.is_finite() && summary.loss > 0.0, "{name}");
            }
            let parameters = state(run.trainer.model()).concat();
            let are_finite = parameters
                .iter()
                .all(|&bits| f32::from_bits(bits).is_finite());
            assert!(are_finite, "{name}");
        }
    }
}

macro_rules! for_all_methods {
    ($check:ident) => {{
        let len = 20;
        let vifa = |accumulation| {
            let config =
                BayesianConfig::new(len, VifaConfig::new().with_accumulation(accumulation));
            config.init(line(1))
        };
        $check("VIFA", vifa, false);
        let schedule = SamplingSchedule::Constant {
            start: 1,
            interval: 1,
        };
        $check(
            "SGHMC",
            |_| BayesianConfig::new(len, SghmcConfig::new(schedule.clone())).init(line(1)),
            false,
        );
        $check(
            "IVON",
            |_| BayesianConfig::new(len, IvonConfig::new()).init(line(1)),
            false,
        );
        $check(
            "NAGVAC",
            |_| BayesianConfig::new(len, NagvacConfig::new()).init(line(1)),
            false,
        );
        $check(
            "SWAG",
            |_| BayesianConfig::new(len, SwagConfig::new().with_start(Some(1))).init(line(1)),
            false,
        );
        $check(
            "averaging",
            |_| BayesianConfig::new(len, IterateAveragingConfig::new(1, 1)).init(line(1)),
            false,
        );
        $check(
            "factor analysis",
            |_| {
                BayesianConfig::new(len, FactorAnalysisConfig::new().with_start(Some(1)))
                    .init(line(1))
            },
            false,
        );
        $check(
            "batch ensemble",
            |_| BayesianConfig::new(len, BatchEnsembleConfig::new(2)).init(line(1)),
            false,
        );
        $check(
            "SLANG",
            |_| BayesianConfig::new(len, SlangConfig::new()).init(line(1)),
            true,
        );
        $check(
            "VON",
            |_| BayesianConfig::new(len, VonConfig::new()).init(line(1)),
            true,
        );
        $check(
            "Vadam",
            |_| BayesianConfig::new(len, VadamConfig::new()).init(line(1)),
            true,
        );
    }};
}

#[test]
fn every_method_accumulates_batches_and_uses_those_that_are_left() {
    for_all_methods!(accumulates);
}

/// Trains on a batch that is not a number, without an interrupter.
#[track_caller]
fn returns_errors<A>(name: &str, model: impl Fn(usize) -> Bayesian<Line, A>, _is_closed_form: bool)
where
    A: Algorithm<Signal: Gather<Line, A>>,
{
    let model = model(1);
    let run = trainer(model.clone()).run(&Rows { bad: true }, &mut ());
    let error = run.expect_err(name);
    assert!(error.is_numerical(), "{name}: {error}");
    assert!(
        error.to_string().starts_with("epoch 1: "),
        "{name}: {error}"
    );
    // Neither a copy nor a later training remembers it.
    assert!(model.fault().is_none());
    let run = trainer(model).run(&Rows { bad: false }, &mut ());
    assert!(run.is_ok(), "{name}");
}

#[test]
fn every_method_returns_the_error_of_a_batch_that_is_not_a_number() {
    for_all_methods!(returns_errors);
}

#[cfg(feature = "flex")]
mod batch_norm;
#[cfg(feature = "flex")]
mod compiled;

/// A model whose gradient is not a number, although its loss is.
#[derive(Module, Debug)]
struct Root {
    layer: Linear,
}

impl TrainStep for Root {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Batch) -> TrainOutput<RegressionOutput> {
        let output = self.layer.forward(inputs);
        let zero = (output.clone() - output.clone()) * f64::MAX;
        let loss = (zero.sqrt() + output.clone()).sum();
        let gradients = loss.backward();
        TrainOutput::new(
            self,
            gradients,
            RegressionOutput::new(loss, output, targets),
        )
    }
}

impl TrainerModel for Root {}

#[test]
fn a_gradient_of_a_plain_model_that_is_not_finite_is_an_error_with_its_path() {
    let root = Root {
        layer: line(1).layer,
    };
    let trainer = Trainer::new(root, AdamConfig::new().init(), 0.1);
    let error = trainer.run(&Uneven([4; 5]), &mut ()).err();
    let message = error.expect("the gradient of √0 is infinite").to_string();
    assert!(
        message.starts_with("epoch 1: ") && message.contains("layer.weight"),
        "{message}"
    );
}

#[test]
fn the_loss_of_an_epoch_is_the_mean_over_all_its_rows() {
    let batches = Uneven([5, 4, 4, 4, 1]);
    let model = line(1);
    let losses = batches.epoch(0, 0).flat_map(|batch| {
        let losses = model.example_losses(batch).into_data();
        losses.iter::<f64>().collect::<Vec<_>>()
    });
    let losses: Vec<f64> = losses.collect();
    let expected = losses.iter().sum::<f64>() / losses.len() as f64;
    for accumulation in [1, 3, 7] {
        let mut observer = Interrupting::default();
        // Without a learning rate, the weights stay.
        Trainer::new(model.clone(), SgdConfig::new().init(), 0.0)
            .with_accumulation(accumulation)
            .run(&batches, &mut observer)
            .unwrap();
        let found = observer.summaries[0].loss;
        assert!(
            (found - expected).abs() < 1e-5 * expected,
            "{found} {expected}"
        );
    }
}

/// Batches that announce another number than there is.
struct Announced(usize);

impl Batches for Announced {
    type Batch = Batch;

    fn per_epoch(&self) -> usize {
        self.0
    }

    fn epoch(&self, epoch: usize, first: usize) -> impl Iterator<Item = Batch> {
        Uneven([4; 5])
            .epoch(epoch, first)
            .collect::<Vec<_>>()
            .into_iter()
    }
}

#[test]
fn epochs_without_the_announced_batches_are_refused() {
    for (announced, accumulation, part) in [
        (0, 1, "per_epoch: is 0"),
        (6, 1, "per_epoch: is 6, but the epoch has 5 batches"),
        (11, 3, "per_epoch: is 11, but the epoch has 5 batches"),
    ] {
        let trainer = trainer(line(1)).with_accumulation(accumulation);
        let error = trainer.run(&Announced(announced), &mut ()).err();
        let error = error.expect(part);
        assert!(
            error.is_config() && error.to_string().contains(part),
            "{error}"
        );
    }
}

#[test]
fn an_epoch_with_other_rows_than_the_training_examples_is_refused() {
    for (len, is_accepted) in [(20, true), (17, true), (30, true), (10, false), (40, false)] {
        let trainer = || trainer(one_stage(len).init(line(1)));
        let run = trainer().run(&Uneven([4; 5]), &mut ());
        match run {
            Ok(_) => assert!(is_accepted, "{len}"),
            Err(error) => {
                let message = error.to_string();
                let problem = format!("train_len: is {len}, but an epoch has 20 rows");
                assert!(!is_accepted && message.contains(&problem), "{message}");
            }
        }
        let unchecked = trainer().without_row_check();
        assert!(unchecked.run(&Uneven([4; 5]), &mut ()).is_ok());
    }
}

/// With dropout of this rate, and weights that are not initialised yet.
fn dropped(rate: f64) -> Line {
    Line {
        layer: LinearConfig::new(2, 1).init(&autodiff()),
        dropout: Some(DropoutConfig::new(rate).init()),
    }
}

#[test]
fn lazy_weights_take_no_random_numbers_of_the_first_step() {
    let model = dropped(0.5);
    // Clones share their initialisation, which the first training makes.
    let [first, second] = [model.clone(), model].map(|model| {
        let run = trainer(model).run(&Rows { bad: false }, &mut ());
        state(&run.unwrap().trainer.into_model())
    });
    assert_eq!(first, second);
}

#[test]
fn a_record_demands_the_settings_of_a_changed_template() {
    let wrapped = |rate| BayesianConfig::new(20, IvonConfig::new()).init(dropped(rate));
    let with_less = |line: Line| Line {
        dropout: dropped(0.1).dropout,
        ..line
    };
    let record = || wrapped(0.5).map_template(with_less).into_record();
    let resumed = |bayesian: Bayesian<Line, Ivon>| bayesian.load_record(record());
    for bayesian in [
        resumed(wrapped(0.1)),
        resumed(wrapped(0.5).map_template(with_less)),
        resumed(wrapped(0.5)).map_template(with_less),
    ] {
        bayesian.try_posterior().unwrap();
    }
    let error = resumed(wrapped(0.5)).try_posterior().unwrap_err();
    assert!(
        error.to_string().starts_with("model: has other settings"),
        "{error}"
    );
}

#[test]
fn an_accumulation_of_no_batches_is_refused() {
    let trainer = trainer(bayesian(1)).with_accumulation(0);
    let error = trainer.run(&Rows { bad: false }, &mut ()).err();
    let error = error.expect("no batch makes a step");
    assert!(error.is_config(), "{error}");
    assert!(
        error.to_string().starts_with("accumulation: is 0"),
        "{error}"
    );
}

#[test]
fn what_is_not_finite_stops_the_training_with_its_epoch() {
    let batches = Rows { bad: true };
    let interrupter = burn::train::Interrupter::new();
    let bayesian = bayesian(1).with_interrupter(interrupter);
    for error in [
        trainer(bayesian.clone()).run(&batches, &mut ()).err(),
        trainer(bayesian.template().clone())
            .run(&batches, &mut ())
            .err(),
    ] {
        let error = error.expect("a gradient or a loss is not finite");
        assert!(error.is_numerical(), "{error}");
        assert!(error.to_string().starts_with("epoch 1: "), "{error}");
    }
}

#[test]
fn a_checkpoint_of_another_model_is_refused() {
    let run = trainer(bayesian(1))
        .run(&Rows { bad: false }, &mut ())
        .unwrap();
    let checkpoint = run.trainer.checkpoint().unwrap();
    let error = trainer(bayesian(1).template().clone())
        .resumed(&checkpoint)
        .unwrap_err();
    assert!(error.is_storage(), "{error}");
}
