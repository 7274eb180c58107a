//! Predictions and trainings with dropout.
//!
//! The tests are a program of their own and wait for each other: masks come from the generator of the device, which
//! the initialisation of layers in another thread uses as well.
#![cfg(feature = "train")]

#[allow(dead_code, reason = "the integration suite uses the rest")]
#[path = "it/support.rs"]
mod support;

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::module::{Module, ParamGroup};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Tensor};
use burn::train::{InferenceStep, RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::methods::IvonConfig;
use burn_bayes::posterior::PointPosterior;
use burn_bayes::train::{
    Batches, Checkpoint, CheckpointTime, Trainer, TrainerModel, TrainingObserver,
};
use burn_bayes::{BayesianConfig, Error, Noise, Predictor, Result, SwagConfig, VifaConfig};

use support::{autodiff, bits, device, filled, matrix, normals, state, values};

/// Keeps the generator of the device from other tests.
fn alone() -> MutexGuard<'static, ()> {
    static GENERATOR: Mutex<()> = Mutex::new(());
    GENERATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Module, Debug)]
struct Net {
    dropout: Option<Dropout>,
    norm: BatchNorm,
    last: Linear,
}

impl Net {
    /// With the probability of dropout.
    fn new(features: usize, probability: Option<f64>, device: &Device) -> Self {
        let dropout = probability.map(|probability| DropoutConfig::new(probability).init());
        Self {
            dropout,
            norm: BatchNormConfig::new(features).init(device),
            last: LinearConfig::new(features, 1).init(device),
        }
    }

    fn forward(&self, input: Tensor<2>) -> Tensor<2> {
        let kept = match &self.dropout {
            Some(dropout) => dropout.forward(input),
            None => input,
        };
        self.last.forward(self.norm.forward(kept))
    }
}

type Batch = (Tensor<2>, Tensor<2>);

impl InferenceStep for Net {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Batch) -> RegressionOutput {
        let outputs = self.forward(inputs);
        let loss = (outputs.clone() - targets.clone()).square().mean();
        RegressionOutput::new(loss, outputs, targets)
    }
}

impl TrainStep for Net {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        let output = InferenceStep::step(self, batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

const FEATURES: usize = 12;

fn net(probability: Option<f64>) -> Net {
    filled(Net::new(FEATURES, probability, &device()), 1, 0.7)
}

fn batch(rows: usize) -> Batch {
    let inputs = matrix(rows, FEATURES, &normals(2, rows * FEATURES));
    (inputs, Tensor::zeros([rows, 1], &device()))
}

fn predictor(net: Net, seed: u64) -> Predictor<Net, PointPosterior> {
    let weights = PointPosterior::of(&net, &ParamGroup::all()).unwrap();
    Predictor::new(net, weights, Noise::new(seed)).unwrap()
}

#[test]
fn a_trained_model_predicts_with_its_own_dropout() {
    let _alone = alone();
    let (trained, batch) = (net(Some(0.4)), batch(5));
    // ANCHOR: predictor
    let weights = PointPosterior::of(&trained, &ParamGroup::all()).unwrap();
    let predictor = Predictor::new(trained, weights, Noise::new(7)).unwrap();
    let predictor = predictor.with_dropout().unwrap();
    let mixture = predictor.predict(batch, 100).unwrap(); // 100 masks
    // ANCHOR_END: predictor
    assert_eq!(mixture.draw_outputs.dims(), [100, 5, 1]);
}

/// The outputs of every draw, `[draws, rows]`.
fn outputs(predictor: &Predictor<Net, PointPosterior>, rows: usize, draws: usize) -> Tensor<2> {
    let inputs = batch(rows).0.autodiff();
    let all = predictor
        .map_draws(draws, |net: &Net| {
            net.forward(inputs.clone()).squeeze_dim::<1>(1)
        })
        .unwrap();
    Tensor::stack(all, 0)
}

#[test]
fn masks_depend_on_the_seed_and_the_draw_alone() {
    let _alone = alone();
    let masked = |seed| predictor(net(Some(0.4)), seed).with_dropout().unwrap();
    let first = outputs(&masked(3), 5, 4);
    device().seed(99);
    assert_eq!(bits(&first), bits(&outputs(&masked(3), 5, 4)));
    assert_eq!(
        bits(&first.clone().narrow(0, 0, 2)),
        bits(&outputs(&masked(3), 5, 2))
    );
    assert_ne!(bits(&first), bits(&outputs(&masked(4), 5, 4)));
    let draws: Vec<_> = first.iter_dim(0).map(|draw| bits(&draw)).collect();
    assert!((1..4).all(|draw| !draws[..draw].contains(&draws[draw])));
}

#[test]
fn a_prediction_averages_the_masked_outputs() {
    let _alone = alone();
    let predictor = predictor(net(Some(0.4)), 3).with_dropout().unwrap();
    let mixture = predictor.predict(batch(5), 6).unwrap();
    assert!(
        !mixture.output.is_autodiff(),
        "results are without autodiff"
    );
    assert_eq!(
        bits(&mixture.draw_outputs),
        bits(&outputs(&predictor, 5, 6))
    );
    let again = predictor.predict(batch(5), 6).unwrap();
    assert_eq!(bits(&again.output), bits(&mixture.output));
}

/// For y = b + Σ_j w_j m_j x_j with masks m_j, E y = b + Σ_j w_j x_j and Var y = p/(1 − p) Σ_j (w_j x_j)².
#[test]
fn the_moments_of_a_linear_layer_are_the_analytic_ones() {
    let _alone = alone();
    const DRAWS: usize = 4000;
    let probability: f64 = 0.3;
    let mut net = net(Some(probability));
    // Batch norm with the running statistics of a new layer, 0 and 1: it divides by √(1 + 1e-5), far less than the
    // Monte Carlo error.
    net.norm = BatchNormConfig::new(FEATURES).init(&device());
    let weights = values(&net.last.weight.val());
    let bias = values(&net.last.bias.as_ref().unwrap().val())[0];
    let inputs = values(&batch(3).0);
    let predictor = predictor(net, 5).with_dropout().unwrap();
    let drawn = values(&outputs(&predictor, 3, DRAWS));
    for row in 0..3 {
        let terms = weights.iter().zip(&inputs[row * FEATURES..]);
        let terms: Vec<f64> = terms.map(|(weight, input)| weight * input).collect();
        let mean = bias + terms.iter().sum::<f64>();
        let squares: f64 = terms.iter().map(|term| term * term).sum();
        let variance = probability / (1.0 - probability) * squares;
        let found: Vec<f64> = drawn.iter().skip(row).step_by(3).copied().collect();
        let found_mean = found.iter().sum::<f64>() / DRAWS as f64;
        let deviations = found.iter().map(|value| (value - found_mean).powi(2));
        let found_variance = deviations.sum::<f64>() / (DRAWS - 1) as f64;
        let standard_error = (variance / DRAWS as f64).sqrt();
        assert!(
            (found_mean - mean).abs() < 4.5 * standard_error,
            "{found_mean} {mean}"
        );
        // A mask has the excess kurtosis 1/(p(1 − p)) − 6, here below zero, so that of a normal variable is larger.
        let standard_error = variance * (2.0 / DRAWS as f64).sqrt();
        let off = (found_variance - variance).abs();
        assert!(off < 4.5 * standard_error, "{found_variance} {variance}");
    }
}

#[test]
fn batch_norm_uses_its_running_statistics_and_keeps_them() {
    let _alone = alone();
    // Dropout of probability zero does nothing, so only batch norm could differ.
    let net = net(Some(0.0));
    let plain = predictor(net.clone(), 1);
    let masked = plain.clone().with_dropout().unwrap();
    let expected = plain.predict(batch(5), 2).unwrap();
    let found = masked.predict(batch(5), 2).unwrap();
    assert_eq!(bits(&found.output), bits(&expected.output));
    let statistics = |model: &Net| {
        let norm = &model.norm;
        [
            norm.running_mean.value_sync(),
            norm.running_var.value_sync(),
        ]
        .map(|value| bits(&value))
    };
    assert_eq!(statistics(&masked.mean_model().unwrap()), statistics(&net));
}

#[test]
fn a_model_without_dropout_is_refused() {
    let _alone = alone();
    let error = predictor(net(None), 1).with_dropout().unwrap_err();
    assert!(error.is_config());
    assert!(error.to_string().contains("no dropout"), "{error}");
}

#[test]
fn a_posterior_may_have_masks_as_well() {
    let _alone = alone();
    // `Bayesian` switches dropout off; the predictor switches it on.
    let net = filled(Net::new(FEATURES, Some(0.4), &autodiff()), 1, 0.7);
    let bayesian = BayesianConfig::new(100, VifaConfig::new().with_rank(2)).init(net);
    let plain = bayesian.predictor().unwrap();
    let masked = plain.clone().with_dropout().unwrap();
    let inputs = batch(4).0.autodiff();
    let outputs = |predictor: &Predictor<Net>| {
        let outputs = predictor.map_draws(3, |net: &Net| net.forward(inputs.clone()));
        outputs.unwrap().iter().map(bits).collect::<Vec<_>>()
    };
    assert_ne!(outputs(&masked), outputs(&plain));
    assert_eq!(outputs(&masked), outputs(&masked));
    // The rows of a pair of antithetic draws have masks of their own.
    assert_ne!(outputs(&masked)[0], outputs(&masked)[1]);
}

impl TrainerModel for Net {}

struct Rows;

impl Batches for Rows {
    type Batch = Batch;

    fn per_epoch(&self) -> usize {
        5
    }

    fn epoch(&self, epoch: usize, first: usize) -> impl Iterator<Item = Batch> {
        (first..5).map(move |index| {
            let (seed, rows) = (10 * epoch + index, if index == 4 { 1 } else { 4 });
            let inputs = matrix(rows, FEATURES, &normals(seed as u64, rows * FEATURES));
            let targets = matrix(rows, 1, &normals(99, rows));
            (Tensor::from_inner(inputs), Tensor::from_inner(targets))
        })
    }
}

/// Interrupts after some steps.
struct After(Cell<u64>, Option<Checkpoint>);

impl<L> TrainingObserver<L> for After {
    type Error = Error;

    fn interrupts(&self) -> bool {
        // Other uses of the generator between two steps change nothing.
        device().seed(self.0.get());
        self.0.replace(self.0.get().wrapping_sub(1)) == 0
    }

    fn checkpoint(
        &mut self,
        _when: CheckpointTime,
        checkpoint: &dyn Fn() -> Result<Checkpoint>,
    ) -> Result<()> {
        self.1 = Some(checkpoint()?);
        Ok(())
    }
}

/// Resumes after every possible number of steps.
fn resumes_exactly<L: TrainerModel + TrainStep<Input = Batch>>(model: impl Fn() -> L) {
    for accumulation in [1, 2] {
        let trainer = || {
            Trainer::new(model(), AdamConfig::new().init(), 0.01)
                .with_epochs(2)
                .with_accumulation(accumulation)
        };
        let run = trainer().run(&Rows, &mut ()).unwrap();
        // In inference mode, running statistics are up to date.
        let expected = state(&run.trainer.model().valid());
        let steps = run.trainer.steps();
        for after in 0..steps {
            let mut observer = After(Cell::new(after), None);
            let run = trainer().run(&Rows, &mut observer).unwrap();
            assert_eq!(run.trainer.steps(), after);
            let resumed = trainer().resumed(&observer.1.unwrap()).unwrap();
            let run = resumed.run(&Rows, &mut ()).unwrap();
            let found = state(&run.trainer.model().valid());
            assert_eq!(found, expected, "after {after} steps");
        }
    }
}

#[test]
fn a_training_with_dropout_resumes_in_the_same_bits() {
    let _alone = alone();
    let net = || filled(Net::new(FEATURES, Some(0.4), &autodiff()), 1, 0.7);
    resumes_exactly(net);
    resumes_exactly(|| {
        BayesianConfig::new(17, VifaConfig::new())
            .init(net())
            .with_dropout()
    });
    resumes_exactly(|| {
        BayesianConfig::new(17, SwagConfig::new().with_start(Some(1)))
            .init(net())
            .with_dropout()
    });
    resumes_exactly(|| {
        BayesianConfig::new(17, IvonConfig::new())
            .init(net())
            .with_dropout()
    });
    // Every step has other masks, and so has every seed.
    let trained = |seed| {
        let trainer = Trainer::new(net(), AdamConfig::new().init(), 0.01).with_seed(seed);
        let run = trainer.run(&Rows, &mut ()).unwrap();
        state(run.trainer.model())
    };
    assert_eq!(trained(1), trained(1));
    assert_ne!(trained(1), trained(2));
}
