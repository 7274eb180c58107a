//! The gradients of divergences between distributions of functions, against finite differences of closed forms in double
//! precision.

use burn_bayes::kernels::{CovarianceParts, Diagonal, FactorUnits};

use super::*;

/// A Gaussian of rank 2 around the weights of a proposal.
fn gaussian(proposal: &Proposal) -> CovarianceParts {
    let mean = proposal.draws[0].weights.clone();
    let [len] = mean.dims();
    let device = mean.device();
    let factors = Noise::new(21).normal(2 * len, &device);
    let log_variance = Noise::new(22).normal(len, &device);
    CovarianceParts {
        mean,
        factors: Some(factors.reshape([2, len])),
        units: FactorUnits::Deviations,
        diagonal: Diagonal::LogVariance(log_variance.mul_scalar(0.5).sub_scalar(3.0)),
    }
}

/// Σ, row-major.
fn dense_covariance(gaussian: &CovarianceParts) -> Vec<f64> {
    let gaussian = gaussian.clone().in_units_of_weights();
    let mut covariance = product(&gaussian.factors.unwrap());
    let variance = to_host(gaussian.diagonal.variance());
    let len = variance.len();
    for (at, variance) in variance.iter().enumerate() {
        covariance[at * (len + 1)] += variance;
    }
    covariance
}

/// A linear model's outputs, one output after the other: f = f₀ + J(c − c₀), with the covariance S = JΣJᵀ + σ²I.
struct Dense {
    jacobian: Vec<f64>,
    outputs: Vec<f64>,
    /// The inverse of the prior's covariance, with the outputs as blocks.
    inverse: SquareMatrix,
    noise: f64,
    len: usize,
}

impl Dense {
    fn new(comparison: &Comparison<Net>, proposal: &Proposal, weights: &Tensor<1>) -> Self {
        let net = Net::new(&autodiff());
        let prior = &comparison.prior;
        let noise = proposal.id.noise(comparison.noise).fold(MEASUREMENT);
        let points = prior.points.draw(COUNT, noise.fold(0)).unwrap();
        let factor = prior.kernel.factor(&points, RELATIVE_JITTER).unwrap();
        let inverse = factor.inverse();
        let variances = prior.kernel.variances(&points).unwrap();
        let places = Places {
            features: from_host(points.as_slice(), [COUNT, 3], &weights.device()),
            factor,
            points,
        };
        let at = At::new(comparison, &net, weights.clone(), &places).unwrap();
        let rows = (0..OUTPUTS).map(|output| at.jacobian(output).unwrap().materialise());
        let jacobian = to_host(Tensor::cat(rows.collect(), 0));
        let outputs = to_host(at.outputs.clone().transpose().reshape([COUNT * OUTPUTS]));
        let inverse = SquareMatrix::from_fn(COUNT * OUTPUTS, |i, j| match i / COUNT == j / COUNT {
            true => inverse.get(i % COUNT, j % COUNT),
            false => 0.0,
        });
        Self {
            jacobian,
            outputs,
            inverse,
            noise: RELATIVE_JITTER * variances.iter().sum::<f64>() / COUNT as f64,
            len: weights.dims()[0],
        }
    }

    fn count(&self) -> usize {
        COUNT * OUTPUTS
    }

    /// f, with one weight moved.
    fn mean(&self, moved: Option<(usize, f64)>) -> Vec<f64> {
        let shift =
            |row: usize| moved.map_or(0.0, |(at, step)| step * self.jacobian[row * self.len + at]);
        let values = self.outputs.iter().enumerate();
        values.map(|(row, f)| f + shift(row)).collect()
    }

    /// S.
    fn pushed(&self, covariance: &[f64]) -> SquareMatrix {
        let rows: Vec<&[f64]> = self.jacobian.chunks_exact(self.len).collect();
        let through: Vec<Vec<f64>> = rows
            .iter()
            .map(|row| {
                let column = |j: usize| {
                    let entries = row.iter().enumerate();
                    entries.map(|(i, x)| x * covariance[i * self.len + j]).sum()
                };
                (0..self.len).map(column).collect()
            })
            .collect();
        SquareMatrix::from_fn(self.count(), |i, j| {
            let entries = through[i].iter().zip(rows[j]);
            let sum: f64 = entries.map(|(left, right)| left * right).sum();
            sum + if i == j { self.noise } else { 0.0 }
        })
    }

    /// Central differences of a divergence by every weight of the mean, and by every entry of Σ, doubled.
    fn differences(
        &self,
        covariance: &[f64],
        divergence: &dyn Fn(&[f64], &SquareMatrix) -> f64,
    ) -> (Vec<f64>, Vec<f64>) {
        const STEP: f64 = 1e-5;
        let still = self.pushed(covariance);
        let mean = (0..self.len).map(|at| {
            let value = |step: f64| divergence(&self.mean(Some((at, step))), &still);
            (value(STEP) - value(-STEP)) / (2.0 * STEP)
        });
        let mean = mean.collect();
        let f = self.mean(None);
        let entries = (0..self.len * self.len).map(|at| {
            let (i, j) = (at / self.len, at % self.len);
            let value = |step: f64| {
                let mut covariance = covariance.to_vec();
                covariance[at] += 0.5 * step;
                covariance[j * self.len + i] += 0.5 * step;
                divergence(&f, &self.pushed(&covariance))
            };
            // The least variance is about 0.01.
            let step = 0.1 * STEP;
            (value(step) - value(-step)) / step
        });
        (mean, entries.collect())
    }
}

/// KL(N(f, S)‖N(m, P⁻¹)) for a precision P.
fn divergence(f: &[f64], s: &SquareMatrix, m: &[f64], precision: &SquareMatrix) -> f64 {
    let count = f.len();
    let error: Vec<f64> = f.iter().zip(m).map(|(f, m)| f - m).collect();
    let weighted = precision.multiply_vector(&error).unwrap();
    let square: f64 = error.iter().zip(&weighted).map(|(x, y)| x * y).sum();
    let trace = precision.multiply(s).unwrap().trace();
    let logs = Cholesky::new(precision).unwrap().log_determinant()
        + Cholesky::new(s).unwrap().log_determinant();
    0.5 * (trace + square - count as f64 - logs)
}

/// JᵀWJ.
fn sandwich(gradient: &DivergenceGradient) -> Vec<f64> {
    let rows = gradient.rows.clone();
    to_host(
        rows.clone()
            .transpose()
            .matmul(gradient.weights.clone().matmul(rows)),
    )
}

fn linearized(net: &Net, proposal: &Proposal) -> (Comparison<Net>, DivergenceGradient) {
    let prior = prior().with_divergence(FunctionDivergence::Linearized);
    let comparison = Comparison {
        has_rows: false,
        ..comparison(net, prior)
    };
    let terms = comparison.terms(net, &|inputs| inputs, proposal).unwrap();
    assert!(terms.gradients.is_empty() && terms.rows.is_none());
    let divergence = terms.divergence.unwrap();
    (comparison, divergence)
}

/// S has a condition number of some hundreds, whose product with the rounding of single precision is 10⁻⁴.
const COVARIANCE_TOLERANCE: f64 = 3e-4;

#[test]
fn the_linearised_gradient_is_that_of_the_closed_form() {
    let net = Net::new(&autodiff());
    let proposal = proposal(&net, 4, 1);
    let gaussian = gaussian(&proposal);
    let proposal = proposal.with_gaussian(gaussian.clone());
    let (comparison, found) = linearized(&net, &proposal);
    let dense = Dense::new(&comparison, &proposal, &gaussian.mean);
    let covariance = dense_covariance(&gaussian);
    let zero = vec![0.0; dense.count()];
    let (mean, entries) =
        dense.differences(&covariance, &|f, s| divergence(f, s, &zero, &dense.inverse));
    assert_close(&to_host(found.mean.clone()), &mean, TOLERANCE);
    assert_close(&sandwich(&found), &entries, COVARIANCE_TOLERANCE);
}

/// A stage of the mean alone has no covariance: the gradient is that of ½ fᵀK⁻¹f.
#[test]
fn without_a_covariance_only_the_energy_remains() {
    let net = Net::new(&autodiff());
    let proposal = proposal(&net, 4, 1);
    let comparison = Comparison {
        has_rows: false,
        ..comparison(
            &net,
            prior().with_divergence(FunctionDivergence::Linearized),
        )
    };
    let terms = comparison.terms(&net, &|inputs| inputs, &proposal).unwrap();
    let (_, gradient) = dense(&net, &comparison, &proposal);
    assert!(terms.divergence.is_none());
    assert_close(
        &to_host(terms.mean_gradient().unwrap()),
        &gradient,
        TOLERANCE,
    );
}

/// Functional mirror descent (chapter 4 of the report): the teacher q̂ ∝ p(y|f)^Nβ p(f)^β q_γ(f)^(1−β) is a Gaussian whose
/// natural parameters are the averages of those of the posterior and of q_γ. At q_γ, the gradient of KL(q_γ‖q̂) is β times
/// that of the objective E_q[−log p(y|f)^N] + KL(q_γ‖p): a step of functional mirror descent is one of gradient descent
/// with the learning rate times β.
#[test]
fn a_step_of_functional_mirror_descent_is_a_gradient_step() {
    const NOISE_PRECISION: f64 = 3.0;
    let net = Net::new(&autodiff());
    let proposal = proposal(&net, 4, 1);
    let gaussian = gaussian(&proposal);
    let proposal = proposal.with_gaussian(gaussian.clone());
    let (comparison, found) = linearized(&net, &proposal);
    let dense = Dense::new(&comparison, &proposal, &gaussian.mean);
    let covariance = dense_covariance(&gaussian);
    let count = dense.count();
    let targets: Vec<f64> = (0..count).map(|i| (i as f64).sin()).collect();

    // N g and N H of the loss with a target at every point.
    let (mut mean, mut entries) = (to_host(found.mean.clone()), sandwich(&found));
    for (row, jacobian) in dense.jacobian.chunks_exact(dense.len).enumerate() {
        let error = NOISE_PRECISION * (dense.outputs[row] - targets[row]);
        for (i, left) in jacobian.iter().enumerate() {
            mean[i] += error * left;
            for (j, right) in jacobian.iter().enumerate() {
                entries[i * dense.len + j] += NOISE_PRECISION * left * right;
            }
        }
    }
    let now = dense.pushed(&covariance);
    let now_precision = Cholesky::new(&now).unwrap().inverse();
    for beta in [0.05, 0.4, 1.0] {
        let teacher = SquareMatrix::from_fn(count, |i, j| {
            let data = if i == j { NOISE_PRECISION } else { 0.0 };
            beta * (data + dense.inverse.get(i, j)) + (1.0 - beta) * now_precision.get(i, j)
        });
        let before = now_precision.multiply_vector(&dense.outputs).unwrap();
        let mut center: Vec<f64> = (0..count)
            .map(|i| beta * NOISE_PRECISION * targets[i] + (1.0 - beta) * before[i])
            .collect();
        Cholesky::new(&teacher).unwrap().solve(&mut center).unwrap();
        let (by_mean, by_covariance) =
            dense.differences(&covariance, &|f, s| divergence(f, s, &center, &teacher));
        let scaled = |values: &[f64]| values.iter().map(|x| beta * x).collect::<Vec<_>>();
        assert_close(&scaled(&mean), &by_mean, COVARIANCE_TOLERANCE);
        assert_close(&scaled(&entries), &by_covariance, COVARIANCE_TOLERANCE);
    }
}
