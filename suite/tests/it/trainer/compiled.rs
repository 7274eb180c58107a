//! Compiled steps, which are made on the CPU only, against ordinary ones.

use burn::module::ModuleDisplay;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsParams, ModuleOptimizer};

use super::*;

/// A model whose steps are its own.
#[derive(Module, Debug)]
pub(super) struct Uncompiled<L: Module + ModuleDisplay> {
    pub(super) model: L,
}

impl<L: TrainerModel + ModuleDisplay> TrainStep for Uncompiled<L> {
    type Input = L::Input;
    type Output = L::Output;

    fn step(&self, item: L::Input) -> TrainOutput<L::Output> {
        self.model.step(item)
    }
}

impl<L: TrainerModel + ModuleDisplay> TrainerModel for Uncompiled<L> {
    fn with_length(self, steps: u64) -> Self {
        Self {
            model: self.model.with_length(steps),
        }
    }

    fn optimized(
        self,
        step: u64,
        optimizer: &mut ModuleOptimizer,
        rate: ModuleLearningRate,
        gradients: GradientsParams,
        factor: f64,
    ) -> Result<Self> {
        let model = self.model;
        let model = model.optimized(step, optimizer, rate, gradients, factor)?;
        Ok(Self { model })
    }
}

const LONG: usize = 24;

/// Compiled steps end in the bits of the ordinary ones that use the recording, also if they are resumed, and need the
/// model's own step for checks only.
#[track_caller]
fn compiles<A>(name: &str, model: impl Fn(usize) -> Bayesian<Line, A>, _is_closed_form: bool)
where
    A: Algorithm<Signal: Gather<Line, A>>,
{
    let model = || model(1).with_batched_draws();
    for sizes in [[4, 4, 4, 4, 4], [4, 4, 4, 4, 1]] {
        let batches = Uneven(sizes);
        OWN_STEPS.set(0);
        let long = trainer(model()).with_epochs(LONG).without_verdict();
        let compiled = long.run(&batches, &mut ()).unwrap();
        let own_steps = OWN_STEPS.get();
        if sizes[PER_EPOCH - 1] > 1 {
            assert!(own_steps < 20, "{name}: {own_steps} own steps");
        }
        let ordinary = Uncompiled { model: model() };
        let ordinary = trainer(ordinary).with_epochs(LONG);
        let ordinary = ordinary.run(&batches, &mut ()).unwrap();
        let expected = state(&ordinary.trainer.model().model);
        assert_eq!(state(compiled.trainer.model()), expected, "{name}");
        for after in [3, 57, 101] {
            let mut observer = Interrupting {
                after: Some(after),
                ..Interrupting::default()
            };
            let long = || trainer(model()).with_epochs(LONG).without_verdict();
            long().run(&batches, &mut observer).unwrap();
            let resumed = long().resumed(&observer.checkpoint.unwrap()).unwrap();
            let resumed = resumed.run(&batches, &mut ()).unwrap();
            let found = state(resumed.trainer.model());
            assert_eq!(found, expected, "{name}, resumed after {after} steps");
        }
    }
}

#[test]
fn compiled_steps_of_every_method_end_in_the_bits_of_the_others() {
    if !is_compiled() {
        return;
    }
    for_all_methods!(compiles);
}

#[test]
fn compiled_steps_of_a_plain_model_are_those_of_its_own() {
    if !is_compiled() {
        return;
    }
    let batches = Uneven([4; PER_EPOCH]);
    OWN_STEPS.set(0);
    let mut observer = Interrupting::default();
    let long = trainer(line(1)).with_epochs(LONG);
    let compiled = long.run(&batches, &mut observer).unwrap();
    // The gradients are compared at the first step and after a hundred.
    assert_eq!(OWN_STEPS.get(), 2);
    let mut of_own = Interrupting::default();
    let own = trainer(Uncompiled { model: line(1) })
        .with_epochs(LONG)
        .run(&batches, &mut of_own)
        .unwrap();
    let numbers = |line: &Line| -> Vec<f64> {
        let bits = state(line).concat();
        bits.iter()
            .map(|&bits| f32::from_bits(bits).into())
            .collect()
    };
    let expected = numbers(&own.trainer.model().model);
    let found = numbers(compiled.trainer.model());
    assert_close("a weight", &found, &expected, &[1.0; 3], 1e-5);
    for (summary, own) in observer.summaries.iter().zip(&of_own.summaries) {
        assert!((summary.loss - own.loss).abs() < 1e-5 * own.loss.abs());
    }
}

/// A plain model whose losses are not those of its step.
#[derive(Module, Debug)]
struct Penalised {
    line: Line,
}

impl TrainStep for Penalised {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Batch) -> TrainOutput<RegressionOutput> {
        let output = self.line.layer.forward(inputs);
        let penalty = self.line.layer.weight.val().square().sum();
        let loss = GaussianNll::new(1.0).forward(output.clone(), targets.clone()) + penalty;
        let gradients = loss.backward();
        let output = RegressionOutput::new(loss, output, targets);
        TrainOutput::new(self, gradients, output)
    }
}

impl ExampleLoss for Penalised {
    fn example_losses(&self, batch: Batch) -> Tensor<1> {
        self.line.example_losses(batch)
    }
}

impl TrainerModel for Penalised {
    fn compiled(&self, recordings: &Recordings) -> Option<CompiledStep<Self>> {
        recordings.step_of_losses(self)
    }
}

#[test]
fn losses_that_are_not_those_of_a_plain_model_s_step_are_refused() {
    if !is_compiled() {
        return;
    }
    let model = Penalised { line: line(1) };
    let run = trainer(model).run(&Rows { bad: false }, &mut ());
    let error = run.expect_err("the penalty is missing").to_string();
    assert!(error.contains("do not compute the same loss"), "{error}");
}
