//! Linear classification, whose posterior has a best Gaussian approximation.
//!
//! Newton's method finds the mode. From there the best Gaussian q of the method's family is a fixed point: with
//! ḡ = E_q ∇U and H̄ = E_q ∇²U, the mean c goes to c − H̄⁻¹ḡ, and q to the member of the family nearest to
//! N(c, H̄⁻¹). It ends when a step changes the divergence by almost nothing.
//!
//! ∇U and ∇²U depend on the weights through the logits of each row, which are Gaussian under q. So the expectations
//! are averages over draws of the logits, independent from row to row: their errors average out over rows, where
//! those of a few draws of the weights, which all rows share, would not. The draws are antithetic, and the same in
//! every step.

use burn_bayes::Noise;
use burn_bayes::algebra::{Cholesky, SquareMatrix};
use burn_bayes::posterior::{DenseGaussian, FormKind};

use super::{Design, Family, Parts, add, add_outer, exact, mirror};
use crate::error::{Result, TabularError};
use burn_bayes::eval::Bounded;

/// Newton steps to the mode, which stop early.
const MOST_NEWTON_STEPS: usize = 100;
/// The mode is found below this decrement, in nats.
const AT_MODE: f64 = 1e-9;
/// Steps of the expectations, which stop early.
const MOST_STEPS: usize = 30;
/// The steps have converged below this change, in nats per weight.
const CONVERGED: f64 = 1e-4;
/// Antithetic pairs of draws of the logits of each row, for each unit of their deviation: the curvature of a row is
/// large only where its two largest logits differ by about one.
const PAIRS: usize = 32;
const MOST_PAIRS: usize = 4096;
/// The random stream of the draws.
const DRAWS: u64 = 0x6c69_6e65;

impl Design<'_> {
    /// The best mean and curvature of the posterior, and the member of the family with them. Without a family, those
    /// at the mode.
    pub(super) fn classification(
        &self,
        family: Option<Family>,
        seed: u64,
    ) -> Result<(DenseGaussian, Option<Parts>)> {
        let mut gaussian = self.mode()?;
        let converged = CONVERGED * self.len() as f64;
        let noise = Noise::new(seed).fold(DRAWS);
        let (form, rank) = match family {
            None => return Ok((gaussian, None)),
            Some(Family::LowRank(form, rank)) => (form, rank),
            Some(Family::Full) => {
                for _ in 0..MOST_STEPS {
                    let (next, change) =
                        self.refined(&gaussian, &Spread::full(&gaussian), noise)?;
                    gaussian = next;
                    if change < converged {
                        break;
                    }
                }
                let parts = exact::factors(&gaussian.precision())?;
                return Ok((gaussian, Some(parts)));
            }
        };
        let mut nearest = gaussian.nearest(form, rank, &[])?;
        for _ in 0..MOST_STEPS {
            let spread = Spread::new(form, &nearest.factors, &nearest.diagonal)?;
            let (next, change) = self.refined(&gaussian, &spread, noise)?;
            gaussian = next;
            nearest = gaussian.nearest_from(form, rank, &nearest.diagonal)?;
            if change < converged {
                // Another local minimum may have become the best one.
                let best = gaussian.nearest(form, rank, &[])?;
                if best.divergence > nearest.divergence - converged {
                    break;
                }
                nearest = best;
            }
        }
        Ok((gaussian, Some(Parts::of(nearest))))
    }

    /// The Gaussian with the curvature at the mode.
    pub(super) fn mode(&self) -> Result<DenseGaussian> {
        let mut weights = vec![0.0; self.len()];
        let mut value = self.energy(&weights);
        for _ in 0..MOST_NEWTON_STEPS {
            let (step, decrement) = self.at(&weights)?.newton_step()?;
            if decrement < AT_MODE {
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
        let curvature = self.at(&weights)?.curvature;
        Ok(DenseGaussian::from_precision(
            weights,
            curvature.into_row_major(),
        )?)
    }

    /// One step of the expectations under a Gaussian with the same mean and this spread, and the change in nats.
    fn refined(
        &self,
        gaussian: &DenseGaussian,
        spread: &Spread,
        noise: Noise,
    ) -> Result<(DenseGaussian, f64)> {
        let len = self.len();
        let mut expected = self.under(gaussian.mean(), spread, noise)?;
        let before = gaussian.precision();
        let ratios = before.diagonal().zip(expected.curvature.diagonal());
        let ratios = ratios.map(|(before, after)| after / before);
        let scales: f64 = ratios.map(|ratio| 0.5 * (ratio - 1.0 - ratio.ln())).sum();
        // Half of the way in the curvature and at most a deviation for each weight in the mean, because the
        // iteration overshoots where the curvature depends strongly on the spread.
        let pairs = before.as_slice().iter().zip(expected.curvature.as_slice());
        let halves = pairs.map(|(before, after)| 0.5 * (before + after));
        expected.curvature = SquareMatrix::from_row_major(len, halves.collect())?;
        let (step, decrement) = expected.newton_step()?;
        let length = (len as f64 / (2.0 * decrement)).sqrt().at_most(1.0);
        let mut mean = gaussian.mean().to_vec();
        add(&mut mean, -length, &step);
        let next = DenseGaussian::from_precision(mean, expected.curvature.into_row_major())?;
        Ok((next, decrement + scales))
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

    /// The gradient and the curvature of U at these weights.
    fn at(&self, weights: &[f64]) -> Result<Expected> {
        self.expected(weights, |_, _, logits, visit| {
            softmax(logits);
            visit(logits);
            Ok(1)
        })
    }

    /// Their expectations under the Gaussian with this mean and spread.
    fn under(&self, mean: &[f64], spread: &Spread, noise: Noise) -> Result<Expected> {
        let mut probabilities = vec![0.0; self.outputs];
        self.expected(mean, |index, row, logits, visit| {
            let root = spread.logit_root(row, self.outputs)?;
            let count = pairs(&root);
            let normals = noise.row(index as u64).latent(count * self.outputs);
            for normals in normals.chunks_exact(self.outputs) {
                for sign in [1.0, -1.0] {
                    let rows = probabilities.iter_mut().zip(&*logits).enumerate();
                    for (output, (probability, logit)) in rows {
                        let entries = root.row(output).iter().zip(normals);
                        let deviation: f64 = entries.map(|(l, &z)| l * f64::from(z)).sum();
                        *probability = logit + sign * deviation;
                    }
                    softmax(&mut probabilities);
                    visit(&probabilities);
                }
            }
            Ok(2 * count)
        })
    }

    /// The gradient and the curvature of U, averaged over the class probabilities of each row. `draws` is called with
    /// the index of a row, its inputs, its logits at `weights` and what to call for each draw of its probabilities, and
    /// returns their number.
    fn expected(
        &self,
        weights: &[f64],
        mut draws: impl FnMut(usize, &[f64], &mut [f64], &mut dyn FnMut(&[f64])) -> Result<usize>,
    ) -> Result<Expected> {
        let (len, outputs, inputs) = (self.len(), self.outputs, self.inputs);
        let mut gradient = vec![0.0; len];
        // A block of inputs × inputs for every pair of outputs.
        let pairs: Vec<(usize, usize)> = (0..outputs)
            .flat_map(|left| (left..outputs).map(move |right| (left, right)))
            .collect();
        let mut blocks = vec![vec![0.0; inputs * inputs]; pairs.len()];
        let (mut logits, mut mean) = (vec![0.0; outputs], vec![0.0; outputs]);
        let mut products = vec![0.0; pairs.len()];
        let mut failure = None;
        self.for_each_row(|index, row, targets| {
            mean.fill(0.0);
            products.fill(0.0);
            self.logits(weights, row, &mut logits);
            let found = draws(index, row, &mut logits, &mut |probabilities| {
                add(&mut mean, 1.0, probabilities);
                for (product, &(left, right)) in products.iter_mut().zip(&pairs) {
                    *product += probabilities[left] * probabilities[right];
                }
            });
            let share = match found {
                Ok(count) => 1.0 / count as f64,
                Err(error) => {
                    failure.get_or_insert(error);
                    return;
                }
            };
            mean.iter_mut().for_each(|value| *value *= share);
            for (input, gradient) in row.iter().zip(gradient.chunks_exact_mut(outputs)) {
                for ((gradient, mean), &target) in gradient.iter_mut().zip(&mean).zip(targets) {
                    *gradient += input * (mean - f64::from(target));
                }
            }
            for ((block, product), &(left, right)) in blocks.iter_mut().zip(&products).zip(&pairs) {
                let own = if left == right { mean[left] } else { 0.0 };
                add_outer(block, own - share * product, row);
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        for block in &mut blocks {
            mirror(block, inputs);
        }
        for ((gradient, alpha), weight) in gradient.iter_mut().zip(&self.prior).zip(weights) {
            *gradient += alpha * weight;
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

/// The covariance diag v ± GᵀG of a Gaussian over the weights.
struct Spread {
    /// v.
    variances: Vec<f64>,
    /// G, row by row.
    factors: Vec<f64>,
    sign: f64,
}

impl Spread {
    /// That of a dense Gaussian: the rows of G are the columns of its Cholesky factor.
    fn full(gaussian: &DenseGaussian) -> Self {
        Self {
            variances: vec![0.0; gaussian.dimension()],
            factors: gaussian.cholesky().lower().transpose().into_row_major(),
            sign: 1.0,
        }
    }

    fn new(form: FormKind, factors: &[f64], diagonal: &[f64]) -> Result<Self> {
        if form == FormKind::Covariance {
            return Ok(Self {
                variances: diagonal.to_vec(),
                factors: factors.to_vec(),
                sign: 1.0,
            });
        }
        // (UᵀU + diag d)⁻¹ = d⁻¹ − GᵀG with G = L⁻¹Ud⁻¹ and LLᵀ = I + Ud⁻¹Uᵀ.
        let variances: Vec<f64> = diagonal.iter().map(|d| d.recip()).collect();
        let len = variances.len();
        let scaled = factors.iter().zip(variances.iter().cycle());
        let mut scaled: Vec<f64> = scaled.map(|(u, v)| u * v).collect();
        let block = SquareMatrix::from_fn(factors.len() / len, |i, j| {
            let rows = factors[i * len..]
                .iter()
                .zip(&scaled[j * len..(j + 1) * len]);
            rows.map(|(u, s)| u * s).sum::<f64>() + f64::from(u8::from(i == j))
        });
        Cholesky::new(&block)?.solve_lower(&mut scaled)?;
        Ok(Self {
            variances,
            factors: scaled,
            sign: -1.0,
        })
    }

    /// L of the covariance LLᵀ of the logits of a row.
    fn logit_root(&self, inputs: &[f64], outputs: usize) -> Result<SquareMatrix> {
        let mut covariance = vec![0.0; outputs * outputs];
        let mut along = vec![0.0; outputs];
        for (input, variances) in inputs.iter().zip(self.variances.chunks_exact(outputs)) {
            add(&mut along, input * input, variances);
        }
        for (output, variance) in along.iter().enumerate() {
            covariance[output * outputs + output] = *variance;
        }
        for factor in self.factors.chunks_exact(self.variances.len()) {
            along.fill(0.0);
            for (input, factor) in inputs.iter().zip(factor.chunks_exact(outputs)) {
                add(&mut along, *input, factor);
            }
            add_outer(&mut covariance, self.sign, &along);
        }
        mirror(&mut covariance, outputs);
        let covariance = SquareMatrix::from_row_major(outputs, covariance)?;
        if covariance.trace() == 0.0 {
            // All inputs are 0.
            return Ok(covariance);
        }
        Ok(Cholesky::with_floor(&covariance)?.lower().clone())
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

/// The number of antithetic pairs of draws of logits with the covariance LLᵀ; a power of two, so that it rarely
/// differs between two steps.
fn pairs(root: &SquareMatrix) -> usize {
    let rows = (0..root.size()).map(|row| root.row(row).iter().map(|l| l * l).sum());
    let largest = rows.fold(0.0, f64::at_least).sqrt();
    (PAIRS as f64 * largest.clamp(1.0, (MOST_PAIRS / PAIRS) as f64))
        .ceil()
        .log2()
        .ceil()
        .exp2() as usize
}

fn softmax(logits: &mut [f64]) {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logits
        .iter_mut()
        .for_each(|logit| *logit = (*logit - most).exp());
    let total: f64 = logits.iter().sum();
    logits.iter_mut().for_each(|logit| *logit /= total);
}

#[cfg(test)]
mod tests {
    use burn_bayes_contrib::methods::{LogisticPosterior, LogisticRegression};
    use burn_bayes_data::{Dataset, Features, Targets};

    use super::*;
    use crate::engine::linear::fit;
    use crate::engine::linear::testing::{ROWS, WIDTH, features, normals, settings};
    use crate::rows::{Target, TrainingSet};
    use crate::settings::Method;

    /// Rows of two classes.
    fn training_set(values: Vec<f64>, is_second: &[bool]) -> TrainingSet {
        let classes = is_second.iter().map(|&class| usize::from(class));
        let features = Features::new(ROWS, WIDTH, values).unwrap();
        let dataset = Dataset::new(features, Targets::Classes(classes.collect())).unwrap();
        TrainingSet::new(&dataset, Target::Classes(vec!["a".into(), "b".into()])).unwrap()
    }

    /// Features, and whether the rows are of the second class.
    fn rows() -> (Vec<f64>, Vec<bool>) {
        let values = features().values().to_vec();
        let rows = values.chunks(WIDTH).zip(normals(4, ROWS));
        let is_second = rows.map(|(row, noise)| 2.0 * row[0] - row[1] + noise > 0.0);
        let is_second = is_second.collect();
        (values, is_second)
    }

    #[test]
    fn a_classification_has_the_mode_and_the_spread_of_its_posterior() {
        let (values, is_second) = rows();
        let training_set = training_set(values, &is_second);
        let design = Design::new(&training_set, &settings(Method::Map));
        let model = fit(&training_set, &settings(Method::Map)).unwrap();
        assert!(model.posterior().is_none());
        let (gaussian, _) = design.classification(Some(Family::Full), 0).unwrap();
        // At the fixed point the expected gradient vanishes: the step is small in units of the deviations, also with
        // other draws.
        let spread = Spread::full(&gaussian);
        let other = Noise::new(1).fold(DRAWS);
        let (again, _) = design.refined(&gaussian, &spread, other).unwrap();
        let pairs = again
            .mean()
            .iter()
            .zip(gaussian.mean())
            .zip(gaussian.variances());
        for ((after, before), variance) in pairs {
            assert!(
                (after - before).abs() < 0.02 * variance.sqrt(),
                "{after} {before}"
            );
        }
        // The weights of two classes are each other's negative: only their difference has data.
        let mean = gaussian.mean();
        for pair in mean.chunks(2) {
            assert!((pair[0] + pair[1]).abs() < 1e-6, "{mean:?}");
        }
    }

    #[test]
    fn the_full_gaussian_of_two_classes_is_that_of_a_logistic_regression() {
        let (values, is_second) = rows();
        let training_set = training_set(values.clone(), &is_second);
        let settings = settings(Method::FullGaussian);
        let model = fit(&training_set, &settings).unwrap();
        let found = model.posterior().unwrap().to_dense().unwrap();
        // The difference of two weights of precision α has the precision α/2.
        let prior = settings.prior_precision.initial() / 2.0;
        let rows = LogisticRegression::new(&values, &is_second, prior).unwrap();
        let expected = rows.posterior(LogisticPosterior::Full).unwrap();
        let covariance = |i: usize, j: usize| {
            let entry = |left, right| found.covariance().get(2 * i + left, 2 * j + right);
            entry(1, 1) - entry(1, 0) - entry(0, 1) + entry(0, 0)
        };
        for i in 0..WIDTH {
            let deviation = expected.variances()[i].sqrt();
            let mean = found.mean()[2 * i + 1] - found.mean()[2 * i];
            let error = (mean - expected.mean()[i]).abs();
            // At least 64 draws for each of the 60 rows: about 1/√3840 of a deviation.
            assert!(error < 0.05 * deviation, "{error} {deviation}");
            for j in 0..WIDTH {
                let scale = deviation * expected.variances()[j].sqrt();
                let error = (covariance(i, j) - expected.covariance().get(i, j)).abs();
                assert!(error < 0.05 * scale, "{error} {scale}");
            }
        }
    }

    #[test]
    fn rows_with_very_uncertain_logits_converge_too() {
        // A feature of a single row has the spread of its prior, so that the logits of this row are far apart in most
        // draws.
        let mut values = features().values().to_vec();
        values
            .iter_mut()
            .skip(2)
            .step_by(WIDTH)
            .for_each(|value| *value = 0.0);
        values[2] = 40.0;
        let is_second = (0..ROWS).map(|row| values[row * WIDTH] > 0.0);
        let is_second: Vec<bool> = is_second.collect();
        let training_set = training_set(values, &is_second);
        let design = Design::new(&training_set, &settings(Method::Vifa));
        for (form, rank) in [(FormKind::Covariance, 0), (FormKind::Precision, 2)] {
            let family = Family::LowRank(form, rank);
            let found = design.classification(Some(family), 0).unwrap();
            let (gaussian, parts) = (found.0, found.1.unwrap());
            let spread = Spread::new(form, &parts.factors, &parts.diagonal).unwrap();
            let other = Noise::new(1).fold(DRAWS);
            let (_, change) = design.refined(&gaussian, &spread, other).unwrap();
            // Up to this excess, the verdict on a fit is to trust it.
            assert!(change < 0.05 * design.len() as f64, "{form:?}: {change}");
        }
    }

    #[test]
    fn the_spread_of_logits_is_that_of_the_weights_in_both_forms() {
        let (outputs, inputs) = (2, [0.5, -1.5]);
        let gaussian = DenseGaussian::from_precision_factors(
            vec![0.0; 4],
            &[0.4, -0.3, 0.8, 0.1, -0.2, 0.6, 0.5, 0.9],
            &[1.0, 2.0, 0.5, 1.5],
        );
        let gaussian = gaussian.unwrap();
        for form in [FormKind::Covariance, FormKind::Precision] {
            let nearest = gaussian.nearest(form, 2, &[]).unwrap();
            let (factors, diagonal) = (&nearest.factors, &nearest.diagonal);
            let dense = DenseGaussian::from_factors(form, vec![0.0; 4], factors, diagonal).unwrap();
            let spread = Spread::new(form, factors, diagonal).unwrap();
            let root = spread.logit_root(&inputs, outputs).unwrap();
            for (left, right) in [(0, 0), (0, 1), (1, 1)] {
                let entry = |i: usize, j: usize| {
                    inputs[i] * inputs[j] * dense.covariance().get(2 * i + left, 2 * j + right)
                };
                let expected = entry(0, 0) + entry(0, 1) + entry(1, 0) + entry(1, 1);
                let pairs = root.row(left).iter().zip(root.row(right));
                let found: f64 = pairs.map(|(a, b)| a * b).sum();
                assert!(
                    (found - expected).abs() < 1e-12,
                    "{form:?} {found} {expected}"
                );
            }
        }
    }
}
