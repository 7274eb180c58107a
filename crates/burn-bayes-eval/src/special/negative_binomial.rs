//! The negative binomial distribution with mean μ and variance μ + α μ²; for α = 0, the Poisson distribution.
//!
//!   P(Y = k) = Γ(k + 1/α)/(Γ(1/α) k!) · (αμ)^k / (1 + αμ)^(k + 1/α),     P(Y ≤ k) = I_{1/(1 + αμ)}(1/α, k + 1)
//!
//! with the regularised incomplete beta function I. The factor Γ(k + 1/α)/Γ(1/α) αᵏ is computed without cancellation, so that
//! ln P(Y = k) is exact up to rounding for any α. Below α(1 + μ) = 10⁻¹⁴ the distribution is Poisson, for which ln P differs by
//! ½ α((k − μ)² − k) + O(α²). The fraction for I loses digits for large 1/α, so below α(1 + μ) = 10⁻⁵ the distribution function is
//! that of a Poisson distribution whose mean has the variance α μ²,
//!
//!   P(Y ≤ k) = F(k) + ½ α μ² F″(k) + O(α² μ²) = F(k) + ½ α μ (μ − k) p(k) + O(α² μ²),
//!
//! with the derivatives by μ of the Poisson distribution function F, and its probabilities p.
//!
//! Reference: J. M. Hilbe, *Negative Binomial Regression* (2011), chapter 8, the distribution NB2.

use super::{beta, gamma, poisson};

/// Below this α(1 + μ), the distribution is Poisson.
const POISSON: f64 = 1e-14;
/// Below this α(1 + μ), the distribution function is that of the Poisson distribution with a correction.
const NEARLY_POISSON: f64 = 1e-5;

/// ln P(Y = k); −∞ for a count above zero with mean zero.
pub(crate) fn log_mass(count: f64, mean: f64, dispersion: f64) -> f64 {
    if dispersion * (1.0 + mean) < POISSON || mean == 0.0 {
        return poisson::log_mass(count, mean);
    }
    let (shape, scaled) = (dispersion.recip(), dispersion * mean);
    if count == 0.0 {
        return -shape * scaled.ln_1p();
    }
    let gammas = gamma::log_rise(shape, count) - libm::lgamma(count + 1.0);
    gammas + count * mean.ln() - (count + shape) * scaled.ln_1p()
}

/// P(Y ≤ k) for a whole number k; 0 below zero.
pub(crate) fn cumulative(count: f64, mean: f64, dispersion: f64) -> f64 {
    if count < 0.0 {
        return 0.0;
    }
    let scaled = dispersion * mean;
    if dispersion + scaled < NEARLY_POISSON {
        let off = 0.5 * scaled * (mean - count) * poisson::log_mass(count, mean).exp();
        return (poisson::cumulative(count, mean) + off).clamp(0.0, 1.0);
    }
    let shares = [(1.0 + scaled).recip(), scaled / (1.0 + scaled)];
    beta::of_shares(dispersion.recip(), count + 1.0, shares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bounded;

    /// (k, μ, α, P(Y = k), P(Y ≤ k)), from the recursion P(0) = (1 + αμ)^(−1/α) and
    /// P(k + 1)/P(k) = (1 + kα) μ / ((1 + αμ)(k + 1)).
    fn by_recursion(count: u32, mean: f64, dispersion: f64) -> [f64; 2] {
        let scaled = 1.0 + dispersion * mean;
        let mut mass = scaled.powf(-dispersion.recip());
        let mut sum = mass;
        for k in (0..count).map(f64::from) {
            mass *= (1.0 + k * dispersion) * mean / (scaled * (k + 1.0));
            sum += mass;
        }
        [mass, sum]
    }

    #[test]
    fn masses_and_their_sums_are_those_of_the_recursion() {
        for (mean, dispersion) in [
            (0.3, 2.0),
            (4.0, 0.5),
            (12.0, 1e-3),
            (80.0, 0.25),
            (3.0, 40.0),
        ] {
            for count in [0, 1, 2, 7, 40, 150] {
                let [mass, sum] = by_recursion(count, mean, dispersion);
                let k = f64::from(count);
                let found = log_mass(k, mean, dispersion).exp();
                assert!(
                    (found - mass).abs() < 1e-11 * (1e-3 + mass),
                    "{mean} {dispersion} {count}: {found} {mass}"
                );
                let found = cumulative(k, mean, dispersion);
                assert!(
                    (found - sum).abs() < 1e-10,
                    "{mean} {dispersion} {count}: {found} {sum}"
                );
            }
        }
        assert_eq!(cumulative(-1.0, 3.0, 0.5), 0.0);
    }

    /// ln P(Y = k) = Σ_{j < k} ln((1 + jα) μ / ((1 + αμ)(j + 1))) − ln(1 + αμ)/α, and P(Y ≤ k).
    fn by_logarithms(count: u32, mean: f64, dispersion: f64) -> [f64; 2] {
        let scaled = (dispersion * mean).ln_1p();
        let mut mass = -scaled / dispersion;
        let mut sum = mass.exp();
        for j in (0..count).map(f64::from) {
            mass += (j * dispersion).ln_1p() - scaled + (mean / (j + 1.0)).ln();
            sum += mass.exp();
        }
        [mass, sum]
    }

    #[test]
    fn any_dispersion_of_any_mean_is_accurate() {
        for mean in [0.3_f64, 3.0, 100.0, 1e4, 1e5] {
            for dispersion in [1e-16_f64, 1e-13, 1e-11, 1e-9, 1e-7, 1e-5, 1e-3, 0.09, 0.5] {
                let deviation = (mean + dispersion * mean * mean).sqrt();
                for deviations in [-2.0_f64, -0.5, 0.0, 1.0, 4.0] {
                    let count = (mean + deviations * deviation).round().at_least(0.0);
                    let [mass, sum] = by_logarithms(count as u32, mean, dispersion);
                    let found = log_mass(count, mean, dispersion);
                    // Both round numbers of the size of the mean and its logarithm.
                    let limit = 1e-11 + 64.0 * f64::EPSILON * (count + mean) * (1.0 + mean).ln();
                    assert!(
                        (found - mass).abs() < limit,
                        "{mean} {dispersion} {count}: {found} {mass}"
                    );
                    let found = cumulative(count, mean, dispersion);
                    assert!(
                        (found - sum).abs() < 3e-9,
                        "{mean} {dispersion} {count}: {found} {sum}"
                    );
                }
            }
        }
    }

    #[test]
    fn small_dispersions_lead_to_the_poisson_distribution() {
        for dispersion in [0.0, 1e-12, 1e-8] {
            let off = log_mass(5.0, 3.0, dispersion) - poisson::log_mass(5.0, 3.0);
            assert!(off.abs() < 1e-6, "{off}");
            let off = cumulative(5.0, 3.0, dispersion) - poisson::cumulative(5.0, 3.0);
            assert!(off.abs() < 1e-6, "{off}");
        }
        assert_eq!(log_mass(1.0, 0.0, 0.5), f64::NEG_INFINITY);
        assert_eq!(log_mass(0.0, 0.0, 0.5), 0.0);
    }
}
