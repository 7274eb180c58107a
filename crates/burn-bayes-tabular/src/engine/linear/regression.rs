//! Linear regression, whose posterior has a closed form.
//!
//! The posterior is N(m, H⁻¹) with H = β XᵀX + diag α. Learned noise is the fixed point
//! 1/β = (‖y − Xm‖² + tr(X H⁻¹ Xᵀ))/N, the maximum of the evidence, found in the eigenbasis of
//! α^-½ XᵀX α^-½.

use burn_bayes::algebra::{Cholesky, SquareMatrix, SymmetricEigen};
use burn_bayes::posterior::DenseGaussian;

use super::{Design, add, add_outer, mirror};
use crate::engine::noise::BOUNDS;
use crate::error::Result;
use crate::rows::Target;
use crate::settings::{FitSettings, NoisePrecision};

/// Iterations of the noise, which stop early.
const MOST_STEPS: usize = 100;

impl Design<'_> {
    /// β and the posterior.
    pub(super) fn regression(&self, settings: &FitSettings) -> Result<(f64, DenseGaussian)> {
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
            NoisePrecision::Given(precision) => match self.training_set.target() {
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
}

#[cfg(test)]
mod tests {
    use burn_bayes::methods::BayesianRidge;
    use burn_bayes::posterior::{FormKind, linear_regression_posterior};
    use burn_bayes_data::{ColumnScale, Dataset, Targets};

    use super::*;
    use crate::engine::linear::testing::{ROWS, WIDTH, features, normals, settings};
    use crate::engine::linear::{applies, fit};
    use crate::rows::TrainingSet;
    use crate::settings::Method;

    fn rows() -> (Vec<f64>, TrainingSet) {
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

    #[test]
    fn a_regression_is_the_exact_posterior_projected_on_the_family() {
        let (targets, training_set) = rows();
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
            let model = fit(&training_set, &settings).unwrap();
            let found = model.posterior().unwrap().to_dense().unwrap();
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
    fn learned_prior_and_noise_are_those_of_a_bayesian_ridge_regression() {
        let (targets, training_set) = rows();
        let settings = FitSettings {
            prior_precision: "learned".parse().unwrap(),
            ..settings(Method::Exact)
        };
        let model = fit(&training_set, &settings).unwrap();
        let ridge = BayesianRidge::fit(features().values(), &targets).unwrap();
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-3;
        assert!(close(
            model.learned_prior().unwrap()[0],
            ridge.prior_precision()
        ));
        assert!(close(model.noise_precision(), ridge.noise_precision()));
    }

    #[test]
    fn learned_noise_is_a_maximum_of_the_evidence() {
        let (targets, training_set) = rows();
        let model = fit(&training_set, &settings(Method::Vifa)).unwrap();
        let beta = model.noise_precision();
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
}
