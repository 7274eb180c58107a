//! Linear models, fitted without an optimiser.
//!
//! The negative log joint density U of the weights of a linear model is convex, so its posterior needs neither
//! learning rates nor epochs.
//!
//! * **Regression.** The posterior is N(m, H⁻¹) with H = β XᵀX + diag α. Learned noise is the fixed point
//!   1/β = (‖y − Xm‖² + tr(X H⁻¹ Xᵀ))/N, the maximum of the evidence, found in the eigenbasis of
//!   α^-½ XᵀX α^-½.
//! * **Classification.** Newton's method finds the mode. From there the fixed point of
//!   c ← c − H̄⁻¹ḡ with ḡ = E_q ∇U and H̄ = E_q ∇²U under q = N(c, H̄⁻¹) is the best Gaussian approximation; the
//!   expectations are averages over antithetic draws that are the same in every iteration.
//!
//! The posterior of a method is the member of its family with the least divergence from that Gaussian.
//!
//! Weights are in the network's order: the weight of input i for output k is number i·K + k, and the bias is the
//! last input.

use burn::module::{Module, ParamGroup};
use burn::tensor::{Tensor, TensorData};
use burn_bayes::algebra::{Cholesky, SquareMatrix, SymmetricEigen};
use burn_bayes::graph::Layout;
use burn_bayes::posterior::{DenseGaussian, FormKind};
use burn_bayes::{FactorPosterior, Noise};

use super::TrainedModel;
use super::algorithms::{network, weights};
use super::method::rank;
use super::noise::BOUNDS;
use crate::error::{Result, TabularError};
use crate::rows::{Target, TrainingSet};
use crate::settings::{FitSettings, Method, NoisePrecision, Solver};

/// The largest number of weights, whose curvature is a dense matrix.
const MOST_WEIGHTS: usize = 1000;
/// The largest number of multiplications that one curvature matrix may take.
const MOST_WORK: f64 = 4e10;
/// Newton steps to the mode, and iterations of the noise; both stop early.
const MOST_STEPS: usize = 100;
/// Steps of the expectations after the mode, with a dense covariance and with that of the family.
const DENSE_STEPS: usize = 8;
const FAMILY_STEPS: usize = 2;
/// Antithetic pairs of draws of the expectations.
const PAIRS: u64 = 32;
/// A Newton step has converged below this decrement, in nats.
const CONVERGED: f64 = 1e-9;
/// The random stream of the draws.
const DRAWS: u64 = 0x6c69_6e65;

/// Whether a fit is solved directly.
pub(super) fn applies(training_set: &TrainingSet, settings: &FitSettings) -> bool {
    if settings.solver == Solver::Gradient
        || !settings.model.hidden.is_empty()
        || settings.method == Method::Swag
    {
        return false;
    }
    let count = weights(settings, training_set.width(), training_set.meaning());
    let count = count.unwrap_or(usize::MAX);
    let work = training_set.rows() as f64 * (count as f64).powi(2);
    count <= MOST_WEIGHTS && work <= MOST_WORK
}

/// Fits a linear model.
pub(super) fn fit(training_set: &TrainingSet, settings: &FitSettings) -> Result<TrainedModel> {
    let device = settings.device.device()?;
    let target = training_set.meaning();
    let design = Design::new(training_set, settings);
    let (precision, gaussian) = match target {
        Target::Real(_) => design.regression(settings)?,
        Target::Classes(_) => (1.0, design.classification(settings)?),
    };
    let trained = device.clone().autodiff();
    let network = network(settings, training_set.width(), target, precision, &trained);
    let layout = Layout::new(&network, &ParamGroup::all()).map_err(burn_bayes::Error::from)?;
    let vector = |values: &[f64]| {
        let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        Tensor::<1>::from_data(TensorData::new(values, [design.len()]), &device)
    };
    let mean = vector(gaussian.mean());
    let network = layout.write(network.valid(), mean.clone());
    let network = network.map_err(burn_bayes::Error::from)?;
    let posterior = match family(settings, design.len())? {
        None => None,
        Some((form, rank)) => {
            let nearest = gaussian.nearest(form, rank, &[])?;
            let factors: Vec<f32> = nearest.factors.iter().map(|&value| value as f32).collect();
            let rows = factors.len() / design.len();
            let factors = (rows > 0).then(|| {
                Tensor::<2>::from_data(TensorData::new(factors, [rows, design.len()]), &device)
            });
            let diagonal = vector(&nearest.diagonal);
            let layout = layout.into();
            Some(match form {
                FormKind::Covariance => {
                    FactorPosterior::covariance(layout, mean, factors, diagonal)?
                }
                FormKind::Precision => FactorPosterior::precision(layout, mean, factors, diagonal)?,
            })
        }
    };
    TrainedModel::new(
        &network,
        posterior,
        target.clone(),
        precision,
        settings.seed,
    )
}

/// The family of a method's posteriors; `None` for a point estimate.
fn family(settings: &FitSettings, weights: usize) -> Result<Option<(FormKind, usize)>> {
    let form = match settings.method {
        Method::Slang | Method::Vogn | Method::Von | Method::Vadam => FormKind::Precision,
        _ => FormKind::Covariance,
    };
    Ok(rank(settings, weights)?.map(|rank| (form, rank)))
}

/// The rows of a linear model, in double precision.
struct Design<'a> {
    training_set: &'a TrainingSet,
    /// Inputs with the constant of the bias.
    inputs: usize,
    outputs: usize,
    /// α of every weight.
    prior: Vec<f64>,
}

impl<'a> Design<'a> {
    fn new(training_set: &'a TrainingSet, settings: &FitSettings) -> Self {
        let outputs = training_set.meaning().outputs();
        let mut prior = vec![settings.prior_precision; training_set.width() * outputs];
        if !settings.no_intercept {
            let bias = settings
                .bias_prior_precision
                .unwrap_or(settings.prior_precision);
            prior.extend(vec![bias; outputs]);
        }
        Self {
            training_set,
            inputs: prior.len() / outputs,
            outputs,
            prior,
        }
    }

    /// D.
    fn len(&self) -> usize {
        self.prior.len()
    }

    /// Every row's inputs, with 1 for the bias, and targets.
    fn for_each_row(&self, mut visit: impl FnMut(usize, &[f64], &[f32])) {
        let mut inputs = vec![1.0; self.inputs];
        for (index, (features, targets)) in self.training_set.examples().enumerate() {
            for (input, &feature) in inputs.iter_mut().zip(features) {
                *input = feature.into();
            }
            visit(index, &inputs, targets);
        }
    }

    /// β and the posterior of a regression.
    fn regression(&self, settings: &FitSettings) -> Result<(f64, DenseGaussian)> {
        let len = self.len();
        let (mut gram, mut moment, mut square) = (vec![0.0; len * len], vec![0.0; len], 0.0);
        self.for_each_row(|_, inputs, targets| {
            let target = f64::from(targets[0]);
            add_outer(&mut gram, 1.0, inputs);
            add(&mut moment, target, inputs);
            square += target * target;
        });
        mirror(&mut gram, len);
        let beta = match settings.noise_precision {
            NoisePrecision::Given(precision) => match self.training_set.meaning() {
                Target::Real(scale) => precision * scale.spread * scale.spread,
                Target::Classes(_) => precision,
            },
            NoisePrecision::Learned(_) => self.evidence_noise(&gram, &moment, square)?,
        };
        let mut precision = gram;
        precision.iter_mut().for_each(|entry| *entry *= beta);
        for (at, alpha) in self.prior.iter().enumerate() {
            precision[at * len + at] += alpha;
        }
        let mut mean: Vec<f64> = moment.iter().map(|entry| beta * entry).collect();
        let matrix = SquareMatrix::from_row_major(len, precision)?;
        Cholesky::new(&matrix)?.solve(&mut mean)?;
        let gaussian = DenseGaussian::from_precision(mean, matrix.into_row_major())?;
        Ok((beta, gaussian))
    }

    /// β at the maximum of the evidence, from XᵀX, Xᵀy and yᵀy.
    fn evidence_noise(&self, gram: &[f64], moment: &[f64], square: f64) -> Result<f64> {
        let len = self.len();
        let root: Vec<f64> = self
            .prior
            .iter()
            .map(|alpha| alpha.sqrt().recip())
            .collect();
        let scaled = SquareMatrix::from_fn(len, |i, j| root[i] * gram[i * len + j] * root[j]);
        let eigen = SymmetricEigen::new(&scaled)?;
        let vectors = eigen.vectors();
        let moment: Vec<f64> = (0..len)
            .map(|k| {
                let parts = vectors.row(k).iter().zip(&root).zip(moment);
                parts
                    .map(|((entry, root), moment)| entry * root * moment)
                    .sum()
            })
            .collect();
        let values: Vec<f64> = eigen.values().iter().map(|value| value.max(0.0)).collect();
        let unit = self.training_set.target_deviation()?.powi(-2);
        let bounds = (BOUNDS.0 * unit, BOUNDS.1 * unit);
        let mut beta = bounds.0;
        for _ in 0..MOST_STEPS {
            let (mut residual, mut spread) = (square, 0.0);
            for (value, moment) in values.iter().zip(&moment) {
                let variance = 1.0 / (1.0 + beta * value);
                let weight = beta * moment * variance;
                residual += weight * (weight * value - 2.0 * moment);
                spread += value * variance;
            }
            let mean = (residual.max(0.0) + spread) / self.training_set.rows() as f64;
            let next = mean.recip().clamp(bounds.0, bounds.1);
            let change = (next / beta).ln().abs();
            beta = next;
            if change < 1e-8 {
                break;
            }
        }
        Ok(beta)
    }

    /// The best Gaussian approximation of the posterior of a classification.
    fn classification(&self, settings: &FitSettings) -> Result<DenseGaussian> {
        let mut weights = vec![0.0; self.len()];
        let mut value = self.energy(&weights);
        for _ in 0..MOST_STEPS {
            let expected = self.expected(&[weights.clone()])?;
            let (step, decrement) = expected.newton_step()?;
            if decrement < CONVERGED {
                break;
            }
            // Halved until the energy falls by a part of what the tangent says (Armijo's condition).
            let mut length = 1.0;
            loop {
                let mut next = weights.clone();
                add(&mut next, -length, &step);
                let energy = self.energy(&next);
                if energy <= value - 0.5 * length * decrement || length < 1e-6 {
                    (weights, value) = (next, energy);
                    break;
                }
                length *= 0.5;
            }
        }
        let noise = Noise::host(settings.seed).fold(DRAWS);
        let curvature = self.expected(&[weights.clone()])?.curvature;
        let mut gaussian = DenseGaussian::from_precision(weights, curvature.into_row_major())?;
        for _ in 0..DENSE_STEPS {
            gaussian = self.refined(gaussian, None, noise)?;
        }
        if let Some(family) = family(settings, self.len())? {
            for _ in 0..FAMILY_STEPS {
                gaussian = self.refined(gaussian, Some(family), noise)?;
            }
        }
        Ok(gaussian)
    }

    /// One step of the expectations, under the Gaussian itself or its nearest in a family.
    fn refined(
        &self,
        gaussian: DenseGaussian,
        family: Option<(FormKind, usize)>,
        noise: Noise,
    ) -> Result<DenseGaussian> {
        let len = self.len();
        let mean = gaussian.mean().to_vec();
        let curvature = gaussian.precision();
        let under = match family {
            None => gaussian,
            Some((form, rank)) => {
                let nearest = gaussian.nearest(form, rank, &[])?;
                let (factors, diagonal) = (&nearest.factors, &nearest.diagonal);
                DenseGaussian::from_factors(form, mean.clone(), factors, diagonal)?
            }
        };
        let mut draws = Vec::with_capacity(2 * PAIRS as usize);
        for pair in 0..PAIRS {
            let normals = noise.row(pair).latent(len);
            let normals: Vec<f64> = normals.into_iter().map(f64::from).collect();
            let draw = under.draw(&normals)?;
            draws.push(mean.iter().zip(&draw).map(|(c, w)| 2.0 * c - w).collect());
            draws.push(draw);
        }
        let mut expected = self.expected(&draws)?;
        // Half of the way in the curvature and at most a deviation for each weight in the mean, because the
        // iteration overshoots where the curvature depends strongly on the spread.
        let before = curvature.as_slice().iter();
        let halves = before.zip(expected.curvature.as_slice());
        let halves = halves
            .map(|(before, after)| 0.5 * (before + after))
            .collect();
        expected.curvature = SquareMatrix::from_row_major(len, halves)?;
        let (step, decrement) = expected.newton_step()?;
        let length = (len as f64 / (2.0 * decrement)).sqrt().min(1.0);
        let mut mean = mean;
        add(&mut mean, -length, &step);
        Ok(DenseGaussian::from_precision(
            mean,
            expected.curvature.into_row_major(),
        )?)
    }

    /// U, up to a constant.
    fn energy(&self, weights: &[f64]) -> f64 {
        let mut sum = 0.0;
        let mut logits = vec![0.0; self.outputs];
        self.for_each_row(|_, inputs, targets| {
            self.logits(weights, inputs, &mut logits);
            let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
            let own = logits.iter().zip(targets);
            let own: f64 = own.map(|(logit, &target)| logit * f64::from(target)).sum();
            sum += most + total.ln() - own;
        });
        let prior = weights.iter().zip(&self.prior);
        sum + 0.5
            * prior
                .map(|(weight, alpha)| alpha * weight * weight)
                .sum::<f64>()
    }

    fn logits(&self, weights: &[f64], inputs: &[f64], logits: &mut [f64]) {
        logits.fill(0.0);
        for (input, row) in inputs.iter().zip(weights.chunks_exact(self.outputs)) {
            add(logits, *input, row);
        }
    }

    /// The gradient and the curvature of U, averaged over weights.
    fn expected(&self, draws: &[Vec<f64>]) -> Result<Expected> {
        let (len, outputs, inputs) = (self.len(), self.outputs, self.inputs);
        let share = 1.0 / draws.len() as f64;
        let mut gradient = vec![0.0; len];
        // A block of inputs × inputs for every pair of outputs.
        let pairs: Vec<(usize, usize)> = (0..outputs)
            .flat_map(|left| (left..outputs).map(move |right| (left, right)))
            .collect();
        let mut blocks = vec![vec![0.0; inputs * inputs]; pairs.len()];
        let (mut logits, mut mean) = (vec![0.0; outputs], vec![0.0; outputs]);
        let mut products = vec![0.0; pairs.len()];
        self.for_each_row(|_, row, targets| {
            mean.fill(0.0);
            products.fill(0.0);
            for weights in draws {
                self.logits(weights, row, &mut logits);
                softmax(&mut logits);
                add(&mut mean, share, &logits);
                for (product, &(left, right)) in products.iter_mut().zip(&pairs) {
                    *product += share * logits[left] * logits[right];
                }
            }
            for (input, gradient) in row.iter().zip(gradient.chunks_exact_mut(outputs)) {
                for ((gradient, mean), &target) in gradient.iter_mut().zip(&mean).zip(targets) {
                    *gradient += input * (mean - f64::from(target));
                }
            }
            for ((block, product), &(left, right)) in blocks.iter_mut().zip(&products).zip(&pairs) {
                let own = if left == right { mean[left] } else { 0.0 };
                add_outer(block, own - product, row);
            }
        });
        for block in &mut blocks {
            mirror(block, inputs);
        }
        for weights in draws {
            for ((gradient, alpha), weight) in gradient.iter_mut().zip(&self.prior).zip(weights) {
                *gradient += share * alpha * weight;
            }
        }
        let index = |left: usize, right: usize| {
            let (left, right) = (left.min(right), left.max(right));
            left * outputs - left * (left + 1) / 2 + right
        };
        let curvature = SquareMatrix::from_fn(len, |i, j| {
            let block = &blocks[index(i % outputs, j % outputs)];
            let data = block[(i / outputs) * inputs + j / outputs];
            if i == j { data + self.prior[i] } else { data }
        });
        Ok(Expected {
            gradient,
            curvature,
        })
    }
}

/// The gradient and the curvature of U.
struct Expected {
    gradient: Vec<f64>,
    curvature: SquareMatrix,
}

impl Expected {
    /// H⁻¹g, and gᵀH⁻¹g/2.
    fn newton_step(&self) -> Result<(Vec<f64>, f64)> {
        let mut step = self.gradient.clone();
        Cholesky::new(&self.curvature)?.solve(&mut step)?;
        let products = step.iter().zip(&self.gradient);
        let decrement = 0.5
            * products
                .map(|(step, gradient)| step * gradient)
                .sum::<f64>();
        match decrement.is_finite() {
            true => Ok((step, decrement)),
            false => Err(TabularError::Numerical(
                "the curvature of the linear model is not finite; standardise the columns".into(),
            )),
        }
    }
}

fn softmax(logits: &mut [f64]) {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logits
        .iter_mut()
        .for_each(|logit| *logit = (*logit - most).exp());
    let total: f64 = logits.iter().sum();
    logits.iter_mut().for_each(|logit| *logit /= total);
}

/// target += scale · source
fn add(target: &mut [f64], scale: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target += scale * source;
    }
}

/// Adds scale · vᵀv to the upper triangle of a square matrix.
fn add_outer(matrix: &mut [f64], scale: f64, vector: &[f64]) {
    let size = vector.len();
    for (row, value) in vector.iter().enumerate() {
        add(
            &mut matrix[row * size + row..(row + 1) * size],
            scale * value,
            &vector[row..],
        );
    }
}

/// Copies the upper triangle to the lower one.
fn mirror(matrix: &mut [f64], size: usize) {
    for row in 1..size {
        for column in 0..row {
            matrix[row * size + column] = matrix[column * size + row];
        }
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes::posterior::linear_regression_posterior;
    use burn_bayes_data::{ColumnScale, Dataset, Features, Targets};

    use super::*;

    const ROWS: usize = 60;
    const WIDTH: usize = 3;

    fn normals(stream: u64, count: usize) -> Vec<f64> {
        let values = Noise::host(7).row(stream).latent(count);
        values.into_iter().map(f64::from).collect()
    }

    fn features() -> Features {
        let values = normals(1, ROWS * WIDTH);
        let values = values.into_iter().map(|value| f64::from(value as f32));
        let values: Vec<f64> = values.collect();
        Features::new(ROWS, WIDTH, values).unwrap()
    }

    fn regression() -> (Vec<f64>, TrainingSet) {
        let (features, noise) = (features(), normals(2, ROWS));
        let rows = features.values().chunks(WIDTH).zip(&noise);
        let targets =
            rows.map(|(row, noise)| f64::from((row[0] - 0.5 * row[2] + 0.3 * noise) as f32));
        let targets: Vec<f64> = targets.collect();
        let scale = ColumnScale {
            centre: 1.0,
            spread: 2.0,
        };
        let dataset = Dataset::new(features, Targets::Real(targets.clone())).unwrap();
        (
            targets,
            TrainingSet::new(&dataset, Target::Real(scale)).unwrap(),
        )
    }

    fn settings(method: Method) -> FitSettings {
        FitSettings {
            method,
            model: "linear".parse().unwrap(),
            no_intercept: true,
            prior_precision: 0.7,
            ..FitSettings::default()
        }
    }

    #[test]
    fn a_regression_is_the_exact_posterior_projected_on_the_family() {
        let (targets, training_set) = regression();
        let given = FitSettings {
            // In the unit of the target; 12 on the scale of the network.
            noise_precision: NoisePrecision::Given(3.0),
            ..settings(Method::Vifa)
        };
        let exact = linear_regression_posterior(features().values(), &targets, 0.7, 12.0).unwrap();
        for (method, rank, form) in [
            (Method::Vifa, Some(2), FormKind::Covariance),
            (Method::MeanField, None, FormKind::Covariance),
            (Method::Slang, Some(1), FormKind::Precision),
            (Method::Von, None, FormKind::Precision),
        ] {
            let settings = FitSettings {
                method,
                rank,
                ..given.clone()
            };
            assert!(applies(&training_set, &settings));
            let fitted = fit(&training_set, &settings).unwrap();
            let found = fitted.posterior().unwrap().to_dense().unwrap();
            let least = exact
                .nearest(form, rank.unwrap_or(0), &[])
                .unwrap()
                .divergence;
            let divergence = found.kl_divergence(&exact).unwrap();
            assert!(
                (divergence - least).abs() < 1e-4,
                "{method}: {divergence} {least}"
            );
        }
    }

    #[test]
    fn learned_noise_is_a_maximum_of_the_evidence() {
        let (targets, training_set) = regression();
        let fitted = fit(&training_set, &settings(Method::Vifa)).unwrap();
        let beta = fitted.noise_precision();
        let evidence = |beta: f64| {
            let exact = linear_regression_posterior(features().values(), &targets, 0.7, beta);
            let exact = exact.unwrap();
            let rows = features();
            let rows = rows.values().chunks(WIDTH).zip(&targets);
            let residual: f64 = rows
                .map(|(row, target)| {
                    let mean: f64 = row.iter().zip(exact.mean()).map(|(x, m)| x * m).sum();
                    (target - mean).powi(2)
                })
                .sum();
            let norm: f64 = exact.mean().iter().map(|m| m * m).sum();
            0.5 * (ROWS as f64 * beta.ln() - beta * residual - 0.7 * norm + exact.log_determinant())
        };
        for factor in [0.95, 1.05] {
            assert!(evidence(factor * beta) < evidence(beta), "{beta}");
        }
    }

    #[test]
    fn a_classification_has_the_mode_and_the_spread_of_its_posterior() {
        let features = features();
        let rows = features.values().chunks(WIDTH).zip(normals(4, ROWS));
        let classes: Vec<usize> = rows
            .map(|(row, noise)| usize::from(2.0 * row[0] - row[1] + noise > 0.0))
            .collect();
        let dataset = Dataset::new(features, Targets::Classes(classes)).unwrap();
        let target = Target::Classes(vec!["a".into(), "b".into()]);
        let training_set = TrainingSet::new(&dataset, target).unwrap();
        let design = Design::new(&training_set, &settings(Method::Map));
        let fitted = fit(&training_set, &settings(Method::Map)).unwrap();
        assert!(fitted.posterior().is_none());
        let gaussian = design.classification(&settings(Method::Map)).unwrap();
        // At the fixed point the expected gradient vanishes: the step is small in units of the deviations.
        let again = design
            .refined(gaussian.clone(), None, Noise::host(0).fold(DRAWS))
            .unwrap();
        let pairs = again
            .mean()
            .iter()
            .zip(gaussian.mean())
            .zip(gaussian.variances());
        for ((after, before), variance) in pairs {
            assert!(
                (after - before).abs() < 0.01 * variance.sqrt(),
                "{after} {before}"
            );
        }
        // The weights of two classes are each other's negative: only their difference has data.
        let mean = gaussian.mean();
        for pair in mean.chunks(2) {
            assert!((pair[0] + pair[1]).abs() < 1e-6, "{mean:?}");
        }
    }
}
