//! Linear classification, whose posterior has a best Gaussian approximation.
//!
//! Newton's method finds the mode. From there the fixed point of
//! c ← c − H̄⁻¹ḡ with ḡ = E_q ∇U and H̄ = E_q ∇²U under q = N(c, H̄⁻¹) is the best Gaussian approximation; the
//! expectations are averages over antithetic draws that are the same in every iteration.

use burn_bayes::Noise;
use burn_bayes::algebra::{Cholesky, SquareMatrix};
use burn_bayes::posterior::{DenseGaussian, FormKind};

use super::{Design, add, add_outer, family, mirror};
use crate::error::{Result, TabularError};
use crate::settings::FitSettings;

/// Newton steps to the mode, which stop early.
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

impl Design<'_> {
    /// The best Gaussian approximation of the posterior of a classification.
    pub(super) fn classification(&self, settings: &FitSettings) -> Result<DenseGaussian> {
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

#[cfg(test)]
mod tests {
    use burn_bayes_data::{Dataset, Targets};

    use super::*;
    use crate::engine::linear::fit;
    use crate::engine::linear::testing::{ROWS, WIDTH, features, normals, settings};
    use crate::rows::{Target, TrainingSet};
    use crate::settings::Method;

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
        let model = fit(&training_set, &settings(Method::Map)).unwrap();
        assert!(model.posterior().is_none());
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
