//! Ratios of gamma functions without cancellation, by Stirling's series.
//!
//!   ln Γ(z) = (z − ½) ln z − z + ½ ln 2π + R(z),     R(z) = 1/(12 z) − 1/(360 z³) + 1/(1260 z⁵) − 1/(1680 z⁷) + …
//!
//!   ln Γ(z + k) − ln Γ(z) − k ln z = (z + k − ½) ln(1 + k/z) − k + R(z + k) − R(z)
//!
//! Reference: NIST Digital Library of Mathematical Functions, 5.11.1.

/// From this z on, the omitted terms of R are below 10⁻²⁰.
const LARGE: f64 = 100.0;

/// ln Γ(z + k) − ln Γ(z) − k ln z, which is 0 for k = 0 and grows like k²/(2z) for large z.
pub(crate) fn log_rise(z: f64, k: f64) -> f64 {
    if z < LARGE {
        return libm::lgamma(z + k) - libm::lgamma(z) - k * z.ln();
    }
    (z + k - 0.5) * (k / z).ln_1p() - k + (remainder(z + k) - remainder(z))
}

/// R(z).
fn remainder(z: f64) -> f64 {
    let w = (z * z).recip();
    (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w / 1680.0))) / z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_are_the_sums_of_logarithms() {
        // Γ(z + k)/(Γ(z) z^k) = Π (1 + j/z), j = 0, …, k − 1.
        for z in [0.01, 1.0, 10.0, 99.9, 100.0, 755.5, 1e4, 1e8, 1e15, 1e250] {
            for k in [0, 1, 2, 30, 1000, 10_000] {
                let terms = (0..k).map(|j| (f64::from(j) / z).ln_1p());
                let (expected, k): (f64, _) = (terms.sum(), f64::from(k));
                // Numbers of size k, and for small z of size k ln k, are subtracted, and the sum rounds too.
                let size = k * (2.0 + (1.0 + k / z).ln());
                let found = log_rise(z, k);
                assert!(
                    (found - expected).abs() <= 1e-12 + 64.0 * f64::EPSILON * size,
                    "{z} {k}: {found} {expected}"
                );
            }
        }
    }
}
