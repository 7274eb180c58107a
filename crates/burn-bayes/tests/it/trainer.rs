//! The trainer: exact resume from any step, and the calls of observers.

use std::ops::ControlFlow;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::Tensor;
use burn::train::{RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::methods::Rate;
use burn_bayes::train::{
    Batches, BoundPatience, Checkpoint, CheckpointTime, EpochSummary, RateSchedule, Trainer,
    TrainerModel, TrainingEnd, TrainingObserver, Unobserved,
};
use burn_bayes::{Bayesian, Error, GaussianNll, Prior, Result, VifaConfig};

use crate::support::{autodiff, filled, normals, state};

#[derive(Module, Debug)]
struct Line {
    layer: Linear,
}

type Batch = (Tensor<2>, Tensor<2>);

impl TrainStep for Line {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Batch) -> TrainOutput<RegressionOutput> {
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

impl TrainerModel for Line {}

/// Five batches per epoch; the last one has other numbers if it is `bad`.
struct Rows {
    bad: bool,
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

fn bayesian(seed: u64) -> Bayesian<Line, burn_bayes::methods::Vifa> {
    let line = Line {
        layer: LinearConfig::new(2, 1).init(&autodiff()),
    };
    VifaConfig::new(20).init(filled(line, seed, 0.5))
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
        if when == CheckpointTime::Interruption {
            self.checkpoint = Some(checkpoint()?);
        }
        Ok(())
    }
}

/// Resumes after each possible number of steps, within an epoch and between two.
fn resumes_exactly<L: TrainerModel + TrainStep<Input = Batch>>(model: impl Fn(u64) -> L) {
    let batches = Rows { bad: false };
    let mut whole = Interrupting::default();
    let expected = trainer(model(1)).run(&batches, &mut whole).unwrap();
    assert_eq!(expected.end, TrainingEnd::Finished);
    assert_eq!(expected.trainer.steps(), (EPOCHS * PER_EPOCH) as u64);
    for after in 0..(EPOCHS * PER_EPOCH) as u64 {
        let mut observer = Interrupting {
            after: Some(after),
            ..Interrupting::default()
        };
        let run = trainer(model(1)).run(&batches, &mut observer).unwrap();
        assert_eq!(
            (run.end, run.trainer.steps()),
            (TrainingEnd::Interrupted, after)
        );
        // Another object with other weights, as in another process.
        let checkpoint = observer.checkpoint.take().unwrap();
        let resumed = trainer(model(2)).resumed(&checkpoint).unwrap();
        let mut rest = Interrupting::default();
        let run = resumed.run(&batches, &mut rest).unwrap();
        assert_eq!(state(run.trainer.model()), state(expected.trainer.model()));
        let summaries = [observer.summaries, rest.summaries].concat();
        assert_eq!(summaries, whole.summaries, "after {after} steps");
    }
}

#[test]
fn a_resumed_training_ends_in_the_same_bits() {
    resumes_exactly(bayesian);
    resumes_exactly(|seed| bayesian(seed).template().clone());
}

#[test]
fn accumulated_batches_make_one_step() {
    let run = trainer(bayesian(1))
        .with_accumulation(2)
        .run(&Rows { bad: false }, &mut Unobserved)
        .unwrap();
    // The fifth batch of an epoch is accumulated alone.
    assert_eq!(run.trainer.steps(), (EPOCHS * (PER_EPOCH / 2)) as u64);
}

#[test]
fn a_bound_that_no_longer_improves_ends_the_training() {
    /// Keeps the last summary beside the patience.
    struct Watched(BoundPatience, Option<EpochSummary>);

    impl TrainingObserver<Bayesian<Line, burn_bayes::methods::Vifa>> for Watched {
        type Error = Error;

        fn epoch(
            &mut self,
            summary: &EpochSummary,
            model: &Bayesian<Line, burn_bayes::methods::Vifa>,
        ) -> Result<ControlFlow<()>> {
            self.1 = Some(*summary);
            self.0.epoch(summary, model)
        }
    }

    let prior = Prior::isotropic(1.0);
    let mut watched = Watched(BoundPatience::new(prior.clone(), 1, 3).unwrap(), None);
    let run = trainer(bayesian(1)).with_epochs(2000);
    let run = run.run(&Rows { bad: false }, &mut watched).unwrap();
    assert_eq!(run.end, TrainingEnd::Stopped);
    let posterior = run.trainer.model().posterior();
    let divergence = posterior.kl(&prior.resolve(posterior.layout()).unwrap());
    let expected = watched.1.unwrap().loss + divergence.unwrap() / 20.0;
    assert_eq!(watched.0.smoothed(), Some(expected));

    let error = BoundPatience::new(prior, 0, 1).unwrap_err();
    assert!(error.to_string().starts_with("window"), "{error}");
}

#[test]
fn an_accumulation_of_no_batches_is_refused() {
    let trainer = trainer(bayesian(1)).with_accumulation(0);
    let error = trainer.run(&Rows { bad: false }, &mut Unobserved).err();
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
        trainer(bayesian.clone())
            .run(&batches, &mut Unobserved)
            .err(),
        trainer(bayesian.template().clone())
            .run(&batches, &mut Unobserved)
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
        .run(&Rows { bad: false }, &mut Unobserved)
        .unwrap();
    let checkpoint = run.trainer.checkpoint().unwrap();
    let error = trainer(bayesian(1).template().clone())
        .resumed(&checkpoint)
        .unwrap_err();
    assert!(error.is_storage(), "{error}");
}
