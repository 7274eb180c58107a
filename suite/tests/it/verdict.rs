//! A fit that should not be used is said by the library itself, with the reason, and a good one is not.

use burn::module::{Module, ModuleDisplay};
use burn::nn::loss::{CrossEntropyLossConfig, MseLoss, Reduction};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, AdamWConfig, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::diagnostics::{ConvergenceTest, Reference};
use burn_bayes::likelihood::MixDraws;
use burn_bayes::methods::{Algorithm, InitialDeviation, Vifa};
use burn_bayes::train::{Batches, Gather, Trainer};
use burn_bayes::{Bayesian, BayesianConfig, GaussianNll, SwagConfig};

use crate::support::{autodiff, bits, device, filled, one_stage};
use crate::warnings::logged;

const ROWS: usize = 40;
const FEATURES: usize = 8;

/// Logits x w, which tell the sign of the only feature that is not 0.
#[derive(Module, Debug)]
struct Signs {
    layer: Linear,
    #[module(skip)]
    smoothing: Option<f32>,
}

type Batch = (Tensor<2>, Tensor<1, Int>);

impl Signs {
    fn trained() -> Self {
        let mut layer = LinearConfig::new(FEATURES, 2)
            .with_bias(false)
            .init(&autodiff());
        layer.weight = layer.weight.map(|weight| {
            Tensor::from_data([[-3.0, 3.0]; FEATURES], &weight.device()).require_grad()
        });
        Self {
            layer,
            smoothing: None,
        }
    }

    fn classify(&self, (inputs, classes): Batch) -> ClassificationOutput {
        let logits = self.layer.forward(inputs);
        let loss = CrossEntropyLossConfig::new()
            .with_smoothing(self.smoothing)
            .init(&logits.device());
        let loss = loss.forward(logits.clone(), classes.clone());
        ClassificationOutput::new(loss, logits, classes)
    }
}

impl TrainStep for Signs {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Signs {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.classify(batch)
    }
}

/// Rows whose one feature is ±1, ±1.1, ±1.2, …
fn rows(device: &Device) -> Batch {
    let sign = |row: usize| if row.is_multiple_of(2) { 1.0 } else { -1.0 };
    let mut inputs = vec![0.0_f32; ROWS * FEATURES];
    for row in 0..ROWS {
        inputs[row * FEATURES + row / 2 % FEATURES] = sign(row) * (1.0 + 0.1 * row as f32);
    }
    let classes: Vec<i64> = (0..ROWS).map(|row| i64::from(sign(row) > 0.0)).collect();
    (
        Tensor::<1>::from_data(inputs.as_slice(), device).reshape([ROWS, FEATURES]),
        Tensor::from_data(classes.as_slice(), device),
    )
}

/// A posterior around good weights, with this deviation.
fn around(deviation: f64) -> Bayesian<Signs, Vifa> {
    one_stage(ROWS)
        .map_method(|method| method.with_initial_deviation(InitialDeviation::Constant(deviation)))
        .init(Signs::trained())
}

fn validate(bayesian: &Bayesian<Signs, Vifa>) {
    InferenceStep::step(&bayesian.valid(), rows(&device()));
}

#[test]
fn an_average_that_is_worse_than_the_mean_is_said_in_validation() {
    let wide = around(30.0);
    let lines = logged(|| (0..3).for_each(|_| validate(&wide)));
    assert!(
        lines[0].contains("worse than the network with the mean weights"),
        "{lines:?}"
    );
    let verdict = wide.verdict();
    // Once for this posterior, each problem in a line; later rows may add another.
    assert!(lines.len() <= verdict.problems().len(), "{lines:?}");
    assert!(verdict.is_unusable(), "{verdict}");
    let validation = verdict.validation.unwrap();
    assert_eq!(validation.reference, Reference::Mean);
    assert_eq!(validation.difference.rows(), 3 * ROWS as u64);
    assert!(validation.difference.is_worse());
    // The comparison begins again after a training step.
    let gradients = TrainStep::step(&wide, rows(&autodiff())).grads;
    let wide = wide.optimize(&mut adam(), 1e-3.into(), gradients);
    validate(&wide);
    let validation = wide.verdict().validation.unwrap();
    assert_eq!(
        (validation.step, validation.difference.rows()),
        (1, ROWS as u64)
    );

    // Nor do clones from before the training share it.
    let base = around(0.02);
    let [first, second] = [(); 2].map(|()| {
        let clone = base.clone();
        let gradients = TrainStep::step(&clone, rows(&autodiff())).grads;
        let trained = clone.optimize(&mut adam(), 1e-2.into(), gradients);
        assert!(trained.verdict().validation.is_none());
        validate(&trained);
        bits(&trained.posterior().mean())
    });
    assert_eq!(first, second);

    let narrow = around(0.02);
    assert_eq!(logged(|| validate(&narrow)), [""; 0]);
    let verdict = narrow.verdict();
    assert!(
        !verdict.is_unusable() && verdict.validation.is_some(),
        "{verdict}"
    );
}

/// One batch per epoch.
struct AllRows;

impl Batches for AllRows {
    type Batch = Batch;

    fn per_epoch(&self) -> usize {
        1
    }

    fn epoch(&self, _epoch: usize, first: usize) -> impl Iterator<Item = Batch> {
        std::iter::once(rows(&autodiff())).skip(first)
    }
}

#[test]
fn draws_that_destroy_the_fit_are_said_at_the_end_of_a_training() {
    let run = |deviation| {
        let trainer = Trainer::new(around(deviation), adam(), 1e-6).with_epochs(2);
        trainer.run(&AllRows, &mut ()).unwrap()
    };
    let mut verdict = None;
    let lines = logged(|| verdict = run(30.0).verdict);
    assert!(
        lines.iter().any(|line| line.contains("destroy the fit")),
        "{lines:?}"
    );
    let verdict = verdict.unwrap();
    let draws = verdict.draws.unwrap();
    assert!(verdict.is_unusable() && draws.is_destroyed());
    assert!((draws.constant.unwrap() - 2_f64.ln()).abs() < 1e-12);
    assert!(draws.least() < 0.01 && draws.at_draws > 1.0, "{draws:?}");

    let lines = logged(|| drop(run(0.02)));
    assert_eq!(lines, [""; 0]);
    let trainer = Trainer::new(around(30.0), adam(), 1e-6).without_verdict();
    let lines = logged(|| drop(trainer.run(&AllRows, &mut ()).unwrap()));
    assert_eq!(lines, [""; 0]);
}

#[test]
fn a_verdict_includes_the_kl_gap() {
    let bayesian = around(0.02);
    let posterior = bayesian.posterior();
    let test = ConvergenceTest::new(ROWS);
    let gap = test.measure(bayesian.template(), &posterior, || [rows(&autodiff())]);
    let verdict = bayesian
        .verdict()
        .with_kl_gap(gap.unwrap(), posterior.len());
    // Deviations of .02 where the prior allows 1.
    assert!(verdict.to_string().contains("not converged"), "{verdict}");
    assert!(!verdict.is_unusable() && verdict.convergence().is_some());
}

fn adam() -> ModuleOptimizer {
    AdamConfig::new().init()
}

/// What is said in some steps of a training.
fn lines_of<M, A>(
    mut bayesian: Bayesian<M, A>,
    batch: M::Input,
    mut optimizer: ModuleOptimizer,
) -> Vec<String>
where
    M: Module + ModuleDisplay + TrainStep<Input: Clone, Output: MixDraws>,
    A: Algorithm<Signal: Gather<M, A>>,
{
    logged(|| {
        for _ in 0..25 {
            let gradients = TrainStep::step(&bayesian, batch.clone()).grads;
            bayesian = bayesian
                .clone()
                .optimize(&mut optimizer, 0.05.into(), gradients);
        }
    })
}

#[test]
fn label_smoothing_is_named() {
    let smooth = |smoothing| Signs {
        smoothing,
        ..Signs::trained()
    };
    let lines = |smoothing| {
        lines_of(
            one_stage(ROWS).init(smooth(smoothing)),
            rows(&autodiff()),
            adam(),
        )
    };
    assert_eq!(lines(None), [""; 0]);
    let [line] = &lines(Some(0.1))[..] else {
        panic!("one line is expected");
    };
    assert!(
        line.contains("label smoothing, which 0.10 would explain"),
        "{line}"
    );
    let unchecked = one_stage(ROWS).init(smooth(Some(0.1))).without_self_check();
    assert_eq!(lines_of(unchecked, rows(&autodiff()), adam()), [""; 0]);
}

/// A line, with a loss that may be that of Burn.
#[derive(Module, Debug)]
struct Line {
    layer: Linear,
    #[module(skip)]
    is_mean_squared_error: bool,
    #[module(skip)]
    scale: f64,
}

impl TrainStep for Line {
    type Input = (Tensor<2>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Self::Input) -> TrainOutput<RegressionOutput> {
        let outputs = self.layer.forward(inputs);
        let loss = match self.is_mean_squared_error {
            true => MseLoss::new().forward(outputs.clone(), targets.clone(), Reduction::Mean),
            false => GaussianNll::new(4.0).forward(outputs.clone(), targets.clone()),
        };
        let loss = loss * self.scale;
        let gradients = loss.backward();
        TrainOutput::new(
            self,
            gradients,
            RegressionOutput::new(loss, outputs, targets),
        )
    }
}

#[test]
fn losses_of_numbers_that_are_no_likelihood_are_named() {
    let lines = |is_mean_squared_error, scale| {
        let layer = LinearConfig::new(1, 1).init(&autodiff());
        let line = Line {
            layer,
            is_mean_squared_error,
            scale,
        };
        let inputs = rows(&autodiff()).0.sum_dim(1);
        let targets = inputs.clone() * 2.0 + 1.0;
        let bayesian = one_stage(ROWS).init(filled(line, 1, 0.5));
        lines_of(bayesian, (inputs, targets), adam())
    };
    assert_eq!(lines(false, 1.0), [""; 0]);
    let found = lines(true, 1.0);
    assert!(
        found.len() == 1 && found[0].contains("mean squared error"),
        "{found:?}"
    );
    let found = lines(false, ROWS as f64);
    assert!(
        found.len() == 1 && found[0].contains("the sum over the 40 rows"),
        "{found:?}"
    );
}

#[test]
fn weight_decay_of_the_posterior_is_named() {
    let decays = || AdamWConfig::new().init();
    let found = lines_of(around(0.02), rows(&autodiff()), decays());
    assert!(
        found.len() == 1 && found[0].contains("decays `algorithm."),
        "{found:?}"
    );
    // The weights that an ordinary training passes through decay by their prior.
    let swag =
        BayesianConfig::new(ROWS, SwagConfig::new().with_start(Some(5))).init(Signs::trained());
    assert_eq!(lines_of(swag, rows(&autodiff()), decays()), [""; 0]);
    assert_eq!(lines_of(around(0.02), rows(&autodiff()), adam()), [""; 0]);
}
