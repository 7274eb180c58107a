//! A Gaussian with a full covariance, such as the exact posterior of a linear regression, in covariance form.
//!
//! N(m, H⁻¹) as a covariance with as many factors as weights. With w = 1/diag H and the
//! eigenpairs μₖ, uₖ of w^-½ H⁻¹ w^-½,
//!
//! ```text
//! H⁻¹ = FᵀF + diag ψ,  ψ = τ w,  fₖ = √(μₖ − τ) w^½ uₖ,  0 < τ < min μ
//! ```
//!
//! The trace of w^½ H w^½ is D, so that min μ ≥ 1/D, and τ = 1/(2D) will do.

use burn_bayes::algebra::{SquareMatrix, SymmetricEigen};

use super::Parts;
use crate::error::Result;
use burn_bayes::eval::Bounded;

/// F and ψ of the inverse of a matrix.
pub(super) fn factors(precision: &SquareMatrix) -> Result<Parts> {
    let scales: Vec<f64> = precision
        .diagonal()
        .map(|entry| entry.sqrt().recip())
        .collect();
    let len = scales.len();
    let scaled = SquareMatrix::from_fn(len, |i, j| scales[i] * precision.row(i)[j] * scales[j]);
    let eigen = SymmetricEigen::new(&scaled)?;
    let rest = 0.5 / len as f64;
    let mut factors = Vec::with_capacity(len * len);
    for (k, value) in eigen.values().iter().enumerate() {
        let size = (value.recip() - rest).at_least(0.0).sqrt();
        let row = eigen.vectors().row(k).iter().zip(&scales);
        factors.extend(row.map(|(entry, scale)| size * entry * scale));
    }
    let diagonal = scales.iter().map(|scale| rest * scale * scale).collect();
    Ok(Parts { factors, diagonal })
}

#[cfg(test)]
mod tests {
    use burn_bayes::Noise;
    use burn_bayes::posterior::linear_regression_posterior;
    use burn_bayes_data::{ColumnScale, Dataset, Features, Targets};

    use crate::engine::{Importance, diagnose, fit};
    use crate::rows::{Target, TrainingSet};
    use crate::scores::Verdict;
    use crate::settings::{FitSettings, Method, NoisePrecision, Solver};

    const ROWS: usize = 60;
    const WIDTH: usize = 8;

    /// Columns that are almost the same but for their scale, and targets.
    fn regression() -> (Vec<f64>, Vec<f64>, TrainingSet) {
        let normals = |stream, count| Noise::new(5).row(stream).latent(count);
        let common = normals(0, ROWS);
        let own = normals(1, ROWS * WIDTH);
        let values = (0..ROWS * WIDTH).map(|at| {
            let scale = 3_f32.powi((at % WIDTH) as i32);
            f64::from(scale * (common[at / WIDTH] + 0.01 * own[at]))
        });
        let values: Vec<f64> = values.collect();
        let targets: Vec<f64> = common
            .iter()
            .zip(normals(2, ROWS))
            .map(|(x, e)| f64::from(x + e))
            .collect();
        let features = Features::new(ROWS, WIDTH, values.clone()).unwrap();
        let dataset = Dataset::new(features, Targets::Real(targets.clone())).unwrap();
        let training_set = TrainingSet::new(&dataset, Target::Real(ColumnScale::KEPT)).unwrap();
        (values, targets, training_set)
    }

    fn settings() -> FitSettings {
        FitSettings {
            method: Method::Exact,
            model: Some("linear".parse().unwrap()),
            prior_precision: 0.7.into(),
            noise_precision: NoisePrecision::Given(3.0),
            ..FitSettings::default()
        }
    }

    #[test]
    fn the_verdict_on_a_family_that_is_too_poor_names_the_exact_posterior() {
        let (_, _, training_set) = regression();
        let settings = FitSettings {
            method: Method::MeanField,
            ..settings()
        };
        let fitted = fit(&training_set, &settings, &mut ()).unwrap();
        let found = diagnose(&training_set, &settings, &fitted)
            .unwrap()
            .unwrap();
        assert_eq!(found.verdict, Verdict::LookCloser);
        let text = found.to_string();
        let family = "converged, but this family approximates the posterior poorly";
        assert!(text.contains(family) && text.contains("`exact`"), "{text}");
        assert!(!text.contains("not converged"), "{text}");
    }

    #[test]
    fn the_posterior_has_its_closed_form() {
        let (values, targets, training_set) = regression();
        // The bias is the weight of a constant.
        let rows = values.chunks(WIDTH);
        let with_constant = rows.flat_map(|row| row.iter().copied().chain([1.0]));
        let with_constant: Vec<f64> = with_constant.collect();
        for (values, no_intercept) in [(&values, true), (&with_constant, false)] {
            let settings = FitSettings {
                no_intercept,
                ..settings()
            };
            let fitted = fit(&training_set, &settings, &mut ()).unwrap();
            let found = fitted.posterior().unwrap().to_dense().unwrap();
            let exact = linear_regression_posterior(values, &targets, 0.7, 3.0).unwrap();
            let divergence =
                found.kl_divergence(&exact).unwrap() + exact.kl_divergence(&found).unwrap();
            assert!(divergence < 1e-5, "{divergence}");
            let diagnosis = diagnose(&training_set, &settings, &fitted)
                .unwrap()
                .unwrap();
            assert_eq!(diagnosis.verdict, Verdict::Trust, "{diagnosis}");
            // All ratios are the evidence, but for rounding.
            let Importance::Measured(ratios) = diagnosis.importance else {
                panic!("the model is small");
            };
            let equal = (ratios.draws as f64).recip().ln();
            let differences = ratios
                .log_weights
                .iter()
                .map(|weight| (weight - equal).abs());
            assert!(differences.fold(0.0, f64::max) < 0.05);
        }
    }

    #[test]
    fn what_has_no_closed_form_is_refused() {
        let (_, _, numbers) = regression();
        let classes = Target::Classes(vec!["a".into(), "b".into()]);
        let features = Features::new(2, 1, vec![0.0, 1.0]).unwrap();
        let dataset = Dataset::new(features, Targets::Classes(vec![0, 1])).unwrap();
        let classes = TrainingSet::new(&dataset, classes).unwrap();
        let network = FitSettings {
            model: Some("mlp:5".parse().unwrap()),
            ..settings()
        };
        let trained = FitSettings {
            solver: Solver::Gradient,
            ..settings()
        };
        let of_classes = FitSettings {
            noise_precision: NoisePrecision::LEARNED,
            ..settings()
        };
        for (rows, settings, cure) in [
            (&classes, of_classes, "full-gaussian"),
            (&numbers, network, "`--model linear`"),
            (&numbers, trained, "`--solver auto`"),
        ] {
            let message = fit(rows, &settings, &mut ()).unwrap_err().to_string();
            assert!(
                message.starts_with("`method` is exact") && message.contains(cure),
                "{message}"
            );
        }
    }
}
