//! Jacobians and curvatures of the test network in double precision.

use burn::module::ParamGroup;
use burn_bayes::algebra::SquareMatrix;
use burn_bayes::graph::Layout;
use burn_bayes::likelihood::Likelihood;

use super::{BETA, FEATURES, Net, batches};
use crate::support::values;

pub(super) struct Dense {
    likelihood: Likelihood,
    /// The inputs of the last layer, of every row.
    hidden: Vec<Vec<f64>>,
    /// f, of every row.
    outputs: Vec<Vec<f64>>,
    /// J, of every row: one gradient for each output.
    jacobians: Vec<Vec<Vec<f64>>>,
}

impl Dense {
    /// The network at all rows of the training data.
    pub(super) fn of(net: &Net) -> Self {
        let layout = Layout::new(net, &ParamGroup::all()).unwrap();
        let weights = values(&layout.flatten(net).unwrap());
        let [width, outputs] = net.output.weight.dims();
        assert!(net.hidden.is_some());
        let mut dense = Self {
            likelihood: net.likelihood.clone(),
            hidden: Vec::new(),
            outputs: Vec::new(),
            jacobians: Vec::new(),
        };
        for (inputs, _) in batches(net) {
            for row in values(&inputs).chunks(FEATURES) {
                dense.add(&weights, row, width, outputs);
            }
        }
        dense
    }

    fn add(&mut self, weights: &[f64], row: &[f64], width: usize, outputs: usize) {
        let (hidden, output) = weights.split_at((FEATURES + 1) * width);
        let activation = |unit: usize| {
            let inputs = row.iter().enumerate();
            let sum: f64 = inputs.map(|(i, x)| x * hidden[i * width + unit]).sum();
            (sum + hidden[FEATURES * width + unit]).tanh()
        };
        let units: Vec<f64> = (0..width).map(activation).collect();
        let mut values = Vec::new();
        let mut jacobian = Vec::new();
        for c in 0..outputs {
            let inputs = units.iter().enumerate();
            let sum: f64 = inputs.map(|(h, unit)| unit * output[h * outputs + c]).sum();
            values.push(sum + output[width * outputs + c]);
            // ∂f_c/∂(unit's pre-activation).
            let delta = |h: usize| output[h * outputs + c] * (1.0 - units[h] * units[h]);
            let mut gradient = Vec::with_capacity(weights.len());
            for input in row.iter().chain(&[1.0]) {
                gradient.extend((0..width).map(|h| input * delta(h)));
            }
            for unit in units.iter().chain(&[1.0]) {
                gradient.extend((0..outputs).map(|other| if other == c { *unit } else { 0.0 }));
            }
            jacobian.push(gradient);
        }
        self.hidden.push(units);
        self.outputs.push(values);
        self.jacobians.push(jacobian);
    }

    /// D.
    pub(super) fn len(&self) -> usize {
        self.jacobians[0][0].len()
    }

    /// Λ of a row.
    fn curvature(&self, outputs: &[f64]) -> Vec<Vec<f64>> {
        let count = outputs.len();
        let exponentials: Vec<f64> = outputs.iter().map(|f| f.exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        let probability = |at: usize| exponentials[at] / (1.0 + exponentials[at]);
        let entry = |a: usize, b: usize| {
            let equal = if a == b { 1.0 } else { 0.0 };
            let sigmoid = probability(a);
            match &self.likelihood {
                Likelihood::Gaussian { .. } => BETA * equal,
                Likelihood::GaussianTargets { noise_precisions } => noise_precisions[a] * equal,
                Likelihood::Categorical => exponentials[a] / sum * (equal - exponentials[b] / sum),
                Likelihood::Bernoulli => sigmoid * (1.0 - sigmoid) * equal,
                Likelihood::Ordinal => {
                    let reached: f64 = (0..a).map(probability).product();
                    reached * sigmoid * (1.0 - sigmoid) * equal
                }
                Likelihood::HeteroscedasticGaussian => match exponentials.get(a + count / 2) {
                    Some(variance) => equal / variance,
                    None => 0.5 * equal,
                },
                _ => exponentials[a] * equal,
            }
        };
        (0..count)
            .map(|a| (0..count).map(|b| entry(a, b)).collect())
            .collect()
    }

    /// Σᵢ JᵢᵀΛᵢJᵢ + α I.
    pub(super) fn precision(&self, alpha: f64) -> Vec<f64> {
        self.precision_of(&vec![alpha; self.len()])
    }

    /// Σᵢ JᵢᵀΛᵢJᵢ + diag α.
    pub(super) fn precision_of(&self, alpha: &[f64]) -> Vec<f64> {
        let len = self.len();
        let mut sum = vec![0.0; len * len];
        (0..len).for_each(|at| sum[at * len + at] = alpha[at]);
        for (jacobian, outputs) in self.jacobians.iter().zip(&self.outputs) {
            let curvature = self.curvature(outputs);
            for (a, left) in jacobian.iter().enumerate() {
                for (b, right) in jacobian.iter().enumerate() {
                    for (row, l) in left.iter().enumerate() {
                        for (column, r) in right.iter().enumerate() {
                            sum[row * len + column] += curvature[a][b] * l * r;
                        }
                    }
                }
            }
        }
        sum
    }

    /// (Σᵢ aᵢaᵢᵀ) ⊗ (1/M Σᵢ Λᵢ) for the weight and Σᵢ Λᵢ for the bias of the last layer.
    pub(super) fn kronecker(&self) -> Vec<f64> {
        let (height, width) = (self.hidden[0].len(), self.outputs[0].len());
        let len = (height + 1) * width;
        let rows = self.hidden.len() as f64;
        let inputs = |i: usize, j: usize| self.hidden.iter().map(|a| a[i] * a[j]).sum::<f64>();
        let outputs = |c: usize, d: usize| {
            let curvatures = self
                .outputs
                .iter()
                .map(|outputs| self.curvature(outputs)[c][d]);
            curvatures.sum::<f64>()
        };
        let mut product = vec![0.0; len * len];
        for c in 0..width {
            for d in 0..width {
                for i in 0..height {
                    for j in 0..height {
                        product[(i * width + c) * len + j * width + d] =
                            inputs(i, j) * outputs(c, d) / rows;
                    }
                }
                product[(height * width + c) * len + height * width + d] = outputs(c, d);
            }
        }
        product
    }

    /// f of all rows.
    pub(super) fn outputs(&self) -> Vec<f64> {
        self.outputs.concat()
    }

    /// J Σ Jᵀ of every row, one after the other.
    pub(super) fn output_covariances(&self, covariance: &SquareMatrix) -> Vec<f64> {
        let mut all = Vec::new();
        for jacobian in &self.jacobians {
            for left in jacobian {
                let product = covariance.multiply_vector(left).unwrap();
                for right in jacobian {
                    all.push(product.iter().zip(right).map(|(p, r)| p * r).sum());
                }
            }
        }
        all
    }

    /// f + J Δ of all rows.
    pub(super) fn linearised(&self, shift: &[f64]) -> Vec<f64> {
        let gradients = self.jacobians.iter().flatten();
        let changes = gradients.map(|g| g.iter().zip(shift).map(|(g, s)| g * s).sum::<f64>());
        self.outputs()
            .iter()
            .zip(changes)
            .map(|(f, change)| f + change)
            .collect()
    }
}
