//! Linearised predictions in closed form, compared with Jacobians by ordinary autodiff and a dense covariance.

use std::sync::Arc;

use burn::module::{Module, ParamGroup};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::Tensor;
use burn::tensor::activation::tanh;
use burn::train::{RegressionOutput, TrainOutput, TrainStep};
use burn_bayes::graph::{CapturedModel, Layout};
use burn_bayes::laplace::{Linearized, ModelOutputs};
use burn_bayes::likelihood::Likelihood;
use burn_bayes::posterior::FormKind;
use burn_bayes::{ExampleLoss, FactorPosterior, Noise, Predictor};

use crate::support::{
    EPSILON, assert_close, autodiff, device, filled, matrix, normals, values, vector,
};

/// The sum over positions of tanh(x W + b), or one position only, times V.
#[derive(Module, Debug)]
struct Net {
    hidden: Linear,
    output: Linear,
}

const FEATURES: usize = 3;
const UNITS: usize = 5;
const ROWS: usize = 37;

impl Net {
    fn new(outputs: usize) -> Self {
        let device = autodiff();
        let net = Self {
            hidden: LinearConfig::new(FEATURES, UNITS).init(&device),
            output: LinearConfig::new(UNITS, outputs).init(&device),
        };
        filled(net, 5, 0.8)
    }
}

impl ModelOutputs for Net {
    type Features = Tensor<3>;

    fn features((inputs, _): (Tensor<3>, Tensor<2>)) -> Tensor<3> {
        inputs
    }

    fn outputs(&self, inputs: Tensor<3>) -> Tensor<2> {
        let hidden = tanh(self.hidden.forward(inputs)).sum_dim(1);
        self.output.forward(hidden.squeeze_dim(1))
    }

    fn likelihood(&self) -> Likelihood {
        Likelihood::Gaussian {
            noise_precision: 1.0,
        }
    }
}

impl ExampleLoss for Net {
    fn example_losses(&self, (inputs, targets): (Tensor<3>, Tensor<2>)) -> Tensor<1> {
        self.likelihood().losses(self.outputs(inputs), targets)
    }
}

impl TrainStep for Net {
    type Input = (Tensor<3>, Tensor<2>);
    type Output = RegressionOutput;

    fn step(&self, (inputs, targets): Self::Input) -> TrainOutput<RegressionOutput> {
        let outputs = self.outputs(inputs.clone());
        let loss = self.example_losses((inputs, targets.clone())).mean();
        TrainOutput::new(
            self,
            loss.backward(),
            RegressionOutput::new(loss, outputs, targets),
        )
    }
}

/// `[ROWS, positions, FEATURES]`.
fn inputs(positions: usize) -> Tensor<3> {
    let numbers = normals(1, ROWS * positions * FEATURES);
    matrix(ROWS, positions * FEATURES, &numbers).reshape([ROWS, positions, FEATURES])
}

/// A posterior with two factors of this size over the weights of a network.
fn posterior(net: &Net, form: FormKind, size: f32) -> FactorPosterior {
    let layout = Arc::new(Layout::new(net, &ParamGroup::all()).unwrap());
    let len = layout.len();
    let mean = layout.flatten(net).unwrap().without_autodiff();
    let factors: Vec<f32> = normals(2, 2 * len)
        .iter()
        .map(|value| size * value)
        .collect();
    let diagonal: Vec<f32> = normals(3, len)
        .iter()
        .map(|value| 0.2 + value.abs())
        .collect();
    let (factors, diagonal) = (Some(matrix(2, len, &factors)), vector(&diagonal));
    match form {
        FormKind::Covariance => FactorPosterior::covariance(layout, mean, factors, diagonal),
        FormKind::Precision => FactorPosterior::precision(layout, mean, factors, diagonal),
    }
    .unwrap()
}

/// J Σ Jᵀ of every row, `[ROWS, C, C]`.
fn expected(
    net: &Net,
    posterior: &FactorPosterior,
    inputs: &Tensor<3>,
    outputs: usize,
) -> Vec<f64> {
    let jacobians: Vec<Vec<f64>> = (0..outputs)
        .map(|output| {
            let value = move |net: &Net, inputs: Tensor<3>| {
                net.outputs(inputs).narrow(1, output, 1).squeeze_dim(1)
            };
            let captured = CapturedModel::new(posterior.layout().clone(), value);
            let looped = captured.looped(net, inputs).unwrap();
            values(&looped.gradients.materialise())
        })
        .collect();
    let covariance = posterior.to_dense().unwrap();
    let covariance = covariance.covariance();
    let len = posterior.len();
    let mut all = Vec::new();
    for row in 0..ROWS {
        for left in &jacobians {
            let product = covariance.multiply_vector(&left[row * len..(row + 1) * len]);
            let product = product.unwrap();
            for right in &jacobians {
                let right = &right[row * len..(row + 1) * len];
                all.push(product.iter().zip(right).map(|(p, r)| p * r).sum());
            }
        }
    }
    all
}

#[test]
fn variances_and_covariances_are_the_dense_ones() {
    for (outputs, positions) in [(1, 1), (3, 1), (2, 4)] {
        let net = Net::new(outputs);
        let inputs = inputs(positions);
        for form in [FormKind::Covariance, FormKind::Precision] {
            let posterior = posterior(&net, form, 0.5);
            let expected = expected(&net, &posterior, &inputs, outputs);
            let linearized = Linearized::new(net.clone(), posterior).unwrap();
            let largest = expected
                .iter()
                .fold(0.0, |most: f64, entry| most.max(entry.abs()));
            let what = format!("{outputs} outputs, {positions} positions, {form:?}");
            let found = values(&linearized.covariance(&inputs).unwrap());
            let scales = vec![largest; found.len()];
            assert_close(&what, &found, &expected, &scales, 64.0 * EPSILON);
            let found = linearized.outputs(&inputs).unwrap();
            let variances: Vec<f64> = expected
                .chunks(outputs * outputs)
                .flat_map(|block| (0..outputs).map(|at| block[at * outputs + at]))
                .collect();
            let scales = vec![largest; variances.len()];
            assert_close(
                &what,
                &values(&found.variance),
                &variances,
                &scales,
                64.0 * EPSILON,
            );
            let means = net.valid().outputs(inputs.clone());
            assert_close(
                "mean",
                &values(&found.mean),
                &values(&means),
                &vec![10.0; variances.len()],
                8.0 * EPSILON,
            );
        }
    }
}

#[test]
fn a_variance_far_below_its_terms_keeps_its_digits() {
    // One row of features is nearly determined by the data: its gradient is a factor.
    let net = Net::new(1);
    let inputs = inputs(1);
    let base = posterior(&net, FormKind::Precision, 0.5);
    let value = |net: &Net, inputs: Tensor<3>| net.outputs(inputs).squeeze_dim(1);
    let captured = CapturedModel::new(base.layout().clone(), value);
    let gradients = captured.looped(&net, &inputs).unwrap().gradients;
    let rows = gradients.materialise().slice([3..5, 0..base.len()]) * 1e3;
    let determined = FactorPosterior::precision(
        base.layout().clone(),
        base.mean(),
        Some(rows),
        base.diagonal(),
    )
    .unwrap();
    let expected = expected(&net, &determined, &inputs, 1);
    let linearized = Linearized::new(net, determined).unwrap();
    let found = values(&linearized.outputs(&inputs).unwrap().variance);
    assert!(expected[3] < 1e-5 && expected[10] > 1e-2, "{expected:?}");
    // The variances 3 and 4 are a millionth of their terms, whose rounding is relative to 10⁻³ of them.
    for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let error = (found / expected - 1.0).abs();
        assert!(error < 1e-3, "row {row}: {found}, {expected}");
    }
}

#[test]
fn a_predictor_has_the_same_closed_form() {
    let net = Net::new(2);
    let inputs = inputs(1);
    let posterior = posterior(&net, FormKind::Covariance, 0.01);
    let linearized = Linearized::new(net.clone(), posterior.clone()).unwrap();
    let predictor = Predictor::new(net, posterior, Noise::new(1)).unwrap();
    let found = predictor.linearized().unwrap().outputs(&inputs).unwrap();
    let expected = linearized.outputs(&inputs).unwrap();
    assert_eq!(values(&found.variance), values(&expected.variance));
    // An empty part of the rows, after others.
    let none = 0..0;
    let error = linearized.outputs(&inputs.clone().slice([none]));
    let error = error.unwrap_err();
    assert!(error.to_string().contains("have no examples"), "{error}");
    let draws = linearized.draws(&inputs, Noise::new(2), 4000).unwrap();
    let variances = values(&draws.var(0).reshape([2 * ROWS]).to_device(&device()));
    let scales = values(&expected.variance);
    // The relative standard error of a variance of 4000 draws is √(2/4000) = .022.
    assert_close("draws", &variances, &scales, &scales, 0.1);
}
