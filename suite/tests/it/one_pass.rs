//! All draws of a training step in one pass, against the model's own step at each draw.

use burn::module::{Module, Param, ParamGroup};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::methods::{Algorithm, Curvature, GradientPieces, VadamConfig, VonConfig};
use burn_bayes::train::Gather;
use burn_bayes::{Bayesian, BayesianConfig, ExampleLoss};

use crate::support::{
    assert_close, autodiff, bits, filled, joined_gradients, matrix, normals, one_stage, state,
    values,
};

const LEN: usize = 12;

/// A regression network that uses its middle layer's weight twice, with two paths.
#[derive(Module, Debug)]
struct Regressor {
    first: Linear,
    middle: Param<Tensor<2>>,
    again: Param<Tensor<2>>,
    norm: Option<BatchNorm>,
    dropout: Dropout,
    last: Linear,
    #[module(skip)]
    course: Course,
}

/// What the loss does in addition.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Course {
    /// Nothing.
    Straight,
    /// The model's own step doubles the loss, which shows that this step was used.
    Doubled,
    /// The same, and the loss reads a number that it computed.
    Forked,
}

impl Regressor {
    fn new(dropout: f64, course: Course) -> Self {
        let device = autodiff();
        let middle = LinearConfig::new(5, 5).init(&device).weight;
        Self {
            first: LinearConfig::new(2, 5).init(&device),
            again: middle.clone(),
            middle,
            norm: None,
            dropout: DropoutConfig::new(dropout).init(),
            last: LinearConfig::new(5, 1).init(&device),
            course,
        }
    }

    fn forward(&self, inputs: Tensor<2>) -> Tensor<2> {
        let hidden = self.first.forward(inputs).tanh();
        let hidden = hidden.matmul(self.middle.val()).tanh();
        let hidden = hidden.matmul(self.again.val().transpose());
        let hidden = match &self.norm {
            Some(norm) => norm.forward(hidden),
            None => hidden,
        };
        let output = self.last.forward(self.dropout.forward(hidden));
        match self.course {
            Course::Forked if output.clone().sum().into_scalar::<f32>().is_nan() => output * 2.0,
            _ => output,
        }
    }

    fn output(&self, (inputs, targets): (Tensor<2>, Tensor<2>)) -> RegressionOutput {
        let output = self.forward(inputs);
        let loss = (output.clone() - targets.clone()).square().mean();
        RegressionOutput::new(loss, output, targets)
    }
}

impl TrainStep for Regressor {
    type Input = (Tensor<2>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, batch: Self::Input) -> TrainOutput<RegressionOutput> {
        let output = self.output(batch);
        let gradients = match self.course {
            Course::Straight => output.loss.backward(),
            Course::Doubled | Course::Forked => (output.loss.clone() * 2.0).backward(),
        };
        TrainOutput::new(self, gradients, output)
    }
}

impl ExampleLoss for Regressor {
    fn example_losses(&self, (inputs, targets): Self::Input) -> Tensor<1> {
        (self.forward(inputs) - targets).square().squeeze_dim(1)
    }
}

impl InferenceStep for Regressor {
    type Input = (Tensor<2>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, batch: Self::Input) -> RegressionOutput {
        self.output(batch)
    }
}

type Bayes<A> = Bayesian<Regressor, A>;

fn batch(rows: usize) -> (Tensor<2>, Tensor<2>) {
    let part = |seed, width| Tensor::from_inner(matrix(rows, width, &normals(seed, rows * width)));
    (part(1, 2), part(2, 1))
}

fn regressor(course: Course) -> Regressor {
    filled(Regressor::new(0.5, course), 1, 0.5)
}

/// The gradients of all trained parameters, and the loss at the first draw.
fn stepped<A>(bayesian: &Bayes<A>, rows: usize) -> (GradientsParams, f64)
where
    A: Algorithm<Signal = GradientPieces>,
    GradientPieces: Gather<Regressor, A>,
{
    let output = TrainStep::step(bayesian, batch(rows));
    (output.grads, values(&output.item.loss)[0])
}

/// Two steps in one pass have the gradients of the loop.
#[track_caller]
fn compared<A>(init: impl Fn(Regressor) -> Bayes<A>)
where
    A: Algorithm<Signal = GradientPieces>,
    GradientPieces: Gather<Regressor, A>,
{
    let looped = init(regressor(Course::Straight));
    let together = init(regressor(Course::Straight)).with_batched_draws();
    for _ in 0..2 {
        let (expected, expected_loss) = stepped(&looped, LEN);
        let (found, found_loss) = stepped(&together, LEN);
        assert_eq!(found.len(), expected.len());
        let of = |bayesian: &Bayes<A>, gradients: &GradientsParams| {
            [
                joined_gradients(bayesian.algorithm(), gradients),
                joined_gradients(bayesian.template(), gradients),
            ]
        };
        let [found, expected] = [of(&together, &found), of(&looped, &expected)];
        for (found, expected) in found.iter().zip(&expected) {
            let largest = expected.iter().fold(0.0f64, |max, g| max.max(g.abs()));
            let scales = vec![largest; expected.len()];
            assert_close("gradients", found, expected, &scales, 1e-5);
        }
        assert!((found_loss - expected_loss).abs() <= 1e-5 * expected_loss);
    }
}

#[test]
fn every_algorithm_of_mean_gradients_has_those_of_the_loop() {
    let vifa = one_stage(LEN)
        .map_method(|method| method.with_rank(2))
        .with_draws(4);
    compared(|model| vifa.init(model));
    let antithetic = vifa.clone().with_antithetic(true);
    compared(|model| antithetic.init(model));
    let von = BayesianConfig::new(
        LEN,
        VonConfig::new().with_curvature(Curvature::Hutchinson { probe: 0.1 }),
    );
    compared(|model| von.init(model));
    let vadam = BayesianConfig::new(LEN, VadamConfig::new()).with_draws(3);
    compared(|model| vadam.init(model));
}

#[test]
fn parameters_outside_the_layout_have_the_average_over_draws() {
    for inside in ["last", "middle", "first"] {
        let group = ParamGroup::from_predicate(inside);
        let config = one_stage(LEN).with_draws(4).with_group(group);
        compared(|model| config.init(model));
    }
}

#[test]
fn one_draw_or_one_example_is_the_models_own_step() {
    for (draws, rows) in [(1, LEN), (4, 1)] {
        let config = one_stage(LEN).with_draws(draws);
        let looped = config.init(regressor(Course::Straight));
        let together = config
            .init(regressor(Course::Straight))
            .with_batched_draws();
        let of = |bayesian: &Bayes<_>| {
            joined_gradients(bayesian.algorithm(), &stepped(bayesian, rows).0)
        };
        let (together, looped) = (of(&together), of(&looped));
        // A single draw may be evaluated by a compiled loss, which rounds differently.
        match rows {
            1 => assert_eq!(together, looped),
            _ => {
                let scale = looped.iter().fold(0.0_f64, |scale, x| scale.max(x.abs()));
                let scales = vec![scale; looped.len()];
                assert_close("gradient", &together, &looped, &scales, 1e-5);
            }
        }
    }
}

#[test]
fn what_cannot_be_recorded_is_evaluated_draw_by_draw() {
    let config = one_stage(LEN).with_draws(2);
    let of =
        |bayesian: &Bayes<_>| joined_gradients(bayesian.algorithm(), &stepped(bayesian, LEN).0);
    let [doubled, forked] = [Course::Doubled, Course::Forked].map(|course| {
        let looped = of(&config.init(regressor(course)));
        looped
            == of(&config
                .init(regressor(course))
                .with_batched_draws()
                .without_self_check())
    });
    assert!(forked && !doubled);
}

#[test]
fn dropout_is_not_lost_in_a_recording() {
    let config = one_stage(LEN).with_draws(2);
    // A fork has its own clock, so all use the same draws.
    let is_random = |bayesian: Bayes<_>| {
        let gradients = || {
            let fork = bayesian.clone().fork(&autodiff());
            joined_gradients(fork.algorithm(), &stepped(&fork, LEN).0)
        };
        let first = gradients();
        (0..8).any(|_| gradients() != first)
    };
    let model = || config.init(regressor(Course::Straight));
    assert!(!is_random(model().with_batched_draws()));
    assert!(is_random(model().with_dropout().with_batched_draws()));
    assert!(is_random(model().with_batched_draws().with_dropout()));
}

#[test]
fn batch_norm_in_training_is_not_lost_in_a_recording() {
    let config = one_stage(LEN).with_draws(2);
    let is_the_models_own = |frozen: bool| {
        let wrapped = || -> Bayes<_> {
            let mut model = filled(Regressor::new(0.0, Course::Doubled), 1, 0.5);
            let norm = BatchNormConfig::new(5).init(&autodiff());
            model.norm = Some(if frozen { norm.freeze() } else { norm });
            config.init(model)
        };
        let of =
            |bayesian: &Bayes<_>| joined_gradients(bayesian.algorithm(), &stepped(bayesian, LEN).0);
        of(&wrapped()) == of(&wrapped().with_batched_draws().without_self_check())
    };
    assert!(is_the_models_own(false));
    assert!(!is_the_models_own(true));
}

#[test]
fn the_same_seed_has_the_same_result() {
    let config = one_stage(LEN)
        .map_method(|method| method.with_rank(2))
        .with_draws(4);
    let run = || {
        let mut bayesian = config
            .init(regressor(Course::Straight))
            .with_batched_draws();
        let mut optimizer = burn_bayes::FusedAdamConfig::new().init();
        for _ in 0..5 {
            let output = TrainStep::step(&bayesian, batch(LEN));
            bayesian = bayesian.optimize(&mut optimizer, 0.01.into(), output.grads);
        }
        assert_eq!(bayesian.steps(), 5);
        (state(&bayesian), bits(&bayesian.posterior().mean()))
    };
    assert_eq!(run(), run());
}

#[test]
fn predictions_have_the_outputs_and_the_loss_of_the_draws_one_by_one() {
    let config = one_stage(LEN).map_method(|method| method.with_rank(2));
    for course in [Course::Straight, Course::Forked] {
        let looped = config.init(regressor(course)).valid();
        let together = looped.clone().with_batched_prediction();
        for rows in [1, LEN] {
            let (inputs, targets) = batch(rows);
            let batch = (inputs.inner(), targets.inner());
            let expected = looped.predict(batch.clone(), 7).unwrap();
            let found = together.predict(batch.clone(), 7).unwrap();
            assert_eq!(found.draw_outputs.dims(), [7, rows, 1]);
            let outputs = values(&expected.draw_outputs);
            let largest = outputs.iter().fold(0.0f64, |max, y| max.max(y.abs()));
            let near = |what, found: Vec<f64>, expected: Vec<f64>| {
                let scales = vec![largest.max(largest * largest); expected.len()];
                assert_close(what, &found, &expected, &scales, 1e-5);
            };
            near("outputs", values(&found.draw_outputs), outputs);
            near("average", values(&found.output), values(&expected.output));
            near("loss", values(&found.loss), values(&expected.loss));
            assert_eq!(values(&found.targets), values(&expected.targets));
        }
    }
}

/// A recording belongs to one batch; later calls must not return results for that batch.
#[test]
fn a_prediction_follows_the_weights_and_the_batch() {
    let together = one_stage(LEN)
        .init(regressor(Course::Straight))
        .with_batched_prediction();
    let predicted = |bayesian: &Bayes<_>, (inputs, targets): (Tensor<2>, Tensor<2>)| {
        let mixture = bayesian
            .valid()
            .predict((inputs.inner(), targets.inner()), 3);
        values(&mixture.unwrap().draw_outputs)
    };
    let (inputs, targets) = batch(LEN);
    let first = predicted(&together, (inputs.clone(), targets.clone()));
    let other = predicted(&together, (inputs * 2.0, targets));
    assert_ne!(first, other);
    let output = TrainStep::step(&together, batch(LEN));
    let mut optimizer = burn_bayes::FusedAdamConfig::new().init();
    let trained = together.optimize(&mut optimizer, 0.1.into(), output.grads);
    assert_ne!(first, predicted(&trained, batch(LEN)));
}
