//! Compiled steps with batch norm in training mode against the model's own.

use burn::module::ParamGroup;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig};
use burn::tensor::activation::relu;
use burn_bayes::methods::MeanStage;
use burn_bayes::{FusedAdamConfig, Prior};

use super::compiled::Uncompiled;
use super::*;

/// A network with batch norm of features and of two images.
#[derive(Module, Debug)]
struct Normed {
    first: Linear,
    of_features: BatchNorm,
    image: Conv2d,
    of_image: BatchNorm,
    second: Conv2d,
    of_second: BatchNorm,
    last: Linear,
}

impl Normed {
    fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        let [rows, _] = inputs.dims();
        let features = self.of_features.forward(self.first.forward(inputs));
        let image = features.tanh().reshape([rows, 1, 4, 4]);
        let image = relu(self.of_image.forward(self.image.forward(image)));
        let image = self.of_second.forward(self.second.forward(image));
        self.last.forward(image.flatten(1, 3))
    }
}

/// Without the biases that batch norm takes away, whose gradients are rounding errors.
fn normed(seed: u64) -> Normed {
    let device = &autodiff();
    let image = |channels| {
        let config = Conv2dConfig::new(channels, [2, 2]);
        config.with_bias(false).init(device)
    };
    let norm = |len: usize, momentum| {
        let norm = BatchNormConfig::new(len).with_momentum(momentum);
        norm.init(device)
    };
    let net = Normed {
        first: LinearConfig::new(2, 16).with_bias(false).init(device),
        of_features: norm(16, 0.1),
        image: image([1, 3]),
        of_image: norm(3, 0.3),
        second: image([3, 2]),
        of_second: norm(2, 1.0),
        last: LinearConfig::new(8, 1).init(device),
    };
    filled(net, seed, 0.5)
}

impl TrainStep for Normed {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Batch) -> TrainOutput<RegressionOutput> {
        OWN_STEPS.set(OWN_STEPS.get() + 1);
        let output = self.forward(inputs);
        let loss = GaussianNll::new(1.0).forward(output.clone(), targets.clone());
        let gradients = loss.backward();
        let output = RegressionOutput::new(loss, output, targets);
        TrainOutput::new(self, gradients, output)
    }
}

impl TrainerModel for Normed {
    fn compiled(&self, recordings: &Recordings) -> Option<CompiledStep<Self>> {
        recordings.step_of_losses(self)
    }
}

impl ExampleLoss for Normed {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        burn_bayes::graph::losses::gaussian(self.forward(inputs), targets, 1.0)
    }

    fn example_outputs(&self, (inputs, targets): Batch, losses: Tensor<1>) -> RegressionOutput {
        let output = self.clone().no_grad().forward(inputs);
        RegressionOutput::new(losses.mean(), output, targets)
    }
}

/// Rows of which the last batch of an epoch has fewer.
const SIZES: [usize; PER_EPOCH] = [8, 8, 8, 8, 5];
/// The last batch has one row, which is not recorded.
const ONE_LEFT: [usize; PER_EPOCH] = [8, 8, 8, 8, 1];

fn descent<L: TrainerModel>(model: L) -> Trainer<L> {
    let trainer = Trainer::new(model, SgdConfig::new().init(), 2e-3);
    trainer
        .with_epochs(EPOCHS)
        .without_verdict()
        .without_row_check()
}

/// Parameters and running statistics, without pending updates.
fn numbers<M: Module>(model: &M) -> Vec<f64> {
    let state = state(&model.valid()).concat();
    let numbers = state.into_iter().map(|bits| f32::from_bits(bits).into());
    numbers.collect()
}

/// Steps of a wrapper, compiled and not, end in the same numbers. Most of the compiled ones are not the model's own.
#[track_caller]
fn are_own<L>(name: &str, sizes: [usize; PER_EPOCH], own_steps: u64, model: impl Fn() -> L)
where
    L: TrainerModel<Input = Batch> + burn::module::ModuleDisplay,
{
    let batches = Uneven(sizes);
    let mut of_compiled = Interrupting::default();
    OWN_STEPS.set(0);
    let compiled = descent(model()).run(&batches, &mut of_compiled).unwrap();
    assert_eq!(OWN_STEPS.get(), own_steps, "{name}");
    let mut of_own = Interrupting::default();
    let own = Uncompiled { model: model() };
    let own = descent(own).run(&batches, &mut of_own).unwrap();
    let found = numbers(compiled.trainer.model());
    let expected = numbers(&own.trainer.model().model);
    let scales: Vec<f64> = expected.iter().map(|value| value.abs().max(0.1)).collect();
    assert_close(name, &found, &expected, &scales, 1e-5);
    for (summary, own) in of_compiled.summaries.iter().zip(&of_own.summaries) {
        let error = (summary.loss - own.loss).abs();
        assert!(error < 1e-5 * own.loss.abs(), "{name}");
    }
}

#[test]
fn compiled_steps_of_a_plain_model_with_batch_norm_are_its_own() {
    if !is_compiled() {
        return;
    }
    // At the first step, for the comparison and the momenta.
    are_own("plain", SIZES, 1, || normed(1));
    are_own("one row", ONE_LEFT, 1 + EPOCHS as u64, || normed(1));
    let part = ParamGroup::from_path("of_image");
    are_own("frozen", SIZES, 1, || normed(1).freeze_group(part.clone()));
}

#[test]
fn compiled_steps_of_draws_with_batch_norm_are_the_model_s_own() {
    if !is_compiled() {
        return;
    }
    let vifa = || {
        let config = one_stage(37).with_draws(2);
        config.init(normed(1)).with_batched_draws()
    };
    // Two draws at the steps that are compared with the likelihood: 0 and 5.
    are_own("VIFA", SIZES, 4, vifa);
    let swag = || {
        let config = BayesianConfig::new(37, SwagConfig::new().with_start(Some(8)));
        config.init(normed(1)).with_batched_draws()
    };
    are_own("SWAG", SIZES, 2, swag);
}

/// The bits after a training, which is interrupted after some steps and resumed.
fn resumed<L: TrainerModel<Input = Batch>>(model: impl Fn(u64) -> L, after: u64) -> Vec<u64> {
    let batches = Uneven(ONE_LEFT);
    let mut observer = Interrupting {
        after: Some(after),
        ..Interrupting::default()
    };
    descent(model(1)).run(&batches, &mut observer).unwrap();
    let rest = descent(model(2)).resumed(&observer.checkpoint.unwrap());
    let run = rest.unwrap().run(&batches, &mut ()).unwrap();
    bits_of(run.trainer.model())
}

fn bits_of<M: Module>(model: &M) -> Vec<u64> {
    numbers(model).into_iter().map(f64::to_bits).collect()
}

#[track_caller]
fn resumes<L: TrainerModel<Input = Batch>>(name: &str, model: impl Fn(u64) -> L) {
    let batches = Uneven(ONE_LEFT);
    let whole = descent(model(1)).run(&batches, &mut ()).unwrap();
    for after in [1, 5, 7, 11] {
        let found = resumed(&model, after);
        assert_eq!(found, bits_of(whole.trainer.model()), "{name}, {after}");
    }
}

#[test]
fn a_resumed_training_with_batch_norm_ends_in_the_same_bits() {
    resumes("plain", normed);
    resumes("VIFA", |seed| {
        let config = one_stage(33).with_draws(2);
        config.init(normed(seed)).with_batched_draws()
    });
    resumes("VIFA in stages", |seed| {
        let config = BayesianConfig::new(33, VifaConfig::new());
        config.init(normed(seed)).with_batched_draws()
    });
    resumes("SWAG", |seed| {
        let config = BayesianConfig::new(33, SwagConfig::new().with_start(Some(8)));
        config.init(normed(seed)).with_batched_draws()
    });
}

#[test]
fn steps_with_batch_norm_have_the_same_bits_for_any_number_of_threads() {
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.unwrap().install(|| {
            let batches = Uneven([600; PER_EPOCH]);
            let run = descent(normed(1)).run(&batches, &mut ()).unwrap();
            bits_of(run.trainer.model())
        })
    };
    assert_eq!(with(1), with(2));
}

/// A model whose step normalises something that its losses do not.
#[derive(Module, Debug)]
struct WithOther {
    net: Normed,
    other: BatchNorm,
}

impl TrainStep for WithOther {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Batch) -> TrainOutput<RegressionOutput> {
        let _ = self.other.forward(inputs.clone());
        self.net.step((inputs, targets))
    }
}

impl TrainerModel for WithOther {
    fn compiled(&self, recordings: &Recordings) -> Option<CompiledStep<Self>> {
        recordings.step_of_losses(self)
    }
}

impl ExampleLoss for WithOther {
    fn example_losses(&self, batch: Batch) -> Tensor<1> {
        self.net.example_losses(batch)
    }

    fn example_outputs(&self, batch: Batch, losses: Tensor<1>) -> RegressionOutput {
        self.net.example_outputs(batch, losses)
    }
}

#[test]
fn a_step_that_changes_other_running_statistics_stays_the_model_s_own() {
    if !is_compiled() {
        return;
    }
    let model = || WithOther {
        net: normed(1),
        other: BatchNormConfig::new(2).init(&autodiff()),
    };
    let steps = (EPOCHS * PER_EPOCH) as u64;
    are_own("another layer", SIZES, 1 + steps, model);
}

/// A strong prior takes weights to zero in the first stage, but not those whose scale changes no loss.
#[test]
fn the_prior_of_the_first_stage_leaves_weights_before_batch_norm() {
    let rows = SIZES.iter().sum();
    let config = BayesianConfig::new(rows, VifaConfig::new())
        .with_prior(Prior::isotropic(1e6))
        .with_mean_stage(MeanStage::Steps(10_000));
    let before = normed(1);
    let model = config.init(before.clone());
    let trainer = Trainer::new(model, FusedAdamConfig::new().init(), 0.01).with_epochs(200);
    let trainer = trainer.without_verdict().without_row_check();
    let run = trainer.run(&Uneven(SIZES), &mut ()).unwrap();
    let after = run.trainer.model().mean_model().unwrap();
    let norm = |layer: &Linear| {
        let weights = layer.weight.val().without_autodiff();
        weights.square().sum().into_scalar::<f32>().sqrt()
    };
    let kept = |one: &Linear, other: &Linear| norm(other) / norm(one);
    let (first, last) = (
        kept(&before.first, &after.first),
        kept(&before.last, &after.last),
    );
    assert!(first > 0.5, "{first}");
    assert!(last < 0.01, "{last}");
}
