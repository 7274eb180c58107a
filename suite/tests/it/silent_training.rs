//! Behaviour of a model that an algorithm cannot follow is refused with its name, never silently lost: noise in
//! a recording, a loss that differs from the model's own step, running statistics that are never updated, and
//! a model's own `optimize`.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::{Flag, Module, Param, ParamGroup};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, GaussianNoise, GaussianNoiseConfig, Linear,
    LinearConfig,
};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{GradientsParams, ModuleOptimizer, MultiGradientsParams, SgdConfig};
use burn::tensor::{Distribution, Tensor};
use burn::train::{InferenceStep, Interrupter, RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::methods::{Algorithm, Rate, VadamConfig, VonConfig};
use burn_bayes::train::Gather;
use burn_bayes::{Bayesian, BayesianConfig, ExampleLoss, SlangConfig, SwagConfig, VifaConfig};

use crate::support::{
    EPSILON, assert_close, autodiff, bits, filled, joined_gradients, matrix, normals, one_stage,
    state, values,
};

const LEN: usize = 12;

/// A layer that is not one of Burn's, with its own training flag.
#[derive(Module, Debug)]
struct Shift {
    active: Param<Flag>,
}

impl Shift {
    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        match self.active.is_enabled() {
            true => input + 1.0,
            false => input,
        }
    }
}

/// A regression network, with the additions of a test.
#[derive(Module, Debug)]
struct Net {
    norm: Option<BatchNorm>,
    first: Linear,
    dropout: Dropout,
    noise: Option<GaussianNoise>,
    shifts: Vec<Shift>,
    last: Linear,
    steps: usize,
    #[module(skip)]
    own_loss: OwnLoss,
    #[module(skip)]
    outputs: Outputs,
    #[module(skip)]
    own_optimize: OwnOptimize,
}

/// What `step` adds to the mean loss.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OwnLoss {
    Nothing,
    Penalty,
    PenaltyOutside,
    Smoothed,
    Random,
    /// A penalty from this step on.
    Later,
}

/// The source of the output for metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outputs {
    Step,
    NoGradients,
    Inference,
    NoPass,
}

/// What the model does after the optimiser's step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OwnOptimize {
    Nothing,
    Clip,
    ClipGradients,
    Count,
    Freeze,
    Panic,
    ClipMulti,
}

impl Net {
    fn new() -> Self {
        let device = autodiff();
        let model = Self {
            norm: None,
            first: LinearConfig::new(2, 5).init(&device),
            dropout: DropoutConfig::new(0.5).init(),
            noise: None,
            shifts: Vec::new(),
            last: LinearConfig::new(5, 1).init(&device),
            steps: 0,
            own_loss: OwnLoss::Nothing,
            outputs: Outputs::NoPass,
            own_optimize: OwnOptimize::Nothing,
        };
        filled(model, 1, 0.5)
    }

    fn with_noise() -> Self {
        Self {
            noise: Some(GaussianNoiseConfig::new(0.5).init()),
            ..Self::new()
        }
    }

    fn with_shift() -> Self {
        Self {
            shifts: vec![Shift {
                active: Param::from_bool(true),
            }],
            ..Self::new()
        }
    }

    fn with_norm(outputs: Outputs) -> Self {
        Self {
            norm: Some(BatchNormConfig::new(2).init(&autodiff())),
            outputs,
            ..Self::new()
        }
    }

    fn with_loss(own_loss: OwnLoss) -> Self {
        Self {
            own_loss,
            ..Self::new()
        }
    }

    fn with_optimize(own_optimize: OwnOptimize) -> Self {
        Self {
            own_optimize,
            ..Self::with_shift()
        }
    }

    fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        let inputs = match &self.norm {
            Some(norm) => norm.forward(inputs),
            None => inputs,
        };
        let mut hidden = self.dropout.forward(self.first.forward(inputs).tanh());
        if let Some(noise) = &self.noise {
            hidden = noise.forward(hidden);
        }
        for shift in &self.shifts {
            hidden = shift.forward(hidden);
        }
        self.last.forward(hidden)
    }

    fn output(&self, (inputs, targets): Batch) -> RegressionOutput {
        let output = self.forward(inputs);
        let loss = (output.clone() - targets.clone()).square().mean();
        RegressionOutput::new(loss, output, targets)
    }

    /// The loss whose gradient `step` returns.
    fn step_loss(&self, output: &RegressionOutput) -> Tensor<1> {
        let penalty = |layer: &Linear| layer.weight.val().square().sum() * 0.1;
        let loss = output.loss.clone();
        match self.own_loss {
            OwnLoss::Nothing => loss,
            OwnLoss::Penalty => loss + penalty(&self.last),
            OwnLoss::PenaltyOutside => loss + penalty(&self.first),
            OwnLoss::Smoothed => {
                let targets = output.targets.clone() * 0.5;
                (output.output.clone() - targets).square().mean()
            }
            OwnLoss::Random => {
                let shape = output.output.shape();
                let noise = Tensor::random(shape, Distribution::Default, &output.output.device());
                loss + (output.output.clone() * noise).mean()
            }
            OwnLoss::Later => match LATER.get() {
                true => loss + penalty(&self.last),
                false => loss,
            },
        }
    }
}

thread_local! {
    /// Whether [`OwnLoss::Later`] has begun.
    static LATER: Cell<bool> = const { Cell::new(false) };
    /// The number of calls of the model's own step.
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

type Batch = (Tensor<2>, Tensor<2>);

impl TrainStep for Net {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        STEPS.set(STEPS.get() + 1);
        let output = self.output(batch);
        let gradients = self.step_loss(&output).backward();
        TrainOutput::new(self, gradients, output)
    }

    fn optimize(
        self,
        optim: &mut ModuleOptimizer,
        rate: ModuleLearningRate,
        mut gradients: GradientsParams,
    ) -> Self {
        if self.own_optimize == OwnOptimize::ClipGradients
            && let Some(gradient) = gradients.remove::<2>(self.first.weight.id)
        {
            gradients.register(self.first.weight.id, gradient.clamp(-1.0, 1.0));
        }
        let mut model = optim.step(rate, self, gradients);
        match model.own_optimize {
            OwnOptimize::Nothing | OwnOptimize::ClipGradients | OwnOptimize::ClipMulti => {}
            OwnOptimize::Clip => model.last.weight = clipped(model.last.weight),
            OwnOptimize::Count => model.steps += 1,
            OwnOptimize::Freeze => model.shifts = model.shifts.freeze(),
            OwnOptimize::Panic => panic!("this model is not to be trained"),
        }
        model
    }

    fn optimize_multi(
        self,
        optim: &mut ModuleOptimizer,
        rate: ModuleLearningRate,
        gradients: MultiGradientsParams,
    ) -> Self {
        let mut model = optim.step_multi(rate, self, gradients);
        if model.own_optimize == OwnOptimize::ClipMulti {
            model.last.weight = clipped(model.last.weight);
        }
        model
    }
}

fn clipped(weight: Param<Tensor<2>>) -> Param<Tensor<2>> {
    weight.map(|weight| {
        let clipped = weight.without_autodiff().clamp(-2.0, 2.0);
        Tensor::from_inner(clipped).require_grad()
    })
}

impl ExampleLoss for Net {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        (self.forward(inputs) - targets).square().squeeze_dim(1)
    }

    fn example_outputs(&self, batch: Batch, losses: Tensor<1>) -> RegressionOutput {
        match self.outputs {
            Outputs::Step => TrainStep::step(self, batch).item,
            Outputs::NoGradients => self.clone().no_grad().output(batch),
            Outputs::Inference => {
                let (inputs, targets) = batch;
                self.valid().output((inputs.inner(), targets.inner()))
            }
            Outputs::NoPass => RegressionOutput::new(losses.mean(), batch.1.clone(), batch.1),
        }
    }
}

impl InferenceStep for Net {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> RegressionOutput {
        self.output(batch)
    }
}

fn batch(seed: u64) -> Batch {
    let part = |seed, width| Tensor::from_inner(matrix(LEN, width, &normals(seed, LEN * width)));
    (part(2 * seed, 2), part(2 * seed + 1, 1))
}

fn slang() -> BayesianConfig<SlangConfig> {
    BayesianConfig::paper(
        LEN,
        SlangConfig::paper()
            .with_rank(2)
            .with_covariance_rate(Rate::Constant(0.05)),
    )
}

fn vifa() -> BayesianConfig<VifaConfig> {
    one_stage(LEN)
        .map_method(|method| method.with_rank(2))
        .with_draws(2)
}

/// The error that stops the first step, which then changes nothing.
#[track_caller]
fn refused<A>(bayesian: Bayesian<Net, A>) -> String
where
    A: Algorithm,
    A::Signal: Gather<Net, A>,
{
    let bayesian = bayesian.with_interrupter(Interrupter::new());
    let before = state(&bayesian);
    let output = TrainStep::step(&bayesian, batch(1));
    assert!(output.grads.is_empty());
    let fault = bayesian.fault().expect("the step is refused");
    assert!(fault.is_config(), "{fault}");
    let after = bayesian.optimize(&mut SgdConfig::new().init(), 0.1.into(), output.grads);
    assert_eq!(state(&after), before);
    fault.to_string()
}

/// Makes this many steps, each with another batch.
fn trained<A>(mut bayesian: Bayesian<Net, A>, steps: u64) -> Bayesian<Net, A>
where
    A: Algorithm,
    A::Signal: Gather<Net, A>,
{
    let mut optimizer = SgdConfig::new().init();
    for step in 0..steps {
        let output = TrainStep::step(&bayesian, batch(step));
        bayesian = bayesian.optimize(&mut optimizer, 0.01.into(), output.grads);
    }
    bayesian
}

#[track_caller]
fn contains(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

// Layers that behave differently in training.

#[test]
fn gradients_of_examples_refuse_noise_by_the_layers_path() {
    let cure = "freeze";
    let noise = ["noise (GaussianNoise)", "noise.training", cure];
    contains(&refused(slang().init(Net::with_noise())), &noise);
    contains(
        &refused(BayesianConfig::new(LEN, SlangConfig::vogn()).init(Net::with_noise())),
        &noise,
    );
    contains(
        &refused(slang().init(Net::with_shift())),
        &["shifts.0 (Shift)", "shifts.0.active", cure],
    );
    contains(
        &refused(slang().init(Net::new()).with_dropout()),
        &["dropout (Dropout)", "with_dropout"],
    );
}

#[test]
fn gradients_of_examples_take_noise_that_is_off() {
    trained(slang().init(Net::new()), 1);
    let path = ParamGroup::from_path("noise.training");
    trained(slang().init(Net::with_noise().freeze_group(path)), 1);
    let path = ParamGroup::from_path("shifts.0.active");
    trained(slang().init(Net::with_shift().freeze_group(path)), 1);
}

#[test]
fn noise_is_not_lost_in_one_pass() {
    let gradients = |bayesian: &Bayesian<Net, _>| {
        // A fork has its own clock, so all use the same draws.
        let fork = bayesian.clone().fork(&autodiff());
        let output = TrainStep::step(&fork, batch(1));
        joined_gradients(fork.algorithm(), &output.grads)
    };
    let noisy = vifa().init(Net::with_noise()).with_batched_draws();
    let first = gradients(&noisy);
    assert!((0..8).any(|_| gradients(&noisy) != first));

    // Ten rows shifted by one are more than rounding.
    let shifted = gradients(&vifa().init(Net::with_shift()).with_batched_draws());
    assert_eq!(
        shifted,
        gradients(&vifa().init(Net::with_shift())),
        "one draw after the other"
    );
    let path = ParamGroup::from_path("shifts.0.active");
    let frozen = vifa().init(Net::with_shift().freeze_group(path));
    assert_ne!(shifted, gradients(&frozen));
}

// The losses of the examples and the loss of the model's own step.

#[test]
fn a_loss_that_is_not_the_steps_is_refused_by_the_parameter() {
    let sentence = "`example_losses` and `step` do not compute the same loss";
    for (own, path) in [
        (OwnLoss::Penalty, "last.weight"),
        (OwnLoss::Smoothed, "last"),
    ] {
        let parts = [sentence, path, "norm"];
        contains(&refused(slang().init(Net::with_loss(own))), &parts);
        let several = slang().with_draws(3);
        contains(&refused(several.init(Net::with_loss(own))), &parts);
        let together = vifa().init(Net::with_loss(own)).with_batched_draws();
        contains(&refused(together), &parts);
    }
    let inside = ParamGroup::from_predicate("last");
    let part = slang().with_group(inside.clone()).with_draws(2);
    let model = || Net::with_loss(OwnLoss::Penalty);
    contains(&refused(part.init(model())), &[sentence, "last.weight"]);

    // Only with one pass are gradients outside the layout those of the example losses.
    let outside = || Net::with_loss(OwnLoss::PenaltyOutside);
    let in_one_pass = vifa()
        .with_group(inside)
        .init(outside())
        .with_batched_draws();
    contains(&refused(in_one_pass), &[sentence, "first.weight"]);
    trained(part.init(outside()), 1);
}

#[test]
fn a_step_that_is_random_by_itself_is_told_apart() {
    let model = || Net::with_loss(OwnLoss::Random);
    for message in [
        refused(slang().init(model())),
        refused(vifa().init(model()).with_batched_draws()),
    ] {
        contains(&message, &["random", "`step`"]);
    }
}

#[test]
fn the_losses_are_compared_again_after_a_hundred_steps() {
    let model = || Net::with_loss(OwnLoss::Later);
    fn faulty<A>(bayesian: Bayesian<Net, A>) -> bool
    where
        A: Algorithm,
        A::Signal: Gather<Net, A>,
    {
        LATER.set(false);
        let bayesian = trained(bayesian, 1);
        LATER.set(true);
        let bayesian = trained(bayesian, 99).with_interrupter(Interrupter::new());
        assert!(bayesian.fault().is_none());
        let _ = TrainStep::step(&bayesian, batch(1));
        bayesian.fault().is_some()
    }
    assert!(faulty(slang().init(model())));
    assert!(faulty(vifa().init(model()).with_batched_draws()));
    assert!(!faulty(slang().init(model()).without_self_check()));
}

#[test]
fn without_a_self_check_another_loss_is_trained() {
    let penalised = || Net::with_loss(OwnLoss::Penalty);
    trained(slang().init(penalised()).without_self_check(), 1);
    // In either order.
    let vifa = vifa();
    trained(
        vifa.init(penalised())
            .with_batched_draws()
            .without_self_check(),
        1,
    );
    trained(
        vifa.init(penalised())
            .without_self_check()
            .with_batched_draws(),
        1,
    );
    // Without recorded losses there is nothing to compare.
    trained(vifa.init(penalised()), 1);
}

/// Two passes of the model's own step per draw, for any number of steps.
#[test]
fn a_self_check_costs_two_passes() {
    fn passes<A>(bayesian: Bayesian<Net, A>) -> usize
    where
        A: Algorithm,
        A::Signal: Gather<Net, A>,
    {
        STEPS.set(0);
        trained(bayesian, 250);
        STEPS.get()
    }
    assert_eq!(passes(slang().with_draws(3).init(Net::new())), 2);
    assert_eq!(passes(vifa().init(Net::new()).with_batched_draws()), 4);
    let unchecked = vifa()
        .init(Net::new())
        .with_batched_draws()
        .without_self_check();
    assert_eq!(passes(unchecked), 0);
}

#[test]
fn a_checked_training_is_the_unchecked_one_bit_by_bit() {
    fn same<A>(bayesian: impl Fn() -> Bayesian<Net, A>)
    where
        A: Algorithm,
        A::Signal: Gather<Net, A>,
    {
        let checked = trained(bayesian(), 3);
        assert_eq!(
            state(&checked),
            state(&trained(bayesian().without_self_check(), 3))
        );
    }
    for outputs in [Outputs::Step, Outputs::NoPass] {
        same(|| slang().with_draws(2).init(Net::with_norm(outputs)));
    }
    same(|| vifa().init(Net::new()).with_batched_draws());
    same(|| vifa().init(Net::with_norm(Outputs::Step)));
}

// Running statistics.

fn statistics(model: &Net) -> Vec<u32> {
    let norm = model.valid().norm.expect("the model has batch norm");
    [norm.running_mean, norm.running_var]
        .iter()
        .flat_map(|statistic| bits(&statistic.value_sync()))
        .collect()
}

/// Batch norm is the first layer, so its statistics depend only on the data.
#[test]
fn running_statistics_follow_a_training_by_gradients_of_examples() {
    let ordinary = trained(vifa().with_draws(1).init(Net::with_norm(Outputs::Step)), 4);
    let expected = statistics(ordinary.template());
    let part = slang().with_group(ParamGroup::from_predicate("last"));
    for outputs in [
        Outputs::Step,
        Outputs::NoGradients,
        Outputs::Inference,
        Outputs::NoPass,
    ] {
        for config in [slang(), slang().with_draws(3), part.clone()] {
            let found = trained(config.init(Net::with_norm(outputs)), 4);
            assert_eq!(statistics(found.template()), expected, "{outputs:?}");
            let mean_model = found.mean_model().unwrap();
            assert_eq!(statistics(&mean_model), expected, "{outputs:?}");
        }
    }
    // Four updates with a momentum of 0.1, from 0 towards the mean of each batch.
    let mut mean = [0.0; 2];
    for step in 0..4 {
        let means = values(&batch(step).0.mean_dim(0));
        for (mean, batch) in mean.iter_mut().zip(means) {
            *mean = 0.9 * *mean + 0.1 * batch;
        }
    }
    let found: Vec<f64> = expected[..2]
        .iter()
        .map(|&bits| f32::from_bits(bits).into())
        .collect();
    assert_close(
        "running mean",
        &found,
        &mean,
        &[1.0; 2],
        LEN as f64 * EPSILON,
    );
}

#[test]
fn frozen_statistics_stay() {
    let mut model = Net::with_norm(Outputs::NoPass);
    model.norm = model.norm.map(Module::freeze);
    let before = statistics(&model);
    let after = trained(slang().init(model), 2);
    assert_eq!(statistics(after.template()), before);
}

// The model's own `optimize`.

#[test]
fn an_optimize_of_the_models_own_is_refused() {
    fn check<A>(init: impl Fn(Net) -> Bayesian<Net, A>)
    where
        A: Algorithm<Signal: Gather<Net, A>>,
    {
        for (own, changed) in [
            (OwnOptimize::Clip, "last.weight"),
            (OwnOptimize::ClipGradients, "first.weight"),
            (OwnOptimize::Count, "steps"),
            (OwnOptimize::Freeze, "shifts.0.active"),
            (OwnOptimize::Panic, "panic"),
            (OwnOptimize::ClipMulti, "last.weight"),
        ] {
            let model = Net::with_optimize(own);
            let before = state(&model);
            let message = refused(init(model.clone()));
            contains(&message, &["`TrainStep::optimize", changed]);
            assert_eq!(state(&model), before);
        }
    }
    check(|net| vifa().init(net));
    check(|net| slang().init(net));
    check(|net| BayesianConfig::new(LEN, VonConfig::new()).init(net));
    check(|net| BayesianConfig::new(LEN, VadamConfig::new()).init(net));
    check(|net| BayesianConfig::new(LEN, SwagConfig::new().with_start(Some(1))).init(net));
}

#[test]
fn an_optimize_that_is_the_optimisers_step_is_taken() {
    trained(vifa().init(Net::with_norm(Outputs::Step)), 2);
    trained(
        vifa()
            .init(Net::with_optimize(OwnOptimize::Clip))
            .without_self_check(),
        2,
    );
    // The next step still refuses.
    let bayesian = vifa().init(Net::with_optimize(OwnOptimize::Clip));
    for _ in 0..2 {
        let step = AssertUnwindSafe(|| TrainStep::step(&bayesian, batch(1)));
        assert!(catch_unwind(step).is_err());
    }
}
