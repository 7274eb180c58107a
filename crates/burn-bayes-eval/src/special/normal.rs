//! The standard normal distribution.
//!
//!   φ(z) = exp(−z²/2)/√(2π),   Φ(z) = ½ erfc(−z/√2)
//!
//! The complementary error function keeps full relative precision in the lower tail; the upper tail
//! is Φ(−z), never 1 − Φ(z). The quantile Φ⁻¹ is computed by Newton's method on ln Φ, which is
//! concave.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use crate::special::roots::newton;

pub(crate) fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

pub(crate) fn log_density(z: f64) -> f64 {
    -0.5 * z * z - 0.5 * (2.0 * PI).ln()
}

pub(crate) fn cumulative(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// Φ⁻¹ of a probability strictly between 0 and 1.
pub(crate) fn quantile(probability: f64) -> f64 {
    if probability > 0.5 {
        return -quantile(1.0 - probability);
    }
    let logarithm = probability.ln();
    // Φ(−40) is 0 in double precision.
    newton(-40.0, 0.0, 0.0, 1.0, |z| {
        let mass = cumulative(z);
        (mass.ln() - logarithm, density(z) / mass)
    })
}

/// Φ(z) − Φ(−z) = 2Φ(z) − 1, without cancellation around zero.
pub(crate) fn central(z: f64) -> f64 {
    libm::erf(z * FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let tolerance = 4.0 * f64::EPSILON;
        assert_eq!(cumulative(0.0), 0.5);
        assert!((cumulative(1.0) - 0.841_344_746_068_542_9).abs() < tolerance);
        assert!((central(1.0) - 0.682_689_492_137_085_9).abs() < tolerance);
        assert!((density(0.0) - 0.398_942_280_401_432_7).abs() < tolerance);
        assert!((log_density(2.0).exp() - density(2.0)).abs() < tolerance);
    }

    #[test]
    fn the_quantile_inverts() {
        assert!(quantile(0.5).abs() <= f64::EPSILON);
        for (probability, z) in [
            (0.975, 1.959_963_984_540_054),
            (1e-20, -9.262_340_089_798_409),
        ] {
            assert!((quantile(probability) - z).abs() < 64.0 * f64::EPSILON);
        }
    }

    #[test]
    fn the_lower_tail_keeps_its_relative_precision() {
        let tail = 7.619_853_024_160_527e-24;
        assert!((cumulative(-10.0) / tail - 1.0).abs() < 1e3 * f64::EPSILON);
    }
}
