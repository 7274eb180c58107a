//! The regularised incomplete beta function, which gives the tails of the binomial and of Student's
//! distribution.
//!
//!   I_x(a, b) = x^a (1 − x)^b / (a B(a, b)) · 1/(1 + d₁/(1 + d₂/(1 + …)))
//!
//!   d_{2m}   =  m(b − m)x / ((a + 2m − 1)(a + 2m))
//!   d_{2m+1} = −(a + m)(a + b + m)x / ((a + 2m)(a + 2m + 1))
//!
//! The fraction converges within a few times √max(a, b) terms for x < (a + 1)/(a + b + 2); beyond
//! that I_x(a, b) = 1 − I_{1−x}(b, a). The logarithm of the factor in front has cancellation, so
//! the relative error is about ε·(a + b)·ln(a + b); if 1 − x is small and known exactly, ε·b·ln(a + b).
//!
//! Reference: NIST Digital Library of Mathematical Functions, 8.17.4 and 8.17.22; evaluated forwards
//! by Lentz's method.

use super::gamma;
use crate::Bounded;

/// I_x(a, b) for a, b > 0 and x in [0, 1].
pub(crate) fn regularised(a: f64, b: f64, x: f64) -> f64 {
    of_shares(a, b, [x, 1.0 - x])
}

/// I_x(a, b) for x and 1 − x.
pub(crate) fn of_shares(a: f64, b: f64, [x, rest]: [f64; 2]) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if rest <= 0.0 {
        return 1.0;
    }
    if x < (a + 1.0) / (a + b + 2.0) {
        from_fraction(a, b, [x, rest])
    } else {
        1.0 - from_fraction(b, a, [rest, x])
    }
}

/// The logarithm of a number whose difference from 1 is `rest`.
fn log(x: f64, rest: f64) -> f64 {
    match rest < 0.5 {
        true => (-rest).ln_1p(),
        false => x.ln(),
    }
}

fn from_fraction(a: f64, b: f64, [x, rest]: [f64; 2]) -> f64 {
    let (large, small) = (a.at_least(b), a.at_most(b));
    let beta = libm::lgamma(small) - small * large.ln() - gamma::log_rise(large, small);
    let factor = (a * log(x, rest) + b * log(rest, x) - beta).exp() / a;
    // Numerator and denominator of the convergents, each divided by the previous one.
    let (mut ratio, mut inverse, mut value) = (1.0, 0.0, 1.0);
    let mut step = |d: f64| {
        inverse = 1.0 / away_from_zero(1.0 + d * inverse);
        ratio = away_from_zero(1.0 + d / ratio);
        let change = inverse * ratio;
        value *= change;
        change
    };
    step(-(a + b) * x / (a + 1.0));
    let terms = 100.0 + 20.0 * a.at_least(b).sqrt();
    let mut m = 1.0;
    while m < terms {
        step(m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)));
        let change = step(-(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)));
        if (change - 1.0).abs() <= f64::EPSILON {
            break;
        }
        m += 1.0;
    }
    factor / value
}

fn away_from_zero(value: f64) -> f64 {
    if value == 0.0 {
        f64::MIN_POSITIVE
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms() {
        // I_x(1, b) = 1 − (1 − x)^b, I_x(a, 1) = x^a, I_x(2, 2) = x²(3 − 2x), I_½(a, a) = ½.
        for x in [0.0, 1e-9, 0.1, 0.5, 0.75, 0.999, 1.0] {
            let tolerance = 64.0 * f64::EPSILON;
            for (a, b, expected) in [
                (1.0, 3.0, 1.0 - (1.0_f64 - x).powi(3)),
                (4.0, 1.0, x.powi(4)),
                (2.0, 2.0, x * x * (3.0 - 2.0 * x)),
                (0.5, 0.5, 2.0 / std::f64::consts::PI * x.sqrt().asin()),
            ] {
                let found = regularised(a, b, x);
                assert!(
                    (found - expected).abs() <= tolerance,
                    "{a} {b} {x}: {found}"
                );
            }
        }
        for a in [0.5_f64, 3.0, 1e3, 1e6] {
            let tolerance = 8.0 * f64::EPSILON * (1.0 + 2.0 * a * (1.0 + 2.0 * a).ln());
            assert!((regularised(a, a, 0.5) - 0.5).abs() <= tolerance, "{a}");
        }
    }
}
