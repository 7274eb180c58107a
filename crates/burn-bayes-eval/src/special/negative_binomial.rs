//! The negative binomial distribution with mean μ and variance μ + α μ²; for α = 0, the Poisson distribution.
//!
//!   P(Y = k) = Γ(k + 1/α)/(Γ(1/α) k!) · (αμ)^k / (1 + αμ)^(k + 1/α),     P(Y ≤ k) = I_{1/(1 + αμ)}(1/α, k + 1)
//!
//! with the regularised incomplete beta function I. Below α(1 + μ) = 10⁻⁷, the Poisson distribution is closer than
//! the rounding of ln Γ(1/α).
//!
//! Reference: J. M. Hilbe, *Negative Binomial Regression* (2011), chapter 8, the distribution NB2.

use super::{beta, poisson};

/// Up to this α(1 + μ), the distribution is Poisson.
const SMALL: f64 = 1e-7;

/// ln P(Y = k); −∞ for a count above zero with mean zero.
pub(crate) fn log_mass(count: f64, mean: f64, dispersion: f64) -> f64 {
    if is_poisson(mean, dispersion) || mean == 0.0 {
        return poisson::log_mass(count, mean);
    }
    let (shape, scaled) = (dispersion.recip(), dispersion * mean);
    if count == 0.0 {
        return -shape * scaled.ln_1p();
    }
    let gammas = libm::lgamma(count + shape) - libm::lgamma(shape) - libm::lgamma(count + 1.0);
    gammas + count * scaled.ln() - (count + shape) * scaled.ln_1p()
}

/// P(Y ≤ k) for a whole number k; 0 below zero.
pub(crate) fn cumulative(count: f64, mean: f64, dispersion: f64) -> f64 {
    match is_poisson(mean, dispersion) {
        true => poisson::cumulative(count, mean),
        false if count < 0.0 => 0.0,
        false => {
            let none = (1.0 + dispersion * mean).recip();
            beta::regularised(dispersion.recip(), count + 1.0, none)
        }
    }
}

fn is_poisson(mean: f64, dispersion: f64) -> bool {
    dispersion * (1.0 + mean) < SMALL
}

#[cfg(test)]
mod tests {
    use super::*;

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
