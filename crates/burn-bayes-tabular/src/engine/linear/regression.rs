//! Linear regression, whose posterior has a closed form.
//!
//! The posterior is N(m, H⁻¹) with H = β XᵀX + diag α. Learned noise is the fixed point
//! 1/β = (‖y − Xm‖² + tr(X H⁻¹ Xᵀ))/N, the maximum of the evidence, and a learned prior the fixed point
//! α = (n − α tr H⁻¹)/‖m‖² (MacKay 1992) of n weights; both are found in the eigenbasis of
//! α^-½ XᵀX α^-½.

use burn_bayes::algebra::{Cholesky, SquareMatrix, SymmetricEigen};
use burn_bayes::posterior::DenseGaussian;

use super::{Design, add, add_outer, converges, mirror};
use crate::engine::noise::BOUNDS;
use crate::engine::prior::bounded;
use crate::error::Result;
use crate::rows::Target;
use crate::settings::{FitSettings, NoisePrecision};
use burn_bayes::eval::Bounded;

/// Iterations of the noise, which stop early.
const MOST_STEPS: usize = 100;

/// All that a regression needs of its rows.
pub(super) struct Sums {
    /// XᵀX, row-major.
    gram: Vec<f64>,
    /// Xᵀy.
    moment: Vec<f64>,
    /// yᵀy.
    square: f64,
}

/// The sums in the eigenbasis of r^-½ XᵀX r^-½, for the prior precisions α r of a scalar α.
struct Spectrum {
    values: Vec<f64>,
    moment: Vec<f64>,
    square: f64,
    rows: f64,
    /// The bounds of β.
    bounds: (f64, f64),
}

impl Design<'_> {
    /// The sums of all rows.
    pub(super) fn sums(&self) -> Sums {
        let len = self.len();
        let (mut gram, mut moment, mut square) = (vec![0.0; len * len], vec![0.0; len], 0.0);
        self.for_each_row(|_, inputs, targets| {
            let target = f64::from(targets[0]);
            add_outer(&mut gram, 1.0, inputs);
            add(&mut moment, target, inputs);
            square += target * target;
        });
        mirror(&mut gram, len);
        Sums {
            gram,
            moment,
            square,
        }
    }

    /// β and the posterior.
    pub(super) fn regression(
        &self,
        settings: &FitSettings,
        sums: &Sums,
    ) -> Result<(f64, DenseGaussian)> {
        let len = self.len();
        let beta = match self.given_noise(settings) {
            Some(beta) => beta,
            None => self.spectrum(&self.prior, sums)?.noise(1.0),
        };
        let mut precision: Vec<f64> = sums.gram.iter().map(|entry| beta * entry).collect();
        for (at, alpha) in self.prior.iter().enumerate() {
            precision[at * len + at] += alpha;
        }
        let mut mean: Vec<f64> = sums.moment.iter().map(|entry| beta * entry).collect();
        let matrix = SquareMatrix::from_row_major(len, precision)?;
        Cholesky::new(&matrix)?.solve(&mut mean)?;
        let gaussian = DenseGaussian::from_precision(mean, matrix.into_row_major())?;
        Ok((beta, gaussian))
    }

    /// α at the maximum of the evidence, the same for all weights.
    pub(super) fn evidence_prior(&self, settings: &FitSettings, sums: &Sums) -> Result<f64> {
        let spectrum = self.spectrum(&vec![1.0; self.len()], sums)?;
        let given = self.given_noise(settings);
        let next = |alpha| {
            let beta = given.unwrap_or_else(|| spectrum.noise(alpha));
            Ok(bounded(spectrum.next_prior(alpha, beta)))
        };
        converges(self.prior[0], next)
    }

    /// β on the scale of the network, if it is given.
    fn given_noise(&self, settings: &FitSettings) -> Option<f64> {
        let NoisePrecision::Given(precision) = settings.noise_precision else {
            return None;
        };
        Some(match self.training_set.target() {
            Target::Real(scale) => precision * scale.spread * scale.spread,
            Target::Classes(_) | Target::Counts { .. } | Target::Several(_) => precision,
        })
    }

    /// The spectrum for these r.
    fn spectrum(&self, relative: &[f64], sums: &Sums) -> Result<Spectrum> {
        let len = self.len();
        let root: Vec<f64> = relative.iter().map(|r| r.sqrt().recip()).collect();
        let scaled = SquareMatrix::from_fn(len, |i, j| root[i] * sums.gram[i * len + j] * root[j]);
        let eigen = SymmetricEigen::new(&scaled)?;
        let vectors = eigen.vectors();
        let moment = (0..len).map(|k| {
            let parts = vectors.row(k).iter().zip(&root).zip(&sums.moment);
            parts
                .map(|((entry, root), moment)| entry * root * moment)
                .sum()
        });
        let unit = self.training_set.target_deviations()?[0].powi(-2);
        Ok(Spectrum {
            moment: moment.collect(),
            values: eigen
                .values()
                .iter()
                .map(|value| value.at_least(0.0))
                .collect(),
            square: sums.square,
            rows: self.training_set.rows() as f64,
            bounds: (BOUNDS.0 * unit, BOUNDS.1 * unit),
        })
    }
}

impl Spectrum {
    /// The eigenvalue, and the posterior's mean and variance, along every eigenvector.
    fn along(&self, alpha: f64, beta: f64) -> impl Iterator<Item = (f64, f64, f64, f64)> {
        let pairs = self.values.iter().zip(&self.moment);
        pairs.map(move |(&value, &moment)| {
            let variance = 1.0 / (alpha + beta * value);
            (value, moment, beta * moment * variance, variance)
        })
    }

    /// β at the maximum of the evidence.
    fn noise(&self, alpha: f64) -> f64 {
        let mut beta = self.bounds.0;
        for _ in 0..MOST_STEPS {
            let (mut residual, mut spread) = (self.square, 0.0);
            for (value, moment, mean, variance) in self.along(alpha, beta) {
                residual += mean * (mean * value - 2.0 * moment);
                spread += value * variance;
            }
            let variance = (residual.at_least(0.0) + spread) / self.rows;
            let next = variance.recip().clamp(self.bounds.0, self.bounds.1);
            let change = (next / beta).ln().abs();
            beta = next;
            if change < 1e-8 {
                break;
            }
        }
        beta
    }

    /// The next value of the fixed point of α.
    fn next_prior(&self, alpha: f64, beta: f64) -> f64 {
        let (mut determined, mut square) = (0.0, 0.0);
        for (value, _, mean, variance) in self.along(alpha, beta) {
            determined += beta * value * variance;
            square += mean * mean;
        }
        determined / square
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes::posterior::{FormKind, linear_regression_posterior};
    use burn_bayes_contrib::methods::BayesianRidge;
    use burn_bayes_data::{ColumnScale, Dataset, Targets};

    use super::*;
    use crate::engine::linear::testing::{ROWS, WIDTH, features, normals, settings};
    use crate::engine::linear::{applies, fit};
    use crate::rows::TrainingSet;
    use crate::settings::{Method, PriorPrecision};

    fn rows() -> (Vec<f64>, TrainingSet) {
        let (features, noise) = (features(), normals(2, ROWS));
        let rows = features.values().chunks(WIDTH).zip(&noise);
        let targets =
            rows.map(|(row, noise)| f64::from((row[0] - 0.5 * row[2] + 0.3 * noise) as f32));
        let targets: Vec<f64> = targets.collect();
        let scale = ColumnScale {
            centre: 1.0,
            spread: 2.0,
            ..ColumnScale::KEPT
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
        let ridge = BayesianRidge::fit(features().values(), &targets).unwrap();
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-3;
        for prior_precision in [PriorPrecision::AUTO, "learned".parse().unwrap()] {
            let settings = FitSettings {
                prior_precision,
                ..settings(Method::Exact)
            };
            let model = fit(&training_set, &settings).unwrap();
            let prior = model.learned_prior.as_ref().unwrap()[0];
            assert!(close(prior, ridge.prior_precision()), "{prior}");
            assert!(close(model.noise_precisions()[0], ridge.noise_precision()));
        }
    }

    #[test]
    fn a_learned_prior_is_a_maximum_of_the_evidence_of_given_noise() {
        let (targets, training_set) = rows();
        let settings = FitSettings {
            prior_precision: PriorPrecision::AUTO,
            // In the unit of the target; 12 on the scale of the network.
            noise_precision: NoisePrecision::Given(3.0),
            ..settings(Method::MeanField)
        };
        let model = fit(&training_set, &settings).unwrap();
        let prior = model.learned_prior.as_ref().unwrap()[0];
        let evidence = |alpha: f64| {
            let rows = features();
            let exact = linear_regression_posterior(rows.values(), &targets, alpha, 12.0).unwrap();
            let rows = rows.values().chunks(WIDTH).zip(&targets);
            let products = rows.map(|(row, target)| {
                let mean: f64 = row.iter().zip(exact.mean()).map(|(x, m)| x * m).sum();
                target * (target - mean)
            });
            // βyᵀy − mᵀHm, of which m is a stationary point.
            let rest: f64 = 12.0 * products.sum::<f64>();
            0.5 * (WIDTH as f64 * alpha.ln() - rest + exact.log_determinant())
        };
        for factor in [0.97, 1.03] {
            assert!(evidence(factor * prior) < evidence(prior), "{prior}");
        }
    }

    #[test]
    fn learned_noise_is_a_maximum_of_the_evidence() {
        let (targets, training_set) = rows();
        let model = fit(&training_set, &settings(Method::Vifa)).unwrap();
        let beta = model.noise_precisions()[0];
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
