//! Posteriors of trained models, compared with the formulas.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::Tensor;
use burn::train::{RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::graph::losses;
use burn_bayes::train::{Laplace, PostHoc};
use burn_bayes::{ExampleLoss, Noise, Predictor, Prior};

use crate::support::{EPSILON, assert_close, autodiff, bits, filled, matrix, normals, values};

#[derive(Module, Debug)]
struct Line {
    layer: Linear,
}

type Batch = (Tensor<2>, Tensor<2>);

impl ExampleLoss for Line {
    fn example_losses(&self, (inputs, targets): Batch) -> Tensor<1> {
        losses::gaussian(self.layer.forward(inputs), targets, 1.0)
    }

    fn example_outputs(&self, (inputs, targets): Batch, losses: Tensor<1>) -> RegressionOutput {
        let outputs = self.clone().no_grad().layer.forward(inputs);
        RegressionOutput::new(losses.mean(), outputs, targets)
    }
}

impl TrainStep for Line {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        self.mean_loss_step(batch)
    }
}

const ROWS: usize = 7;
const ALPHA: f64 = 0.3;

/// Rows `first..end`.
fn batch(first: usize, end: usize) -> Batch {
    let (inputs, targets) = (normals(1, 2 * ROWS), normals(2, ROWS));
    let rows = end - first;
    (
        matrix(rows, 2, &inputs[2 * first..2 * end]),
        matrix(rows, 1, &targets[first..end]),
    )
}

#[test]
fn laplace_has_the_empirical_fisher_information_of_all_batches() {
    let layer = LinearConfig::new(2, 1).init(&autodiff());
    let model = filled(Line { layer }, 3, 0.5);
    let batches = [batch(0, 4), batch(4, ROWS)];
    // The batches are half of the training data.
    // ANCHOR: fit
    let laplace = Laplace::new(2 * ROWS).with_prior(Prior::isotropic(ALPHA));
    let posterior = laplace.fit(&model, batches).unwrap();
    // ANCHOR_END: fit

    let weights = values(&posterior.mean());
    let (inputs, targets) = batch(0, ROWS);
    let (inputs, targets) = (values(&inputs), values(&targets));
    let mut expected = vec![ALPHA; 3];
    for (row, target) in inputs.chunks(2).zip(&targets) {
        let features = [row[0], row[1], 1.0];
        let output: f64 = features.iter().zip(&weights).map(|(x, w)| x * w).sum();
        for (sum, feature) in expected.iter_mut().zip(features) {
            *sum += 2.0 * ((output - target) * feature).powi(2);
        }
    }
    let found = values(&posterior.diagonal());
    assert_close("precision", &found, &expected, &expected, 64.0 * EPSILON);
    assert_eq!(
        bits(&posterior.mean()),
        bits(&posterior.layout().flatten(&model).unwrap())
    );
    assert!(Predictor::new(model, posterior, Noise::host(0)).is_ok());
}

#[test]
fn laplace_needs_examples() {
    let layer = LinearConfig::new(2, 1).init(&autodiff());
    let model = Line { layer };
    let none: [Batch; 0] = [];
    let error = Laplace::new(ROWS).fit(&model, none).unwrap_err();
    assert!(error.is_config(), "{error}");
    let error = Laplace::new(0).fit(&model, [batch(0, 2)]).unwrap_err();
    assert!(error.to_string().starts_with("train_len"), "{error}");
}
