//! The precision of function values given the weights, q(f_X | w) = N(f(X; w), I/λ).
//!
//! ```text
//! λ⁺ = (1−ρ) λ + ρ (Σᵢ hᵢ + tr K⁻¹)/n,   hᵢ = N ∂²ℓ/∂fᵢ²
//! ```
//!
//! The natural-gradient step of the precision that n values share is the average of the n single ones. The report's third
//! line adds them up, and subtracts ρn λ: with n > 1/ρ, it becomes negative.
//!
//! Reference: equation 3.16 of the report on VON with functional regularisation, third line.

use burn_bayes::{Error, Result};

use super::FunctionPrior;
use crate::functional::Points;

impl FunctionPrior {
    /// One step of the precision λ of function values given the weights, at these points. `curvatures` has the second
    /// derivative of the loss of all data by the function's value at every point: the noise precision of a regression where
    /// there is a target, and 0 elsewhere. The updates of the weights do not depend on λ for a Gaussian likelihood.
    ///
    /// # Errors
    ///
    /// If the precision, the rate or a curvature is out of its range, there is another number of curvatures than points, or
    /// the covariance of the points cannot be factorised.
    pub fn output_precision_step(
        &self,
        precision: f64,
        rate: f64,
        points: &Points,
        curvatures: &[f64],
    ) -> Result<f64> {
        if !(precision.is_finite() && precision > 0.0) {
            let problem = format!("is {precision}; it must be finite and above zero");
            return Err(Error::config("precision", problem));
        }
        if !(0.0..=1.0).contains(&rate) {
            return Err(Error::config(
                "rate",
                format!("is {rate}; it must be in 0..=1"),
            ));
        }
        let are_usable = curvatures.iter().all(|h| h.is_finite() && *h >= 0.0);
        if curvatures.len() != points.len() || !are_usable {
            let problem = format!(
                "are {} for {} points; give one for each, finite and not below zero",
                curvatures.len(),
                points.len()
            );
            return Err(Error::config("curvatures", problem));
        }
        let inverse = self.kernel.factor(points, self.jitter)?.inverse();
        let sum = curvatures.iter().sum::<f64>() + inverse.trace();
        Ok((1.0 - rate) * precision + rate * sum / points.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use burn_bayes::algebra::{Cholesky, SquareMatrix};

    use super::*;
    use crate::functional::MeasurementPoints;

    const JITTER: f64 = 1e-3;
    const COUNT: usize = 6;

    fn prior() -> FunctionPrior {
        let kernel = "2*rbf(0.8)".parse().unwrap();
        let points = MeasurementPoints::uniform(vec![-1.0], vec![1.0]).unwrap();
        let prior = FunctionPrior::new(kernel, points, COUNT).unwrap();
        prior.with_jitter(JITTER)
    }

    fn points() -> Points {
        Points::new(1, (0..COUNT).map(|i| 0.4 * i as f64).collect()).unwrap()
    }

    /// The conjugate case: values of a Gaussian process with targets of known noise at some points. The exact posterior is
    /// Gaussian with the precision P = K⁻¹ + diag h, and KL(N(m, I/λ)‖N(m, P⁻¹)) has its minimum at the fixed point, which
    /// more than n steps with a rate above 1/n reach.
    #[test]
    fn the_fixed_point_is_nearest_to_the_exact_posterior() {
        let curvatures = [4.0, 0.0, 4.0, 0.0, 9.0, 4.0];
        let rate = 0.5;
        let mut precision = 100.0;
        for _ in 0..80 {
            let step = prior().output_precision_step(precision, rate, &points(), &curvatures);
            precision = step.unwrap();
            assert!(precision > 0.0);
        }
        let inverse = prior().kernel.factor(&points(), JITTER).unwrap().inverse();
        let exact = SquareMatrix::from_fn(COUNT, |i, j| {
            inverse.get(i, j) + if i == j { curvatures[i] } else { 0.0 }
        });
        let log_determinant = Cholesky::new(&exact).unwrap().log_determinant();
        let divergence = |precision: f64| {
            let count = COUNT as f64;
            let logs = count * precision.ln() - log_determinant;
            0.5 * (exact.trace() / precision - count + logs)
        };
        let least = divergence(precision);
        for other in [0.99, 1.01] {
            let bound = least + 1e-6;
            assert!(divergence(other * precision) > bound, "{precision}");
        }
    }

    #[test]
    fn unusable_arguments_are_refused() {
        let step = |precision, rate, curvatures: &[f64]| {
            prior().output_precision_step(precision, rate, &points(), curvatures)
        };
        for (result, field) in [
            (step(0.0, 0.5, &[1.0; COUNT]), "precision"),
            (step(1.0, 1.5, &[1.0; COUNT]), "rate"),
            (step(1.0, 0.5, &[1.0; 2]), "curvatures"),
            (step(1.0, 0.5, &[-1.0; COUNT]), "curvatures"),
        ] {
            let error = result.unwrap_err();
            assert!(
                error.is_config() && error.to_string().starts_with(field),
                "{error}"
            );
        }
    }
}
