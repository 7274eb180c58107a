//! The factor of all predictive variances under which held-out rows are most likely.
//!
//!   f_sr → m_r + λ (f_sr − m_r),   σ_sr → λ σ_sr,     λ² = s the factor, m_r the mean of row r
//!
//! scales the mixture of every row by λ around its mean, so the epistemic and the aleatoric variance grow alike. λ
//! minimises the NLL of the mixtures; of log-normal distributions, that of the logarithms. With u = ln λ, e = y − m and z = (e/λ − (f − m))/σ of one draw and row,
//!
//!   ℓ(u) = −u − ln σ − z²/2 − ½ ln 2π,   a = e/(λσ),     ℓ′ = −1 + z a,     ℓ″ = −a² − z a.
//!
//! For single Gaussians, s is the mean squared standardised error.
//!
//! Reference: M.-H. Laves et al., "Well-calibrated regression uncertainty in medical imaging with deep learning" (2020).

use std::f64::consts::TAU;

use crate::error::EvalError;
use crate::recalibration::held_out::HeldOut;
use crate::recalibration::one_parameter::{Derivatives, cost_of_row, lowest};
use crate::views::{GaussianMixture, TargetedMixture};

/// One factor for all predictive variances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarianceScaling {
    factor: f64,
}

/// ln λ is at most this, and at least minus this.
const LIMIT: f64 = 2.0 * std::f64::consts::LN_10;

impl VarianceScaling {
    /// The factor between 10⁻⁴ and 10⁴ with the lowest NLL of the held-out rows.
    ///
    /// ```
    /// use burn_bayes_eval::{GaussianMixture, HeldOut, NoisePrecision, TargetedMixture, VarianceScaling};
    ///
    /// // A single draw: the mean squared error in units of the variance.
    /// let mixture = GaussianMixture::new(&[0.0, 0.0], 1, 2, NoisePrecision::Shared(4.0))?;
    /// let held_out = HeldOut::new(TargetedMixture::new(&mixture, &[1.0, -3.0])?, &[0, 1], &[2])?;
    /// assert!((VarianceScaling::most_likely(&held_out).factor() - 20.0).abs() < 1e-9);
    /// # Ok::<(), burn_bayes_eval::EvalError>(())
    /// ```
    #[must_use]
    pub fn most_likely(held_out: &HeldOut<TargetedMixture<'_>>) -> Self {
        let (mixture, targets) = (held_out.view().mixture(), held_out.view().targets());
        let means = mixture.centres();
        let cost = |row: usize, u: f64| {
            let components = mixture.components(row);
            let (mean, target) = (means[row], mixture.located(targets[row]));
            let density = components.map(|found| {
                let own = log_density(target - mean, found.mean - mean, found.deviation, u);
                Derivatives {
                    value: own.value + found.weight.ln(),
                    ..own
                }
            });
            cost_of_row(mixture.draws(), density)
        };
        let u = lowest(LIMIT, targets.len(), cost);
        let factor = (2.0 * u).exp();
        Self { factor }
    }

    /// A known factor.
    ///
    /// # Errors
    /// A config error if the factor is not a finite number above zero.
    pub fn new(factor: f64) -> Result<Self, EvalError> {
        if factor.is_finite() && factor > 0.0 {
            return Ok(Self { factor });
        }
        let expected = "a finite number above 0";
        Err(EvalError::config("variance factor", factor, expected))
    }

    /// s, above 1 if the predictions are overconfident.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// The recalibrated predictions of new rows.
    ///
    /// # Errors
    /// A data error if a mean or a deviation leaves the range of [`GaussianMixture`].
    pub fn apply(
        &self,
        mixture: &GaussianMixture<'_>,
    ) -> Result<GaussianMixture<'static>, EvalError> {
        mixture.widened(self.factor.sqrt())
    }
}

/// ℓ with its derivatives by u, from e, f − m and σ.
fn log_density(error: f64, offset: f64, deviation: f64, u: f64) -> Derivatives {
    let scaled = error * (-u).exp();
    let z = (scaled - offset) / deviation;
    let a = scaled / deviation;
    Derivatives {
        value: -u - deviation.ln() - 0.5 * z * z - 0.5 * TAU.ln(),
        first: -1.0 + z * a,
        second: -a * a - z * a,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::uniforms;
    use crate::{NoisePrecision, mixture_nll};

    const DRAWS: usize = 6;
    const ROWS: usize = 50;

    /// Draws that disagree with noise of each draw and row, and targets `truth` times as far from the means.
    fn disagreeing(truth: f64) -> (GaussianMixture<'static>, Vec<f64>) {
        let mut random = uniforms((2 * DRAWS + 1) * ROWS, 3).into_iter();
        let mut uniform = || random.next().unwrap();
        let means: Vec<f64> = (0..DRAWS * ROWS).map(|_| 4.0 * uniform()).collect();
        let precisions: Vec<f64> = (0..DRAWS * ROWS).map(|_| 0.5 + uniform()).collect();
        let noise = NoisePrecision::PerPrediction(&precisions);
        let mixture = GaussianMixture::new(means, DRAWS, ROWS, noise).unwrap();
        let deviation = mixture.variance().into_iter().map(f64::sqrt);
        let moments = mixture.mean().into_iter().zip(deviation);
        let targets = moments.map(|(mean, deviation)| {
            // Uniform on ±√3: variance 1.
            mean + truth * deviation * 12f64.sqrt() * (uniform() - 0.5)
        });
        (mixture.clone(), targets.collect())
    }

    fn cost(mixture: &GaussianMixture<'_>, targets: &[f64], factor: f64) -> f64 {
        let scaled = VarianceScaling::new(factor)
            .unwrap()
            .apply(mixture)
            .unwrap();
        mixture_nll(&TargetedMixture::new(&scaled, targets).unwrap())
    }

    fn fitted(mixture: &GaussianMixture<'_>, targets: &[f64]) -> f64 {
        let targeted = TargetedMixture::new(mixture, targets).unwrap();
        VarianceScaling::most_likely(&HeldOut::for_new_rows(targeted)).factor()
    }

    #[test]
    fn no_factor_of_a_dense_grid_is_better() {
        for truth in [0.2, 1.0, 5.0] {
            let (mixture, targets) = disagreeing(truth);
            let found = fitted(&mixture, &targets);
            let least = cost(&mixture, &targets, found);
            for index in -460..=460 {
                let other = (f64::from(index) * 0.02).exp();
                // Of NLLs of up to a thousand nats.
                let rounding = 1e3 * f64::EPSILON;
                assert!(
                    cost(&mixture, &targets, other) >= least - rounding,
                    "{truth}: {found} {other}"
                );
            }
            // Within the uncertainty of a variance of 50 rows: four standard errors of √(2/50).
            assert!(
                (found / truth.powi(2)).ln().abs() < 4.0 * (2.0 / 50f64).sqrt(),
                "{truth}: {found}"
            );
        }
    }

    #[test]
    fn derivatives_are_those_of_finite_differences() {
        let step = 1e-4;
        for (error, offset, u) in [(0.8, -0.3, 0.0), (-2.0, 0.5, 0.7), (0.0, 1.0, -1.0)] {
            let [below, at, above] =
                [u - step, u, u + step].map(|u| log_density(error, offset, 0.6, u));
            let first = (above.value - below.value) / (2.0 * step);
            let second = (above.first - below.first) / (2.0 * step);
            // Central differences: of second order in the step.
            assert!((first - at.first).abs() < 1e4 * step * step, "{u}: {at:?}");
            assert!(
                (second - at.second).abs() < 1e4 * step * step,
                "{u}: {at:?}"
            );
        }
    }

    #[test]
    fn one_draw_gives_the_closed_form() {
        let (mixture, targets) = disagreeing(2.0);
        let one = &mixture.mean();
        let one = GaussianMixture::new(one, 1, ROWS, NoisePrecision::Shared(0.7)).unwrap();
        let errors = targets.iter().zip(mixture.mean());
        let squares = errors.map(|(target, mean)| 0.7 * (target - mean) * (target - mean));
        let expected = squares.sum::<f64>() / ROWS as f64;
        assert!((fitted(&one, &targets) / expected - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_second_recalibration_changes_nothing() {
        let (mixture, targets) = disagreeing(3.0);
        let scaling = VarianceScaling::new(fitted(&mixture, &targets)).unwrap();
        let again = fitted(&scaling.apply(&mixture).unwrap(), &targets);
        assert!((again - 1.0).abs() < 1e-9, "{again}");
    }

    #[test]
    fn a_scaled_mixture_keeps_its_mean() {
        let means = [0.0, 4.0, 2.0, 6.0];
        let mixture = GaussianMixture::new(&means, 2, 2, NoisePrecision::PerDraw(&[1.0, 4.0]));
        let mixture = mixture.unwrap();
        let scaled = VarianceScaling::new(3.0).unwrap().apply(&mixture).unwrap();
        assert_eq!(scaled.mean(), mixture.mean());
    }

    #[test]
    fn an_exact_fit_reaches_the_lower_limit() {
        let mixture = GaussianMixture::new(&[1.0, 2.0], 1, 2, NoisePrecision::Shared(1.0)).unwrap();
        let found = fitted(&mixture, &[1.0, 2.0]);
        assert!((found / 1e-4 - 1.0).abs() < 1e-12, "{found}");
        // Targets so far away that all densities underflow on one side of the interval.
        let found = fitted(&mixture, &[1e140, 2.0]);
        assert!((found / 1e4 - 1.0).abs() < 1e-12, "{found}");
    }
}
