//! The Poisson distribution, P(Y = k) = e^{−λ} λ^k / k!.
//!
//! The distribution function is P(Y ≤ k) = Q(a, λ) with a = k + 1, the regularised upper incomplete gamma function.
//! For small k it is a finite sum, from k downwards; above the median, the sum of the other tail. For large k it is
//!
//!   Q(a, λ) = ½ erfc(η √(a/2)) + e^{−a η²/2} / √(2π a) · (c₀(η) + c₁(η)/a),   ½ η² = μ − ln(1 + μ),  μ = λ/a − 1,
//!
//! with η of the sign of μ.
//!
//! References: N. M. Temme, "The asymptotic expansion of the incomplete gamma functions" (1979); A. R. DiDonato and
//! A. H. Morris, "Computation of the incomplete gamma function ratios and their inverse" (1986), for the coefficients.

use std::f64::consts::PI;

/// From this a on, the expansion is used; the omitted terms are below 10⁻¹⁰.
const LARGE: f64 = 1000.0;
/// Terms of a tail below this fraction of the sum are omitted.
const NEGLIGIBLE: f64 = 1e-17;
/// Below this |μ|, μ − ln(1 + μ) is summed as a series, without cancellation.
const NEAR: f64 = 0.05;

/// ln P(Y = k); −∞ for a count above zero at rate zero.
pub(crate) fn log_mass(count: f64, rate: f64) -> f64 {
    if count == 0.0 {
        return -rate;
    }
    count * rate.ln() - rate - libm::lgamma(count + 1.0)
}

/// P(Y ≤ k) for a whole number k; 0 below zero.
pub(crate) fn cumulative(count: f64, rate: f64) -> f64 {
    if count < 0.0 {
        return 0.0;
    }
    if rate == 0.0 {
        return 1.0;
    }
    if count + 1.0 >= LARGE {
        return expansion(count + 1.0, rate);
    }
    if count <= rate {
        tail(log_mass(count, rate).exp(), |step| {
            (count - step + 1.0) / rate
        })
    } else {
        let next = count + 1.0;
        1.0 - tail(log_mass(next, rate).exp(), |step| rate / (next + step))
    }
}

/// The sum of a tail with this first term and these ratios of term `step` = 1, 2, … to the one before, below 1.
fn tail(first: f64, ratio: impl Fn(f64) -> f64) -> f64 {
    let (mut sum, mut term, mut step) = (first, first, 1.0);
    while term > NEGLIGIBLE * sum {
        term *= ratio(step);
        sum += term;
        step += 1.0;
    }
    sum.clamp(0.0, 1.0)
}

/// Q(a, λ) for large a.
fn expansion(a: f64, rate: f64) -> f64 {
    let mu = (rate - a) / a;
    let half_square = match mu.abs() < NEAR {
        true => series(mu),
        false => mu - mu.ln_1p(),
    };
    let eta = (2.0 * half_square).sqrt().copysign(mu);
    // Where the polynomials of η are inaccurate, the factor before them is zero.
    let c0 = [
        -1.0 / 3.0,
        1.0 / 12.0,
        -2.0 / 135.0,
        1.0 / 864.0,
        1.0 / 2835.0,
        -139.0 / 777_600.0,
    ];
    let c1 = [-1.0 / 540.0, -1.0 / 288.0, 1.0 / 378.0];
    let correction = polynomial(&c0, eta) + polynomial(&c1, eta) / a;
    let factor = (-a * half_square).exp() / (2.0 * PI * a).sqrt();
    let tail = 0.5 * libm::erfc(eta * (0.5 * a).sqrt());
    match factor > 0.0 {
        true => (tail + factor * correction).clamp(0.0, 1.0),
        false => tail,
    }
}

/// μ − ln(1 + μ) = μ²/2 − μ³/3 + …
fn series(mu: f64) -> f64 {
    let (mut power, mut sum) = (mu, 0.0);
    for order in 2..=14 {
        power *= -mu;
        sum -= power / f64::from(order);
    }
    sum
}

fn polynomial(coefficients: &[f64], at: f64) -> f64 {
    let coefficients = coefficients.iter().rev();
    coefficients.fold(0.0, |value, coefficient| value.mul_add(at, *coefficient))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum from 0, in logarithms where a factor underflows.
    fn summed(count: u32, rate: f64) -> f64 {
        let mut log_factorial = 0.0;
        let mut sum = 0.0;
        for k in 0..=count {
            if k > 0 {
                log_factorial += f64::from(k).ln();
            }
            sum += (f64::from(k) * rate.ln() - rate - log_factorial).exp();
        }
        sum
    }

    #[test]
    fn small_counts_have_the_sum_from_zero() {
        for rate in [1e-3, 0.5, 4.0, 30.0, 400.0, 900.0] {
            for count in [0, 1, 3, 20, 60, 350, 420, 800, 998] {
                let (found, expected) = (
                    cumulative(f64::from(count), rate),
                    summed(count, rate).min(1.0),
                );
                // The logarithms of the terms are of size λ, with rounding errors of ε λ each.
                assert!(
                    (found - expected).abs() < 1e-15 * (10.0 + 20.0 * rate),
                    "{count} {rate}: {found} {expected}"
                );
            }
        }
        assert_eq!(cumulative(-1.0, 2.0), 0.0);
        assert_eq!((cumulative(0.0, 0.0), cumulative(3.0, 0.0)), (1.0, 1.0));
        assert_eq!(log_mass(0.0, 0.0), 0.0);
        assert_eq!(log_mass(1.0, 0.0), f64::NEG_INFINITY);
        assert!((log_mass(2.0, 3.0) - (4.5_f64.ln() - 3.0)).abs() < 1e-14);
    }

    #[test]
    fn large_counts_have_the_sum_from_zero() {
        for rate in [1000.0_f64, 1200.0, 5000.0] {
            for deviations in [-7.0, -3.0, -1.0, -0.2, 0.0, 0.5, 2.0, 4.0, 8.0] {
                let count = (rate + deviations * rate.sqrt()).round();
                if count + 1.0 < LARGE {
                    continue;
                }
                let (found, expected) = (cumulative(count, rate), summed(count as u32, rate));
                // The oracle rounds to about ε λ, times the size of the logarithms.
                assert!(
                    (found - expected).abs() < 1e-10,
                    "{count} {rate}: {found} {expected}"
                );
            }
        }
        // Far away, the function is 0 or 1, and never NaN.
        assert_eq!(cumulative(1e6, 1e9), 0.0);
        assert_eq!(cumulative(1e9, 1e6), 1.0);
        assert_eq!(cumulative(1e6, 1e-300), 1.0);
        // At the rate itself it is ½ + 2/(3 √(2π λ)), to the next order in 1/λ.
        let (rate, found) = (1e12_f64, cumulative(1e12, 1e12));
        let expected = 0.5 + 2.0 / (3.0 * (2.0 * PI * rate).sqrt());
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
}
